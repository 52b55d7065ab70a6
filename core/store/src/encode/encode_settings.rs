//! The settings of encoding, and its result.

use crate::codec::dictionary_choice::TrainedFamilies;
use crate::codec::family::Family;
use crate::format::record::{RECORD_LEN, Record};
use crate::options::CodecChoice;
use std::sync::Arc;

/// The offset in page 1 of the number of reserved bytes at the end of each page.
pub(crate) const RESERVED_AT: usize = 20;

/// The page size that is assumed while it is not known.
pub(crate) const DEFAULT_PAGE: u32 = 4096;

/// Settings of encoding, for the pool.
#[derive(Clone)]
pub(crate) struct EncodeSettings {
    pub(crate) level: i32,
    pub(crate) choice: CodecChoice,
    pub(crate) run_pages: u32,
    /// Sparse pages can share a frame beyond `run_pages`.
    pub(crate) join: bool,
    /// Overflow pages of a chain can share a frame beyond `run_pages`.
    pub(crate) chains: bool,
    pub(crate) dicts: Arc<TrainedFamilies>,
    pub(crate) version: u64,
    /// The number of pages that the database has or is about to have.
    pub(crate) pages: u32,
    /// Bytes at the end of each page that SQLite does not use.
    pub(crate) reserved: usize,
    /// Pages are decoded again and compared, which must happen before they are dropped. Frames that
    /// are not checked do not have the checksum of their page yet.
    pub(crate) checked: bool,
}

/// An encoded frame, without a place yet.
pub(crate) struct Frame {
    pub(crate) record: Record,
    pub(crate) payload: Vec<u8>,
    pub(crate) seqs: Vec<u64>,
    pub(crate) family: Family,
    /// Raw because its page is hot: its length says nothing about its family.
    pub(crate) hurried: bool,
}

impl Frame {
    /// Bytes of its record.
    pub(crate) fn record_len(&self) -> usize {
        RECORD_LEN + self.payload.len()
    }
}
