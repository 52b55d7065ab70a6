//! The bytes of the log: segments of records, and three small files beside them.
//!
//! `docs/FORMAT.md`, section "The log", is the public copy of the tables in these modules; a test compares them.

#[cfg(test)]
mod doc;
pub(crate) mod record;
pub(crate) mod segment;
pub(crate) mod slot;
pub(crate) mod word;

/// The version of the log's format that this program writes, and the newest it reads.
pub const LOG_FORMAT_VERSION: u32 = 1;

/// Where records begin in a segment: its header has a block of its own, so that no torn write of a record reaches it.
pub(crate) const DATA_OFF: u64 = 4096;

/// A segment's file is no longer, and all offsets in it lie before this: the longest transaction in a segment of its own. What lies behind it in a file is not looked at.
pub(crate) const SEGMENT_MAX: u64 = (1 << 30) + DATA_OFF;

/// Sequence numbers and numbers of segments stay below this, so whoever adds to one from a file need not think of overflow.
pub(crate) const MAX_SEQ: u64 = 1 << 62;
