//! What ingest and subscribers share: making the log, and asking for numbers.

use crate::transaction::Transaction;
use crate::{Error, Result};
use rusqlite::{Connection, Params};

/// Rows as JSON objects have them.
pub(crate) type Object = serde_json::Map<String, serde_json::Value>;

/// Does what makes the database's log if there is none, then with the right to write: of two that begin at once, the later
/// one waits its turn.
pub(crate) fn with_log<T>(con: &Connection, make: impl FnOnce() -> Result<T>) -> Result<T> {
    if ask::<Option<i64>>(con, "SELECT densite_log_last()", [])?.is_some() {
        return make();
    }
    let transaction = Transaction::begin(con, "BEGIN IMMEDIATE")?;
    let made = make()?;
    transaction.commit()?;
    Ok(made)
}

/// The one value of a statement with functions of ours.
pub(crate) fn ask<T: rusqlite::types::FromSql>(
    con: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<T> {
    let mut statement = con.prepare_cached(sql).map_err(Error::of_function)?;
    Ok(statement.query_row(params, |row| row.get(0))?)
}

/// A sequence number as SQLite has it, and back.
pub(crate) fn to_sql(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

/// See [`to_sql`]. None is negative.
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
