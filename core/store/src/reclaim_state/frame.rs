//! Frames that are to be moved.

use crate::format::entry::Entry;
use crate::format::record::Record;

/// A live frame, as it is stored.
pub(crate) struct Frame {
    pub(crate) record: Record,
    pub(crate) payload: Vec<u8>,
    /// The pages whose newest version it has, and their entries.
    pub(crate) pages: Vec<(u32, Entry)>,
}

impl Frame {
    /// Whether at least a quarter of the run is dead: its live pages then get their own frames.
    pub(crate) fn is_loose(&self) -> bool {
        self.pages.len() * 4 <= 3 << self.record.run_log2
    }
}
