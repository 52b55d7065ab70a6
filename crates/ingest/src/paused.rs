//! `densite_pause(table)` and `densite_resume(table)`: no rows are applied in between.
//!
//! `densite_applied.paused` is a JSON array of the names of paused tables, or empty. The worker reads it in the transaction
//! in which it would apply rows. The position is one number for all tables, so while one is paused,
//! the rows of the others wait too.

use crate::database_log::DatabaseLog;
use crate::error::refused;
use crate::session::Session;
use crate::target::Target;
use densite_sqlite::{Code, Connection, Error, Result, Value, ValueRef};
use std::sync::Arc;

/// The names of paused tables.
pub(crate) fn tables(connection: &Connection) -> Result<Vec<String>> {
    let stored = connection.query_string("SELECT paused FROM main.densite_applied")?;
    let stored = stored.unwrap_or_default();
    Ok(serde_json::from_str(&stored).unwrap_or_default())
}

fn store(connection: &Connection, tables: &[String]) -> Result<()> {
    let names = match tables {
        [] => String::new(),
        _ => serde_json::json!(tables).to_string(),
    };
    let update = "UPDATE main.densite_applied SET paused = ?1";
    connection.query_row(update, &[Value::Text(names)])?;
    Ok(())
}

/// Why the worker applies no rows.
///
/// # Errors
/// SQLite's.
pub(crate) fn reason(connection: &Connection) -> Result<Error> {
    let tables = tables(connection)?;
    let resume = |table: &String| format!("densite_resume('{}')", table.replace('\'', "''"));
    let resume: Vec<String> = tables.iter().map(resume).collect();
    Ok(Error::new(
        Code::ERROR,
        format!(
            "rows wait since densite_pause; SELECT {} applies them",
            resume.join(", ")
        ),
    ))
}

/// Waits until all rows are applied, and then lets no more be applied. Returns the number of the
/// last row.
///
/// # Errors
/// As `densite_wait()`; within a transaction, since the worker would see the pause only after it.
pub(crate) fn pause(
    session: &Session,
    database_log: &Arc<DatabaseLog>,
    connection: &Connection,
    given: &[ValueRef<'_>],
) -> Result<Value> {
    let name = given.first().and_then(|v| v.as_str()).ok_or_else(|| {
        refused("densite_pause wants a table's name, as in densite_pause('vote')")
    })?;
    let target = Target::read(connection, name)?
        .ok_or_else(|| refused(format!("there is no table {name} in the main database")))?;
    if !connection.is_autocommit() {
        return Err(refused(
            "densite_pause: this connection has a transaction open; end it first",
        ));
    }
    let mut paused = tables(connection)?;
    let mut last = None;
    if paused.is_empty() {
        let own = session.last_in(database_log).unwrap_or(0);
        if own > 0 {
            database_log.wait_visible(own)?;
        }
        let end = database_log.log().last();
        let end = end.map_err(|e| database_log.failed(e))?;
        last = Some(database_log.wait_applied(connection, end, None)?);
    }
    if !paused.iter().any(|p| p.eq_ignore_ascii_case(&target.name)) {
        paused.push(target.name);
        store(connection, &paused)?;
    }
    let seq = match last {
        Some(seq) => Some(seq as i64),
        None => connection.query_i64("SELECT seq FROM main.densite_applied")?,
    };
    Ok(seq.map_or(Value::Null, Value::Integer))
}

/// Ends the pause of a table. Returns whether rows are applied again: no other table is paused.
///
/// # Errors
/// SQLite's; an error if the table is not paused.
pub(crate) fn resume(
    database_log: &DatabaseLog,
    connection: &Connection,
    given: &[ValueRef<'_>],
) -> Result<Value> {
    let name = given.first().and_then(|v| v.as_str()).ok_or_else(|| {
        refused("densite_resume wants a table's name, as in densite_resume('vote')")
    })?;
    let mut paused = tables(connection)?;
    let before = paused.len();
    paused.retain(|p| !p.eq_ignore_ascii_case(name));
    if paused.len() == before {
        return Err(refused(format!("densite_resume: {name} is not paused")));
    }
    store(connection, &paused)?;
    database_log.log().ring();
    Ok(Value::Integer(i64::from(paused.is_empty())))
}
