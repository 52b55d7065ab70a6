//! Rows that the worker has read and not applied yet, and where they come from.
//!
//! The queue is bounded in bytes. A batch ends where a transaction ends, so a reader of
//! the table sees all of a transaction or none of it. Only a transaction that is larger than a
//! batch is applied in parts. A transaction of at most [`UNDIVIDED`] rows is never divided, however
//! long it takes.

use super::batch::{Room, UNDIVIDED};
use super::rows::Poison;
use crate::clustered::bytes;
use crate::database::open_log::OpenLog;
use crate::database::position::Position;
use densite_log::{Next, Reader, Record, Seq, TxnId, keep_whole_transactions};
use densite_sqlite::{Connection, Error, Result};
use std::fmt;
use std::sync::Arc;

/// Most decoded bytes in the queue. A single record can be larger, and so can a transaction that is
/// judged as a whole.
const BYTES: usize = 48 << 20;

/// See the module.
pub(super) struct Queue<S> {
    source: S,
    /// The source was restarted, and has not failed since.
    is_begun: bool,
    /// In the order of the source. The first record's `skip` says how much of it is applied.
    records: Vec<Record>,
    rows: usize,
    /// Bytes of memory that the records take.
    bytes: usize,
    /// The source had no more rows when it was read.
    at_end: bool,
    /// The first transaction, if it is applied in parts: it took too long, or a part is already
    /// applied.
    divided: Option<TxnId>,
    /// Why the following rows cannot be read. Reported once the queue is empty.
    trouble: Option<Error>,
    /// The last row before the queue.
    before: Seq,
    poison: Poison,
}

fn rows(record: &Record) -> usize {
    record.rows.len() - record.skip
}

impl<S: RecordSource> Queue<S> {
    /// An empty queue.
    pub(super) fn new(source: S) -> Queue<S> {
        Queue {
            source,
            is_begun: false,
            records: Vec::new(),
            rows: 0,
            bytes: 0,
            at_end: false,
            divided: None,
            trouble: None,
            before: 0,
            poison: Poison::new(),
        }
    }

