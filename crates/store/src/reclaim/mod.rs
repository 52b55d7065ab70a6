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
//! What a step frees can be written only after a slot is durable, so reclaiming goes in rounds (`rounds`): [`Handle::reclaim_step`](crate::Handle::reclaim_step) says what
//! is due next. All calls are for whoever has the writer's right, between transactions.

mod copy;
mod empty;
mod live;
mod plan;
mod rounds;

pub use rounds::Reclaimed;

use crate::connection::Connection;
use crate::error::{Damage, Error, Result};
use crate::format::trailer::OPEN_END;
use crate::map::node::LEAF_FANOUT;
use crate::publish::{self, Besides};
use crate::reclaim_state::{Begun, Due, Pace, ahead, is_at_rest, targets};
use crate::shared::Shared;
use crate::space::Worth;
use crate::state::State;
use crate::transaction::Transaction;
use crate::writer::{Writer, reserve_behind};
use plan::{Ground, Plan};
use std::time::Duration;

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

/// What is due after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReclaimNext {
    /// Nothing: the limit is kept, or nothing more can be done.
    #[default]
    Done,
    /// Another step.
    Again,
    /// What was freed waits for a durable slot: [`Handle::make_reusable`](crate::Handle::make_reusable), or the syncs of later commits.
    Slot,
    /// The end of the file can be cut off: [`Handle::cut_end`](crate::Handle::cut_end).
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

/// One connection that gives space back, between transactions. Its caller has the writer's right.
pub(crate) struct Reclaimer<'a> {
    pub(crate) connection: &'a mut Connection,
}

