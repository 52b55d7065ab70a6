//! The rows that the connection's own transaction has written, for its own reads; and the end of
//! the log that it reads.

use super::Session;
use crate::read::{OWN, RUN_ROWS, Run, RunBuilder, Transaction, push};
use crate::rows::pending::Pending;
use crate::schema::collation::Collation;
use crate::schema::names::are_same;
use densite_log::{Record, Result, Seq, TxnId};
use std::sync::Arc;

/// Bits for the index of a row in a batch; batches have fewer rows.
const BATCH_BITS: u32 = 20;

/// Runs of one table, up to a position in the batches.
pub(super) struct OwnRuns {
    table: String,
    batches: usize,
    rows: usize,
    runs: Vec<Arc<Run>>,
}

/// The reads of the current transaction, or of the current statements without one.
#[derive(Default)]
pub(super) struct Reads {
    cursors: usize,
    /// SQLite reports the transaction's end to a table of this connection.
    joined: bool,
    /// A transaction that has only read: SQLite does not report its end.
    marked: Option<Transaction>,
    pub(super) end: Option<Seq>,
}

impl Reads {
    pub(super) fn is_joined(&self) -> bool {
        self.joined
    }

    pub(super) fn end_transaction(&mut self) {
        self.joined = false;
        self.marked = None;
        self.rest();
    }

    fn rest(&mut self) {
        if self.cursors == 0 && !self.joined && self.marked.is_none() {
            self.end = None;
        }
    }
}

impl Session {
    /// xBegin. `had_room`: there was room for more unapplied bytes.
    pub(crate) fn begin(&self, had_room: bool) {
        let mut inner = self.inner.lock();
        inner.reads.joined = true;
        inner.had_room |= had_room;
    }

    pub(crate) fn is_joined(&self) -> bool {
        self.inner.lock().reads.is_joined()
    }

    pub(crate) fn marked(&self) -> Option<Transaction> {
        self.inner.lock().reads.marked
    }

    /// Sets the marked transaction.
    pub(crate) fn set_marked(&self, marked: Option<Transaction>) {
        self.inner.lock().reads.marked = marked;
    }

    /// The marked transaction has ended. The next one takes its own end of the log.
    pub(crate) fn forget_marked(&self) {
        let reads = &mut self.inner.lock().reads;
        reads.marked = None;
        reads.end = None;
    }

    /// The log's end of the current transaction, if it has one.
    pub(crate) fn read_end(&self) -> Option<Seq> {
        self.inner.lock().reads.end
    }

    pub(crate) fn set_read_end(&self, end: Seq) {
        self.inner.lock().reads.end = Some(end);
    }

    pub(crate) fn cursor_opened(&self) {
        self.inner.lock().reads.cursors += 1;
    }

    pub(crate) fn cursor_closed(&self) {
        let reads = &mut self.inner.lock().reads;
        reads.cursors = reads.cursors.saturating_sub(1);
        reads.rest();
    }

    /// Whether this is the number of one of the transaction's own rows.
    pub(crate) fn is_own(&self, seq: Seq) -> bool {
        let inner = self.inner.lock();
        let Some(place) = seq.checked_sub(OWN) else {
            return false;
        };
        let batch = usize::try_from(place >> BATCH_BITS).unwrap_or(usize::MAX);
        place & ((1 << BATCH_BITS) - 1) < inner.pending.len(batch) as u64
    }

    /// Runs of the transaction's own rows of a table.
    ///
    /// # Errors
    /// `Limit` if there is not enough memory.
    pub(crate) fn own_runs(
        &self,
        table: &str,
        key: &(Vec<String>, Vec<Collation>),
    ) -> Result<Vec<Arc<Run>>> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        if inner.pending.rows() == 0 {
            return Ok(Vec::new());
        }
        inner.pending.share_memory()?;
        let known = inner.own.iter().position(|o| o.table == table);
        let place = known.unwrap_or_else(|| {
            inner.own.push(OwnRuns {
                table: table.to_owned(),
                batches: 0,
                rows: 0,
                runs: Vec::new(),
            });
            inner.own.len() - 1
        });
        let Some(own) = inner.own.get_mut(place) else {
            return Ok(Vec::new());
        };
        own.read_on(&inner.pending, key)?;
        Ok(own.runs.clone())
    }
}

impl OwnRuns {
    /// Adds the rows that came since. After an error, the next call continues behind the last row
    /// in a run.
    fn read_on(&mut self, pending: &Pending, key: &(Vec<String>, Vec<Collation>)) -> Result<()> {
        let mut builder = RunBuilder::default();
        for batch in self.batches..pending.batches() {
            let skip = if batch == self.batches { self.rows } else { 0 };
            let Some((table, op)) = pending.kind(batch) else {
                continue;
            };
            let columns = table.columns().iter().take(table.key_columns());
            let is_other = !table.name().eq_ignore_ascii_case(&self.table);
            if pending.len(batch) <= skip || is_other || !are_same(columns, key.0.iter()) {
                continue;
            }
            let Some(rows) = pending.rows_of(batch)? else {
                continue;
            };
            let record = Record {
                first: OWN + ((batch as u64) << BATCH_BITS),
                skip,
                txn: TxnId(0),
                ends_transaction: false,
                table: table.clone(),
                op,
                rows,
            };
            builder.add(record, &key.1);
            if builder.len() >= RUN_ROWS {
                self.take(
                    std::mem::take(&mut builder),
                    (batch, pending.len(batch)),
                    key,
                );
            }
        }
        let mark = pending.mark();
        self.take(builder, (mark.batches.saturating_sub(1), mark.rows), key);
        Ok(())
    }

    /// Adds rows, which reach to this row of this batch.
    fn take(
        &mut self,
        builder: RunBuilder,
        (batch, rows): (usize, usize),
        key: &(Vec<String>, Vec<Collation>),
    ) {
        push(&mut self.runs, builder.run(&key.1), &key.1);
        (self.batches, self.rows) = (batch, rows);
    }
}
