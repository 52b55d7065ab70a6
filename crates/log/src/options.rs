//! How a log is opened.

use crate::{Error, LogId, Result, Seq};

/// How a log is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The id that the database names.
    pub id: LogId,
    /// Make the log if the directory has none. Whoever opens a database that names a log must not
    /// set this: a missing log is an error.
    pub create: bool,
    /// The highest position that the database holds: new rows get numbers above it, even if the log
    /// ends before it.
    pub above: Seq,
    /// Size of a segment, bytes; 64 KiB to 1 GiB for real use, smaller in tests. Segments that
    /// exist keep theirs.
    pub segment_bytes: u64,
    /// A segment that could not be recycled grows in steps of this many bytes, each of which costs
    /// one sync of metadata.
    pub grow_bytes: u64,
    /// Pruned segments kept for use again; more are removed.
    pub free_segments_max: usize,
    /// Bytes after which a group is closed, and written in one write; a larger transaction is a
    /// group of its own, in several.
    pub group_bytes_max: usize,
    /// Whether a thread may prepare the next segment when the present one is half full.
    pub background: bool,
}

impl Options {
    /// What everybody uses, for the log of this id.
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
