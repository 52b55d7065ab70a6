//! Whether what was written is on the disk.

use crate::storage::StorageBackend;
use densite_disk::{ErrorKind, OpenMode, SyncKind};
use densite_log::LogDir;
use densite_sqlite::{Code, Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The file in the log's directory that tells other processes.
const NAME: &str = "sync_failed";
/// It in the making.
const MAKING: &str = "sync_failed.new";

/// A sync of the database or of its WAL has failed. What it should have written may be lost although later ones succeed: systems forget it, tell of it once for each open file, and go on showing what
/// the disk never got. So from then on the log keeps its rows: as long as this process has the database open, and in every process until the system is started anew, for then what can be read is what the disk has.
#[derive(Debug, Clone)]
pub(crate) struct SyncFailed(Arc<Inner>);

struct Inner {
    /// Syncs that failed in this process, and what may have been one.
    count: AtomicU64,
    dir: LogDir,
    path: PathBuf,
    /// Since when the system is up.
    boot: Option<String>,
}

impl SyncFailed {
    /// Of the database whose log has these files, in the directory at `path`.
    pub(crate) fn of(storage: &dyn StorageBackend, dir: LogDir, path: &Path) -> SyncFailed {
        SyncFailed(Arc::new(Inner {
            count: AtomicU64::new(0),
            dir,
            path: path.join(NAME),
            boot: storage.boot(),
        }))
    }

    /// Whatever may have synced the database or its WAL passes by here.
    pub(crate) fn record<T>(&self, done: Result<T>) -> Result<T> {
        if let Err(e) = &done {
            self.record_error(e);
        }
        done
    }

    /// An error that may be one of a sync.
    pub(crate) fn record_error(&self, e: &Error) {
        if matches!(
            e.code,
            Code::IOERR | Code::IOERR_FSYNC | Code::IOERR_DIR_FSYNC
        ) {
            self.record_one();
        }
    }

    /// One has failed.
    pub(crate) fn record_one(&self) {
        if self.0.count.fetch_add(1, Ordering::AcqRel) == 0 {
            // The disk that failed may have the log, too: then this process alone knows.
            self.write_note().ok();
        }
    }

    fn write_note(&self) -> densite_disk::Result<()> {
        let Inner { dir, boot, .. } = &*self.0;
        let Some(boot) = boot else { return Ok(()) };
        let file = dir.open(MAKING, OpenMode::Create)?;
        file.write_at(boot.as_bytes(), 0)?;
        file.sync(SyncKind::Full).ok();
        dir.rename(MAKING, NAME)?;
        dir.sync()
    }

    /// How many have failed in this process, and what may have been one.
    pub(crate) fn count(&self) -> u64 {
        self.0.count.load(Ordering::Acquire)
    }

    /// Whether one has failed, in this process or another.
    pub(crate) fn has_failed(&self) -> bool {
        self.count() > 0 || self.is_noted()
    }

    /// Whether one has failed in any process since the system was started. What is noted and cannot be read counts; nobody removes what was noted before, for another process may be noting something.
    pub(crate) fn is_noted(&self) -> bool {
        let Some(boot) = &self.0.boot else {
            return false;
        };
        let mut noted = vec![0; boot.len()];
        let read = self.0.dir.open(NAME, OpenMode::Read);
        match read.and_then(|file| file.read_at(&mut noted, 0)) {
            Err(e) => e.kind != ErrorKind::NotFound,
            Ok(len) => len < noted.len() || noted == boot.as_bytes(),
        }
    }

    /// The file that says so.
    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SyncFailed")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}
