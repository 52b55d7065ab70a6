//! How pages are encoded, and what comes of it.

use crate::codec::choice::TrainedFamilies;
use crate::codec::family::Family;
use crate::format::record::{RECORD_LEN, Record};
use crate::options::CodecChoice;
use std::sync::Arc;

/// Where page 1 says how many bytes are reserved at the end of each page.
pub(crate) const RESERVED_AT: usize = 20;

/// What a database's page size is taken to be while nothing tells.
pub(crate) const DEFAULT_PAGE: u32 = 4096;

/// Settings of encoding, for the pool.
#[derive(Clone)]
pub(crate) struct EncodeSettings {
    pub(crate) level: i32,
    pub(crate) choice: CodecChoice,
    pub(crate) run_pages: u32,
    /// Sparse pages may share a frame beyond that.
    pub(crate) join: bool,
    pub(crate) dicts: Arc<TrainedFamilies>,
    pub(crate) version: u64,
    /// Pages that the database has, or is about to have.
    pub(crate) pages: u32,
    /// Bytes at the end of each page that SQLite leaves to others.
    pub(crate) reserved: usize,
    /// Pages are decoded again and compared, as all must be before they are gone; frames that are not have no checksum of their page yet.
    pub(crate) checked: bool,
}

/// An encoded frame, without a place yet.
pub(crate) struct Frame {
    pub(crate) record: Record,
    pub(crate) payload: Vec<u8>,
    pub(crate) seqs: Vec<u64>,
    pub(crate) family: Family,
}

impl Frame {
    /// Bytes of its record.
    pub(crate) fn record_len(&self) -> usize {
        RECORD_LEN + self.payload.len()
    }
}
