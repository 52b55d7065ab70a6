//! A transaction of batches, which is appended as a whole.

use crate::batch::Batch;
use crate::encoded::EncodedBatch;
use crate::format::record_header::MAX_PAYLOAD;
use crate::{Error, Result, Seq};
use std::sync::Arc;

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