    /// Reads the rows behind `named`, until the queue has the rows of a batch or is full, or the
    /// source ends. The rows of a batch include the end of the first transaction, unless that is
    /// larger than a batch. With `whole` they always include it.
    ///
    /// # Errors
    /// The source's, once all whole transactions in front of the place that cannot be read are
    /// applied.
    pub(super) fn fill(&mut self, named: &Position, room: Room, whole: bool) -> Result<()> {
        let position = self.source.applied(named);
        if !self.is_begun || position != self.before {
            // The first time, or another process has moved the database forward or back.
            self.forget();
            self.source.restart(named)?;
            self.before = position;
            self.is_begun = true;
        }
        let is_divided = self.is_divided();
        // The end of the first transaction is not read yet.
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
            match self.source.next_within(most) {
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
                    self.trouble = Some(e);
                }
            }
        }
        match self.trouble.take_if(|_| self.rows == 0) {
            // The source is behind the rows that were kept.
            Some(error) => {
                self.is_begun = false;
                Err(error)
            }
            None => Ok(()),
        }
    }

    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Number of queued rows.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// Whether no rows followed the queue when it was read.
    pub(super) fn is_at_end(&self) -> bool {
        self.at_end
    }

    /// Where the rows come from.
    pub(super) fn source(&self) -> &S {
        &self.source
    }

    /// Where the rows come from.
    pub(super) fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Moves the empty queue to this position.
    pub(super) fn jump(&mut self, position: &Position) {
        self.before = self.source.applied(position);
        self.source.passed(position);
    }

    /// Forgets the rows that were read, because they are applied in another order.
    pub(super) fn forget(&mut self) {
        self.is_begun = false;
        self.records.clear();
        (self.rows, self.bytes) = (0, 0);
        (self.trouble, self.divided) = (None, None);
        self.at_end = false;
        self.poison.clear();
    }

    /// Rows to reject without another attempt.
    pub(super) fn poison(&self) -> &Poison {
        &self.poison
    }

    pub(super) fn add_poison(&mut self, seq: Seq, reason: String) {
        self.poison.insert(seq, reason);
    }

    /// Savepoints the first rows for rejection.
    pub(super) fn poison_first(&mut self, rows: usize, reason: &str) {
        let records = self.records.iter();
        let seqs = records.flat_map(|r| (r.first + r.skip as u64)..=r.last());
        for seq in seqs.take(rows) {
            self.poison.insert(seq, reason.to_owned());
        }
    }

    /// Number of rows of the first transaction, if its end is queued.
    fn first_end(&self) -> Option<usize> {
        let end = self.records.iter().position(|r| r.ends_transaction)?;
        Some(self.records.iter().take(end + 1).map(rows).sum())
    }

    /// Number of rows of the first transaction; of the whole queue if its end is not queued.
    pub(super) fn first_transaction(&self) -> usize {
        self.first_end().unwrap_or(self.rows)
    }

    /// The fewest rows of a batch, however long they take.
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

    /// Records that a batch of this many rows took too long and was rolled back.
    pub(super) fn was_slow(&mut self, rows: usize) {
        if rows <= self.first_transaction() {
            self.divided = self.first_txn();
        }
    }

    /// Whether the first transaction is applied at once although it is larger than a batch, if it
    /// has at most `most` rows.
    fn keeps_first(&self, most: usize, whole: bool) -> bool {
        whole || !self.is_divided() && self.first_end().is_some_and(|rows| rows <= most)
    }

    /// Number of rows of the next batch. It has whole transactions, unless the first one alone is
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

    /// Sequence number of the last of the first `count` rows. Numbers of rolled-back rows can lie
    /// between.
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

    /// Removes the first rows, which are applied up to this position.
    pub(super) fn passed(&mut self, count: usize, position: &Position) {
        let last = self.source.applied(position);
        self.source.passed(position);
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

/// The position behind some rows, and what has to be written with it.
#[derive(Debug, Clone)]
pub struct Reached {
    /// The position.
    pub position: Position,
    /// What else the source has to remember.
    pub state: Option<Arc<dyn SourceState>>,
}

impl Reached {
    /// A position that says everything.
    pub fn at(position: Position) -> Reached {
        Reached {
            position,
            state: None,
        }
    }
}

/// What a source has to remember with a position.
pub trait SourceState: fmt::Debug + Send + Sync {
    /// Writes it, within the transaction that moves the position.
    ///
    /// # Errors
    /// SQLite's.
    fn write(&self, connection: &Connection) -> Result<()>;
}

/// Where the rows of a queue come from: the log of the database, or a stream of which it is a
/// member. Each numbers its rows in its own way.
pub trait RecordSource {
    /// The number of the last row that is applied at this position.
    fn applied(&self, named: &Position) -> Seq;

    /// Begins to read behind this position.
    ///
    /// # Errors
    /// The log's.
    fn restart(&mut self, named: &Position) -> Result<()>;

    /// The next record, unless its rows take more than `bytes`.
    ///
    /// # Errors
    /// The log's, the stream's.
    fn next_within(&mut self, bytes: usize) -> Result<Next>;

    /// The position behind row `last`, which was read.
    fn at(&self, named: &Position, last: Seq) -> Reached;

    /// The position behind everything that was read, if it is not `named`: all rows are applied,
    /// and numbers without rows follow.
    fn end(&self, named: &Position) -> Option<Reached>;

    /// Rows up to this position are applied.
    fn passed(&mut self, position: &Position);
}

/// The rows of the database's own log.
pub(super) struct LogRecords {
    open: Arc<OpenLog>,
    reader: Option<Reader>,
}

impl LogRecords {
    pub(super) fn of(open: &Arc<OpenLog>) -> LogRecords {
        LogRecords {
            open: Arc::clone(open),
            reader: None,
        }
    }
}

impl RecordSource for LogRecords {
    fn applied(&self, named: &Position) -> Seq {
        named.seq
    }

    fn restart(&mut self, named: &Position) -> Result<()> {
        let reader = self.open.log().read_after(named.seq);
        self.reader = Some(reader.map_err(|e| self.open.failed(e))?);
        Ok(())
    }

    fn next_within(&mut self, bytes: usize) -> Result<Next> {
        match &mut self.reader {
            Some(reader) => reader.next_within(bytes).map_err(|e| self.open.failed(e)),
            None => Ok(Next::End),
        }
    }

    fn at(&self, named: &Position, last: Seq) -> Reached {
        Reached::at(Position::at(named.id, last))
    }

    fn end(&self, named: &Position) -> Option<Reached> {
        let end = self.reader.as_ref().map_or(0, Reader::position);
        (end > named.seq).then(|| self.at(named, end))
    }

    fn passed(&mut self, _: &Position) {}
}
