//! Frames on their way to another place.

use crate::format::record::Record;
use crate::map::Entry;

/// A frame that lives, as it is stored.
pub(crate) struct Frame {
    pub(crate) record: Record,
    pub(crate) payload: Vec<u8>,
    /// The pages whose newest version it has, and their entries.
    pub(crate) pages: Vec<(u32, Entry)>,
}

impl Frame {
    /// Whether more than a quarter of the run is dead: then its pages are worth frames of their own.
    pub(crate) fn is_loose(&self) -> bool {
        self.pages.len() * 4 <= 3 << self.record.run_log2
    }
}
