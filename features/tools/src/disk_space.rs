//! Checks the disk space for a new file.

use crate::error::{Error, Result, parent_of};
use densite_disk::{Dir, RealDir};
use std::path::Path;

/// Bytes that a compressed file can need besides its pages if no page shrinks: a fixed part, and
/// one byte for each [`OVERHEAD_PART`] bytes.
const OVERHEAD_BYTES: u64 = 256 << 10;
const OVERHEAD_PART: u64 = 64;

/// Bytes that a compressed copy of `bytes` bytes needs if no page shrinks.
pub(crate) fn at_most(bytes: u64) -> u64 {
    bytes + bytes / OVERHEAD_PART + OVERHEAD_BYTES
}

/// Free bytes in the file system of the directory of `path`.
pub(crate) fn available(path: &Path) -> Result<u64> {
    let dir = parent_of(path);
    let free = RealDir::new(&dir).free_space();
    free.map_err(|e| Error::from_disk(&dir, "look at", &e))
}

/// Returns an error if less than `needed` bytes are free in the directory of `wanted`.
pub(crate) fn require(wanted: &Path, needed: u64) -> Result<()> {
    let available = available(wanted)?;
    if available < needed {
        return Err(Error::NoSpace {
            dir: parent_of(wanted),
            needed: Some(needed),
            available: Some(available),
        });
    }
    Ok(())
}
