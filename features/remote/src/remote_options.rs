//! How a remote file is read.

use std::path::PathBuf;
use std::time::Duration;

/// How a remote file is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteOptions {
    /// How long one read may take, with all attempts. The default is 30 seconds.
    pub timeout: Duration,
    /// Certificates in PEM that are trusted in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// A directory for blocks on the local disk. The default is none.
    pub cache_dir: Option<PathBuf>,
    /// The most bytes that the files there take. The default is 1 GiB.
    pub cache_bytes: u64,
}

impl Default for RemoteOptions {
    fn default() -> RemoteOptions {
        RemoteOptions {
            timeout: Duration::from_secs(30),
            ca_file: None,
            cache_dir: None,
            cache_bytes: 1 << 30,
        }
    }
}
