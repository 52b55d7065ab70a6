//! A connection as one of this process's connections on a file: its lock and its roles.

use crate::neighbours::Neighbours;
use crate::open_files::OpenFile;
use densite_sqlite::ffi;
use std::sync::Arc;

/// A connection's membership in an [`OpenFile`]. The file is known once the store has opened it.
pub(crate) struct ConnectionRole {
    /// This is the background worker's own file, not a connection's.
    is_worker: bool,
    /// The lock that SQLite holds through this file, `LOCK_...`.
    level: i32,
    /// Something was published since SQLite took its lock.
    has_published: bool,
    open_file: Option<Arc<OpenFile>>,
    /// Counted among the connections with a WAL index in shared memory.
    is_wal_user: bool,
}

impl ConnectionRole {
    /// For a connection of the application, or for the worker.
    pub(crate) fn new(is_worker: bool) -> ConnectionRole {
        ConnectionRole {
            is_worker,
            level: ffi::LOCK_NONE,
            has_published: false,
            open_file: None,
            is_wal_user: false,
        }
    }

    /// Whether this is the background worker's own file.
    pub(crate) fn is_worker(&self) -> bool {
        self.is_worker
    }

    /// The lock that SQLite holds through this file, `LOCK_...`.
    pub(crate) fn level(&self) -> i32 {
        self.level
    }

    /// Notes the lock that SQLite holds now.
    pub(crate) fn set_level(&mut self, level: i32) {
        if let Some(file) = &self.open_file {
            file.neighbours().moved(self.level, level);
        }
        self.level = level;
    }

    /// Notes that SQLite took a lock; nothing was published since.
    pub(crate) fn begins(&mut self) {
        self.has_published = false;
    }

    /// Notes that something was published.
    pub(crate) fn publishes(&mut self) {
        self.has_published = true;
    }

    /// Whether something was published since SQLite took its lock.
    pub(crate) fn has_published(&self) -> bool {
        self.has_published
    }

    /// The state that it shares with the process's other connections on the file.
    pub(crate) fn open_file(&self) -> Option<&Arc<OpenFile>> {
        self.open_file.as_ref()
    }

    /// The locks of these connections.
    pub(crate) fn neighbours(&self) -> Option<&Neighbours> {
        self.open_file.as_ref().map(|file| file.neighbours())
    }

    /// Joins the connections that have `file` open; `uses_wal` as for [`ConnectionRole::count_wal_user`].
    pub(crate) fn join(&mut self, file: Arc<OpenFile>, uses_wal: bool) {
        if let Some(before) = &self.open_file {
            before.neighbours().moved(self.level, ffi::LOCK_NONE);
            self.leave();
        }
        file.neighbours().moved(ffi::LOCK_NONE, self.level);
        if !self.is_worker {
            file.idle().opened();
        }
        self.open_file = Some(file);
        self.count_wal_user(uses_wal);
    }

    /// Leaves these connections, but its lock still counts. The last one waits for the worker.
    pub(crate) fn leave(&mut self) {
        let Some(file) = self.open_file.as_ref().filter(|_| !self.is_worker) else {
            return;
        };
        if std::mem::take(&mut self.is_wal_user) {
            file.idle().ends_wal();
        }
        file.idle().closing();
    }

    /// Tells the worker whether this connection has a WAL index in shared memory.
    pub(crate) fn count_wal_user(&mut self, uses_wal: bool) {
        if self.is_worker || uses_wal == self.is_wal_user {
            return;
        }
        let Some(file) = &self.open_file else {
            return;
        };
        self.is_wal_user = uses_wal;
        if uses_wal {
            file.idle().begins_wal();
        } else {
            file.idle().ends_wal();
        }
    }
}
