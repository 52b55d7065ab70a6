//! Space reclamation: makes free units of dead bytes, and cuts free units off the file
//! (docs/decisions/space-reclamation.md).
//!
//! A step is one ordinary commit that changes no page. It copies the live records of some units to
//! other places, as they are stored, and names the new places. While others write, a step is a part
//! of a unit (`empty`), and its size follows from what the previous commit stored (`share`). Units
//! that a step frees wait for a durable slot, so reclaiming goes in rounds (`rounds`). All calls
//! need the right to write, and are made between transactions.

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
use crate::publish::{self, CommitOptions};
use crate::reclaim_state::{Begun, Due, Pace, ahead, is_at_rest, targets};
use crate::shared::Shared;
use crate::space::Worth;
use crate::state::State;
use crate::transaction::Transaction;
use crate::writer::{Writer, reserve_behind};
use plan::{Ground, Plan};
use std::time::Duration;

/// The limits of a step.
#[derive(Clone, Copy)]
pub struct ReclaimBudget<'a> {
    /// The most bytes of records that one step moves. At rest at least one unit of 64 KiB is moved,
    /// while others write at least one frame.
    pub bytes: u64,
    /// How much of the file, in per cent (1 to 90), can be dead or free. 25 is for reclaiming while
    /// others write: it then moves at most 3 bytes for each one that it wins. Anything below 10,
    /// such as 5, is for reclaiming at rest.
    pub dead_limit: u8,
    /// Asked between units, and between frames while others write. True ends the step with what it
    /// has done.
    pub stop: &'a dyn Fn() -> bool,
}

/// How many chunks of the space table are read if the known ones are not enough, and how many
/// indexes a commit reads for them.
const SURVEY: usize = 8;
const LOOKS: usize = 4;

/// The next step after one is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReclaimNext {
    /// Nothing: the limit is kept, or nothing more can be done.
    #[default]
    Done,
    /// Another step.
    Again,
    /// Freed units wait for a durable slot:
    /// [`Handle::make_reusable`](crate::Handle::make_reusable), or the syncs of later commits.
    Slot,
    /// The end of the file can be cut off: [`Handle::cut_end`](crate::Handle::cut_end).
    Cut,
}

/// The result of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReclaimStep {
    /// Bytes of records that were copied.
    pub moved_bytes: u64,
    /// Bytes appended in all: the records, the trailer, and map nodes if the map was folded.
    pub written_bytes: u64,
    /// Units of 64 KiB that became free.
    pub freed_units: u64,
    /// Records that were found damaged. They stay in place.
    pub damaged: Vec<Damage>,
    /// The next step.
    pub next: ReclaimNext,
}

impl ReclaimStep {
    /// Adds what the next step has done.
    fn add(&mut self, more: ReclaimStep) {
        self.moved_bytes += more.moved_bytes;
        self.written_bytes += more.written_bytes;
        self.freed_units += more.freed_units;
        self.damaged.extend(more.damaged);
        self.next = more.next;
    }
}

/// Space reclamation by one connection, between transactions. The caller has the right to write.
pub(crate) struct Reclaimer<'a> {
    pub(crate) connection: &'a mut Connection,
}

