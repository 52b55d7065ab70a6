//! What the worker has read of the log and not applied yet.
//!
//! The queue is bounded in bytes. A batch ends where a transaction of the log ends, so a reader
//! of the table sees all of a transaction or nothing. Only a transaction that is larger than a
//! batch is applied in parts; one of at most [`UNDIVIDED`] rows is never larger because it takes
//! long.

use super::pace::{Room, UNDIVIDED};
use super::rows::Poison;
use crate::clustered::bytes;
use crate::open_log::OpenLog;
use densite_log::{Next, Reader, Record, Seq, TxnId, keep_whole_transactions};
use densite_sqlite::{Error, Result};

/// Decoded bytes that are queued at most. One record may be larger, and so may a transaction that
/// is judged as a whole.
const BYTES: usize = 64 << 20;

/// See the module.
#[derive(Default)]
pub(super) struct Queue {
    reader: Option<Reader>,
    /// In order. The first one's `skip` says how much of it is applied.
    records: Vec<Record>,
    rows: usize,
    /// Bytes of memory that the records take.
    bytes: usize,
    /// Nothing follows in the log, as far as was known.
    at_end: bool,
    /// The first transaction, if it is applied in parts: it took too long, or a part is applied.
    divided: Option<TxnId>,
    /// Why what follows cannot be read: told once nothing is queued.
    trouble: Option<Error>,
    /// The last row before the queue.
    before: Seq,
    poison: Poison,
}

fn rows(record: &Record) -> usize {
    record.rows.len() - record.skip
}

impl Queue {
    /// Reads on behind `position`, until the queue has the rows of a batch or is full, or the log
    /// ends. The rows of a batch include the end of the first transaction, unless that is larger
    /// than a batch; if `whole`, also then.
    ///
    /// # Errors
    /// The log's, once all whole transactions in front of what cannot be read are applied.
    pub(super) fn fill(
        &mut self,
        open: &OpenLog,
        position: Seq,
        room: Room,
        whole: bool,
    ) -> Result<()> {
        let failed = |e| open.failed(e);
        if self.reader.is_none() || position != self.before {
            // The first time, or the database went on or back without us.
            self.records.clear();
            (self.rows, self.bytes) = (0, 0);
            (self.trouble, self.divided) = (None, None);
            self.poison.clear();
            self.before = position;
            self.reader = Some(open.log().read_after(position).map_err(failed)?);
        }
        let is_divided = self.is_divided();
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        // The first transaction has no end yet.
        let mut is_cut = !self.records.iter().any(|r| r.ends_transaction);
        self.at_end = false;
        while self.trouble.is_none() {
            let has_room = whole || !is_divided && self.rows <= room.transaction;
            if self.rows >= room.rows && !(is_cut && has_room) {
                break;
            }
            let most = match self.records.is_empty() || whole && is_cut {
                true => usize::MAX,
                false => BYTES.saturating_sub(self.bytes),
            };
            match reader.next_within(most) {
                Ok(Next::Record(record)) => {
                    self.rows += rows(&record);
                    self.bytes += bytes(&record);
                    is_cut &= !record.ends_transaction;
                    self.records.push(record);
                }
                Ok(Next::Larger) => break,
                Ok(Next::End) => {
                    self.at_end = true;
                    break;
                }
                Err(e) => {
                    keep_whole_transactions(&mut self.records);
                    self.rows = self.records.iter().map(rows).sum();
                    self.bytes = self.records.iter().map(bytes).sum();
                    self.trouble = Some(failed(e));
                }
            }
        }
        match self.trouble.take_if(|_| self.rows == 0) {
            // It has read further than what was kept.
            Some(error) => {
                self.reader = None;
                Err(error)
            }
            None => Ok(()),
        }
    }

    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Rows that are queued.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// Whether nothing followed the queue when it was read.
    pub(super) fn is_at_end(&self) -> bool {
        self.at_end
    }

    /// How far the log was read: behind the queue's last row where the log ends with numbers that
    /// no row has.
    pub(super) fn end(&self) -> Option<Seq> {
        self.reader.as_ref().map(Reader::position)
    }

