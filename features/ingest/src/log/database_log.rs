//! The log of a database, which all connections of a process share.

use crate::apply::DatabaseWorker;
use crate::database::connection_spec::ConnectionSpec;
use crate::database::database_file::{DatabaseFile, Identity};
use crate::database::open_log::OpenLog;
use crate::database::position::{self, Position};
use crate::error::{from_log, refused};
use crate::log::backpressure::{Backpressure, WhenFull};
use crate::log::ids::Ids;
use crate::log::registration::LogRegistration;
use crate::storage::{StorageBackend, host};
use crate::waiting::patience::patience;
use crate::waiting::self_block::holds_main;
use densite_disk::sync::Mutex;
use densite_disk::wait::{Deadline, Retry};
use densite_log::{self as log, Log, LogId, Patience, Seq, Txn, Waiting};
use densite_sqlite::{Code, Connection, PerProcess, Result};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};

/// The opened logs of this process, by the identity of the database's file. Its mutex is never held
/// while SQLite or the log is called.
type DatabaseLogs = Mutex<HashMap<Identity, Weak<DatabaseLog>>>;

static DATABASE_LOGS: PerProcess<DatabaseLogs> = PerProcess::new();

/// The log of one database, opened once in this process.
pub struct DatabaseLog {
    open: Arc<OpenLog>,
    worker: Arc<DatabaseWorker>,
    registration: LogRegistration,
    backpressure: Backpressure,
    ids: Ids,
}

impl DatabaseLog {
    /// The log of the connection's main database; `None` if it has none.
    ///
    /// # Errors
    /// An error if the database is in memory or has several hard links. Also if its log is missing,
    /// is another one, is damaged, or does not reach back to the database's position. SQLite's.
    pub fn of(connection: &Connection) -> Result<Option<Arc<DatabaseLog>>> {
        DatabaseLog::on(connection, &host())
    }

    /// As [`DatabaseLog::of`], for a database on this storage backend.
    pub(crate) fn on(
        connection: &Connection,
        storage: &Arc<dyn StorageBackend>,
    ) -> Result<Option<Arc<DatabaseLog>>> {
        let file = DatabaseFile::of(connection, storage)?;
        match Position::read(connection)? {
            Some(position) => DatabaseLog::find(connection, &file, position).map(Some),
            None => Ok(None),
        }
    }

    /// The log of the connection's main database. If the database has none, the log and its tables
    /// are made.
    ///
    /// # Errors
    /// As [`DatabaseLog::of`]; also an error if the directory has a log with rows that the database
    /// does not name.
    pub fn open_or_create(
        connection: &Connection,
        storage: &Arc<dyn StorageBackend>,
    ) -> Result<Arc<DatabaseLog>> {
        let file = DatabaseFile::of(connection, storage)?;
        if let Some(position) = Position::read(connection)? {
            return DatabaseLog::find(connection, &file, position);
        }
        if file.reads_only {
            return Err(refused(format!(
                "{}: the database is open for reading only, and it has no log yet",
                file.path
            )));
        }
        let made = DatabaseLog::make(connection, &file);
        let Err(error) = made else {
            return made;
        };
        // Another connection may have been first.
        match newest_position(connection, &file) {
            Ok(Some(position)) => DatabaseLog::find(connection, &file, position),
            // The log found can still be this database's, so `error` can be wrong.
            Err(locked) if locked.code.primary() == Code::BUSY => Err(locked),
            _ => Err(error),
        }
    }

    /// Makes the log of a database that names none, and stores its name.
    fn make(connection: &Connection, file: &DatabaseFile) -> Result<Arc<DatabaseLog>> {
        // The log is made first. If the transaction is rolled back, an empty log remains, which the
        // next attempt uses.
        let above = position::last_reject(connection)?;
        let (database_log, begin) = DatabaseLog::create(file, above, &patience(connection))?;
        let last_row = connection.last_insert_rowid();
        let created = begin.create(connection);
        // These rows are Densite's own: `last_insert_rowid()` must not show them.
        connection.set_last_insert_rowid(last_row);
        created?;
        database_log.registration.is_new();
        match Position::read(connection)? {
            Some(position) if position.id == database_log.open.id() => Ok(database_log),
            Some(position) => DatabaseLog::find(connection, file, position),
            None => Err(refused(format!(
                "{}: the table densite_applied cannot be made",
                file.path
            ))),
        }
    }

