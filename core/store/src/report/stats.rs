//! Figures about a stored file.

use super::space::space;
use super::walk::walk_state;
use crate::codec::CodecId;
use crate::error::Result;
use crate::format::FORMAT_VERSION;
use crate::format::entry::NodeRef;
use crate::open_file::OpenFile;
use crate::shared::Shared;
use crate::state::State;
use densite_disk::File;

/// Figures about the newest commit. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Version of the file format.
    pub format_version: u64,
    /// Number of the newest commit.
    pub commit: u64,
    /// Bytes of a page.
    pub page_size: u64,
    /// Pages of the database.
    pub pages: u64,
    /// Bytes of the database, as SQLite sees it.
    pub logical_bytes: u64,
    /// Bytes of the file.
    pub stored_bytes: u64,
    /// Pages that have a frame (the others read as zeros).
    pub framed_pages: u64,
    /// Bytes of the frames of these pages.
    pub frame_bytes: u64,
    /// Pages stored without compression.
    pub pages_raw: u64,
    /// Pages stored with zstd.
    pub pages_zstd: u64,
    /// Pages stored with zstd and a dictionary.
    pub pages_zstd_dict: u64,
    /// Pages stored as columns.
    pub pages_typed: u64,
    /// Pages of zeros.
    pub pages_zero: u64,
    /// Dictionaries in use.
    pub dictionaries: u64,
    /// Their bytes.
    pub dictionary_bytes: u64,
    /// Nodes of the page map.
    pub map_nodes: u64,
    /// The bytes of these nodes, and of the trailers that are needed to open the file.
    pub map_bytes: u64,
    /// Bytes of everything the newest commit reaches.
    pub live_bytes: u64,
    /// Bytes that nothing reaches, in units that are partly live.
    pub dead_bytes: u64,
    /// Bytes of units that nothing reaches, which are reused before the file grows, and the reserve
    /// after the end.
    pub free_bytes: u64,
    /// Bytes of the decoded-page cache in use in this process.
    pub cache_bytes: u64,
    /// Bytes of the frames that transactions and checkpoints of this process have stored since it
    /// opened the file.
    pub written_frame_bytes: u64,
    /// Bytes that space reclamation has copied in this process since it opened the file.
    pub moved_bytes: u64,
}

impl Stats {
    /// The figures with their names, in the order of display.
    pub fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("format_version", self.format_version),
            ("commit", self.commit),
            ("page_size", self.page_size),
            ("pages", self.pages),
            ("logical_bytes", self.logical_bytes),
            ("stored_bytes", self.stored_bytes),
            ("framed_pages", self.framed_pages),
            ("frame_bytes", self.frame_bytes),
            ("pages_raw", self.pages_raw),
            ("pages_zstd", self.pages_zstd),
            ("pages_zstd_dict", self.pages_zstd_dict),
            ("pages_typed", self.pages_typed),
            ("pages_zero", self.pages_zero),
            ("dictionaries", self.dictionaries),
            ("dictionary_bytes", self.dictionary_bytes),
            ("map_nodes", self.map_nodes),
            ("map_bytes", self.map_bytes),
            ("live_bytes", self.live_bytes),
            ("dead_bytes", self.dead_bytes),
            ("free_bytes", self.free_bytes),
            ("cache_bytes", self.cache_bytes),
        ]
    }

    /// What this process has done to the file since it opened it, with names, in the order of
    /// display.
    pub fn counters(&self) -> [(&'static str, u64); 2] {
        [
            ("written_frame_bytes", self.written_frame_bytes),
            ("moved_bytes", self.moved_bytes),
        ]
    }
}

impl Stats {
    /// Adds the figures of a commit's map.
    fn add_state(&mut self, shared: &Shared, file: &dyn File, state: &State) -> Result<()> {
        self.commit = state.tip().commit;
        self.page_size = u64::from(state.page_size());
        self.pages = state.pages();
        self.logical_bytes = state.logical_len();
        self.map_bytes = state.trailer_bytes();
        let (mut nodes, mut node_bytes) = (0, 0);
        let mut on_node = |place: NodeRef| {
            nodes += 1;
            node_bytes += u64::from(place.len);
            Ok(())
        };
        walk_state(shared, file, state, &mut on_node, &mut |_, e| {
            self.framed_pages += 1;
            // A page of a run takes its share of the frame.
            self.frame_bytes += u64::from(e.len) >> e.run_log2;
            match CodecId(e.codec) {
                CodecId::RAW => self.pages_raw += 1,
                CodecId::LINKED if e.model != 0 => self.pages_zstd_dict += 1,
                CodecId::ZSTD | CodecId::LINKED => self.pages_zstd += 1,
                CodecId::ZSTD_DICT => self.pages_zstd_dict += 1,
                CodecId::TYPED
                | CodecId::TYPED_RUN
                | CodecId::ARCHIVE
                | CodecId::JOINED
                | CodecId::POSTINGS => self.pages_typed += 1,
                CodecId::ZERO => self.pages_zero += 1,
                _ => {}
            }
            Ok(())
        })?;
        self.map_nodes = nodes;
        self.map_bytes += node_bytes;
        self.dictionaries = state.dicts().len() as u64;
        self.dictionary_bytes = state.dicts().iter().map(|d| u64::from(d.place.len)).sum();
        Ok(())
    }
}

/// Figures about the newest commit. Walks the whole page map, but reads no frame.
///
/// # Errors
/// I/O, damage.
pub(crate) fn stats(open: &mut OpenFile) -> Result<Stats> {
    open.check_poison()?;
    let blank = Stats {
        format_version: u64::from(FORMAT_VERSION),
        stored_bytes: open.file().len()?,
        ..Stats::default()
    };
    if !open.attach()? {
        return Ok(blank);
    }
    let shared = open.shared()?;
    let file = open.file();
    let mut s = shared.while_it_moves(file, || {
        let state = shared.state.read().clone();
        let mut s = blank.clone();
        s.add_state(&shared, file, &state)?;
        Ok(s)
    })?;
    let space = space(open)?;
    s.stored_bytes = space.file_bytes;
    s.live_bytes = space.live_bytes;
    s.free_bytes = space.free_bytes + space.reserve_bytes;
    s.dead_bytes = space.dead_bytes;
    s.cache_bytes = shared.cache.len_bytes() as u64;
    let writer = shared.writer.lock();
    s.written_frame_bytes = writer.stored.frame_bytes;
    s.moved_bytes = writer.stored.moved_bytes;
    Ok(s)
}
