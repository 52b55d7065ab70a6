//! Applying rows in the order in which they come, or in one with the same result (rule L5).

use super::batch::{Room, ordered};
use super::order::{Next, Order, Prepared};
use super::outcome::Failed;
use super::queue::{Queue, Reached, RecordSource};
use super::round::{Batch, Round, Turn};
use super::rows::Rows;
use super::values::Values;
use crate::database::position::Position;
use crate::rows::unit::Unit;
use densite_sqlite::Result;

/// See the module.
pub(super) struct LogOrder<S> {
    queue: Queue<S>,
    /// The index of the plan of each record of the current batch.
    of: Vec<usize>,
    /// The limits of the current batch.
    room: Room,
}

impl<S: RecordSource> LogOrder<S> {
    /// For the rows of this source.
    pub(super) fn of(source: S) -> LogOrder<S> {
        LogOrder {
            queue: Queue::new(source),
            of: Vec::new(),
            room: Room::default(),
        }
    }

    /// Where the rows come from.
    pub(super) fn source(&self) -> &S {
        self.queue.source()
    }

    /// Where the rows come from.
    pub(super) fn source_mut(&mut self) -> &mut S {
        self.queue.source_mut()
    }

    /// Forgets the rows that were read, because they are applied in another order.
    pub(super) fn forget(&mut self) {
        self.queue.forget();
    }

    /// Whether it knows of waiting rows.
    pub(super) fn has_more(&self) -> bool {
        self.has_rows() || !self.queue.is_at_end()
    }

    /// Whether it has read rows that are not applied.
    pub(super) fn has_rows(&self) -> bool {
        self.queue.len() > 0
    }

    /// The first rows of the queue, ordered. Makes plans for their records.
    fn plan(&mut self, round: &mut Round, rows: usize) -> Result<Vec<Unit>> {
        self.of.clear();
        round.forget_many_plans();
        let mut left = rows;
        for record in self.queue.records() {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(record.rows.len() - record.skip);
            self.of.push(round.plan_index_of(record)?);
        }
        let records = self.queue.records().get(..self.of.len());
        let records = records.unwrap_or_default();
        Ok(ordered(records, &self.of, round.plans(), rows))
    }
}

impl<S: RecordSource> Order for LogOrder<S> {
    fn next(&mut self, round: &mut Round, turn: &Turn<'_>) -> Result<Option<Next>> {
        self.room = round.pace.room(turn.is_beside);
        self.queue.fill(&turn.named, self.room, round.whole)?;
        if self.queue.len() > 0 {
            return Ok(Some(Next::Rows));
        }
        let end = self.queue.source().end(&turn.named);
        Ok(Some(end.map_or(Next::Nothing, Next::Numbers)))
    }

    fn batch(&mut self, round: &mut Round, turn: &Turn<'_>) -> Result<Prepared> {
        let rows = self.queue.batch(self.room, round.whole);
        let is_full = !self.queue.is_at_end() || rows < self.queue.len();
        let units = self.plan(round, rows)?;
        let reached = match self.queue.reach(rows) {
            Some(last) => self.queue.source().at(&turn.named, last),
            None => Reached::at(turn.named),
        };
        Ok(Prepared::Rows(Batch {
            values: Values::of(self.queue.records(), &units),
            units,
            next: reached.position,
            state: reached.state,
            rows,
            asked: self.room.rows,
            // A single row can take any time, and so can a transaction that must not be divided.
            least: self.queue.least(round.whole),
            is_full,
        }))
    }

    fn rows(&self) -> Rows<'_> {
        Rows {
            records: self.queue.records(),
            of: &self.of,
            poison: self.queue.poison(),
        }
    }

    fn committed(&mut self, batch: &Batch) -> bool {
        self.queue.passed(batch.rows, &batch.next);
        !batch.is_full && self.queue.len() == 0
    }

    fn passed(&mut self, end: &Position) {
        self.queue.jump(end);
    }

    fn failed(&mut self, round: &mut Round, batch: &Batch, failed: &Failed) {
        match failed {
            Failed::Slow(_) => self.queue.was_slow(batch.rows),
            Failed::Poison(seq, reason) => self.queue.add_poison(*seq, reason.clone()),
            // A deferred constraint refused the COMMIT. Rows of one transaction belong together. So
            // the next attempt takes fewer transactions, and a transaction that fails alone is
            // rejected.
            Failed::Commit(e) => {
                // The schema did not show the constraint.
                round.whole = true;
                match batch.rows == self.queue.first_transaction() {
                    true => self.queue.poison_first(batch.rows, &e.message),
                    false => round.pace.slow(batch.rows),
                }
            }
            _ => {}
        }
    }
}
