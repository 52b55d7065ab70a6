//! The transaction of one connection: its rows until they are in the log.
//!
//! All `densite_ingest` tables of a connection share it, so that one COMMIT is one transaction in
//! the log.
//!
//! Rule L1: xSync appends once. The appended transaction is *prepared*. A repeated COMMIT finds it
//! and appends nothing. If rows were added or removed in between, the prepared transaction is
//! rolled back, durably, and all rows are appended again.

mod own;

use crate::database::database_file::still_has_its_name;
use crate::error::{mixed, no_log, refused};
use crate::log::backpressure::WhenFull;
use crate::log::database_log::DatabaseLog;
use crate::rows::pending::Pending;
use crate::rows::savepoints::{Mark, Savepoints};
use crate::storage::StorageBackend;
use crate::waiting::patience::patience;
use densite_disk::sync::Mutex;
use densite_log::{Appended, Op, Seq, Table, Txn, Value};
use densite_sqlite::{Code, Connection, Error, Result};
use own::{OwnRuns, Reads};
use std::sync::Arc;

struct Prepared {
    txn: Arc<Txn>,
    appended: Appended,
    /// Rows were added or removed since.
    stale: bool,
}

#[derive(Default)]
struct Inner {
    database_log: Option<Arc<DatabaseLog>>,
    pending: Pending,
    marks: Savepoints,
    prepared: Option<Prepared>,
    last: Option<Seq>,
    /// A writer beyond the limit of unapplied bytes gets an error instead of waiting.
    fail_when_full: bool,
    /// There was room for more unapplied bytes when the transaction began to write.
    had_room: bool,
    reads: Reads,
    own: Vec<OwnRuns>,
    /// The caller does not ask for the ids of new rows.
    needs_no_ids: bool,
}

/// See the module.
pub struct Session {
    inner: Mutex<Inner>,
    storage: Arc<dyn StorageBackend>,
}

impl Inner {
    fn touch(&mut self) {
        if let Some(prepared) = &mut self.prepared {
            prepared.stale = true;
        }
    }

    fn truncate(&mut self, to: Mark) -> Result<()> {
        self.touch();
        self.own.clear();
        self.pending.truncate(to).map_err(|e| self.failed(e))
    }

    fn failed(&self, error: densite_log::Error) -> Error {
        match (&error, &self.database_log) {
            (densite_log::Error::TooLarge { .. }, _) => Error::new(
                Code::TOOBIG,
                "a transaction of ingest may hold 1 GB; commit more often",
            ),
            (_, Some(database_log)) => database_log.failed(error),
            (_, None) => refused(error.to_string()),
        }
    }

    fn clear(&mut self) {
        self.pending.clear();
        self.marks.clear();
        self.prepared = None;
        self.fail_when_full = false;
        self.had_room = false;
        self.own.clear();
        self.reads.end_transaction();
    }

    fn cancel(&mut self) {
        if let (Some(prepared), Some(database_log)) = (self.prepared.take(), &self.database_log) {
            // If this is not durable now, the rows stay hidden and the log tries again.
            database_log.log().cancel(prepared.txn.id()).ok();
        }
    }
}

impl Session {
    /// For a connection whose database is on this storage backend.
    pub(crate) fn on(storage: Arc<dyn StorageBackend>) -> Session {
        Session {
            inner: Mutex::default(),
            storage,
        }
    }

    /// The storage backend of the connection's database.
    pub fn storage(&self) -> &Arc<dyn StorageBackend> {
        &self.storage
    }

    /// Whether the caller does not ask for the ids of new rows: those that cannot be reserved are
    /// chosen when rows are applied.
    pub(crate) fn needs_no_ids(&self) -> bool {
        self.inner.lock().needs_no_ids
    }

    /// See [`Session::needs_no_ids`].
    pub(crate) fn set_needs_no_ids(&self, value: bool) {
        self.inner.lock().needs_no_ids = value;
    }

    /// Adds a row.
    pub(crate) fn push(
        &self,
        database_log: &Arc<DatabaseLog>,
        table: &Arc<Table>,
        op: Op,
        row: &[Value<'_>],
        fail_when_full: bool,
    ) -> Result<()> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        match &inner.database_log {
            Some(known) if Arc::ptr_eq(known, database_log) => {}
            _ => {
                // A sequence number of another log means nothing in this one.
                inner.last = None;
                inner.database_log = Some(database_log.clone());
            }
        }
        inner.touch();
        inner.fail_when_full |= fail_when_full;
        let pushed = inner.pending.push(table, op, row);
        pushed.map_err(|e| inner.failed(e))
    }

    /// Whether the end of the current transaction matters: it has rows to log, or its reads share
    /// an end of the log.
    pub(crate) fn is_in_transaction(&self) -> bool {
        let inner = self.inner.lock();
        inner.pending.rows() > 0 || inner.reads.is_joined()
    }

