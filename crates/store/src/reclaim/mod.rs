//! Giving space back: dead bytes become free units, and free units leave the file.
//!
//! A step is one ordinary commit that changes nothing: it copies what lives in some units to other places, as it is stored, and
//! names the new ones. So publishing, recovery and readers need to know nothing of it:
//!
//! - Nothing is overwritten by it but reusable units (rule 9). A reader who looks at the old place finds the same frame there, or another
//!   record, and then looks again (rule 6).
//! - A frame keeps its version, which names its contents: so caches of decoded pages stay as they are. (Only of a run that is dead for more
//!   than a quarter the pages that live are written anew, byte for byte, with a new version.)
//! - What is copied was checked; what does not match its checksum stays where it is, and with it its unit.
//! - Map nodes, space chunks and trailers move by a fold, dictionaries with one: its root trailer names their places.
//!
//! While others write, a step is a part of a unit (`empty`), as large as what the commit before it stored is worth (`share`).
//!
//! What a step frees can be written only after a slot is durable, so reclaiming goes in rounds (`rounds`): [`Handle::reclaim_step`] says what
//! is due next. All calls are for whoever has the writer's right, between transactions.

mod begun;
mod copy;
mod empty;
mod figures;
mod live;
mod memory;
mod plan;
mod recode;
mod rounds;
mod share;

pub use figures::SpaceFigures;
pub(crate) use memory::Reclaiming;
pub use rounds::{Reclaimed, SyncFailed};

use crate::durable::reserve_behind;
use crate::error::{Damage, Error, Result};
use crate::format::trailer::OPEN_END;
use crate::handle::Handle;
use crate::map::node::LEAF_FANOUT;
use crate::publish::Besides;
use crate::shared::Writer;
use crate::space::Worth;
use crate::state::State;
use begun::Begun;
use plan::{Ground, Plan};

/// What a step may cost, and what is to be reached.
#[derive(Clone, Copy)]
pub struct ReclaimBudget<'a> {
    /// Bytes of records that one step moves, at most. At rest one unit of 64 KiB is always moved; while writing one frame.
    pub bytes: u64,
    /// Bytes, in per cent of the file (1 to 90), that may be dead or free. 25 while writing: then reclaiming moves at most 3 bytes
    /// for one that it wins. 5 at rest, which is anything below 10.
    pub dead_limit: u8,
    /// Asked between units, while writing between frames: true ends the step with what it has.
    pub stop: &'a dyn Fn() -> bool,
}

/// Chunks of the space table that are looked into where what is known is not enough, and indexes of it that a commit reads for them.
const SURVEY: usize = 8;
const LOOKS: usize = 4;

/// How a step goes about it while others write.
#[derive(Clone, Copy)]
struct Pace {
    /// The clock is not asked before so many bytes were moved.
    least: u64,
    /// What has to be coded anew may be left to the pool, and to a later step.
    patient: bool,
}

/// What is due after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReclaimNext {
    /// Nothing: the limit is kept, or nothing more can be done.
    #[default]
    Done,
    /// Another step.
    Again,
    /// What was freed waits for a durable slot: [`Handle::make_reusable`], or the syncs of later commits.
    Slot,
    /// The end of the file can be cut off: [`Handle::cut_end`].
    Cut,
}

/// What a step did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReclaimStep {
    /// Bytes of records that were copied as they are.
    pub moved_bytes: u64,
    /// Bytes appended in all: the records, the trailer, and map nodes where the map was folded.
    pub written_bytes: u64,
    /// Units of 64 KiB that became free.
    pub freed_units: u64,
    /// What was found damaged. It stays where it is.
    pub damaged: Vec<Damage>,
    /// What is due next.
    pub next: ReclaimNext,
}

impl Handle {
    /// Moves what lives in some units elsewhere, if more than the limit is dead or free. One published commit at most, not synced.
    ///
    /// # Errors
    /// I/O, a full disk, damage in the page map: nothing has changed then. [`Error::Setting`] within a transaction or for a limit out
    /// of range.
    pub fn reclaim_step(&mut self, budget: &ReclaimBudget<'_>) -> Result<ReclaimStep> {
        let pace = Pace {
            least: 0,
            patient: false,
        };
        self.reclaim_at(budget, pace)
    }

    /// The same; at this pace while writing.
    fn reclaim_at(&mut self, budget: &ReclaimBudget<'_>, pace: Pace) -> Result<ReclaimStep> {
        self.check_poison()?;
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        if !(1..=90).contains(&budget.dead_limit) {
            return Err(Error::Setting(format!(
                "a dead limit of {} % is out of range: use 1 to 90",
                budget.dead_limit
            )));
        }
        self.between_transactions()?;
        let mut step = ReclaimStep::default();
        if !self.attach()? {
            return Ok(step);
        }
        let (units, below, fold) = match self.plan(budget, pace)? {
            Plan::Done => return Ok(step),
            Plan::Slot => {
                step.next = ReclaimNext::Slot;
                return Ok(step);
            }
            Plan::Cut => {
                step.next = ReclaimNext::Cut;
                return Ok(step);
            }
            Plan::Fold => (Vec::new(), u64::MAX, true),
            Plan::Empty { units, below } => (units, below, false),
        };
        self.begin_write(0)?;
        let done = if fold {
            self.fold_for_left(&mut step)
        } else {
            self.empty_units(&units, below, (budget, pace), &mut step)
        };
        // After a failure nothing may be left that a later publish would bring in.
        self.discard();
        done?;
        step.next = ReclaimNext::Again;
        Ok(step)
    }

