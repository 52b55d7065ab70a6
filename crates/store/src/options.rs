//! What a user may set.

/// Which codec new frames get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CodecChoice {
    /// The best of those there are.
    #[default]
    Auto,
    /// The typed codec wherever it can code the page; zstd elsewhere.
    Typed,
    /// The smallest: runs of pages, typed, and by zstd on top of it.
    Archive,
    /// zstd, with a dictionary where one was learned.
    Zstd,
    /// As they are.
    Raw,
}

/// Whether sequential reads decode ahead on the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Readahead {
    /// When there is a pool and the access is sequential.
    #[default]
    Auto,
    /// Always when sequential.
    On,
    /// Never.
    Off,
}

/// How often the store does what it does now and then. People have no reason to change it; tests make rare things
/// common with [`Tuning::eager`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Entries in the overlay before it is folded: bounds memory, and the time of opening.
    pub fold_entries: usize,
    /// Bytes of trailers before the overlay is folded: bounds the time of opening.
    pub fold_trailer_bytes: u64,
    /// A commit with more pages than this folds itself rather than have a trailer that long.
    pub fold_deltas: usize,
    /// Bytes appended between two slots: bounds what recovery verifies.
    pub slot_every_bytes: u64,
    /// Bytes appended without any sync (`synchronous=OFF`) before the store syncs by itself (rule 9).
    pub self_sync_every_bytes: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            fold_entries: 8192,
            fold_trailer_bytes: 256 << 10,
            fold_deltas: 2048,
            slot_every_bytes: 1 << 20,
            self_sync_every_bytes: 32 << 20,
        }
    }
}

impl Tuning {
    /// Folds, slots and syncs of its own after a few pages.
    pub fn eager() -> Self {
        Tuning {
            fold_entries: 24,
            fold_trailer_bytes: 4 << 10,
            fold_deltas: 16,
            slot_every_bytes: 24 << 10,
            self_sync_every_bytes: 200 << 10,
        }
    }
}

/// The settings of one handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// zstd level of new frames, -7 to 22.
    pub level: i32,
    /// Background threads; 0 = all in line.
    pub threads: usize,
    /// Budget of the decoded-page cache, in bytes.
    pub decoded_cache_bytes: usize,
    /// Pages per frame; 0 = chosen by page size, and sparse neighbours share one besides.
    pub run_pages: u32,
    /// Codec of new frames.
    pub codec: CodecChoice,
    /// Read-ahead.
    pub readahead: Readahead,
    /// No change is made through this handle.
    pub read_only: bool,
    /// How often the store does what it does now and then.
    pub tuning: Tuning,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Options {
            level: 3,
            threads: cores.saturating_sub(1).max(1),
            decoded_cache_bytes: 64 << 20,
            run_pages: 0,
            codec: CodecChoice::Auto,
            readahead: Readahead::Auto,
            read_only: false,
            tuning: Tuning::default(),
        }
    }
}