    /// xSync: makes all rows durable, but not visible yet.
    pub(crate) fn sync(&self, connection: &Connection) -> Result<()> {
        let mut inner = self.inner.lock();
        if inner.pending.rows() == 0 {
            // Rows that a savepoint removed may have been prepared.
            inner.cancel();
            return Ok(());
        }
        still_has_its_name(connection)?;
        if inner.prepared.as_ref().is_some_and(|p| !p.stale) {
            return Ok(());
        }
        refuse_mixed(connection)?;
        let Some(database_log) = inner.database_log.clone() else {
            return Ok(());
        };
        database_log.registration().check(connection)?;
        let when_full = match (inner.fail_when_full, inner.had_room) {
            (true, _) => WhenFull::Fail,
            (false, false) => WhenFull::Wait,
            (false, true) => WhenFull::WaitOrPass,
        };
        database_log
            .backpressure()
            .wait_for_space(connection, when_full)?;
        database_log.registration().ensure_registered(connection)?;
        database_log.open().database_ahead().check()?;
        inner.cancel();
        let txn = inner.pending.txn(database_log.log().new_txn());
        let txn = Arc::new(txn.map_err(|e| inner.failed(e))?);
        database_log.backpressure().fits(&txn)?;
        database_log.log().note_time();
        let appended = database_log
            .log()
            .prepare_within(&txn, &patience(connection));
        let appended = appended.map_err(|e| database_log.failed(e))?;
        inner.prepared = Some(Prepared {
            txn,
            appended,
            stale: false,
        });
        Ok(())
    }

    /// xCommit.
    pub(crate) fn commit(&self) {
        let mut inner = self.inner.lock();
        if let (Some(prepared), Some(database_log)) =
            (inner.prepared.take(), inner.database_log.clone())
        {
            database_log.log().commit(prepared.txn.id());
            inner.last = Some(prepared.appended.last);
            // Open cursors keep their snapshot. The next cursor sees these rows.
            inner.reads.end = None;
        }
        inner.clear();
    }

    /// xRollback, possibly after xSync.
    pub(crate) fn rollback(&self) {
        let mut inner = self.inner.lock();
        inner.cancel();
        inner.clear();
    }

    /// Savepoint `n` begins. Each table of the transaction reports it.
    pub(crate) fn savepoint(&self, n: i32) {
        let mut inner = self.inner.lock();
        let now = inner.pending.mark();
        inner.marks.begin(n, now);
    }

    /// Savepoint `n` and those within it have ended.
    pub(crate) fn release(&self, n: i32) {
        self.inner.lock().marks.release(n);
    }

    /// Rolls back to savepoint `n`; -1 is the beginning of the transaction.
    ///
    /// # Errors
    /// An error if there is not enough memory. Then the transaction cannot be committed.
    pub(crate) fn rollback_to(&self, n: i32) -> Result<()> {
        let mut inner = self.inner.lock();
        let mark = inner.marks.rollback_to(n);
        inner.truncate(mark)
    }

    /// The log that the connection writes to, found once.
    pub fn database_log(&self, connection: &Connection) -> Result<Option<Arc<DatabaseLog>>> {
        if let Some(database_log) = &self.inner.lock().database_log {
            return Ok(Some(database_log.clone()));
        }
        let database_log = DatabaseLog::on(connection, &self.storage)?;
        self.inner.lock().database_log.clone_from(&database_log);
        Ok(database_log)
    }

    /// As [`Session::database_log`]; an error if there is none.
    pub fn existing_log(&self, connection: &Connection) -> Result<Arc<DatabaseLog>> {
        self.database_log(connection)?.ok_or_else(no_log)
    }

    /// The log that the database names now. The connection writes to that one from now on. To be
    /// called outside a transaction.
    pub fn find_database_log(&self, connection: &Connection) -> Result<Option<Arc<DatabaseLog>>> {
        let found = DatabaseLog::on(connection, &self.storage)?;
        let mut inner = self.inner.lock();
        let before = std::mem::replace(&mut inner.database_log, found.clone());
        if before.as_ref().map(Arc::as_ptr) != found.as_ref().map(Arc::as_ptr) {
            // A sequence number of another log means nothing in this one.
            inner.last = None;
        }
        drop(inner);
        // Outside the lock: with the last connection, the worker of that log ends.
        drop(before);
        Ok(found)
    }

    /// The last row of this connection's last acknowledged transaction.
    pub(crate) fn last(&self) -> Option<Seq> {
        self.inner.lock().last
    }

    /// The same, if that transaction is in this log.
    pub(crate) fn last_in(&self, database_log: &Arc<DatabaseLog>) -> Option<Seq> {
        let inner = self.inner.lock();
        let known = inner
            .database_log
            .as_ref()
            .is_some_and(|h| Arc::ptr_eq(h, database_log));
        inner.last.filter(|_| known)
    }
}

/// Rule L2: a transaction that writes the log and an ordinary table cannot be atomic.
fn refuse_mixed(connection: &Connection) -> Result<()> {
    match connection.written_schema()? {
        None => Ok(()),
        Some(schema) => Err(mixed(&schema)),
    }
}
