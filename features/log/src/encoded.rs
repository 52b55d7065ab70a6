//! A batch in its stored form.
//!
//! The thread that adds the rows makes the payload and its checksum. The leader ([`crate::tail`])
//! adds offset, sequence number and chain, and writes the payload from this memory. Reads of rows
//! that are not appended yet share the same memory.

use crate::format::record_header::{MAX_PAYLOAD, MAX_ROWS, RecordHeader, padded};
use crate::op::Op;
use crate::rows::{Payload, Rows, RowsBuilder, TEXTUAL, Value, encode_row, is_textual, room_for};
use crate::table::Table;
use crate::{Error, Result};
use densite_disk::hash::xxh3_64;
use std::cell::RefCell;
use std::sync::Arc;

/// Rows of one table with one operation, encoded as one future record of the log.
#[derive(Debug)]
pub struct EncodedBatch {
    table: Arc<Table>,
    op: Op,
    count: u32,
    codec: u8,
    raw_len: u32,
    /// Shared with reads of the rows before they are appended.
    payload: Arc<Vec<u8>>,
    payload_check: u64,
}

impl EncodedBatch {
    /// Encodes collected rows, at least one. They are compressed if they have more than `mean` bytes
    /// of text for each value.
    pub(crate) fn of_rows(
        table: &Arc<Table>,
        op: Op,
        rows: &RowsBuilder,
        mean: usize,
    ) -> Result<EncodedBatch> {
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
            rows.is_textual(mean),
        ))
    }

    /// Encodes a single row. A large row is copied only once.
    ///
    /// # Errors
    /// `WrongColumns` if the number of values differs from the number of columns; `TooLarge` for
    /// more than 1 GiB.
    pub fn of_row(table: &Arc<Table>, op: Op, row: &[Value<'_>]) -> Result<EncodedBatch> {
        table.check(row)?;
        let bytes: u64 = row.iter().map(|value| value.bytes() as u64).sum();
        limited(bytes + 16 * row.len() as u64)?;
        let raw = encode_row(row);
        let is_textual = is_textual(bytes as usize, row.len(), TEXTUAL);
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

    /// Copies a record that was read.
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

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The table that the rows belong to.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The operation of these rows.
    pub fn op(&self) -> Op {
        self.op
    }

    /// Bytes of the decoded rows.
    pub fn bytes(&self) -> usize {
        self.raw_len as usize
    }

    /// Upper bound of the bytes in the log: the record of the batch and the record of its table.
    pub fn stored_max(&self) -> u64 {
        padded(self.payload.len() as u32) + padded(self.table.encoded().len() as u32)
    }

    /// The rows, for reading them before they are appended. Uncompressed rows share the memory of
    /// this batch.
    ///
    /// # Errors
    /// `Limit` if there is not enough memory.
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

/// After this many batches of a table in a row that do not compress, the next batches are stored
/// raw for a while.
const MISSES: u32 = 4;
/// The while, as a multiple of the size of the last batch that was tried.
const PASSED: usize = 15;

/// The compressor of a thread, and what it learned about the table that it last wrote to.
#[derive(Default)]
struct Packer {
    compressor: Option<zstd::bulk::Compressor<'static>>,
    /// Address of that table. Another table at the same address costs at most a few batches.
    table: usize,
    misses: u32,
    /// Bytes to store raw before the next attempt.
    pass: usize,
}

thread_local! {
    static PACKER: RefCell<Packer> = RefCell::default();
    /// Making one takes longer than a batch of a hundred short rows takes to decode.
    static UNPACKER: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

impl Packer {
    /// The compressed payload, if it is smaller by at least an eighth. Skips the attempt if recent
    /// batches of the table did not compress.
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
        // Compression fails if the output needs more than this, so a failed attempt needs no more
        // memory either.
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

/// The decoded payload of a batch; `None` if it is not valid.
///
/// # Errors
/// `Limit` if there is not enough memory.
pub(crate) fn decoded(codec: u8, stored: &[u8], raw_len: u32) -> Result<Option<Vec<u8>>> {
    let len = raw_len as usize;
    let is_possible = match codec {
        0 => stored.len() == len,
        // The zstd frame states its length. Comparing bounds the allocation by what the bytes
        // decode to.
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
            let unpacked = UNPACKER.with_borrow_mut(|slot| {
                let unpacker = match slot {
                    Some(unpacker) => unpacker,
                    slot => slot.insert(zstd::bulk::Decompressor::new()?),
                };
                unpacker.decompress_to_buffer(stored, &mut raw)
            });
            if unpacked.is_err() {
                return Ok(None);
            }
        }
    }
    Ok((raw.len() == len).then_some(raw))
}

/// A buffer for a number of bytes that a file claims.
///
/// # Errors
/// `Limit` if there is not enough memory: a false length must not abort the host process.
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

    /// Whether a batch with ten texts is stored compressed.
    fn stored(packer: &mut Packer, table: &Arc<Table>, text: impl Fn(usize) -> Vec<u8>) -> bool {
        let raw: Vec<u8> = (0..10).flat_map(text).collect();
        packer.pack(table, &raw).is_some()
    }

    #[test]
    fn incompressible_batches_are_tried_now_and_then() {
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
        // It is not tried at once, but soon.
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
            "another table starts without history"
        );
    }
}
