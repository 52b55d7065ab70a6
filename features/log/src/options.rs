//! How a log is opened.

use crate::{Error, LogId, Result, Seq};

/// How a log is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The id that the database stores.
    pub id: LogId,
    /// Make the log if the directory has none. Leave this unset for a database that names a log: a
    /// missing log is then an error.
    pub create: bool,
    /// The highest position that the database holds. New rows get numbers above it, even if the log
    /// ends before it.
    pub above: Seq,
    /// Size of a segment, bytes: 64 KiB to 1 GiB, in tests from 8 KiB. Existing segments keep their
    /// size.
    pub segment_bytes: u64,
    /// Growth step, bytes, of a segment that is not a recycled file. Each step costs one sync of
    /// metadata.
    pub grow_bytes: u64,
    /// Number of free segments to keep. Pruning removes the others.
    pub free_segments_max: usize,
    /// Bytes at which a group is closed. A group is one write; a larger transaction is a group of
    /// its own, in several writes.
    pub group_bytes_max: usize,
    /// Whether a thread prepares the next segment when the current one is half full.
    pub background: bool,
}

impl Options {
    /// The defaults, for the log of this id.
    pub fn new(id: LogId) -> Options {
        Options {
            id,
            create: false,
            above: 0,
            segment_bytes: 64 << 20,
            grow_bytes: 1 << 20,
            free_segments_max: 2,
            group_bytes_max: 4 << 20,
            background: true,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        if !(8 << 10..=1 << 30).contains(&self.segment_bytes) {
            return Err(Error::Limit("a segment has 8 KiB to 1 GiB"));
        }
        Ok(())
    }
}
