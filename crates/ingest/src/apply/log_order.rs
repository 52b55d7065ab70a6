//! Applying rows in the order of the log, or in one with the same result (rule 5).

use super::batch::ordered;
use super::order::{Next, Order, Prepared};
use super::outcome::Failed;
use super::pace::Room;
use super::queue::Queue;
use super::round::{Batch, Round, Turn};
use super::rows::Rows;
use super::values::Values;
use crate::position::Position;
use crate::unit::Unit;
use densite_log::Seq;
use densite_sqlite::Result;

/// See the module.
#[derive(Default)]
pub(super) struct LogOrder {
    queue: Queue,
    /// The index of the plan of each record of the current batch.
    of: Vec<usize>,
    /// The limits of the current batch.
    room: Room,
}

impl LogOrder {
    /// Forgets the rows that were read, because they are applied in another order.
    pub(super) fn forget(&mut self) {
        self.queue.forget();
    }

    /// Whether it knows of waiting rows.
    pub(super) fn has_more(&self) -> bool {
        self.queue.len() > 0 || !self.queue.is_at_end()
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

impl Order for LogOrder {
    fn next(&mut self, round: &mut Round, turn: &Turn<'_>) -> Result<Option<Next>> {
        let position = turn.named.seq;
        self.room = round.pace.room(turn.is_beside);
        let open = &turn.applying.open;
        self.queue.fill(open, position, self.room, round.whole)?;
        if self.queue.len() > 0 {
            return Ok(Some(Next::Rows));
        }
        let end = self.queue.end().unwrap_or(position);
        Ok(Some(match end > position {
            true => Next::Numbers(end),
            false => Next::Nothing,
        }))
    }

    fn batch(&mut self, round: &mut Round, turn: &Turn<'_>) -> Result<Prepared> {
        let rows = self.queue.batch(self.room, round.whole);
        let is_full = !self.queue.is_at_end() || rows < self.queue.len();
        let units = self.plan(round, rows)?;
        let last = self.queue.reach(rows).unwrap_or(turn.named.seq);
        Ok(Prepared::Rows(Batch {
            values: Values::of(self.queue.records(), &units),
            units,
            next: Position::at(turn.named.id, last),
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
        self.queue.passed(batch.rows, batch.next.seq);
        !batch.is_full && self.queue.len() == 0
    }

    fn passed(&mut self, end: Seq) {
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
