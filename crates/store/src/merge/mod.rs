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
//! What a step frees can be written only after a slot is durable, so giving back goes in rounds (`rounds`): [`Handle::merge_step`] says what
//! is due next. All calls are for whoever has the writer's right, between transactions.

mod figures;
mod look;
mod plan;
mod rounds;

pub use figures::SpaceFigures;
pub use rounds::{GivenBack, SyncFailed};

use crate::codec::{self, CodecId};
use crate::durable::reserve_behind;
use crate::error::{Damage, Error, Result};
use crate::format::UNIT_LEN;
use crate::format::record::{RECORD_LEN, raw_check};
use crate::format::trailer::OPEN_END;
use crate::handle::Handle;
use crate::map::Entry;
use crate::map::node::LEAF_FANOUT;
use crate::pending::PendingPage;
use crate::publish::Besides;
use crate::shared::Shared;
use crate::space::Lane;
use look::{Found, Frame, Look};
use plan::{Ground, Plan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a step may cost, and what is to be reached.
#[derive(Clone, Copy)]
pub struct MergeBudget<'a> {
    /// Bytes of records that one step moves, at most; one unit of 64 KiB is always moved.
    pub bytes: u64,
    /// Bytes, in per cent of the file (1 to 90), that may be dead or free. 25 while writing: then merging moves at most 3 bytes
    /// for one that it wins. 5 at rest.
    pub dead_limit: u8,
    /// Asked between units: true ends the step with what it has.
    pub stop: &'a dyn Fn() -> bool,
}

/// What is due after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MergeNext {
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
pub struct MergeStep {
    /// Bytes of records that were copied as they are.
    pub moved_bytes: u64,
    /// Bytes appended in all: the records, the trailer, and map nodes where the map was folded.
    pub written_bytes: u64,
    /// Units of 64 KiB that became free.
    pub freed_units: u64,
    /// What was found damaged. It stays where it is.
    pub damaged: Vec<Damage>,
    /// What is due next.
    pub next: MergeNext,
}

/// What the writer remembers between steps.
#[derive(Debug, Default)]
pub(crate) struct Merging {
    /// Units that cannot be emptied, and how many bytes lived there when that was seen.
    stuck: BTreeMap<u64, u32>,
    /// Units that are not worth merging: what seems dead there is part of runs that live. Bytes as before.
    dense: BTreeMap<u64, u32>,
    /// Bytes moved since the last commit that was none of these.
    spent: u64,
}

impl Merging {
    fn is_stuck(&self, unit: u64, live: u32) -> bool {
        live > 0 && self.stuck.get(&unit) == Some(&live)
    }

    fn is_dense(&self, unit: u64, live: u32) -> bool {
        self.dense.get(&unit) == Some(&live)
    }

    /// A commit was made.
    pub(crate) fn committed(&mut self, merge: bool) {
        if !merge {
            self.spent = 0;
        }
    }
}

/// What is on its way to new places.
#[derive(Default)]
struct Moving {
    moved: u64,
    frames: BTreeSet<u64>,
    besides: Besides,
}

