//! Reading table and log as one.
//!
//! A cursor first opens a statement on `densite_applied`, which holds a snapshot of the base and tells its position; then the log's end is taken, once per transaction. The rows
//! between are merged with the base by key. Rows of the connection's own transaction come last. A search by the whole key needs one statement for position and row.

mod applied;
mod code;
mod cursor;
mod filter;
mod fold;
mod gather;
mod overlay;
mod packed;
mod plan;
mod run;
#[cfg(test)]
mod tests;
mod unapplied;
mod values;

pub(crate) use code::Code;
pub(crate) use cursor::Cursor;
pub(crate) use gather::Gather;
pub(crate) use run::{Run, push};
pub(crate) use unapplied::Unapplied;

use crate::error::refused;
use crate::home::Home;
use crate::session::Session;
use crate::target::{Key, Target};
use applied::Applied;
use densite_disk::sync::Mutex;
use densite_sqlite::{Connection, OwnedStatement, Result, Value, ValueRef, quoted};
use fold::Folder;
use std::sync::Arc;
use unapplied::{Index, Snapshot};

#[derive(Default)]
struct State {
    snapshot: Option<Snapshot>,
    /// Statements that no cursor uses at the moment, by the plan's number.
    idle: Vec<(i32, OwnedStatement)>,
    /// Keys of rows that were handed out; the row id is the place, behind those that are forgotten: no number names two rows.
    keys: Vec<Vec<Value>>,
    forgotten: usize,
    /// Rows without an id that were handed out; they have the least row ids there are.
    unnamed: i64,
}

/// What the cursors of one table share.
pub(crate) struct Reading {
    home: Arc<Home>,
    session: Arc<Session>,
    target: Arc<Target>,
    /// The table itself, for joining its transaction.
    name: String,
    /// Names of the key's columns and how they compare.
    key: unapplied::Key,
    index: Arc<Index>,
    /// Never locked while SQLite is called.
    folder: Mutex<Folder>,
    state: Mutex<State>,
}

impl Reading {
    pub(crate) fn new(
        home: Arc<Home>,
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
        let index = home.unapplied().index(&target.name, &key);
        Reading {
            home,
            session,
            target,
            name: name.to_owned(),
            key,
            index,
            folder: Mutex::default(),
            state: Mutex::default(),
        }
    }

    fn statement(&self, connection: &Connection, number: i32) -> Result<OwnedStatement> {
        let mut state = self.state.lock();
        let place = state.idle.iter().rposition(|(n, _)| *n == number);
        let idle = place.map(|place| state.idle.swap_remove(place));
        drop(state);
        match idle {
            Some((_, statement)) => Ok(statement),
            None => OwnedStatement::prepare(connection, &self.sql(number)),
        }
    }

    fn give_back(&self, number: i32, mut statement: OwnedStatement) {
        statement.reset();
        let mut state = self.state.lock();
        if state.idle.iter().filter(|(n, _)| *n == number).count() < 4 {
            state.idle.push((number, statement));
        }
    }

    /// What this transaction sees of the log, its base being at `applied`. The statement that told so is still open.
    fn snapshot(&self, connection: &Connection, applied: Applied) -> Result<Snapshot> {
        if !connection.is_autocommit() && !self.session.is_joined() {
            // A write that writes nothing: SQLite then tells this table when the transaction ends, and only then another end of the log is taken. Where writing is
            // forbidden, each statement has an end of its own.
            let _ = connection.exec(&format!("DELETE FROM temp.{} WHERE 0", quoted(&self.name)));
        }
        let end = self.session.read_end();
        if let Some(known) = &self.state.lock().snapshot
            && Some(known.sight.to) == end
            && applied.is_of(&known.sight)
        {
            return Ok(known.clone());
        }
        let swept = applied.swept(connection, self.home.unapplied())?;
        let take = || {
            let taken =
                self.index
                    .snapshot(self.home.log(), &self.key, applied.seq, swept.clone(), end);
            taken.map_err(|e| self.home.failed(e))
        };
        let mut fresh = take()?;
        if let Some(own) = self.session.last_in(&self.home)
            && end.is_none()
            && fresh.sight.to < own
        {
            self.home.wait_visible(own)?;
            fresh = take()?;
        }
        self.session.set_read_end(fresh.sight.to);
        self.state.lock().snapshot = Some(fresh.clone());
        Ok(fresh)
    }

    fn hand_out(&self, key: Vec<Value>) -> i64 {
        let mut state = self.state.lock();
        state.keys.push(key);
        i64::try_from(state.forgotten + state.keys.len()).unwrap_or(i64::MAX) - 1
    }

    /// A row id for a row that gets its own when it is applied: no other row read has it, and [`Reading::key_of`] knows it.
    fn hand_out_unnamed(&self) -> i64 {
        let mut state = self.state.lock();
        state.unnamed += 1;
        i64::MIN.saturating_add(state.unnamed - 1)
    }

    /// The key of a row that was read.
    ///
    /// # Errors
    /// When the row has no key by which the log could name it.
    pub(crate) fn key_of(&self, target: &Target, row_id: ValueRef<'_>) -> Result<Vec<Value>> {
        let id = row_id.as_i64().unwrap_or(-1);
        let state = self.state.lock();
        if target.key.as_ref().is_some_and(|k| k.is_row_id) {
            if id < i64::MIN.saturating_add(state.unnamed) {
                return Err(refused(format!(
                    "a row of {} that was inserted without {} has no id yet, so it cannot be changed before it is applied; densite_wait() waits for that",
                    target.name,
                    self.key.0.first().map_or("its key", String::as_str)
                )));
            }
            return Ok(vec![Value::Integer(id)]);
        }
        let key = usize::try_from(id)
            .ok()
            .and_then(|id| state.keys.get(id.checked_sub(state.forgotten)?))
            .cloned();
        let key = key.ok_or_else(|| {
            refused(format!(
                "there is no row {id} that was read from {}",
                self.name
            ))
        })?;
        if key.contains(&Value::Null) {
            return Err(refused(format!(
                "a row of {} has NULL in its primary key, so the log cannot name it; change it in {} itself",
                target.name, target.name
            )));
        }
        Ok(key)
    }

    /// The transaction is over.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.forgotten += state.keys.len();
        state.keys = Vec::new();
        state.unnamed = 0;
        state.snapshot = None;
    }
}
