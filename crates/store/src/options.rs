//! What a person may set.

/// Which codec new frames get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CodecChoice {
    /// The best of those there are.
    #[default]
    Auto,
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

/// The settings of one handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// zstd level of new frames, -7 to 22.
    pub level: i32,
    /// Background threads; 0 = all in line.
    pub threads: usize,
    /// Budget of the decoded-page cache, in bytes.
    pub decoded_cache_bytes: usize,
    /// Pages per frame; 0 = chosen by page size.
    pub run_pages: u32,
    /// Codec of new frames.
    pub codec: CodecChoice,
    /// Read-ahead.
    pub readahead: Readahead,
    /// No change is made through this handle.
    pub read_only: bool,
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
        }
    }
}
