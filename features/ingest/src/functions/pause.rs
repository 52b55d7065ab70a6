//! `densite_pause(table)` and `densite_resume(table)`: no rows are applied in between.

use crate::database::paused;
use crate::error::refused;
use crate::log::database_log::DatabaseLog;
use crate::schema::target::Target;
use crate::vtab::session::Session;
use densite_disk::wait::Deadline;
use densite_sqlite::{Connection, Result, Value, ValueRef};
use std::sync::Arc;

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
    let mut names = paused::tables(connection)?;
    let mut last = None;
    if names.is_empty() {
        let own = session.last_in(database_log).unwrap_or(0);
        if own > 0 {
            database_log.wait_visible(own)?;
        }
        let end = database_log.log().last();
        let end = end.map_err(|e| database_log.failed(e))?;
        last = Some(database_log.wait_applied(connection, end, Deadline::NEVER)?);
    }
    if !names.iter().any(|p| p.eq_ignore_ascii_case(&target.name)) {
        names.push(target.name);
        paused::store(connection, &names)?;
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
    let mut names = paused::tables(connection)?;
    let before = names.len();
    names.retain(|p| !p.eq_ignore_ascii_case(name));
    if names.len() == before {
        return Err(refused(format!("densite_resume: {name} is not paused")));
    }
    paused::store(connection, &names)?;
    database_log.log().ring();
    Ok(Value::Integer(i64::from(names.is_empty())))
}