    /// Makes a log for a database without one. Returns it and its position, which begins above this
    /// number.
    pub fn create(
        file: &DatabaseFile,
        above: Seq,
        patience: Patience<'_>,
    ) -> Result<(Arc<DatabaseLog>, Position)> {
        let path = file.log_dir();
        let failed = |e| from_log(&path, e);
        let dir = file
            .storage
            .create_log_dir(&path, &file.path)
            .map_err(|e| failed(e.into()))?;
        let mut other = None;
        // Another process can be first, so there are two attempts.
        for _ in 0..2 {
            let id = match log::id_in(dir.clone()).map_err(failed)? {
                Some(id) => id,
                None => LogId::random().map_err(failed)?,
            };
            let begin = Position::at(id, above);
            match DatabaseLog::get(file, begin, true, patience) {
                Ok(database_log) if database_log.open.is_unused(above).map_err(failed)? => {
                    return Ok((database_log, begin));
                }
                Ok(_) => {
                    return Err(refused(format!(
                        "{}: there is a log with rows in it that the database {} does not name: its table densite_applied was dropped, or the log is that of a newer state of the database, or of another one; \
                         bring that back, or close the database everywhere and move the log away",
                        path.display(),
                        file.path
                    )));
                }
                Err(error) => other = Some(error),
            }
        }
        Err(other.unwrap_or_else(|| refused(format!("{}: no log", path.display()))))
    }

    /// Finds the open log or opens it, for a database at this position.
    fn find(
        connection: &Connection,
        file: &DatabaseFile,
        position: Position,
    ) -> Result<Arc<DatabaseLog>> {
        let database_log = DatabaseLog::get(file, position, false, &patience(connection))?;
        database_log.reaches_up(file, position)?;
        let first = database_log
            .log()
            .status()
            .map_err(|e| database_log.failed(e))?
            .first;
        if first > position.seq.saturating_add(1) {
            // The worker may have applied and pruned rows since the position was read. A new read
            // shows that.
            let now = newest_position(connection, file)?;
            let seq = now.filter(|now| now.id == position.id).map(|now| now.seq);
            database_log.reaches_back(file, first, seq.unwrap_or(position.seq))?;
        }
        Ok(database_log)
    }

    fn get(
        file: &DatabaseFile,
        position: Position,
        create: bool,
        patience: Patience<'_>,
    ) -> Result<Arc<DatabaseLog>> {
        let known = DATABASE_LOGS
            .get()
            .lock()
            .get(&file.identity)
            .and_then(Weak::upgrade);
        match known {
            // Connections that have the old log open get errors. New ones open the current log.
            Some(database_log) if database_log.has_lost_its_place() => {
                DatabaseLog::open_anew(file, position, create, Some(&database_log), patience)
            }
            Some(database_log) if database_log.open.id() == position.id => Ok(database_log),
            Some(database_log) => Err(from_log(
                database_log.dir(),
                log::Error::OtherLog {
                    found: database_log.open.id(),
                    expected: position.id,
                },
            )),
            None => DatabaseLog::open_anew(file, position, create, None, patience),
        }
    }

    /// Opens the log. `lost` is the known one, if its directory was replaced.
    fn open_anew(
        file: &DatabaseFile,
        position: Position,
        create: bool,
        lost: Option<&Arc<DatabaseLog>>,
        patience: Patience<'_>,
    ) -> Result<Arc<DatabaseLog>> {
        let dir = file.log_dir();
        let mut options = file.storage.options(position.id);
        options.create = create;
        // An existing log that ends earlier is refused.
        options.above = if create { position.end() } else { 0 };
        let files = file.storage.log_dir(&dir, &file.path);
        let log = match Log::open_within(files.clone(), options, patience) {
            Ok(log) => log,
            // A process without write permission for the database and its log reads both.
            Err(log::Error::Io(e))
                if file.reads_only && e.kind == densite_disk::ErrorKind::Permission =>
            {
                Log::open_read_only(files.clone(), position.id).map_err(|e| from_log(&dir, e))?
            }
            // The directory itself is missing.
            Err(log::Error::Io(e)) if e.kind == densite_disk::ErrorKind::NotFound => {
                return Err(from_log(&dir, log::Error::Missing));
            }
            Err(e) => return Err(from_log(&dir, e)),
        };
        let open = Arc::new(OpenLog::new(log, position.id, file.clone(), files));
        let worker = Arc::new(DatabaseWorker::new(Arc::clone(&open)));
        let fresh = Arc::new(DatabaseLog {
            registration: LogRegistration::new(Arc::clone(&open), Arc::clone(&worker)),
            backpressure: Backpressure::new(Arc::clone(&open), Arc::clone(&worker)),
            ids: Ids::new(Arc::clone(&open)),
            open,
            worker,
        });
        let mut database_logs = DATABASE_LOGS.get().lock();
        database_logs.retain(|_, database_log| database_log.strong_count() > 0);
        // Another thread may have been first. Then this one closes its own log again, after the
        // mutex is released.
        let is_lost = |database_log: &Arc<DatabaseLog>| {
            lost.is_some_and(|lost| Arc::ptr_eq(lost, database_log))
        };
        let database_log = match database_logs.get(&file.identity).and_then(Weak::upgrade) {
            Some(database_log)
                if database_log.open.id() == position.id && !is_lost(&database_log) =>
            {
                database_log
            }
            _ => {
                database_logs.insert(file.identity, Arc::downgrade(&fresh));
                fresh.clone()
            }
        };
        drop(database_logs);
        Ok(database_log)
    }

