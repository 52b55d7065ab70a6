//! The settings of a handle.

use std::sync::OnceLock;

/// Which codec new frames get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CodecChoice {
    /// The best of all codecs.
    #[default]
    Auto,
    /// The typed codec if it can code the page, otherwise zstd.
    Typed,
    /// The smallest: runs of pages, typed, with zstd on top.
    Archive,
    /// zstd, with a dictionary if one was trained.
    Zstd,
    /// No compression.
    Raw,
}

/// Whether sequential reads decode ahead on the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Readahead {
    /// If there is a pool and the access is sequential.
    #[default]
    Auto,
    /// As [`Readahead::Auto`], but only frames that lie close behind the page that is read. For a
    /// file in which a read elsewhere is expensive, as one on a server.
    Near,
    /// Always if the access is sequential.
    On,
    /// Never.
    Off,
}

/// How often the store does its periodic work. Users have no reason to change it; tests make rare
/// events common with [`Tuning::eager`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Entries in the overlay before it is folded: limits memory, and the time to open.
    pub fold_entries: usize,
    /// Bytes of trailers before the overlay is folded: limits the time to open.
    pub fold_trailer_bytes: u64,
    /// The same for a small file, which is folded sooner because trailers take a large part of it.
    pub fold_small_bytes: u64,
    /// A commit with more pages than this is folded, so that its trailer does not become long.
    pub fold_deltas: usize,
    /// Bytes appended between two slots: limits what recovery verifies.
    pub slot_every_bytes: u64,
    /// Bytes appended without any sync (`synchronous=OFF`) before the store syncs on its own (rule
    /// S9).
    pub self_sync_every_bytes: u64,
    /// A transaction that writes so many bytes of pages is encoded again with models of all of it.
    /// More than a checkpoint that SQLite makes by itself, which delays a commit. An eighth is
    /// enough for the first pages of a database.
    pub large_bytes: u64,
    /// Bytes of frames that such a transaction holds back in memory at a time.
    pub held_bytes: u64,
    /// Pages of a database before it is learned from again at rest for the first time.
    pub relearn_pages: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            fold_entries: 8192,
            fold_trailer_bytes: 256 << 10,
            fold_small_bytes: 16 << 10,
            fold_deltas: 2048,
            slot_every_bytes: 1 << 20,
            self_sync_every_bytes: 32 << 20,
            large_bytes: 8 << 20,
            held_bytes: 12 << 20,
            relearn_pages: 1024,
        }
    }
}

impl Tuning {
    /// Folds, slots and the store's own syncs after a few pages.
    pub fn eager() -> Self {
        Tuning {
            fold_entries: 24,
            fold_trailer_bytes: 4 << 10,
            fold_small_bytes: 4 << 10,
            fold_deltas: 16,
            slot_every_bytes: 24 << 10,
            self_sync_every_bytes: 200 << 10,
            large_bytes: 64 << 10,
            held_bytes: 24 << 10,
            relearn_pages: 8,
        }
    }
}

/// How large the cache of decoded pages of a file can become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodedCache {
    /// As large as is good: all such caches of the process share an eighth of the available memory.
    Auto,
    /// At most so many bytes. 0 keeps nothing.
    Bytes(usize),
}

/// The settings of one handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// zstd level of new frames, -7 to 22.
    pub level: i32,
    /// Background threads. 0 runs everything on the calling thread.
    pub threads: usize,
    /// The size of the cache of decoded pages.
    pub decoded_cache: DecodedCache,
    /// Pages per frame. 0: chosen by page size, and sparse adjacent pages can share a frame.
    pub run_pages: u32,
    /// Codec of new frames.
    pub codec: CodecChoice,
    /// Read-ahead.
    pub readahead: Readahead,
    /// The handle cannot write.
    pub read_only: bool,
    /// How often the store does its periodic work.
    pub tuning: Tuning,
}

/// The cores that this process may use, as the first caller finds them. Each connection has options,
/// and Linux answers from files of the control group.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

impl Default for Options {
    fn default() -> Self {
        Options {
            level: 3,
            threads: cores().saturating_sub(1).max(1),
            decoded_cache: DecodedCache::Auto,
            run_pages: 0,
            codec: CodecChoice::Auto,
            readahead: Readahead::Auto,
            read_only: false,
            tuning: Tuning::default(),
        }
    }
}
