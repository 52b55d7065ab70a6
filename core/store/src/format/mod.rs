//! The bytes of a stored file: the preamble (header, two slots with two copies each, tip), then
//! records and trailers. The preamble's four blocks are 4 KiB each, so that a torn sector of one
//! never reaches another.
//!
//! docs/FORMAT.md is the public copy of the tables in these modules; a test compares them.

#[cfg(test)]
mod doc;
pub(crate) mod entry;
pub(crate) mod header;
pub(crate) mod record;
pub(crate) mod slot;
pub(crate) mod space_table;
pub(crate) mod tip;
pub(crate) mod trailer;

pub use header::MAGIC;

/// The format version this program writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Where the header begins.
pub(crate) const HEADER_OFF: u64 = 0;
/// Where the two slots begin.
pub(crate) const SLOT_OFF: [u64; 2] = [4096, 8192];
/// The distance of a slot's second copy from its first.
pub(crate) const SLOT_COPY: u64 = 2048;
/// Where the tip begins.
pub(crate) const TIP_OFF: u64 = 12288;
/// Where records begin, and the length of the preamble.
pub(crate) const DATA_OFF: u64 = 16384;

/// Space is accounted, freed and reused in units of this many bytes, counted from offset 0.
pub(crate) const UNIT_LEN: u64 = 65536;
/// The unit with the bytes that SQLite locks (at 1 GiB); it stays empty (rule S13).
pub(crate) const LOCK_UNIT: u64 = densite_sqlite_format::fixed::LOCK_BYTE / UNIT_LEN;

/// The maximum length of a stored file: offsets fit 48 bits.
pub(crate) const MAX_OFF: u64 = 1 << 48;

/// The highest page number; SQLite has the same limit.
pub(crate) const MAX_PAGE: u32 = u32::MAX - 1;

/// Numbers of commits, slots and dictionaries stay below these bounds. Counting never reaches them:
/// a million commits a second take nine years. So adding one to a number from a file cannot
/// overflow.
pub(crate) const MAX_COMMIT: u64 = 1 << 48;
/// See [`MAX_COMMIT`].
pub(crate) const MAX_DICT: u32 = 1 << 24;