impl Handle {
    /// Moves what lives in some units elsewhere, if more than the limit is dead or free. One published commit at most, not synced.
    ///
    /// # Errors
    /// I/O, a full disk, damage in the page map: nothing has changed then. [`Error::Setting`] within a transaction or for a limit out
    /// of range.
    pub fn merge_step(&mut self, budget: &MergeBudget<'_>) -> Result<MergeStep> {
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
        let mut step = MergeStep::default();
        if !self.attach()? {
            return Ok(step);
        }
        let (units, below) = match self.plan(budget)? {
            Plan::Done => return Ok(step),
            Plan::Slot => {
                step.next = MergeNext::Slot;
                return Ok(step);
            }
            Plan::Cut => {
                step.next = MergeNext::Cut;
                return Ok(step);
            }
            Plan::Empty { units, below } => (units, below),
        };
        self.begin_write(0)?;
        let done = self.empty_units(&units, below, budget, &mut step);
        // After a failure nothing may be left that a later publish would bring in.
        self.discard();
        done?;
        step.next = MergeNext::Again;
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
    fn plan(&mut self, budget: &MergeBudget<'_>) -> Result<Plan> {
        let shared = self.shared()?;
        shared.refresh(&*self.file)?;
        let mut writer = shared.writer.lock();
        let state = shared.state.read();
        if state.tip.commit == 0 {
            return Ok(Plan::Done);
        }
        if writer.account(&shared, &*self.file, &state)? {
            writer.found_other_writer(&*self.file)?;
        }
        if plan::is_at_rest(u64::from(budget.dead_limit))
            && let Some((_, space)) = &mut writer.space
        {
            // Nobody writes meanwhile, and nothing may be left over.
            space.forget_lanes(state.tip.commit);
        }
        let Some((_, space)) = &writer.space else {
            return Ok(Plan::Done);
        };
        let room_end = match state.room_end {
            OPEN_END => state.next_off,
            end => end,
        };
        let leaves = state.pages() / LEAF_FANOUT as u64 + 1;
        let ground = Ground {
            space,
            merging: &writer.merging,
            tail: state.tail_off,
            file: self.file.len()?,
            reserve: reserve_behind(state.tail_off),
            current: (state.next_off, room_end),
            fold_nodes: (state.overlay.len() as u64).min(leaves),
            leaves,
            budget: budget.bytes,
            limit: u64::from(budget.dead_limit),
        };
        Ok(ground.plan())
    }

    /// Empties these units within the pending commit, and publishes it.
    fn empty_units(
        &mut self,
        units: &[u64],
        below: u64,
        budget: &MergeBudget<'_>,
        step: &mut MergeStep,
    ) -> Result<()> {
        let shared = self.shared()?;
        if let Some(p) = &mut self.pending {
            p.appender.avoid_from(below);
            if !plan::is_at_rest(u64::from(budget.dead_limit)) {
                p.appender.keep_to(Lane::Moved);
            }
            p.keep_all = true;
        }
        let merging = below == u64::MAX;
        let pays = merging.then(|| plan::targets(u64::from(budget.dead_limit)));
        let mut moving = Moving::default();
        let mut emptied = Vec::new();
        // From the end, for of a file's end only what is behind the last unit that stays can be cut off.
        for unit in units.iter().rev() {
            if !emptied.is_empty() && (budget.stop)() {
                break;
            }
            if self.empty_unit(&shared, *unit, pays, &mut moving, step)? {
                emptied.push(*unit);
            } else if pays.is_none() {
                break;
            }
        }
        if emptied.is_empty() {
            return Ok(());
        }
        let b = &mut moving.besides;
        b.merge = true;
        b.fold |= !b.leaves.is_empty() || !b.dicts.is_empty() || !b.chunks.is_empty();
        step.written_bytes = self.publish_with(b)?;
        step.moved_bytes = moving.moved;
        let mut writer = shared.writer.lock();
        writer.merging.spent += moving.moved;
        writer.moved_bytes += moving.moved;
        if let Some((_, space)) = &writer.space {
            step.freed_units = emptied.iter().filter(|u| space.live(**u) == 0).count() as u64;
        }
        Ok(())
    }

    /// Copies what lives in the unit. Returns false, and has copied nothing, if not all of it can be, or if that does not pay (`pays`: the
    /// units that may be moved for one that is won).
    fn empty_unit(
        &mut self,
        shared: &Arc<Shared>,
        unit: u64,
        pays: Option<u64>,
        moving: &mut Moving,
        step: &mut MergeStep,
    ) -> Result<bool> {
        let live = {
            let writer = shared.writer.lock();
            writer.space.as_ref().map_or(0, |(_, s)| s.live(unit))
        };
        let found = {
            let state = shared.state.read();
            let look = Look {
                shared,
                file: &*self.file,
                state: &state,
            };
            look.unit(unit, live)?
        };
        let found = match found {
            Some(found) if found.damage.is_empty() => found,
            other => {
                let damage = other.map(|f| f.damage).unwrap_or_else(|| {
                    vec![Damage {
                        what: "unit of 64 KiB".to_owned(),
                        offset: unit * UNIT_LEN,
                        page: None,
                        problem: "not all that lives there was found".to_owned(),
                    }]
                });
                step.damaged.extend(damage);
                shared.writer.lock().merging.stuck.insert(unit, live);
                return Ok(false);
            }
        };
        let won = UNIT_LEN - found.taken.min(UNIT_LEN);
        if pays.is_some_and(|targets| won * 2 * (targets + 1) < UNIT_LEN) {
            shared.writer.lock().merging.dense.insert(unit, live);
            return Ok(false);
        }
        self.copy(shared, found, moving)?;
        Ok(true)
    }

    fn copy(&mut self, shared: &Shared, found: Found, moving: &mut Moving) -> Result<()> {
        for (off, frame) in found.frames {
            // A frame that reaches into two units was moved with the first.
            if !moving.frames.insert(off) {
                continue;
            }
            let len = (RECORD_LEN + frame.payload.len()) as u64;
            if frame.is_loose() {
                self.loosen(shared, off, &frame)?;
                moving.moved += (len * frame.pages.len() as u64) >> frame.record.run_log2;
                continue;
            }
            let Some(p) = &mut self.pending else {
                return Err(Error::ReadOnly);
            };
            let mut writer = shared.writer.lock();
            let Some((_, space)) = &mut writer.space else {
                return Err(Error::ReadOnly);
            };
            p.appender.make_room(space, len, p.commit)?;
            let place = p.appender.push(frame.record, &frame.payload);
            drop(writer);
            for (page, entry) in frame.pages {
                let entry = Entry {
                    off: place.off,
                    ..entry
                };
                p.pages.insert(page, PendingPage::Stored(entry));
            }
            moving.moved += len;
            p.appender.flush_if_long(&*self.file)?;
        }
        let b = &mut moving.besides;
        b.leaves.extend(found.leaves);
        b.chunks.extend(found.chunks);
        b.fold |= found.trailers;
        for (id, dict) in found.dicts {
            let len = (RECORD_LEN + dict.1.len()) as u64;
            if b.dicts.insert(id, dict).is_none() {
                moving.moved += len;
            }
        }
        Ok(())
    }

    /// Writes the living pages of a run anew: the others would be carried along for ever.
    fn loosen(&mut self, shared: &Shared, off: u64, frame: &Frame) -> Result<()> {
        let record = &frame.record;
        let dict = match record.model {
            0 => None,
            id => Some(shared.dictionary(&*self.file, &shared.state.read(), id)?),
        };
        let page_size = 1usize << record.page_log2;
        let mut raw = vec![0; page_size << record.run_log2];
        let decoded = codec::decode(
            CodecId(record.codec),
            &frame.payload,
            dict.as_deref(),
            &mut raw,
        );
        let problem = match decoded {
            Err(problem) => Some(problem),
            Ok(()) if raw_check(&raw) != record.raw_check => {
                Some("the decoded page does not match its checksum".to_owned())
            }
            Ok(()) => None,
        };
        if let Some(problem) = problem {
            return Err(Error::Corrupt(Damage {
                what: "frame".to_owned(),
                offset: off,
                page: Some(record.number),
                problem,
            }));
        }
        for (page, entry) in &frame.pages {
            let at = page_size * usize::from(entry.slot);
            let bytes = raw.get(at..at + page_size).unwrap_or_default();
            self.put_page(*page, bytes.into(), None)?;
        }
        Ok(())
    }
}
