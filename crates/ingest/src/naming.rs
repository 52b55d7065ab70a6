//! A database names its log durably before the first row is acknowledged. Otherwise a power cut
//! could leave rows in a log that no database knows.
//!
//! The connection that made the name can run `synchronous=OFF`, or NORMAL with a WAL: then its
//! commit is not durable. So files are synced here, which waits for no other connection. After a
//! failed sync that is not enough: the system can have dropped pages, and the next sync succeeds
//! nevertheless. Then the name is written again, and a WAL, which can have a hole now, is emptied.

use crate::apply::DatabaseWorker;
use crate::connection_spec::ConnectionSpec;
use crate::database_file::Identity;
use crate::error::{refused, unnamed};
use crate::open_log::OpenLog;
use crate::position::{self, Position};
use crate::storage::sync_beside;
use densite_disk::sync::Mutex;
use densite_log as log;
use densite_sqlite::{Connection, Error, PerProcess, Result, ffi};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Databases that had a failed sync in this process, and were closed before it was certain that
/// they name their logs.
static SYNC_FAILED: PerProcess<Mutex<HashSet<Identity>>> = PerProcess::new();

/// How long the name, if it is written again, waits for transactions of others, in milliseconds.
const BUSY_MS: i32 = 2000;

/// How often a process that does not apply looks whether the name is still there.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Whether a database names its log, and names it durably.
pub(crate) struct Naming {
    open: Arc<OpenLog>,
    worker: Arc<DatabaseWorker>,
    /// It names it durably.
    done: AtomicBool,
    /// Held by the thread that makes it durable.
    turn: Mutex<()>,
    /// When this process last looked whether the name is still there.
    looked: Mutex<Option<Instant>>,
    /// A sync failed when the database was open the last time.
    sync_failed: bool,
}

impl Naming {
    /// For a database that is being opened.
    pub(crate) fn new(open: Arc<OpenLog>, worker: Arc<DatabaseWorker>) -> Naming {
        let identity = open.file().identity;
        Naming {
            open,
            worker,
            done: AtomicBool::new(false),
            turn: Mutex::default(),
            looked: Mutex::default(),
            sync_failed: SYNC_FAILED.get().lock().contains(&identity),
        }
    }

    /// The name was made again.
    pub(crate) fn is_new(&self) {
        self.done.store(false, Ordering::Release);
    }

    /// The database is closed.
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

    /// Checks that the database still names this log: otherwise no process applies the rows that
    /// are acknowledged. The process that applies knows it by its worker. Others look now and then,
    /// by a connection of their own, since this one can read an older state.
    ///
    /// # Errors
    /// When it names none, or another one.
    pub(crate) fn check(&self, connection: &Connection) -> Result<()> {
        if !self.open.overwritten().is_unnamed() {
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
        // If it cannot be read now, perhaps because it is locked, the next call looks again.
        let Ok(position) = other.and_then(|other| Position::read(&other)) else {
            return Ok(());
        };
        self.open.overwritten().set_named(position.is_some());
        match position {
            Some(now) if now.id == self.open.id() => Ok(()),
            Some(now) => Err(self.open.failed(log::Error::OtherLog {
                found: self.open.id(),
                expected: now.id,
            })),
            None => Err(unnamed(self.open.dir())),
        }
    }

    /// Makes the name durable, if it is not.
    ///
    /// # Errors
    /// The VFS's, the storage backend's. After a failed sync: `BUSY` while another connection reads
    /// or writes the pages that have to be written again.
    pub(crate) fn be_named(&self, connection: &Connection) -> Result<()> {
        if self.done.load(Ordering::Acquire) {
            return Ok(());
        }
        // One thread at a time: the next one must know what a sync has told this one.
        let _turn = self.turn.lock();
        if self.done.load(Ordering::Acquire) {
            return Ok(());
        }
        let before = self.open.sync_failed().count();
        if before > 0 || self.sync_failed || self.open.sync_failed().is_noted() {
            self.name_anew(connection).map_err(|e| {
                let why = "a sync of the database failed, so what names its log is to be written anew, which cannot be done now";
                Error::new(e.code, format!("{}: {why}: {}; try again", self.open.file().path, e.message))
            })?;
        }
        let record = |done| self.open.sync_failed().record(done);
        // It has no locks that closing a descriptor would drop.
        record(sync_beside(
            self.open.storage().as_ref(),
            &self.open.file().path,
            "-journal",
        ))?;
        record(crate::durable::sync(
            connection,
            self.open.storage().as_ref(),
        ))?;
        if self.open.sync_failed().count() != before {
            // The system reports a failed sync once. Another thread has got that report meanwhile.
            return Err(refused(format!(
                "{}: a sync of the database failed; try again",
                &self.open.file().path
            )));
        }
        self.done.store(true, Ordering::Release);
        Ok(())
    }

    /// Writes all pages of Densite's tables again, and copies the contents of a WAL to the
    /// database's file.
    fn name_anew(&self, connection: &Connection) -> Result<()> {
        let own = ConnectionSpec::of(connection, &self.open.file().path).open()?;
        own.busy_timeout(BUSY_MS)?;
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
