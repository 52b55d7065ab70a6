//! The tables that the members of a stream have: `densite_member_tables`. A copy that lost one would
//! reject rows that the others apply.

use crate::error::refused;
use crate::schema::own_tables::tables_of;
use densite_sqlite::{Connection, Error, Result, Value};

/// Notes the tables of the database that founds a stream, within the connection's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn note(connection: &Connection) -> Result<()> {
    tables_of(connection)?
        .iter()
        .try_for_each(|table| add(connection, table))
}

fn add(connection: &Connection, table: &str) -> Result<()> {
    let sql = "INSERT OR IGNORE INTO main.densite_member_tables(\"table\") VALUES (?1)";
    connection.query_row(sql, &[Value::from(table)]).map(drop)
}

/// Notes what a change of the schema did to the tables, within the connection's transaction.
/// `before` are the tables before it.
///
/// # Errors
/// SQLite's.
pub(crate) fn changed(connection: &Connection, before: &[String]) -> Result<()> {
    let after = tables_of(connection)?;
    for gone in before.iter().filter(|table| !after.contains(table)) {
        let sql = "DELETE FROM main.densite_member_tables WHERE \"table\" = ?1";
        connection.query_row(sql, &[Value::from(gone.as_str())])?;
    }
    let new = after.iter().filter(|table| !before.contains(table));
    new.into_iter().try_for_each(|table| add(connection, table))
}

/// An error if the members have a table that this database lacks.
///
/// # Errors
/// That; SQLite's.
pub(crate) fn all(connection: &Connection) -> Result<()> {
    let sql = "SELECT \"table\" FROM main.densite_member_tables WHERE \"table\" NOT IN (SELECT name COLLATE NOCASE FROM main.sqlite_schema WHERE type = 'table') LIMIT 1";
    match connection.query_string(sql)? {
        Some(table) => Err(lacks(&table)),
        None => Ok(()),
    }
}

/// An error if the members have this table. The database does not.
///
/// # Errors
/// That; SQLite's.
pub(crate) fn one(connection: &Connection, table: &str) -> Result<()> {
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

fn lacks(table: &str) -> Error {
    refused(format!(
        "this database lacks the table {table}, which the members of its stream have: something dropped it without densite_schema; replace the database by a copy of another member"
    ))
}