    /// Whether the directory now has another log, or none.
    fn has_lost_its_place(&self) -> bool {
        matches!(self.log().is_in_place(), Err(log::Error::Replaced))
    }

    /// The log must have all rows that the database has. Otherwise new rows would get numbers that
    /// the database already has.
    fn reaches_up(&self, file: &DatabaseFile, position: Position) -> Result<()> {
        let last = self.log().last().map_err(|e| self.failed(e))?;
        match last < position.end() {
            false => Ok(()),
            true => Err(refused(format!(
                "{}: the database is applied up to row {}, and its log {} ends at row {last}: it is an older state of the log. Put back the newest one; \
                 or give it up: DROP TABLE densite_applied, move this log away and begin a new one",
                file.path,
                position.end(),
                self.dir().display()
            ))),
        }
    }

    /// A database that was restored from a backup must find all missing rows in the log.
    fn reaches_back(&self, file: &DatabaseFile, first: Seq, seq: Seq) -> Result<()> {
        if first > seq.saturating_add(1) {
            return Err(refused(format!(
                "{}: the database is applied up to row {seq}, and its log {} begins at row {first}: rows between are gone from the log. The database was \
                 restored from an older backup; restore a newer one, or accept the gap with DROP TABLE densite_applied, move the log away and begin a new one",
                file.path,
                self.dir().display()
            )));
        }
        Ok(())
    }

    /// Appends a transaction that belongs to no table of the connection, outside of transactions.
    /// Returns the number of its last row.
    ///
    /// # Errors
    /// As a COMMIT of rows.
    pub fn append(&self, connection: &Connection, txn: Txn) -> Result<Seq> {
        self.registration.check(connection)?;
        self.backpressure
            .wait_for_space(connection, WhenFull::Wait)?;
        self.backpressure.fits(&txn)?;
        self.registration.ensure_registered(connection)?;
        self.open.database_ahead().check()?;
        self.log().note_time();
        let appended = self.log().append(txn).map_err(|e| self.failed(e))?;
        Ok(appended.last)
    }

    /// The log, and what this process knows of the database beside it.
    pub fn open(&self) -> &Arc<OpenLog> {
        &self.open
    }

    /// The worker of this process.
    pub fn worker(&self) -> &DatabaseWorker {
        &self.worker
    }

    /// Whether the database names this log.
    pub(crate) fn registration(&self) -> &LogRegistration {
        &self.registration
    }

    /// The room for rows that are not applied yet.
    pub(crate) fn backpressure(&self) -> &Backpressure {
        &self.backpressure
    }

    /// The ids for new rows.
    pub(crate) fn ids(&self) -> &Ids {
        &self.ids
    }

    /// The log.
    pub fn log(&self) -> &Log {
        self.open.log()
    }

    /// The log's directory.
    pub fn dir(&self) -> &Path {
        self.open.dir()
    }

    /// An error of this log as SQLite's.
    pub fn failed(&self, error: log::Error) -> densite_sqlite::Error {
        self.open.failed(error)
    }
}

/// The position in the newest state of the database. This connection cannot see it if its statement
/// has already read an older one, so another connection reads it. Waits while the database is
/// locked, unless this connection holds a lock too: the other writer can be waiting for that one.
fn newest_position(connection: &Connection, file: &DatabaseFile) -> Result<Option<Position>> {
    let other = ConnectionSpec::of(connection, &file.path).open()?;
    let patience = patience(connection);
    let retry = Retry::until(Deadline::NEVER);
    loop {
        let position = Position::read(&other);
        let is_locked = matches!(&position, Err(e) if e.code.primary() == Code::BUSY);
        if !is_locked || holds_main(connection) || patience(retry.waited()) != Waiting::GoesOn {
            return position;
        }
        retry.again();
    }
}

impl Drop for DatabaseLog {
    fn drop(&mut self) {
        self.registration.end();
    }
}