impl Reclaimer<'_> {
    /// Moves what lives in some units elsewhere, if more than the limit is dead or free. One published commit at most, not synced.
    ///
    /// # Errors
    /// I/O, a full disk, damage in the page map: nothing has changed then. [`Error::Setting`] for a limit out of range.
    pub(crate) fn step(&mut self, budget: &ReclaimBudget<'_>) -> Result<ReclaimStep> {
        let pace = Pace {
            least: 0,
            patient: false,
        };
        self.step_at(budget, pace)
    }

    /// After a commit: moves what it owes, if more than `dead_limit` per cent (10 to 90) of the file is dead or free. `elapsed` tells how
    /// long this has taken. Published and not synced.
    ///
    /// # Errors
    /// As [`Reclaimer::step`].
    pub(crate) fn share(
        &mut self,
        dead_limit: u8,
        elapsed: &dyn Fn() -> Duration,
    ) -> Result<ReclaimStep> {
        let Some(shared) = self.connection.open.known().cloned() else {
            return Ok(ReclaimStep::default());
        };
        let file = shared.state.read().tail_off;
        let taken = (shared.writer.lock().reclaiming.share()).take(file, u64::from(dead_limit));
        let Some(Due { bytes, pace, time }) = taken else {
            return Ok(ReclaimStep::default());
        };
        let budget = ReclaimBudget {
            bytes,
            dead_limit,
            // Half of the time goes to what follows: coding what was not ready, the trailer, the writes.
            stop: &|| elapsed() * 2 >= time,
        };
        let done = self.step_at(&budget, pace);
        let (moved, due) = done.as_ref().map_or((0, false), |step| {
            (step.moved_bytes, step.next == ReclaimNext::Again)
        });
        shared.writer.lock().reclaiming.share().paid(moved, due);
        done
    }

    /// A step at this pace, while others write.
    fn step_at(&mut self, budget: &ReclaimBudget<'_>, pace: Pace) -> Result<ReclaimStep> {
        self.connection.open.check_writable()?;
        if !(1..=90).contains(&budget.dead_limit) {
            return Err(Error::Setting(format!(
                "a dead limit of {} % is out of range: use 1 to 90",
                budget.dead_limit
            )));
        }
        let mut step = ReclaimStep::default();
        if !self.connection.open.attach()? {
            return Ok(step);
        }
        let shared = self.connection.open.shared()?;
        let plan = self.plan(&shared, budget, pace)?;
        step.next = match plan {
            Plan::Done => return Ok(step),
            Plan::Slot => ReclaimNext::Slot,
            Plan::Cut => ReclaimNext::Cut,
            Plan::Fold | Plan::Empty { .. } => ReclaimNext::Again,
        };
        if step.next != ReclaimNext::Again {
            return Ok(step);
        }
        let mut transaction = Some(Transaction::begin(self.connection, 0)?);
        let done = if let Plan::Empty { units, below } = plan {
            self.empty_units(
                &shared,
                &mut transaction,
                (&units, below),
                (budget, pace),
                &mut step,
            )
        } else {
            self.fold_for_left(&shared, &mut transaction, &mut step)
        };
        // After a failure nothing may be left that a later publish would bring in.
        self.discard(transaction);
        done?;
        Ok(step)
    }

    fn discard(&mut self, transaction: Option<Transaction>) {
        if let Some(transaction) = transaction {
            transaction.discard(self.connection);
        }
    }

    /// What is due.
    fn plan(&mut self, shared: &Shared, budget: &ReclaimBudget<'_>, pace: Pace) -> Result<Plan> {
        let file = self.connection.open.file();
        shared.refresh(file)?;
        let mut writer = shared.writer.lock();
        let state = shared.state.read();
        if state.tip.commit == 0 {
            return Ok(Plan::Done);
        }
        writer.account(&shared.sources(file), &state)?;
        let writer = &mut *writer;
        let commit = state.tip.commit.max(writer.attempts.last());
        let at_rest = is_at_rest(u64::from(budget.dead_limit));
        let Some(space) = writer.accounting.space_mut() else {
            return Ok(Plan::Done);
        };
        if at_rest {
            // Nobody writes meanwhile, and nothing may be left over.
            space.forget_lanes(commit);
            writer.reclaiming.keep_begun(&[]);
        }
        let src = shared.table_source(file);
        space.load_end(src, commit)?;
        for survey in 0.. {
            let (plan, over) = self.plan_known(&state, writer, budget, pace)?;
            let idle = over && matches!(plan, Plan::Done | Plan::Cut);
            // Whoever is at rest goes through the whole file, if that is what it takes; a commit does not wait for that.
            let looks = if at_rest { usize::MAX } else { LOOKS };
            let worth_it = idle && (at_rest || survey == 0);
            let Some(space) = writer.accounting.space_mut().filter(|_| worth_it) else {
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
        let Some(space) = writer.accounting.space() else {
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
            file: self.connection.open.file().len()?,
            reserve: reserve_behind(state.tail_off),
            current: (state.next_off, room_end),
            fold_nodes: (state.overlay.len() as u64).min(leaves),
            leaves,
            budget: budget.bytes,
            limit: u64::from(budget.dead_limit),
        };
        // What was begun is brought to an end first; what was begun to shorten the file only if it is at its end still.
        let begun = writer.reclaiming.begun();
        let goes_on: Vec<&Begun> = (begun.iter())
            .filter(|begun| begun.below == u64::MAX && ground.can_be_emptied(begun.unit))
            .collect();
        if !goes_on.is_empty() {
            let known: u64 = goes_on.iter().map(|begun| begun.left()).sum();
            let next = Ground {
                budget: ahead(budget.bytes).saturating_sub(known),
                ..ground
            };
            // Who cannot leave anything to the pool has no use for units that are begun ahead.
            let units = match next.budget {
                bytes if bytes > 0 && pace.patient => next.next_units(),
                _ => Vec::new(),
            };
            let keep: Vec<u64> = goes_on.iter().map(|begun| begun.unit).collect();
            writer.reclaiming.keep_begun(&keep);
            let below = u64::MAX;
            return Ok((Plan::Empty { units, below }, false));
        }
        let over = ground.excess().is_some();
        let plan = ground.plan();
        let (dead, targets) = (ground.dead(), targets(ground.limit));
        if let Plan::Empty {
            below: u64::MAX, ..
        } = plan
        {
            writer.reclaiming.empties(dead, targets);
        }
        match &plan {
            Plan::Empty { units, below } if *below < u64::MAX => {
                writer.reclaiming.keep_begun(units);
            }
            _ => writer.reclaiming.keep_begun(&[]),
        }
        Ok((plan, over))
    }

    /// Units without frames wait for a fold, and none came by itself.
    fn fold_for_left(
        &mut self,
        shared: &Shared,
        transaction: &mut Option<Transaction>,
        step: &mut ReclaimStep,
    ) -> Result<()> {
        let left = |writer: &Writer| {
            let space = writer.accounting.space();
            space.map_or(0, |space| writer.reclaiming.left_units(space))
        };
        let before = left(&shared.writer.lock());
        let besides = Besides {
            fold: true,
            reclaim: true,
            ..Besides::default()
        };
        step.written_bytes = publish::publish(self.connection, transaction, &besides)?;
        step.freed_units = before - left(&shared.writer.lock());
        Ok(())
    }
}