    /// Nothing is queued, and the position is this one now.
    pub(super) fn jump(&mut self, position: Seq) {
        self.before = position;
    }

    /// Forgets what was read: it is applied in another way.
    pub(super) fn forget(&mut self) {
        *self = Queue::default();
    }

    /// Rows to be rejected without another try.
    pub(super) fn poison(&self) -> &Poison {
        &self.poison
    }

    pub(super) fn add_poison(&mut self, seq: Seq, reason: String) {
        self.poison.insert(seq, reason);
    }

    /// The first rows are to be rejected.
    pub(super) fn poison_first(&mut self, rows: usize, reason: &str) {
        let records = self.records.iter();
        let seqs = records.flat_map(|r| (r.first + r.skip as u64)..=r.last());
        for seq in seqs.take(rows) {
            self.poison.insert(seq, reason.to_owned());
        }
    }

    /// Rows of the first transaction, if its end is queued.
    fn first_end(&self) -> Option<usize> {
        let end = self.records.iter().position(|r| r.ends_transaction)?;
        Some(self.records.iter().take(end + 1).map(rows).sum())
    }

    /// Rows of the first transaction, or of all of it if that has no end yet.
    pub(super) fn first_transaction(&self) -> usize {
        self.first_end().unwrap_or(self.rows)
    }

    /// The least that a batch may have, however long it takes.
    pub(super) fn least(&self, whole: bool) -> usize {
        match self.keeps_first(UNDIVIDED, whole) {
            true => self.first_transaction(),
            false => 1,
        }
    }

    fn first_txn(&self) -> Option<TxnId> {
        self.records.first().map(|record| record.txn)
    }

    /// Whether the first transaction is applied in parts.
    fn is_divided(&self) -> bool {
        let is_begun = self.records.first().is_some_and(|r| r.skip > 0);
        is_begun || self.divided.is_some() && self.divided == self.first_txn()
    }

    /// A batch of so many rows took too long and was rolled back.
    pub(super) fn was_slow(&mut self, rows: usize) {
        if rows <= self.first_transaction() {
            self.divided = self.first_txn();
        }
    }

    /// Whether the first transaction is applied at once although it is larger than a batch, if it
    /// has `most` rows or fewer.
    fn keeps_first(&self, most: usize, whole: bool) -> bool {
        whole || !self.is_divided() && self.first_end().is_some_and(|rows| rows <= most)
    }

    /// Rows of the next batch: those of whole transactions, unless the first transaction alone is
    /// larger than a batch.
    pub(super) fn batch(&self, room: Room, whole: bool) -> usize {
        let goal = self.rows.min(room.rows);
        let (mut count, mut ended) = (0, 0);
        for record in &self.records {
            count += rows(record);
            if count > goal {
                break;
            }
            if record.ends_transaction {
                ended = count;
            }
        }
        if ended > 0 {
            return ended;
        }
        match self.keeps_first(room.transaction, whole) {
            true => self.first_transaction(),
            false => goal,
        }
    }

    /// How far the first rows reach. Numbers of rows that were rolled back lie in between.
    pub(super) fn reach(&self, count: usize) -> Option<Seq> {
        let (mut left, mut last) = (count, None);
        for record in &self.records {
            if left == 0 {
                break;
            }
            let some = rows(record).min(left);
            last = Some(record.first + (record.skip + some) as u64 - 1);
            left -= some;
        }
        last
    }

    /// The first rows are done, up to this one.
    pub(super) fn passed(&mut self, count: usize, last: Seq) {
        let (mut left, mut gone) = (count, 0);
        for record in &mut self.records {
            let has = rows(record);
            if left > 0 {
                let is_divided = has > left || !record.ends_transaction;
                self.divided = is_divided.then_some(record.txn);
            }
            if has > left {
                record.skip += left;
                break;
            }
            left -= has;
            gone += 1;
        }
        for record in self.records.drain(..gone) {
            self.bytes = self.bytes.saturating_sub(bytes(&record));
        }
        self.rows -= count;
        self.before = last;
        self.poison = self.poison.split_off(&(last + 1));
    }
}
