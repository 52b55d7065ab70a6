//! What is appended: a transaction of batches.

use crate::format::record::{MAX_PAYLOAD, padded};
use crate::rows::{Rows, RowsBuilder, Value};
use crate::table::Table;
use crate::{Error, Result, Seq};
use std::cell::RefCell;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

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
        let expected = self.table.columns().len();
        if row.len() != expected {
            return Err(Error::WrongColumns {
                table: self.table.name().to_owned(),
                expected,
                found: row.len(),
            });
        }
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
        Rows::decode(payload, self.rows.len())
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

/// One record to be.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) table: Arc<Table>,
    pub(crate) op: Op,
    pub(crate) count: u32,
    pub(crate) codec: u8,
    pub(crate) raw_len: u32,
    pub(crate) payload: Vec<u8>,
    pub(crate) payload_check: u64,
}

/// Batches that are in the log all or none, with rows numbered in one go. Encoded as they are added, by the thread that adds them.
#[derive(Debug)]
pub struct Txn {
    id: TxnId,
    parts: Vec<Part>,
    rows: u64,
    stored_max: u64,
}

/// So many batches of a table in a row that become no smaller tell what the next ones are like.
const MISSES: u32 = 4;
/// Then so many times the bytes of the last one are stored as they are before it is tried again.
const PASSED: usize = 15;

/// What a thread compresses with, and what it knows of the table that it wrote to last.
#[derive(Default)]
struct Packer {
    compressor: Option<zstd::bulk::Compressor<'static>>,
    /// Where that table is in memory. Another one in the same place costs a few batches at most.
    table: usize,
    misses: u32,
    /// Bytes that are not tried.
    pass: usize,
}

thread_local! {
    static PACKER: RefCell<Packer> = RefCell::default();
}

impl Packer {
    /// The payload compressed, if it becomes smaller by an eighth; it is not tried where it did not lately.
    fn pack(&mut self, table: &Arc<Table>, raw: &[u8]) -> Option<Vec<u8>> {
        let table = Arc::as_ptr(table).addr();
        if std::mem::replace(&mut self.table, table) != table {
            (self.misses, self.pass) = (0, 0);
        }
        if self.misses >= MISSES
            && let Some(left) = self.pass.checked_sub(raw.len())
        {
            self.pass = left;
            return None;
        }
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            slot => slot.insert(zstd::bulk::Compressor::new(1).ok()?),
        };
        let out = compressor.compress(raw).ok()?;
        let is_smaller = out.len() < raw.len() - raw.len() / 8;
        self.misses = if is_smaller {
            0
        } else {
            self.misses.saturating_add(1)
        };
        self.pass = raw.len().saturating_mul(PASSED);
        is_smaller.then_some(out)
    }
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
    pub(crate) fn of_parts(id: TxnId, parts: Vec<Part>) -> Txn {
        let bytes =
            |p: &Part| padded(p.payload.len() as u32) + padded(p.table.encoded().len() as u32);
        Txn {
            id,
            rows: parts.iter().map(|p| u64::from(p.count)).sum(),
            stored_max: parts.iter().map(bytes).sum(),
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
    /// `TooLarge` for a batch or a transaction of more than 1 GiB.
    pub fn push(&mut self, batch: &Batch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let max = u64::from(MAX_PAYLOAD);
        let too_large = |bytes| Error::TooLarge { bytes, max };
        let bytes = batch.rows.bytes_max();
        if bytes > max || batch.len() > u32::MAX as usize {
            return Err(too_large(bytes));
        }
        let raw = batch.rows.encode();
        let raw_len = raw.len() as u32;
        let smaller = match batch.rows.is_textual() {
            true => PACKER.with_borrow_mut(|packer| packer.pack(&batch.table, &raw)),
            false => None,
        };
        let (codec, payload) = match smaller {
            Some(smaller) => (1, smaller),
            None => (0, raw),
        };
        let table_len = padded(batch.table.encoded().len() as u32);
        let more = padded(payload.len() as u32) + table_len;
        if self.stored_max + more > max {
            return Err(too_large(self.stored_max + more));
        }
        self.stored_max += more;
        self.rows += batch.len() as u64;
        self.parts.push(Part {
            table: batch.table.clone(),
            op: batch.op,
            count: batch.len() as u32,
            codec,
            raw_len,
            payload_check: xxh3_64(&payload),
            payload,
        });
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

    pub(crate) fn parts(&self) -> &[Part] {
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

/// The decoded payload of a batch; `None` if it is none.
pub(crate) fn decoded(codec: u8, stored: &[u8], raw_len: u32) -> Option<Vec<u8>> {
    let raw = match codec {
        0 => stored.to_vec(),
        1 => zstd::bulk::decompress(stored, raw_len as usize).ok()?,
        _ => return None,
    };
    (raw.len() == raw_len as usize).then_some(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch with ten texts, as it is stored.
    fn stored(packer: &mut Packer, table: &Arc<Table>, text: impl Fn(usize) -> Vec<u8>) -> bool {
        let raw: Vec<u8> = (0..10).flat_map(text).collect();
        packer.pack(table, &raw).is_some()
    }

    #[test]
    fn what_becomes_no_smaller_is_tried_now_and_then() {
        let table = |name: &str| Table::new(name, ["a"], 0, []).expect("a table");
        let (one, other) = (table("one"), table("other"));
        let mut packer = Packer::default();
        let mut random = 1u64;
        let mut noise = move || {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            random.to_be_bytes().into_iter().take(4)
        };
        let noise: Vec<u8> = (0..1000).flat_map(|_| noise()).collect();
        let noisy = |i: usize| noise.iter().skip(i * 100).take(100).copied().collect();
        let alike = |_| b"the same again and again, ".to_vec();
        for _ in 0..MISSES {
            assert!(!stored(&mut packer, &one, noisy));
        }
        // It is not tried now, but before long.
        let tries = (0..)
            .take_while(|_| !stored(&mut packer, &one, alike))
            .count();
        assert!(tries > 1 && tries < 100, "{tries}");
        assert!(stored(&mut packer, &one, alike));
        for _ in 0..MISSES {
            assert!(!stored(&mut packer, &one, noisy));
        }
        assert!(
            stored(&mut packer, &other, alike),
            "of another table nothing is known"
        );
    }
}
