//! The header of a segment.
//!
//! ```text
//! offset  size  field
//!      0    16  magic       "Densite log\r\n" and zeros
//!     16     4  version     of the log's format
//!     20     4  reserved    0
//!     24    16  log_id      the id that the database names
//!     40     8  number      of the segment, from 1
//!     48     8  first_seq   rows in it have this number or a higher one
//!     56     8  prev_end    offset at which the segment before it ends; 0 in the first
//!     64     8  prev_check  check of the last record of the segment before it, or of its header; 0 in the first
//!     72     8  salt        random for each use of the file; it seeds the checks of records
//!     80     8  check       xxh3 of the 80 bytes above
//! ```
//!
//! Invariant: header and name of a segment are synced before its first record is written. So a
//! segment of that name with another header is damage.
//!
//! Invariant: all records of the previous segment up to `prev_end` are synced before the header is
//! written. Bytes behind `prev_end` do not belong to the log: no failed sync and no torn tail can
//! bring them back.

use super::{LOG_FORMAT_VERSION, MAX_SEQ, SEGMENT_MAX};
use crate::{LogId, Seq};
use densite_disk::Fields;
use densite_disk::hash::xxh3_64;

/// Length in bytes.
pub(crate) const HEADER_LEN: usize = 88;
/// The first bytes of a segment.
pub(crate) const MAGIC: &[u8; 16] = b"Densite log\r\n\0\0\0";

/// The header of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) version: u32,
    pub(crate) id: LogId,
    pub(crate) number: u64,
    pub(crate) first_seq: Seq,
    pub(crate) prev_end: u64,
    pub(crate) prev_check: u64,
    pub(crate) salt: u64,
}

/// Why bytes are not a valid header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoHeader {
    /// Written by a newer program.
    Newer(u32),
    /// Anything else.
    Invalid,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = Vec::with_capacity(HEADER_LEN);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.id.0);
        for field in [
            self.number,
            self.first_seq,
            self.prev_end,
            self.prev_check,
            self.salt,
        ] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let check = xxh3_64(&out);
        out.extend_from_slice(&check.to_le_bytes());
        let mut array = [0; HEADER_LEN];
        array.copy_from_slice(&out);
        array
    }

    /// The check of the encoded header. The first record has it as `prev`.
    pub(crate) fn check(&self) -> u64 {
        let bytes = self.encode();
        let mut tail = Fields::new(bytes.get(HEADER_LEN - 8..).unwrap_or_default());
        tail.u64().unwrap_or_default()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<SegmentHeader, NoHeader> {
        let mut take = Fields::new(bytes);
        let header = (|| {
            let magic: [u8; 16] = take.array()?;
            let (version, _) = (take.u32()?, take.u32()?);
            let header = SegmentHeader {
                version,
                id: LogId(take.array()?),
                number: take.u64()?,
                first_seq: take.u64()?,
                prev_end: take.u64()?,
                prev_check: take.u64()?,
                salt: take.u64()?,
            };
            let check = take.u64()?;
            let right = &magic == MAGIC && xxh3_64(bytes.get(..HEADER_LEN - 8)?) == check;
            right.then_some(header)
        })()
        .ok_or(NoHeader::Invalid)?;
        // The layout up to the check is the same in every version, so a newer version is
        // recognized.
        if header.version > LOG_FORMAT_VERSION {
            return Err(NoHeader::Newer(header.version));
        }
        let in_range = (1..MAX_SEQ).contains(&header.number)
            && (1..MAX_SEQ).contains(&header.first_seq)
            && header.prev_end <= SEGMENT_MAX;
        if in_range {
            Ok(header)
        } else {
            Err(NoHeader::Invalid)
        }
    }
}
