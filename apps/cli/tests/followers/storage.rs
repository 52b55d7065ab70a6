//! The host's file system, with small segments and checkpoints of small WALs, so that pruning
//! happens often.

use densite_disk::{Error, Op, RealDir, Result};
use densite_ingest::{FileInfo, StorageBackend};
use densite_log::{LogDir, LogId, Options};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

pub(crate) struct Small;

impl StorageBackend for Small {
    fn file_info(&self, path: &str) -> Result<FileInfo> {
        let meta = std::fs::metadata(path).map_err(|e| Error::from_io(Op::Open, &e))?;
        Ok(FileInfo {
            identity: (meta.dev(), meta.ino()),
            names: meta.nlink(),
        })
    }

    fn dir(&self, path: &Path) -> LogDir {
        Arc::new(RealDir::new(path))
    }

    fn log_dir(&self, path: &Path, database: &str) -> LogDir {
        Arc::new(RealDir::new(path).like(database))
    }

    fn create_log_dir(&self, path: &Path, database: &str) -> Result<LogDir> {
        Ok(Arc::new(RealDir::new(path).like(database).made()?))
    }

    fn options(&self, id: LogId) -> Options {
        Options {
            segment_bytes: 8 << 10,
            grow_bytes: 4 << 10,
            ..Options::new(id)
        }
    }

    fn wal_bytes(&self) -> (u64, u64) {
        (32 << 10, 64 << 10)
    }
}
