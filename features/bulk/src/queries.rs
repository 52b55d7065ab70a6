//! The registered queries by number, and the SQL function that prepares them.
//!
//! A driver calls `densite_query(handle, sql, named, …)` on its own connection. So the driver has
//! checked that the connection is open and used from the right thread.

use crate::query::{Kept, Query};
use crate::{Error, Result};
use densite_disk::sync::Mutex;
use densite_sqlite::{Code, CompileError, Connection, PerProcess, Value, create_function, ffi};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A value of the third argument of `densite_query`: parameters by name.
const NAMED: i64 = 1;
/// Another one: parameters in order, and the result is read on the thread of the connection
/// ([`Query::for_one_thread`]).
pub const ONE_THREAD: i64 = 2;

/// What is registered under a handle.
enum State {
    /// The sets of columns that the statement will read.
    Reserved(Vec<Kept>),
    Compiled(Query),
    Taken,
}

type Entry = Arc<Mutex<State>>;
static NEXT: AtomicI64 = AtomicI64::new(1);
/// Empty in a forked child: the statements belong to its parent.
static QUERIES: PerProcess<Mutex<BTreeMap<i64, Entry>>> = PerProcess::new();

/// A handle for a query, which `SELECT densite_query(handle, sql, …)` fills.
pub fn reserve() -> i64 {
    let handle = NEXT.fetch_add(1, Ordering::Relaxed);
    let entry = Arc::new(Mutex::new(State::Reserved(Vec::new())));
    QUERIES.get().lock().insert(handle, entry);
    handle
}

fn entry(handle: i64) -> Result<Entry> {
    let found = QUERIES.get().lock().get(&handle).cloned();
    found.ok_or_else(|| unknown(handle))
}

fn fill(handle: i64, mut query: Query) -> Result<()> {
    let entry = entry(handle)?;
    let mut state = entry.lock();
    if let State::Reserved(sets) = &mut *state {
        query.keep(std::mem::take(sets));
    }
    *state = State::Compiled(query);
    Ok(())
}

/// Gives a query a set of columns that its statement reads. The query releases the set at its end. If
/// the statement is not compiled yet, and names a column that does not exist, the error has the names
/// of the columns of the set.
///
/// # Errors
/// [`Error::Misuse`] if there is no such query, or it was taken.
pub fn keep(handle: i64, columns: i64) -> Result<()> {
    match &mut *entry(handle)?.lock() {
        State::Reserved(sets) => sets.push(Kept::new(columns)),
        State::Compiled(query) => query.keep(vec![Kept::new(columns)]),
        State::Taken => return Err(gone()),
    }
    Ok(())
}

/// The error of a statement that does not compile. For a missing column it names those of the keys.
fn explain(handle: i64, mut error: densite_sqlite::Error) -> densite_sqlite::Error {
    if let Ok(entry) = entry(handle)
        && let State::Reserved(sets) = &*entry.lock()
        && !sets.is_empty()
    {
        let names: Vec<String> = sets.iter().flat_map(Kept::names).collect();
        error.message = explained(error.message, &names);
    }
    error
}

/// SQLite's message for a statement with a table `keys` of columns with these names.
pub fn explained(message: String, names: &[String]) -> String {
    match CompileError::of(&message) {
        Some(CompileError::NoColumn) => {
            format!("{message}; keys has the columns {}", names.join(", "))
        }
        _ => message,
    }
}

/// Takes a query out of the registry, because it is read once.
///
/// # Errors
/// [`Error::Misuse`] if there is no such query, or it was already taken.
pub fn take(handle: i64) -> Result<Query> {
    let entry = entry(handle)?;
    let mut state = entry.lock();
    match std::mem::replace(&mut *state, State::Taken) {
        State::Compiled(query) => Ok(query),
        other => {
            *state = other;
            Err(gone())
        }
    }
}

/// Frees the handle, and ends a statement that was not taken.
///
/// # Errors
/// [`Error::Misuse`] if there is no such handle.
pub fn release(handle: i64) -> Result<()> {
    let entry = QUERIES.get().lock().remove(&handle);
    entry.map(drop).ok_or_else(|| unknown(handle))
}

fn gone() -> Error {
    Error::Misuse(
        "the result was read already, or its statement never compiled; run the query again".into(),
    )
}

fn unknown(handle: i64) -> Error {
    Error::Misuse(format!(
        "there is no query with the handle {handle} in this process; it was released, or made by its parent before a fork"
    ))
}

/// Adds `densite_query(handle, sql, named, …)`.
pub(crate) fn create(connection: &Connection) -> densite_sqlite::Result<()> {
    create_function(
        connection,
        "densite_query",
        -1,
        ffi::DIRECTONLY,
        |connection, arguments| {
            let [handle, sql, named, values @ ..] = arguments else {
                return Err(densite_sqlite::Error::new(
                    Code::MISUSE,
                    "densite_query is for the library itself; use densite.query",
                ));
            };
            let (Some(handle), Some(sql)) = (handle.as_i64(), sql.as_str()) else {
                return Err(densite_sqlite::Error::new(
                    Code::MISUSE,
                    "densite_query takes a handle and a statement's text",
                ));
            };
            let run = || -> Result<()> {
                let named = named.as_i64();
                let mut query = match named {
                    Some(ONE_THREAD) => Query::for_one_thread(connection, sql)?,
                    _ => Query::new(connection, sql)?,
                };
                query.bind(named == Some(NAMED), values)?;
                fill(handle, query)
            };
            run().map(|()| Value::Null).map_err(|error| match error {
                Error::Sqlite(error) => explain(handle, error),
                other => densite_sqlite::Error::new(Code::MISUSE, other.to_string()),
            })
        },
    )
}
