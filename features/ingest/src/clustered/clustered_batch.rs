//! The rows of a batch of the log, in memory.

use densite_log::{Log, Next, Record, Result, Seq};

/// Memory of a record beside its values, and of each of its columns, bytes.
const RECORD_BYTES: usize = 160;
const COLUMN_BYTES: usize = 120;

/// See the module.
#[derive(Default)]
pub(crate) struct ClusteredBatch {
    /// The last number before the batch.
    pub(crate) before: Seq,
    /// The last number of the batch.
    pub(crate) last: Seq,
    /// How far the log was read.
    pub(crate) reached: Seq,
    /// In order. Rows before a record's `skip` are not part of the batch.
    pub(crate) records: Vec<Record>,
    /// Number of rows.
    pub(crate) rows: usize,
    bytes: usize,
}

impl ClusteredBatch {
    /// Reads the rows behind `before`, up to `most` bytes of memory, until `takes(batch, next
    /// record)` returns false.
    ///
    /// # Errors
    /// The log's.
    pub(crate) fn read(
        log: &Log,
        before: Seq,
        most: usize,
        mut takes: impl FnMut(&ClusteredBatch, &Record) -> bool,
    ) -> Result<ClusteredBatch> {
        let mut batch = ClusteredBatch {
            before,
            last: before,
            ..ClusteredBatch::default()
        };
        let mut reader = log.read_after(before)?;
        while let Next::Record(record) = reader.next_within(most.saturating_sub(batch.bytes))?
            && batch.bytes + bytes(&record) <= most
            && takes(&batch, &record)
        {
            batch.last = record.last();
            batch.rows += rows(&record);
            batch.bytes += bytes(&record);
            batch.records.push(record);
        }
        batch.reached = reader.position();
        Ok(batch)
    }

    /// Whether it ends where a transaction of the log ends.
    pub(crate) fn is_whole(&self) -> bool {
        self.records.last().is_none_or(|r| r.ends_transaction)
    }

    /// Adds the remaining rows of the transaction at its end.
    ///
    /// # Errors
    /// The log's.
    pub(crate) fn make_whole(&mut self, log: &Log) -> Result<()> {
        if self.is_whole() {
            return Ok(());
        }
        let rest = ClusteredBatch::read(log, self.last, usize::MAX, |rest, _| {
            rest.records.is_empty() || !rest.is_whole()
        })?;
        self.last = rest.last;
        self.reached = rest.reached.max(self.reached);
        self.rows += rest.rows;
        self.bytes += rest.bytes;
        self.records.extend(rest.records);
        Ok(())
    }

    /// Drops the rows of an incomplete transaction at the end. It stays if fewer than `least` rows
    /// would remain, and the batch has at least `least` and more than `undivided` rows of it.
    pub(crate) fn end_with_transaction(&mut self, least: usize, undivided: usize) {
        let end = self.records.iter().rposition(|r| r.ends_transaction);
        let end = end.map_or(0, |end| end + 1);
        let cut = self.records.get(end..).unwrap_or_default();
        let gone: usize = cut.iter().map(rows).sum();
        let gone_bytes: usize = cut.iter().map(bytes).sum();
        let left = self.rows.saturating_sub(gone);
        if left < least && gone >= least && gone > undivided {
            return;
        }
        self.records.truncate(end);
        self.last = self.records.last().map_or(self.before, Record::last);
        self.rows = left;
        self.bytes = self.bytes.saturating_sub(gone_bytes);
    }

    /// How many numbers the batch spans.
    pub(crate) fn numbers(&self) -> usize {
        usize::try_from(self.last - self.before).unwrap_or(usize::MAX)
    }

    /// How many numbers it would span with a record.
    pub(crate) fn numbers_with(&self, record: &Record) -> usize {
        usize::try_from(record.last() - self.before).unwrap_or(usize::MAX)
    }

    /// The number of one of its rows, counted from the batch's first number.
    pub(super) fn number(&self, record: &Record, row: usize) -> u32 {
        (record.first + row as u64 - self.before - 1) as u32
    }

    /// The numbers of all its rows, ascending.
    pub(crate) fn each(&self) -> impl Iterator<Item = u32> {
        self.records.iter().flat_map(|record| {
            let rows = record.skip..record.rows.len();
            rows.map(|row| self.number(record, row))
        })
    }
}

/// Number of rows of a record that were not read before.
fn rows(record: &Record) -> usize {
    record.rows.len() - record.skip
}

/// Bytes of memory that a record takes.
pub(crate) fn bytes(record: &Record) -> usize {
    let lengths = 4 * record.rows.len();
    record.rows.bytes() + RECORD_BYTES + record.rows.columns() * (COLUMN_BYTES + lengths)
}
