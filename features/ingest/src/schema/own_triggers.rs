//! Triggers that Densite made: those that record changes, and those that guard the tables of a
//! member. They do nothing when the worker applies rows.

use densite_sqlite::{Connection, Result, Value, create_function, ffi};

/// A condition on `sqlite_schema`: the trigger records changes
/// ([`crate::changes`]).
pub(crate) const RECORDS: &str = "name LIKE 'densite\\_changes\\_%' ESCAPE '\\' AND sql LIKE '%INSERT INTO densite\\_recorder%' ESCAPE '\\'";

/// A condition on `sqlite_schema`: the trigger guards a table of a member.
pub const GUARDS: &str =
    "name LIKE 'densite\\_member\\_%' ESCAPE '\\' AND sql LIKE '%densite\\_applies()%' ESCAPE '\\'";

/// A condition on `sqlite_schema`: the trigger is one of Densite's.
pub fn is_ours() -> String {
    format!("(({RECORDS}) OR ({GUARDS}))")
}

/// Turns the triggers of a connection off, if only Densite's would run: they cost time for each row.
/// Returns whether it did. Each transaction then has to [`crate::changes::join`].
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

/// Adds the function of the triggers that guard tables to a connection, which applies rows or does
/// not.
///
/// # Errors
/// SQLite's.
pub(crate) fn create_guard(connection: &Connection, applies: bool) -> Result<()> {
    let flags = ffi::INNOCUOUS;
    create_function(connection, "densite_applies", 0, flags, move |_, _| {
        Ok(Value::Integer(i64::from(applies)))
    })
}
