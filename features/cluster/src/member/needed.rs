//! The tables that the members of a stream have: `densite_member_tables`. A copy that lost one
//! would reject rows that the others apply.

use densite_ingest::parts::{lacks, tables_of};
use densite_sqlite::{Connection, Result, Value};

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
