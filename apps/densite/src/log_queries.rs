//! Helpers for ingest and subscribers: creating the log, and queries for numbers.

use crate::transaction::Transaction;
use crate::{Error, Result};
use rusqlite::{Connection, Params};

/// Rows as JSON objects.
pub(crate) type Object = serde_json::Map<String, serde_json::Value>;

/// Runs `make`, which creates the database's log if needed. If there is no log yet, it holds the
/// right to write: of two callers at once, the later one waits.
pub(crate) fn with_log<T>(con: &Connection, make: impl FnOnce() -> Result<T>) -> Result<T> {
    if ask::<Option<i64>>(con, "SELECT densite_log_last()", [])?.is_some() {
        return make();
    }
    let transaction = Transaction::begin(con, "BEGIN IMMEDIATE")?;
    let made = make()?;
    transaction.commit()?;
    Ok(made)
}

/// The value of a statement that uses Densite's SQL functions.
pub(crate) fn ask<T: rusqlite::types::FromSql>(
    con: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<T> {
    let mut statement = con.prepare_cached(sql).map_err(Error::of_function)?;
    Ok(statement.query_row(params, |row| row.get(0))?)
}

/// Converts a sequence number to SQLite's integer.
pub(crate) fn to_sql(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

/// Converts SQLite's integer to a sequence number, which is never negative.
pub(crate) fn seq(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Reads a JSON object in a row of a statement.
pub(crate) fn object(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Object> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|e| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(e))
    })
}
