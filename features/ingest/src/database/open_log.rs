//! The open log of a database, and what this process knows about that database.
//!
//! The worker, the waits and the connections share it. It depends on none of them.

use crate::database::database_ahead::DatabaseAhead;
use crate::database::database_file::DatabaseFile;
use crate::database::sync_failed::SyncFailed;
use crate::error::from_log;
use crate::read::Unapplied;
use crate::storage::StorageBackend;
use densite_log::{self as log, Log, LogDir, LogId, Seq};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
