//! A batch in the form in which the log stores it.
//!
//! The thread that has the rows makes the payload and its checksum. The leader ([`crate::tail`])
//! adds the place, the number and the chain, and writes the payload from where it is. Reads of rows
//! that are not appended yet share the same memory.

use crate::format::record::{MAX_PAYLOAD, MAX_ROWS, RecordHeader, padded};
use crate::op::Op;
use crate::rows::{Payload, Rows, RowsBuilder, Value, encode_row, is_textual, room_for};
use crate::table::Table;
use crate::{Error, Result};
use densite_disk::hash::xxh3_64;
use std::cell::RefCell;
use std::sync::Arc;

/// Rows of one table with one operation, encoded: one record of the log to be.
#[derive(Debug)]
pub struct EncodedBatch {
    table: Arc<Table>,
    op: Op,
    count: u32,
    codec: u8,
    raw_len: u32,
    /// Shared with the rows that are read before they are appended.
    payload: Arc<Vec<u8>>,
    payload_check: u64,
}

impl EncodedBatch {
    /// Of rows that were collected; at least one.
    pub(crate) fn of_rows(table: &Arc<Table>, op: Op, rows: &RowsBuilder) -> Result<EncodedBatch> {
        limited(rows.bytes_max())?;
        if rows.len() > MAX_ROWS as usize {
            return Err(Error::Limit("a batch of the log has at most 16777216 rows"));
        }
        let raw = rows.encode();
        Ok(EncodedBatch::new(
            table,
            op,
            rows.len(),
            raw,
            rows.is_textual(),
        ))
    }

    /// Of a single row, which is copied only once: for a large row.
    ///
    /// # Errors
    /// `WrongColumns` when it has not as many values as the table has columns; `TooLarge`
    /// for more than 1 GiB.
    pub fn of_row(table: &Arc<Table>, op: Op, row: &[Value<'_>]) -> Result<EncodedBatch> {
        table.check(row)?;
        let bytes: u64 = row.iter().map(|value| value.bytes() as u64).sum();
        limited(bytes + 16 * row.len() as u64)?;
        let raw = encode_row(row);
        let is_textual = is_textual(bytes as usize, row.len());
        Ok(EncodedBatch::new(table, op, 1, raw, is_textual))
    }

    fn new(
        table: &Arc<Table>,
        op: Op,
        count: usize,
        raw: Vec<u8>,
        is_textual: bool,
    ) -> EncodedBatch {
        let raw_len = raw.len() as u32;
        let smaller = match is_textual {
            true => PACKER.with_borrow_mut(|packer| packer.pack(table, &raw)),
            false => None,
        };
        let (codec, mut payload) = match smaller {
            Some(smaller) => (1, smaller),
            None => (0, raw),
        };
        payload.shrink_to_fit();
        EncodedBatch {
            table: table.clone(),
            op,
            count: count as u32,
            codec,
            raw_len,
            payload_check: xxh3_64(&payload),
            payload: Arc::new(payload),
        }
    }

    /// Of a record that was read.
    pub(crate) fn of_record(
        header: &RecordHeader,
        table: &Arc<Table>,
        op: Op,
        payload: &[u8],
    ) -> EncodedBatch {
        EncodedBatch {
            table: table.clone(),
            op,
            count: header.count,
            codec: header.codec,
            raw_len: header.raw_len,
            payload: Arc::new(payload.to_vec()),
            payload_check: header.payload_check,
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whose rows they are.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What is to be done with them.
    pub fn op(&self) -> Op {
        self.op
    }

    /// Bytes of the rows once they are decoded.
    pub fn bytes(&self) -> usize {
        self.raw_len as usize
    }

    /// Bytes that they take in the log at most: their record and their table's.
    pub fn stored_max(&self) -> u64 {
        padded(self.payload.len() as u32) + padded(self.table.encoded().len() as u32)
    }

    /// The rows, to be read before they are appended. If they are not compressed, they share this
    /// batch's memory.
    ///
    /// # Errors
    /// `Limit` where there is not memory enough.
    pub fn rows(&self) -> Result<Rows> {
        let payload = match self.codec {
            0 => Some(Payload::Shared(self.payload.clone())),
            _ => decoded(self.codec, &self.payload, self.raw_len)?.map(Payload::Own),
        };
        let rows = payload.and_then(|payload| Rows::decode(payload, self.len()));
        rows.ok_or(Error::Limit("rows that were just encoded cannot be read"))
    }

    pub(crate) fn codec(&self) -> u8 {
        self.codec
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    pub(crate) fn payload_check(&self) -> u64 {
        self.payload_check
    }
}

fn limited(bytes: u64) -> Result<()> {
    let max = u64::from(MAX_PAYLOAD);
    match bytes > max {
        true => Err(Error::TooLarge { bytes, max }),
        false => Ok(()),
    }
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
    /// The payload compressed, if it becomes smaller by an eighth; it is not tried where it did not
    /// lately.
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
        // It fails where more is needed, so what becomes no smaller takes no more room either.
        let mut out = room_for(raw.len() - raw.len() / 8);
        let is_smaller = compressor.compress_to_buffer(raw, &mut out).is_ok();
        self.misses = if is_smaller {
            0
        } else {
            self.misses.saturating_add(1)
        };
        self.pass = raw.len().saturating_mul(PASSED);
        is_smaller.then_some(out)
    }
}

/// The decoded payload of a batch; `None` if it is none.
///
/// # Errors
/// `Limit` where there is not memory enough.
pub(crate) fn decoded(codec: u8, stored: &[u8], raw_len: u32) -> Result<Option<Vec<u8>>> {
    let len = raw_len as usize;
    let is_possible = match codec {
        0 => stored.len() == len,
        // What its frame says, so that a length is no more than its bytes become.
        1 => {
            matches!(zstd::zstd_safe::get_frame_content_size(stored), Ok(Some(n)) if n == u64::from(raw_len))
        }
        _ => false,
    };
    if !is_possible {
        return Ok(None);
    }
    let mut raw = room(len)?;
    match codec {
        0 => raw.extend_from_slice(stored),
        _ => {
            let unpacked = zstd::bulk::Decompressor::new()
                .and_then(|mut unpacker| unpacker.decompress_to_buffer(stored, &mut raw));
            if unpacked.is_err() {
                return Ok(None);
            }
        }
    }
    Ok((raw.len() == len).then_some(raw))
}

/// Room for so many bytes, as a file claims them.
///
/// # Errors
/// `Limit` where there is not memory enough: who hosts this library must not be aborted for it.
pub(crate) fn room(bytes: usize) -> Result<Vec<u8>> {
    let mut room = Vec::new();
    match room.try_reserve_exact(bytes) {
        Ok(()) => Ok(room),
        Err(_) => Err(Error::Limit(
            "there is not enough memory to read a record of the log",
        )),
    }
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
