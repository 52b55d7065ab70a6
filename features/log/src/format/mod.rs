//! The bytes of the log: segments of records, and small files beside them.
//!
//! `docs/FORMAT.md`, section "The log", is the public copy of the tables in these modules; a test
//! compares them.

#[cfg(test)]
mod doc;
pub(crate) mod record_header;
pub(crate) mod segment;
pub(crate) mod slot;
pub(crate) mod times;
pub(crate) mod word;

/// The version of the log's format that this program writes, and the newest that it reads.
pub const LOG_FORMAT_VERSION: u32 = 1;

/// Offset of the first record of a segment. The header has a block of its own, so that no torn
/// write of a record reaches it.
pub(crate) const DATA_OFF: u64 = 4096;

/// The largest length of a segment, and the bound of all offsets in it. It fits the longest
/// transaction in a segment of its own. Bytes of a file behind it are ignored.
pub(crate) const SEGMENT_MAX: u64 = (1 << 30) + DATA_OFF;

/// Sequence numbers and segment numbers stay below this, so adding to a number from a file cannot
/// overflow.
pub(crate) const MAX_SEQ: u64 = 1 << 62;
