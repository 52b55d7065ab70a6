//! The tables that the members of a stream have: `densite_member_tables`. A member that lost one
//! would reject rows that the others apply.

use crate::error::refused;
use densite_sqlite::{Connection, Error, Result, Value};

/// An error if the members have this table. The database does not.
///
/// # Errors
/// That; SQLite's.
pub(crate) fn check_missing(connection: &Connection, table: &str) -> Result<()> {
    let known =
        "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'densite_member_tables'";
    if connection.query_i64(known)?.is_none() {
        return Ok(());
    }
    let sql = "SELECT 1 FROM main.densite_member_tables WHERE \"table\" = ?1";
    match connection.query_row(sql, &[Value::from(table)])? {
        Some(_) => Err(lacks(table)),
        None => Ok(()),
    }
}

/// The error for a database that lacks this table of the members.
pub fn lacks(table: &str) -> Error {
    refused(format!(
        "this database lacks the table {table}, which the members of its stream have: something dropped it without densite_schema; replace the database by a copy of another member"
    ))
}
