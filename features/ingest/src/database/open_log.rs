//! The open log of a database, and what this process knows about that database: that it is ahead of
//! its log, that a sync has failed.
//!
//! The worker, the waits and the connections share it. It depends on none of them.

use super::database_file::DatabaseFile;
use crate::error::from_log;
use crate::read::Unapplied;
use crate::storage::StorageBackend;
use densite_disk::sync::Mutex;
use densite_disk::{ErrorKind, OpenMode, SyncKind};
use densite_log::{self as log, Log, LogDir, LogId, Seq};
use densite_sqlite::{Code, Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The file in the log's directory that tells other processes.
const NAME: &str = "sync_failed";
/// Its name while it is written.
const MAKING: &str = "sync_failed.new";

/// See the module.
pub struct OpenLog {
    log: Log,
    id: LogId,
    dir: PathBuf,
    file: DatabaseFile,
    unapplied: Unapplied,
    sync_failed: SyncFailed,
    database_ahead: DatabaseAhead,
}

impl OpenLog {
    /// `log` has this id, and `files` is the directory of the file's log.
    pub(crate) fn new(log: Log, id: LogId, file: DatabaseFile, files: LogDir) -> OpenLog {
        let dir = file.log_dir();
        OpenLog {
            log,
            id,
            sync_failed: SyncFailed::of(file.storage.as_ref(), files, &dir),
            dir,
            file,
            unapplied: Unapplied::default(),
            database_ahead: DatabaseAhead::default(),
        }
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The id of the log.
    pub fn id(&self) -> LogId {
        self.id
    }

    /// The log's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The database's file.
    pub(crate) fn file(&self) -> &DatabaseFile {
        &self.file
    }

    /// The storage backend of the database and its log.
    pub fn storage(&self) -> &Arc<dyn StorageBackend> {
        &self.file.storage
    }

    /// The unapplied rows that this process keeps for its readers.
    pub(crate) fn unapplied(&self) -> &Unapplied {
        &self.unapplied
    }

    /// Whether a sync of the database has failed, as far as this process knows.
    pub(crate) fn sync_failed(&self) -> &SyncFailed {
        &self.sync_failed
    }

    /// Whether the database has rows that no process of this log has applied.
    pub(crate) fn database_ahead(&self) -> &DatabaseAhead {
        &self.database_ahead
    }

    /// An error of this log as SQLite's.
    pub(crate) fn failed(&self, error: log::Error) -> densite_sqlite::Error {
        from_log(&self.dir, error)
    }

    /// Whether the log has no row, and never had one with a number above this.
    ///
    /// # Errors
    /// The log's.
    pub(crate) fn is_unused(&self, above: Seq) -> log::Result<bool> {
        if self.log.last()? > above {
            return Ok(false);
        }
        let first = self.log.status()?.first;
        let mut rows = self.log.read_after(first.saturating_sub(1))?;
        Ok(rows.next()?.is_none())
    }
}

/// A database that is ahead of what was applied from its log. Shared by the database log and its
/// worker.
///
/// Only the applier moves the position. If the position has moved without it, another state of the
/// database, or a copy that went on elsewhere, overwrote the file. Whether it has this log's rows
/// with the numbers in between is unknown. So none of them counts as applied, and no more rows are
/// acknowledged, until the database goes back or all processes have closed it.
#[derive(Clone, Default)]
pub(crate) struct DatabaseAhead {
    error: Arc<Mutex<Option<Error>>>,
    /// The last check found that the database names no log.
    unnamed: Arc<AtomicBool>,
}

impl DatabaseAhead {
    /// Compares the position at which the worker left the database with the current one. Returns an
    /// error if the worker must not go on.
    pub(crate) fn check_position(&self, known: Option<Seq>, position: Seq) -> Option<Error> {
        let known = known.filter(|known| position > *known);
        let error = known.map(|known| {
            Error::new(
                Code::ERROR,
                format!(
                    "the database was overwritten with another state of it, or of a copy: its position is row {position}, and this log was applied up to row {known}. Whether it has the rows between is unknown. \
                     Put the previous file back. Or, to accept this state, close it everywhere and open it again: then rows up to {position} count as applied. If the log ends before that row, opening it says how to begin a new one"
                ),
            )
        });
        self.error.lock().clone_from(&error);
        error
    }

    /// Records whether the database names a log.
    pub(crate) fn set_named(&self, is_named: bool) {
        self.unnamed.store(!is_named, Ordering::Release);
    }

    /// Whether it named none at the last check.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.unnamed.load(Ordering::Acquire)
    }

    /// # Errors
    /// An error while the database is overwritten.
    pub(crate) fn check(&self) -> Result<()> {
        self.error.lock().clone().map_or(Ok(()), Err)
    }
}

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