impl Reclaimer<'_> {
    /// Moves the live records of some units elsewhere, if more than the limit is dead or free.
    /// Publishes at most one commit, without a sync.
    ///
    /// # Errors
    /// I/O, a full disk, damage in the page map: nothing has changed then. [`Error::Setting`] for a
    /// limit out of range.
    pub(crate) fn step(&mut self, budget: &ReclaimBudget<'_>) -> Result<ReclaimStep> {
        let pace = Pace {
            least: 0,
            patient: false,
        };
        self.step_at(budget, pace)
    }

    /// Does the share of space reclamation that is due after a commit. Nothing is due unless more
    /// than `dead_limit` per cent (1 to 90) of the file is dead or free. `elapsed` returns how long
    /// this has taken. Published, not synced.
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
        let file = shared.state.read().tail_off();
        let taken = (shared.writer.lock().reclaiming.share()).take(file, u64::from(dead_limit));
        let Some(Due { bytes, pace, time }) = taken else {
            return Ok(ReclaimStep::default());
        };
        let budget = ReclaimBudget {
            bytes,
            dead_limit,
            // Half of the time is for the rest of the step: encoding what was not ready, the
            // trailer, the writes.
            stop: &|| elapsed() * 2 >= time,
        };
        let mut done = self.step_at(&budget, pace);
        // A step can be only the end of a unit that was begun. A large commit goes on.
        while let Ok(all) = &mut done {
            if all.next != ReclaimNext::Again || all.moved_bytes >= pace.least.min(bytes) {
                break;
            }
            let budget = ReclaimBudget {
                bytes: bytes - all.moved_bytes,
                ..budget
            };
            match self.step_at(&budget, pace) {
                // The rest waits for a slot. The next commit asks again.
                Ok(more) if more.moved_bytes == 0 => break,
                Ok(more) => all.add(more),
                Err(error) => done = Err(error),
            }
        }
        let (moved, due) = done.as_ref().map_or((0, false), |step| {
            (step.moved_bytes, step.next == ReclaimNext::Again)
        });
        shared.writer.lock().reclaiming.share().paid(moved, due);
        done
    }

    /// One step, with this pace.
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
        // After a failure nothing must be left that a later publish would include.
        self.discard(transaction);
        done?;
        Ok(step)
    }

    fn discard(&mut self, transaction: Option<Transaction>) {
        if let Some(transaction) = transaction {
            transaction.discard(self.connection);
        }
    }

    /// Plans the next step.
    fn plan(&mut self, shared: &Shared, budget: &ReclaimBudget<'_>, pace: Pace) -> Result<Plan> {
        let file = self.connection.open.file();
        shared.refresh(file)?;
        let mut writer = shared.writer.lock();
        let state = shared.state.read();
        if state.tip().commit == 0 {
            return Ok(Plan::Done);
        }
        writer.account(&shared.sources(file), &state)?;
        let writer = &mut *writer;
        let commit = state.tip().commit.max(writer.attempts.last());
        let at_rest = is_at_rest(u64::from(budget.dead_limit));
        let Some(space) = writer.accounting.space_mut() else {
            return Ok(Plan::Done);
        };
        if at_rest {
            // No connection writes meanwhile, and nothing should be left over.
            space.forget_lanes(commit);
            writer.reclaiming.keep_begun(&[]);
        }
        let src = shared.table_source(file);
        space.load_end(src, commit)?;
        for survey in 0.. {
            let (plan, over) = self.plan_known(&state, writer, budget, pace)?;
            let idle = over && matches!(plan, Plan::Done | Plan::Cut);
            // At rest, the whole file may be searched. A commit does not wait for that.
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

    /// Plans the next step from the known units of the file. Also returns whether more than the
    /// limit is dead or free.
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
        let room_end = match state.room_end() {
            OPEN_END => state.next_off(),
            end => end,
        };
        let leaves = state.pages() / LEAF_FANOUT as u64 + 1;
        let ground = Ground {
            space,
            reclaiming: &writer.reclaiming,
            tail: state.tail_off(),
            file: self.connection.open.file().len()?,
            reserve: reserve_behind(state.tail_off()),
            current: (state.next_off(), room_end),
            fold_nodes: (state.overlay().len() as u64).min(leaves),
            leaves,
            budget: budget.bytes,
            limit: u64::from(budget.dead_limit),
        };
        // Units that were begun are finished first. Those begun to shorten the file continue only
        // if they are still at its end.
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
            // Without leaving work to the pool, there is no use in beginning units ahead.
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

    /// Makes a fold for units without frames that wait for one.
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
        let besides = CommitOptions {
            fold: true,
            reclaim: true,
            ..CommitOptions::default()
        };
        step.written_bytes = publish::publish(self.connection, transaction, &besides)?;
        step.freed_units = before - left(&shared.writer.lock());
        Ok(())
    }
}
