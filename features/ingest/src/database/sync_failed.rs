//! Whether a sync of the database or of its WAL has failed.

use crate::storage::StorageBackend;
use densite_disk::{ErrorKind, OpenMode, SyncKind};
use densite_log::LogDir;
use densite_sqlite::{Code, Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The file in the log's directory that tells other processes.
const NAME: &str = "sync_failed";
/// Its name while it is written.
const MAKING: &str = "sync_failed.new";

/// Records that a sync of the database or of its WAL has failed. The written data may be lost even
/// if later syncs succeed. Systems forget a failed write, report it once for each open file, and
/// still show data that the disk never got. So from then on the log keeps its rows: while this
/// process has the database open, and in every process until the system restarts. After a restart,
/// reads show what the disk has.
#[derive(Debug, Clone)]
pub(crate) struct SyncFailed(Arc<Inner>);

struct Inner {
    /// Number of errors in this process that were, or may have been, failed syncs.
    count: AtomicU64,
    dir: LogDir,
    path: PathBuf,
    /// Identifies the time since the system's start.
    boot: Option<String>,
}

impl SyncFailed {
    /// For the database whose log has these files, in the directory at `path`.
    pub(crate) fn of(storage: &dyn StorageBackend, dir: LogDir, path: &Path) -> SyncFailed {
        SyncFailed(Arc::new(Inner {
            count: AtomicU64::new(0),
            dir,
            path: path.join(NAME),
            boot: storage.boot(),
        }))
    }

    /// Checks the result of a call that may have synced the database or its WAL.
    pub(crate) fn record<T>(&self, done: Result<T>) -> Result<T> {
        if let Err(e) = &done {
            self.record_error(e);
        }
        done
    }

    /// Records an error if it may be one of a sync.
    pub(crate) fn record_error(&self, e: &Error) {
        if matches!(
            e.code,
            Code::IOERR | Code::IOERR_FSYNC | Code::IOERR_DIR_FSYNC
        ) {
            self.record_one();
        }
    }

    /// Records a failed sync.
    pub(crate) fn record_one(&self) {
        if self.0.count.fetch_add(1, Ordering::AcqRel) == 0 {
            // If the log is on the same failing disk, only this process knows.
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

    /// Number of errors in this process that were, or may have been, failed syncs.
    pub(crate) fn count(&self) -> u64 {
        self.0.count.load(Ordering::Acquire)
    }

    /// Whether a sync has failed, in this process or another one.
    pub(crate) fn has_failed(&self) -> bool {
        self.count() > 0 || self.is_noted()
    }

    /// Whether the note says that a sync has failed since the system's start. An unreadable note
    /// counts. Old notes are not removed, because another process may be writing a new one.
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

    /// Path of the note.
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
