//! What is appended: a transaction of batches.

use crate::encoded::EncodedBatch;
use crate::format::record::MAX_PAYLOAD;
use crate::rows::{Payload, Rows, RowsBuilder, Value};
use crate::table::Table;
use crate::{Error, Result, Seq};
use std::sync::Arc;

/// What is done with the rows of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// New rows.
    Insert = 1,
    /// Other values for the rows of these keys.
    Update = 2,
    /// The rows of these keys go.
    Delete = 3,
}

impl Op {
    pub(crate) fn of(byte: u8) -> Option<Op> {
        match byte {
            1 => Some(Op::Insert),
            2 => Some(Op::Update),
            3 => Some(Op::Delete),
            _ => None,
        }
    }
}

/// Names a transaction for as long as it is neither committed nor rolled back; see [`Log::new_txn`](crate::Log::new_txn).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TxnId(pub u64);

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

    /// Adds a row.
    ///
    /// # Errors
    /// `WrongColumns` when it has not as many values as the table has columns; then it is not added.
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

    /// The rows so far, for whoever reads them before they are appended.
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
        EncodedBatch::of_rows(&self.table, self.op, &self.rows)
    }

    /// Whose rows they are.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What is to be done with them.
    pub fn op(&self) -> Op {
        self.op
    }

    /// Drops the rows from this one on, as a savepoint that is rolled back does.
    pub fn truncate(&mut self, rows: usize) {
        self.rows.truncate(rows);
    }

    /// Bytes that the rows take in the log at most, for limits.
    pub fn bytes_max(&self) -> u64 {
        self.rows.bytes_max()
    }
}

/// Batches that are in the log all or none, with rows numbered in one go. Encoded as they are added, by the thread that adds them.
#[derive(Debug)]
pub struct Txn {
    id: TxnId,
    parts: Vec<Arc<EncodedBatch>>,
    rows: u64,
    stored_max: u64,
}

impl Txn {
    /// Without rows.
    pub fn new(id: TxnId) -> Txn {
        Txn {
            id,
            parts: Vec::new(),
            rows: 0,
            stored_max: 0,
        }
    }

    /// Of records that were read.
    pub(crate) fn of_parts(id: TxnId, parts: Vec<Arc<EncodedBatch>>) -> Txn {
        Txn {
            id,
            rows: parts.iter().map(|p| p.len() as u64).sum(),
            stored_max: parts.iter().map(|p| p.stored_max()).sum(),
            parts,
        }
    }

    /// One batch as a transaction.
    ///
    /// # Errors
    /// As [`Txn::push`].
    pub fn of(id: TxnId, batch: &Batch) -> Result<Txn> {
        let mut txn = Txn::new(id);
        txn.push(batch)?;
        Ok(txn)
    }

    /// Adds a batch; one without rows is nothing.
    ///
    /// # Errors
    /// `TooLarge` for a batch or a transaction of more than 1 GiB; `Limit` for a batch of more than 16,777,216 rows.
    pub fn push(&mut self, batch: &Batch) -> Result<()> {
        match batch.is_empty() {
            true => Ok(()),
            false => self.push_encoded(Arc::new(batch.encode()?)),
        }
    }

    /// Adds a batch that is encoded already, and shares its memory.
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

    /// Its name.
    pub fn id(&self) -> TxnId {
        self.id
    }

    /// Rows in all batches.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes that its records take at most.
    pub(crate) fn stored_max(&self) -> u64 {
        self.stored_max
    }

    pub(crate) fn parts(&self) -> &[Arc<EncodedBatch>] {
        &self.parts
    }
}

/// Where a transaction went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Number of its first row.
    pub first: Seq,
    /// Number of its last row.
    pub last: Seq,
}
