//! What the connection's own transaction has written so far, for its own reads; and which end of the log it reads.

use super::Session;
use crate::collation::Collation;
use crate::names::are_same;
use crate::read::{Gather, Run, push};
use densite_log::{Record, Seq, TxnId};
use std::sync::Arc;

/// Rows that are not appended yet have numbers above this.
pub(crate) const OWN: Seq = 1 << 62;

/// Rows of one table, up to a place in the batches.
pub(super) struct OwnRuns {
    table: String,
    /// How often rows had been taken back when this was made.
    cuts: u64,
    batches: usize,
    rows: usize,
    runs: Vec<Arc<Run>>,
}

/// What the present transaction, or without one the present statements, read.
#[derive(Default)]
pub(super) struct Reads {
    cursors: usize,
    /// A table of this connection is told when the transaction ends.
    joined: bool,
    pub(super) end: Option<Seq>,
}

impl Reads {
    pub(super) fn is_joined(&self) -> bool {
        self.joined
    }

    pub(super) fn end_transaction(&mut self) {
        self.joined = false;
        self.rest();
    }

    fn rest(&mut self) {
        if self.cursors == 0 && !self.joined {
            self.end = None;
        }
    }
}

impl Session {
    /// xBegin.
    pub(crate) fn begin(&self) {
        self.inner.lock().reads.joined = true;
    }

    pub(crate) fn is_joined(&self) -> bool {
        self.inner.lock().reads.is_joined()
    }

    /// The log's end of the present transaction, if it has one.
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

    /// The transaction's own rows of a table.
    pub(crate) fn own_runs(
        &self,
        table: &str,
        key: &(Vec<String>, Vec<Collation>),
    ) -> Vec<Arc<Run>> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        if inner.rows == 0 {
            return Vec::new();
        }
        let cuts = inner.cuts;
        inner.own.retain(|o| o.cuts == cuts);
        let known = inner.own.iter().position(|o| o.table == table);
        let place = known.unwrap_or_else(|| {
            inner.own.push(OwnRuns {
                table: table.to_owned(),
                cuts,
                batches: 0,
                rows: 0,
                runs: Vec::new(),
            });
            inner.own.len() - 1
        });
        let Some(own) = inner.own.get_mut(place) else {
            return Vec::new();
        };
        let mut gather = Gather::default();
        for (i, batch) in inner.batches.iter().enumerate().skip(own.batches) {
            let skip = if i == own.batches { own.rows } else { 0 };
            let columns = batch
                .table()
                .columns()
                .iter()
                .take(batch.table().key_columns());
            let is_other = !batch.table().name().eq_ignore_ascii_case(table);
            if batch.len() <= skip || is_other || !are_same(columns, key.0.iter()) {
                continue;
            }
            let Some(rows) = batch.rows() else { continue };
            let record = Record {
                first: OWN + ((i as u64) << 20),
                skip,
                txn: TxnId(0),
                ends_transaction: false,
                table: batch.table().clone(),
                op: batch.op(),
                rows,
            };
            gather.add(record, &key.1);
        }
        own.batches = inner.batches.len().saturating_sub(1);
        own.rows = inner.batches.last().map_or(0, densite_log::Batch::len);
        push(&mut own.runs, gather.run(&key.1), &key.1);
        own.runs.clone()
    }
}
