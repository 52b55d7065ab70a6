//! A batch to which rows can be added, and a transaction of batches, which is appended as a whole.
//! [`crate::encoded`] has a batch's stored form.

use crate::encoded::EncodedBatch;
use crate::format::record_header::MAX_PAYLOAD;
use crate::op::Op;
use crate::rows::{Payload, Rows, RowsBuilder, TEXTUAL, Value};
use crate::table::Table;
use crate::{Error, Result, Seq};
use std::sync::Arc;

/// Mean bytes of text of a value from which on rows are mostly text.
const MOSTLY_TEXT: usize = 16;

/// Rows of one table with one operation.
#[derive(Debug, Clone)]
pub struct Batch {
    table: Arc<Table>,
    op: Op,
    rows: RowsBuilder,
}

impl Batch {
    /// An empty batch.
    pub fn new(table: &Arc<Table>, op: Op) -> Batch {
        Batch {
            table: table.clone(),
            op,
            rows: RowsBuilder::new(table.columns().len()),
        }
    }

    /// A batch of the first `rows` rows of an encoded batch. A rollback to a savepoint needs it.
    ///
    /// # Errors
    /// `Limit` if there is not enough memory.
    pub fn of_first(rows: usize, encoded: &EncodedBatch) -> Result<Batch> {
        let all = encoded.rows()?;
        let mut batch = Batch::new(encoded.table(), encoded.op());
        let mut values = Vec::with_capacity(all.columns());
        for row in 0..rows.min(all.len()) {
            values.clear();
            values.extend(all.row(row));
            batch.push(&values)?;
        }
        Ok(batch)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// `WrongColumns` if the number of values differs from the number of columns. The row is then
    /// not added.
    pub fn push(&mut self, row: &[Value<'_>]) -> Result<()> {
        self.table.check(row)?;
        self.rows.push(row);
        Ok(())
    }

    /// Rows so far.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row yet.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// The rows so far, for reading them before they are appended.
    pub fn rows(&self) -> Option<Rows> {
        let mut payload = self.rows.encode();
        payload.shrink_to_fit();
        Rows::decode(Payload::Own(payload), self.rows.len())
    }

    /// The rows so far, as the log stores them.
    ///
    /// # Errors
    /// `TooLarge` for more than 1 GiB; `Limit` for more than 16,777,216 rows.
    pub fn encode(&self) -> Result<EncodedBatch> {
        EncodedBatch::of_rows(&self.table, self.op, &self.rows, TEXTUAL)
    }

    /// As [`Batch::encode`], for rows that are soon removed again: they are compressed only if they
    /// are mostly text. Otherwise it takes longer than it takes to write them.
    ///
    /// # Errors
    /// As [`Batch::encode`].
    pub fn encode_for_a_while(&self) -> Result<EncodedBatch> {
        EncodedBatch::of_rows(&self.table, self.op, &self.rows, MOSTLY_TEXT)
    }

    /// Removes all rows, and keeps their memory for others.
    pub fn clear(&mut self) {
        self.rows.clear();
    }

    /// Bytes of memory that rows can take without more memory.
    pub fn capacity(&self) -> usize {
        self.rows.capacity()
    }

    /// The table that the rows belong to.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The operation of these rows.
    pub fn op(&self) -> Op {
        self.op
    }

    /// Drops the rows from this one on, for a rollback to a savepoint.
    pub fn truncate(&mut self, rows: usize) {
        self.rows.truncate(rows);
    }

    /// Upper bound of the bytes that the rows take in the log.
    pub fn bytes_max(&self) -> u64 {
        self.rows.bytes_max()
    }
}

/// Identifies a transaction until it is committed or rolled back; see
/// [`Log::new_txn`](crate::Log::new_txn).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TxnId(pub u64);

/// Batches that the log takes all or none, with consecutive row numbers. The thread that adds a
/// batch encodes it.
#[derive(Debug)]
pub struct Txn {
    id: TxnId,
    parts: Vec<Arc<EncodedBatch>>,
    rows: u64,
    stored_max: u64,
}

impl Txn {
    /// A transaction without rows.
    pub fn new(id: TxnId) -> Txn {
        Txn {
            id,
            parts: Vec::new(),
            rows: 0,
            stored_max: 0,
        }
    }

    /// A transaction of records that were read.
    pub(crate) fn of_parts(id: TxnId, parts: Vec<Arc<EncodedBatch>>) -> Txn {
        Txn {
            id,
            rows: parts.iter().map(|p| p.len() as u64).sum(),
            stored_max: parts.iter().map(|p| p.stored_max()).sum(),
            parts,
        }
    }

    /// A transaction of one batch.
    ///
    /// # Errors
    /// As [`Txn::push`].
    pub fn of(id: TxnId, batch: &Batch) -> Result<Txn> {
        let mut txn = Txn::new(id);
        txn.push(batch)?;
        Ok(txn)
    }

    /// Adds a batch. An empty batch is ignored.
    ///
    /// # Errors
    /// `TooLarge` for a batch or a transaction of more than 1 GiB; `Limit` for a batch of
    /// more than 16,777,216 rows.
    pub fn push(&mut self, batch: &Batch) -> Result<()> {
        match batch.is_empty() {
            true => Ok(()),
            false => self.push_encoded(Arc::new(batch.encode()?)),
        }
    }

    /// Adds an encoded batch and shares its memory.
    ///
    /// # Errors
    /// `TooLarge` for a transaction of more than 1 GiB.
    pub fn push_encoded(&mut self, batch: Arc<EncodedBatch>) -> Result<()> {
        let (bytes, max) = (self.stored_max + batch.stored_max(), u64::from(MAX_PAYLOAD));
        if bytes > max {
            return Err(Error::TooLarge { bytes, max });
        }
        self.stored_max = bytes;
        self.rows += batch.len() as u64;
        self.parts.push(batch);
        Ok(())
    }

    /// Its id.
    pub fn id(&self) -> TxnId {
        self.id
    }

    /// Number of rows in all batches.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The most bytes that its records take in a value of [`pack_records`](crate::pack_records).
    pub fn packed_max(&self) -> u64 {
        let parts = self.parts.iter();
        parts.map(|p| p.table().packed_max(p.bytes()) as u64).sum()
    }

    /// Upper bound of the bytes of its records.
    pub(crate) fn stored_max(&self) -> u64 {
        self.stored_max
    }

    pub(crate) fn parts(&self) -> &[Arc<EncodedBatch>] {
        &self.parts
    }
}

/// The rows of an appended transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Number of its first row.
    pub first: Seq,
    /// Number of its last row.
    pub last: Seq,
}
