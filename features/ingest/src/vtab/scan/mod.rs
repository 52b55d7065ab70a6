//! Reading table and log as one.
//!
//! A cursor first opens a statement on `densite_applied`, which holds a snapshot of the base table
//! and reads its position. Then it takes the log's end, once for each transaction. The rows between
//! are merged with the base table by key. Rows of the connection's own transaction come last. A
//! search for a whole key needs one statement for position and row.

mod cursor;
mod scan_plan;

pub(crate) use cursor::Cursor;

use crate::error::{refused, unnamed};
use crate::log::database_log::DatabaseLog;
use crate::read::{self, Applied, Folder, Index, Name, Run, Snapshot, Transaction, name};
use crate::schema::key_code::Code;
use crate::schema::target::{Key, Target};
use crate::vtab::session::Session;
use densite_disk::sync::Mutex;
use densite_sqlite::{Connection, Error, OwnedStatement, Result, Value, ValueRef, quoted};
use std::sync::Arc;

#[derive(Default)]
struct State {
    snapshot: Option<Snapshot>,
    /// Statements that no cursor is using, by the plan's number.
    idle: Vec<(i32, OwnedStatement)>,
}

/// What all cursors of one table share.
pub(crate) struct Reading {
    database_log: Arc<DatabaseLog>,
    session: Arc<Session>,
    target: Arc<Target>,
    /// The virtual table's name.
    name: String,
    /// Names of the key's columns and how they compare.
    key: read::Key,
    index: Arc<Index>,
    /// While it is locked, SQLite is called only to evaluate expressions, which read no table.
    folder: Mutex<Folder>,
    state: Mutex<State>,
}

impl Reading {
    pub(crate) fn new(
        database_log: Arc<DatabaseLog>,
        session: Arc<Session>,
        target: Arc<Target>,
        name: &str,
    ) -> Reading {
        let named = |key: &Key| {
            let names = key.columns.iter().filter_map(|c| target.columns.get(*c));
            names.map(|c| c.name.clone()).collect()
        };
        let key = target.key.as_ref();
        let key = key
            .map(|k| (named(k), k.collations.clone()))
            .unwrap_or_default();
        let index = database_log.open().unapplied().index(&target.name, &key);
        Reading {
            database_log,
            session,
            target,
            name: name.to_owned(),
            key,
            index,
            folder: Mutex::default(),
            state: Mutex::default(),
        }
    }

    /// Makes this table part of the connection's transaction, which writes to it, if no table of
    /// the session is: then SQLite reports the transaction's end and its savepoints. SQLite does
    /// this by itself, but not if the transaction has created the table.
    pub(crate) fn join(&self, connection: &Connection) -> Result<()> {
        if connection.is_autocommit() || self.session.is_joined() {
            return Ok(());
        }
        self.check_transaction(connection);
        // A write that changes nothing. The calling statement sets changes() when it ends.
        connection.exec(&format!("DELETE FROM temp.{} WHERE 0", quoted(&self.name)))?;
        self.session.begin(false);
        Ok(())
    }

    /// Forgets the reads of a transaction that has ended. SQLite does not report the end of a
    /// transaction that has only read.
    pub(crate) fn check_transaction(&self, connection: &Connection) {
        let Some(marked) = self.session.marked() else {
            return;
        };
        let number = || {
            let mut statement = self.statement(connection, scan_plan::NUMBER)?;
            let number = match statement.step()? {
                true => statement.column(0).as_bytes().map(<[u8]>::to_vec),
                false => None,
            };
            self.give_back(scan_plan::NUMBER, statement);
            Ok(number.unwrap_or_default())
        };
        if !marked.is_current(connection, number) {
            self.session.forget_marked();
        }
    }

    /// Savepoints the connection's transaction, if one is open, so that its end will be noticed.
    fn mark_transaction(&self, connection: &Connection) {
        if self.session.is_joined() {
            return;
        }
        self.check_transaction(connection);
        if !connection.is_autocommit() && self.session.marked().is_none() {
            self.session.set_marked(Transaction::mark(connection));
        }
    }

    fn statement(&self, connection: &Connection, number: i32) -> Result<OwnedStatement> {
        let mut state = self.state.lock();
        let place = state.idle.iter().rposition(|(n, _)| *n == number);
        let idle = place.map(|place| state.idle.swap_remove(place));
        drop(state);
        match idle {
            Some((_, statement)) => Ok(statement),
            None => OwnedStatement::prepare(connection, &self.sql(number))
                .map_err(|e| self.without_position(e)),
        }
    }

