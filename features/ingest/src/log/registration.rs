//! A database names its log durably before the first row is acknowledged. Otherwise a power cut
//! could leave rows in a log that no database names.
//!
//! The connection that wrote the name may run `synchronous=OFF`, or NORMAL with a WAL: then its
//! commit is not durable. So files are synced here, which blocks no other connection. After a
//! failed sync that is not enough: the system can have dropped pages, and the next sync succeeds
//! nevertheless. Then the name is written again, and the WAL, which can have a gap, is copied back
//! and truncated.

use crate::apply::DatabaseWorker;
use crate::database::connection_spec::ConnectionSpec;
use crate::database::database_file::Identity;
use crate::database::open_log::OpenLog;
use crate::database::position::{self, Position};
use crate::error::{refused, unnamed};
use crate::storage::sync_journal;
use densite_disk::sync::Mutex;
use densite_log as log;
use densite_sqlite::{Connection, Error, PerProcess, Result, ffi};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Databases that had a failed sync in this process and were closed before their names were
/// durable.
static SYNC_FAILED: PerProcess<Mutex<HashSet<Identity>>> = PerProcess::new();

/// How often a process that does not apply checks that the name is still there.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Whether a database names its log durably.
pub(crate) struct LogRegistration {
    open: Arc<OpenLog>,
    worker: Arc<DatabaseWorker>,
    /// The name is durable.
    done: AtomicBool,
    /// Held by the thread that makes the name durable.
    turn: Mutex<()>,
    /// When this process last checked that the name is still there.
    looked: Mutex<Option<Instant>>,
    /// A sync failed when this process last had the database open.
    sync_failed: bool,
}

impl LogRegistration {
    /// For a database that is being opened.
    pub(crate) fn new(open: Arc<OpenLog>, worker: Arc<DatabaseWorker>) -> LogRegistration {
        let identity = open.file().identity;
        LogRegistration {
            open,
            worker,
            done: AtomicBool::new(false),
            turn: Mutex::default(),
            looked: Mutex::default(),
            sync_failed: SYNC_FAILED.get().lock().contains(&identity),
        }
    }

    /// The name was written again.
    pub(crate) fn is_new(&self) {
        self.done.store(false, Ordering::Release);
    }

    /// Called when the database is closed.
    pub(crate) fn end(&self) {
        let identity = self.open.file().identity;
        let is_done = self.done.load(Ordering::Acquire);
        let mut failed = SYNC_FAILED.get().lock();
        if is_done {
            failed.remove(&identity);
        } else if self.open.sync_failed().has_failed() {
            failed.insert(identity);
        }
    }

    /// Checks that the database still names this log. Otherwise no process would apply acknowledged
    /// rows. In the applier process, the worker knows. Other processes check regularly with another
    /// connection, because this one can read an older state.
    ///
    /// # Errors
    /// An error if the database names no log or another one.
    pub(crate) fn check(&self, connection: &Connection) -> Result<()> {
        if !self.open.database_ahead().is_unnamed() {
            if self.worker.known().is_some_and(|w| w.leads()) {
                return Ok(());
            }
            let mut looked = self.looked.lock();
            if looked.is_some_and(|t| t.elapsed() < LOOK_EVERY) {
                return Ok(());
            }
            *looked = Some(Instant::now());
        }
        let other = ConnectionSpec::of(connection, &self.open.file().path).open();
        // If it cannot be read now, for example because it is locked, the next call checks again.
        let Ok(position) = other.and_then(|other| Position::read(&other)) else {
            return Ok(());
        };
        self.open.database_ahead().set_named(position.is_some());
        match position {
            Some(now) if now.id == self.open.id() => Ok(()),
            Some(now) => Err(self.open.failed(log::Error::OtherLog {
                found: self.open.id(),
                expected: now.id,
            })),
            None => Err(unnamed(self.open.dir())),
        }
    }

    /// Makes the name durable if it is not.
    ///
    /// # Errors
    /// Those of the VFS and of the storage backend. After a failed sync: `BUSY` while another
    /// connection uses the pages that must be written again.
    pub(crate) fn ensure_registered(&self, connection: &Connection) -> Result<()> {
        if self.done.load(Ordering::Acquire) {
            return Ok(());
        }
        // One thread at a time: the next one must know the result of this thread's sync.
        let _turn = self.turn.lock();
        if self.done.load(Ordering::Acquire) {
            return Ok(());
        }
        let before = self.open.sync_failed().count();
        if before > 0 || self.sync_failed || self.open.sync_failed().is_noted() {
            self.register_again(connection).map_err(|e| {
                let why = "a sync of the database failed, so the name of its log must be written again, which is not possible now";
                Error::new(e.code, format!("{}: {why}: {}; try again", self.open.file().path, e.message))
            })?;
        }
        let record = |done| self.open.sync_failed().record(done);
        // Opening it separately is safe: the journal has no locks that closing a descriptor would
        // drop.
        record(sync_journal(
            self.open.storage().as_ref(),
            &self.open.file().path,
        ))?;
        record(crate::database::durable::sync(
            connection,
            self.open.storage().as_ref(),
        ))?;
        if self.open.sync_failed().count() != before {
            // The system reports a failed sync only once, and another thread has received that
            // report.
            return Err(refused(format!(
                "{}: a sync of the database failed; try again",
                &self.open.file().path
            )));
        }
        self.done.store(true, Ordering::Release);
        Ok(())
    }

    /// Writes all pages of Densite's tables again, and copies the WAL to the database file.
    fn register_again(&self, connection: &Connection) -> Result<()> {
        let spec = ConnectionSpec::of(connection, &self.open.file().path);
        let own = spec.open_patient(connection)?;
        own.exec("PRAGMA main.synchronous = EXTRA; BEGIN IMMEDIATE")?;
        match Position::read(&own)? {
            Some(now) if now.id == self.open.id() => {}
            _ => return Err(refused("the database names no log, or another one")),
        }
        position::write_anew(&own)?;
        self.open.sync_failed().record(own.exec("COMMIT"))?;
        if own.query_string("PRAGMA main.journal_mode")?.as_deref() == Some("wal") {
            let emptied = own.checkpoint(Some(c"main"), ffi::CHECKPOINT_TRUNCATE);
            self.open.sync_failed().record(emptied)?;
        }
        Ok(())
    }
}
