//! The header of a record. Its payload follows, then zeros up to a multiple of 8 bytes.
//!
//! ```text
//! offset  size  field
//!      0     4  magic          "DLRC"
//!      4     1  kind           1 table, 2 batch
//!      5     1  op             batch: 1 insert, 2 update, 3 delete; else 0
//!      6     1  codec          of the payload: 0 raw, 1 zstd
//!      7     1  flags          1: the last record of its transaction
//!      8     4  stored_len     bytes of the payload
//!     12     4  raw_len        bytes of the payload once decoded
//!     16     4  count          rows in it; table: 0
//!     20     4  table          batch: offset of its table's record in this segment; else 0
//!     24     4  synced         up to here this segment was known to be synced when the record was written
//!     28     4  reserved       0
//!     32     8  first_seq      number of its first row; table: of the row that follows
//!     40     8  txn            the transaction
//!     48     8  payload_check  xxh3 of the payload as stored
//!     56     8  prev           check of the record before it, or of the segment's header
//!     64     8  check          xxh3 of the 64 bytes above, seeded with salt XOR offset
//! ```
//!
//! A record is valid if and only if all of this holds. Magic and check match. Kind, op, codec and
//! lengths are in range. The check of the payload matches. `prev` is the check of what lies before
//! it. So the remains of an earlier use of the file or of a torn tail are never taken for a record.
//!
//! Invariant: `synced` was true when the record was written. If a record lies behind a place that
//! cannot be read, and its `synced` lies behind that place too, the place was synced. So it is
//! damage, not a torn tail.

use super::MAX_SEQ;
use crate::Seq;
use densite_disk::Fields;
use densite_disk::hash::xxh3_64_with_seed;

/// Length in bytes.
pub(crate) const RECORD_LEN: usize = 72;
/// The first bytes of a record.
pub(crate) const MAGIC: &[u8; 4] = b"DLRC";
/// The flag of the last record of a transaction.
pub(crate) const ENDS: u8 = 1;
/// The longest payload, stored or decoded, bytes.
pub(crate) const MAX_PAYLOAD: u32 = 1 << 30;

/// The most rows of a batch. A limit is needed because a column of equal values takes no bytes for
/// a row.
pub(crate) const MAX_ROWS: u32 = 1 << 24;

/// What a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A table: its name and columns.
    Table = 1,
    /// Rows.
    Batch = 2,
}

/// The header of one record. `check` is set once the header was read or encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) kind: Kind,
    pub(crate) op: u8,
    pub(crate) codec: u8,
    pub(crate) flags: u8,
    pub(crate) stored_len: u32,
    pub(crate) raw_len: u32,
    pub(crate) count: u32,
    pub(crate) table: u32,
    pub(crate) synced: u32,
    pub(crate) first_seq: Seq,
    pub(crate) txn: u64,
    pub(crate) payload_check: u64,
    pub(crate) prev: u64,
    pub(crate) check: u64,
}

/// Bytes of a record with a payload of `stored_len` bytes, including padding.
pub(crate) fn padded(stored_len: u32) -> u64 {
    (RECORD_LEN as u64 + u64::from(stored_len)).next_multiple_of(8)
}

impl RecordHeader {
    /// Number of the last row; one less than `first_seq` if there are no rows.
    pub(crate) fn last_seq(&self) -> Seq {
        self.first_seq + u64::from(self.count) - 1
    }

    pub(crate) fn ends_transaction(&self) -> bool {
        self.flags & ENDS != 0
    }

    pub(crate) fn padded_len(&self) -> u64 {
        padded(self.stored_len)
    }

    /// Sets `check` for this place and appends the header's bytes.
    pub(crate) fn put(&mut self, salt: u64, offset: u64, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[self.kind as u8, self.op, self.codec, self.flags]);
        for field in [
            self.stored_len,
            self.raw_len,
            self.count,
            self.table,
            self.synced,
            0,
        ] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        for field in [self.first_seq, self.txn, self.payload_check, self.prev] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        self.check = xxh3_64_with_seed(out.get(from..).unwrap_or_default(), salt ^ offset);
        out.extend_from_slice(&self.check.to_le_bytes());
    }

    /// The header at `offset` of a segment with this salt. Does not check the payload and `prev`.
    pub(crate) fn decode(bytes: &[u8], salt: u64, offset: u64) -> Option<RecordHeader> {
        let mut take = Fields::new(bytes);
        if take.bytes(4)? != MAGIC {
            return None;
        }
        let kind = match take.u8()? {
            1 => Kind::Table,
            2 => Kind::Batch,
            _ => return None,
        };
        let (op, codec, flags) = (take.u8()?, take.u8()?, take.u8()?);
        let (stored_len, raw_len, count) = (take.u32()?, take.u32()?, take.u32()?);
        let (table, synced, _) = (take.u32()?, take.u32()?, take.u32()?);
        let header = RecordHeader {
            kind,
            op,
            codec,
            flags,
            stored_len,
            raw_len,
            count,
            table,
            synced,
            first_seq: take.u64()?,
            txn: take.u64()?,
            payload_check: take.u64()?,
            prev: take.u64()?,
            check: take.u64()?,
        };
        let in_range = stored_len <= MAX_PAYLOAD
            && raw_len <= MAX_PAYLOAD
            && codec <= 1
            && (1..MAX_SEQ).contains(&header.first_seq)
            && match kind {
                Kind::Table => op == 0 && count == 0,
                Kind::Batch => (1..=3).contains(&op) && (1..=MAX_ROWS).contains(&count),
            };
        let sum = xxh3_64_with_seed(bytes.get(..RECORD_LEN - 8)?, salt ^ offset);
        (in_range && sum == header.check).then_some(header)
    }
}
