//! Statements that change the database and call the application's functions meanwhile.
//!
//! The [`Progress`](crate::Progress) of a [`Set`](crate::Set) can close the connection. If the
//! driver's own call ran the statement, the driver would continue with a closed connection:
//! CPython's `sqlite3` crashes. So the driver only prepares it, by `SELECT densite_change(handle,
//! sql)`, and [`changes::run`] runs it. SQLite keeps a closed connection while it has a statement.
//! `SELECT densite_change(handle)` then fails with the statement's error, so the driver raises its
//! own exception.

use crate::{Error, Result};
use densite_disk::sync::Mutex;
use densite_sqlite::{
    Code, Connection, Detached, PerProcess, Value, ValueRef, create_function, ffi,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

struct Change {
    statement: Detached,
    failure: Option<densite_sqlite::Error>,
}

/// The statements that are registered.
pub mod changes {
    use super::*;

    type Entry = Arc<Mutex<Option<Change>>>;
    static NEXT: AtomicI64 = AtomicI64::new(1);
    /// Empty in a forked child: the statements belong to its parent.
    static CHANGES: PerProcess<Mutex<BTreeMap<i64, Entry>>> = PerProcess::new();

    /// A handle for a statement, which `SELECT densite_change(handle, sql)` fills.
    pub fn reserve() -> i64 {
        let handle = NEXT.fetch_add(1, Ordering::Relaxed);
        CHANGES.get().lock().insert(handle, Arc::default());
        handle
    }

    fn entry(handle: i64) -> Result<Entry> {
        let found = CHANGES.get().lock().get(&handle).cloned();
        found.ok_or_else(|| unknown(handle))
    }

    pub(super) fn fill(handle: i64, statement: Detached) -> Result<()> {
        *entry(handle)?.lock() = Some(Change {
            statement,
            failure: None,
        });
        Ok(())
    }

    /// Runs a statement. Returns the number of changed rows.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Misuse`] if the handle has no statement.
    pub fn run(handle: i64) -> Result<i64> {
        let entry = entry(handle)?;
        let mut change = entry.lock();
        let change = change.as_mut().ok_or_else(|| unknown(handle))?;
        let done = change.statement.run();
        change.failure = done.as_ref().err().cloned();
        Ok(done?)
    }

    /// The error of the statement when it was run.
    pub(super) fn failure(handle: i64) -> Option<densite_sqlite::Error> {
        entry(handle).ok()?.lock().as_ref()?.failure.clone()
    }

    /// Ends a statement and frees its handle.
    ///
    /// # Errors
    /// [`Error::Misuse`] if there is no such handle.
    pub fn release(handle: i64) -> Result<()> {
        let entry = CHANGES.get().lock().remove(&handle);
        entry.map(drop).ok_or_else(|| unknown(handle))
    }

    fn unknown(handle: i64) -> Error {
        Error::Misuse(format!(
            "there is no statement with the handle {handle} in this process; it was released, or made by its parent before a fork"
        ))
    }
}

/// Adds `densite_change(handle [, sql])`.
pub(crate) fn create(connection: &Connection) -> densite_sqlite::Result<()> {
    create_function(
        connection,
        "densite_change",
        -1,
        ffi::DIRECTONLY,
        |connection, arguments| {
            let misuse = |message: &str| densite_sqlite::Error::new(Code::MISUSE, message);
            let of_package = "densite_change is for the library itself; use densite.insert";
            match arguments {
                [ValueRef::Integer(handle)] => match changes::failure(*handle) {
                    Some(failure) => Err(failure),
                    None => Err(misuse(of_package)),
                },
                [ValueRef::Integer(handle), sql @ ValueRef::Text(_)] => {
                    let sql = sql.as_str().ok_or_else(|| misuse(of_package))?;
                    let statement = Detached::prepare_for_one_thread(connection, sql)?;
                    changes::fill(*handle, statement).map_err(|e| misuse(&e.to_string()))?;
                    Ok(Value::Null)
                }
                _ => Err(misuse(of_package)),
            }
        },
    )
}
