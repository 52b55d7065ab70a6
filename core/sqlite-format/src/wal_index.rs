//! The index of a WAL, which lies in shared memory (<https://www.sqlite.org/walformat.html>). Its
//! numbers have the machine's byte order, and its locks are bytes 120 and on of the same file.
//!
//! | from | bytes | what |
//! |---|---|---|
//! | 0 | 48 | the header; 12: 1 if it is initialised (1 byte); 16: frames that count (`mxFrame`); 40: checksum (8 bytes) |
//! | 48 | 48 | a copy of the header, which is the same unless a writer is in between |
//! | 96 | 40 | of checkpoints: 96: frames that are in the database (`nBackfill`); marks of readers, locks |

use std::ops::RangeInclusive;

/// The lock of the writer (`WAL_WRITE_LOCK`).
pub const WRITE_LOCK: i32 = 0;
/// The lock of checkpoints (`WAL_CKPT_LOCK`).
pub const CHECKPOINT_LOCK: i32 = 1;
/// The lock of a rebuild of the index (`WAL_RECOVER_LOCK`).
pub const RECOVER_LOCK: i32 = 2;
/// The first lock of readers: of those that read the database alone (`WAL_READ_LOCK(0)`).
pub const READ_LOCK_0: i32 = 3;

/// The bytes of the locks of readers that use the WAL.
pub const READERS: RangeInclusive<u64> = 124..=127;

/// Bytes of a region of the shared memory, as SQLite maps it (`WALINDEX_PGSZ`).
pub const REGION_LEN: i32 = 32 << 10;
/// Bytes of two headers and of the part of checkpoints.
pub const KNOWN_LEN: i32 = 136;
/// Bytes of one copy of the header.
pub const HEADER_LEN: usize = 48;
/// Where the header says that it is initialised: the first byte of this word.
pub const IS_INIT: usize = 12;
/// Where the header has the number of frames that count.
pub const MX_FRAME: usize = 16;
/// The last word of the copy of the header: half of its checksum.
pub const SECOND_CHECKSUM: usize = 92;
/// Where the number of frames is that are in the database.
pub const BACKFILL: usize = 96;