    /// Replaces the error of a missing position table with one that says what to do.
    fn without_position(&self, error: Error) -> Error {
        match error
            .message
            .contains("no such table: main.densite_applied")
        {
            true => unnamed(self.database_log.dir()),
            false => error,
        }
    }

    fn give_back(&self, number: i32, mut statement: OwnedStatement) {
        statement.reset();
        let mut state = self.state.lock();
        if state.idle.iter().filter(|(n, _)| *n == number).count() < 4 {
            state.idle.push((number, statement));
        }
    }

    /// What this transaction sees of the log, with its base table at `applied`. The statement that
    /// read `applied` is still open.
    fn snapshot(&self, connection: &Connection, applied: Applied) -> Result<Snapshot> {
        // The log's end changes only when the transaction ends. If a transaction cannot be marked,
        // each statement takes its own end.
        self.mark_transaction(connection);
        let end = self.session.read_end();
        if let Some(known) = &self.state.lock().snapshot
            && Some(known.visibility.to) == end
            && applied.is_of(&known.visibility)
        {
            return Ok(known.clone());
        }
        let clustered = applied.clustered(connection, self.database_log.open().unapplied())?;
        let take = || {
            let taken = self.index.snapshot(
                self.database_log.log(),
                &self.key,
                applied.seq,
                clustered.clone(),
                end,
            );
            taken.map_err(|e| self.database_log.failed(e))
        };
        let mut fresh = take()?;
        if let Some(own) = self.session.last_in(&self.database_log)
            && end.is_none()
            && fresh.visibility.to < own
        {
            self.database_log.wait_visible(own)?;
            fresh = take()?;
        }
        self.session.set_read_end(fresh.visibility.to);
        self.state.lock().snapshot = Some(fresh.clone());
        Ok(fresh)
    }

    /// Whether this is the temporary id of a row that gets its id when it is applied.
    fn is_chosen_later(&self, id: i64) -> Result<bool> {
        let (seq, unset) = (name::seq(id), Code::of(&self.key.1, |_| ValueRef::Null));
        let has = |run: &Arc<Run>| run.has(unset, seq);
        if self.session.is_own(seq) {
            return Ok(self.own_runs()?.iter().any(has));
        }
        let snapshot = self.state.lock().snapshot.clone();
        Ok(snapshot.is_some_and(|s| s.visibility.sees(seq) && s.runs.iter().any(has)))
    }

    /// The rows of the connection's own transaction.
    fn own_runs(&self) -> Result<Vec<Arc<Run>>> {
        let own = self.session.own_runs(&self.target.name, &self.key);
        own.map_err(|e| self.database_log.failed(e))
    }

    /// The row id of a row with this key.
    ///
    /// # Errors
    /// An error if another row has the same row id.
    fn told_apart(&self, id: i64) -> Result<i64> {
        match self.is_chosen_later(id)? {
            false => Ok(id),
            true => Err(refused(format!(
                "{}: row {id} has the temporary id of another row, which was inserted without an id and is not applied yet; densite_wait() waits for that",
                self.target.name
            ))),
        }
    }

    /// The key of a row, from its row id or its hidden column.
    ///
    /// # Errors
    /// An error if the row has no key that the log can name.
    pub(crate) fn key_of(&self, row: ValueRef<'_>) -> Result<Vec<Value>> {
        let target = &self.target.name;
        if let ValueRef::Integer(id) = row {
            return match self.is_chosen_later(id)? {
                false => Ok(vec![Value::Integer(id)]),
                true => Err(refused(format!(
                    "a row of {target} that was inserted without {} has no id yet, so it cannot be changed before it is applied; densite_wait() waits for that",
                    self.key.0.first().map_or("its key", String::as_str)
                ))),
            };
        }
        match Name::read(row) {
            Some(Name::Key(key)) if key.len() == self.key.0.len() => Ok(key),
            Some(Name::Base(_) | Name::Log(_)) => Err(refused(format!(
                "a row of {target} has NULL in its primary key, so the log cannot name it; change it in {target} itself"
            ))),
            _ => Err(refused(format!(
                "no row with this identity was read from {}; update or delete rows by their key",
                self.name
            ))),
        }
    }

    /// The transaction has ended.
    pub(crate) fn end(&self) {
        self.state.lock().snapshot = None;
    }
}
