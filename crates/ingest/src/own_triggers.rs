//! Triggers that Densite made: those that record changes, and those that guard the tables of a
//! member. They do nothing when the worker applies rows.

use crate::{changes, member};
use densite_sqlite::{Connection, Result, ffi};

/// A condition on `sqlite_schema`: the trigger is one of Densite's.
pub(crate) fn is_ours() -> String {
    format!("(({}) OR ({}))", changes::IS_OURS, member::IS_GUARD)
}

/// Turns the triggers of a connection off, if only Densite's would run: they cost time for each row.
/// Returns whether it did. Each transaction then has to [`changes::join`].
///
/// # Errors
/// SQLite's.
pub(crate) fn without_triggers(connection: &Connection) -> Result<bool> {
    let triggers = format!(
        "SELECT min({}) FROM main.sqlite_schema WHERE type = 'trigger'",
        is_ours()
    );
    let only_ours = connection.query_i64(&triggers)? == Some(1);
    connection.set_config(ffi::DBCONFIG_ENABLE_TRIGGER, !only_ours)?;
    Ok(only_ours)
}