    fn between_transactions(&self) -> Result<()> {
        if self.pending.is_some() {
            return Err(Error::Setting(
                "space is given back between transactions only: publish or discard first"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// What is due.
    fn plan(&mut self, budget: &ReclaimBudget<'_>, pace: Pace) -> Result<Plan> {
        let shared = self.shared()?;
        shared.refresh(&*self.file)?;
        let mut writer = shared.writer.lock();
        let state = shared.state.read();
        if state.tip.commit == 0 {
            return Ok(Plan::Done);
        }
        if writer.account(&shared, &*self.file, &state)? {
            writer.reload_slots(&*self.file)?;
        }
        let writer = &mut *writer;
        let commit = state.tip.commit.max(writer.last_attempt);
        let at_rest = plan::is_at_rest(u64::from(budget.dead_limit));
        let Some((_, space)) = &mut writer.space else {
            return Ok(Plan::Done);
        };
        if at_rest {
            // Nobody writes meanwhile, and nothing may be left over.
            space.forget_lanes(commit);
            writer.reclaiming.begun.clear();
        }
        let src = shared.table_source(&*self.file);
        space.load_end(src, commit)?;
        for survey in 0.. {
            let (plan, over) = self.plan_known(&state, writer, budget, pace)?;
            let idle = over && matches!(plan, Plan::Done | Plan::Cut);
            // Whoever is at rest goes through the whole file, if that is what it takes; a commit does not wait for that.
            let looks = if at_rest { usize::MAX } else { LOOKS };
            let Some((_, space)) = writer
                .space
                .as_mut()
                .filter(|_| idle && (at_rest || survey == 0))
            else {
                return Ok(plan);
            };
            space.give_up(state.current_extent());
            if space.survey(src, Worth::Dead, (SURVEY, looks), commit)? == 0 {
                return Ok(plan);
            }
        }
        Ok(Plan::Done)
    }

    /// What is due by what is known of the file's units, and whether more than the limit is dead or free.
    fn plan_known(
        &self,
        state: &State,
        writer: &mut Writer,
        budget: &ReclaimBudget<'_>,
        pace: Pace,
    ) -> Result<(Plan, bool)> {
        let Some((_, space)) = &writer.space else {
            return Ok((Plan::Done, false));
        };
        let room_end = match state.room_end {
            OPEN_END => state.next_off,
            end => end,
        };
        let leaves = state.pages() / LEAF_FANOUT as u64 + 1;
        let ground = Ground {
            space,
            reclaiming: &writer.reclaiming,
            tail: state.tail_off,
            file: self.file.len()?,
            reserve: reserve_behind(state.tail_off),
            current: (state.next_off, room_end),
            fold_nodes: (state.overlay.len() as u64).min(leaves),
            leaves,
            budget: budget.bytes,
            limit: u64::from(budget.dead_limit),
        };
        // What was begun is brought to an end first; what was begun to shorten the file only if it is at its end still.
        let begun = &writer.reclaiming.begun;
        let goes_on: Vec<&Begun> = (begun.iter())
            .filter(|begun| begun.below == u64::MAX && ground.can_be_emptied(begun.unit))
            .collect();
        if !goes_on.is_empty() {
            let known: u64 = goes_on.iter().map(|begun| begun.left()).sum();
            let next = Ground {
                budget: begun::ahead(budget.bytes).saturating_sub(known),
                ..ground
            };
            // Who cannot leave anything to the pool has no use for units that are begun ahead.
            let units = match next.budget {
                bytes if bytes > 0 && pace.patient => next.next_units(),
                _ => Vec::new(),
            };
            let keep: Vec<u64> = goes_on.iter().map(|begun| begun.unit).collect();
            writer
                .reclaiming
                .begun
                .retain(|begun| keep.contains(&begun.unit));
            let below = u64::MAX;
            return Ok((Plan::Empty { units, below }, false));
        }
        let over = ground.excess().is_some();
        let plan = ground.plan();
        let (dead, targets) = (ground.dead(), plan::targets(ground.limit));
        if let Plan::Empty {
            below: u64::MAX, ..
        } = plan
        {
            writer.reclaiming.emptied.goes_on(dead, targets);
        }
        match &plan {
            Plan::Empty { units, below } if *below < u64::MAX => {
                (writer.reclaiming.begun).retain(|begun| units.contains(&begun.unit));
            }
            _ => writer.reclaiming.begun.clear(),
        }
        Ok((plan, over))
    }

    /// Units without frames wait for a fold, and none came by itself.
    fn fold_for_left(&mut self, step: &mut ReclaimStep) -> Result<()> {
        let shared = self.shared()?;
        let left = |writer: &Writer| {
            let space = writer.space.as_ref();
            space.map_or(0, |(_, space)| writer.reclaiming.left_units(space))
        };
        let before = left(&shared.writer.lock());
        step.written_bytes = self.publish_with(&Besides {
            fold: true,
            reclaim: true,
            ..Besides::default()
        })?;
        step.freed_units = before - left(&shared.writer.lock());
        Ok(())
    }
}
