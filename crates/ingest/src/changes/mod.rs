//! What tables became: every changed row of the tables that the application names, for subscribers
//! (docs/decisions/changes.md).
//!
//! A recorded table has three triggers, which never run. But they write to the virtual table
//! `densite_recorder`, so SQLite reports transactions that can change the table to it
//! ([`recorder`]). While such a transaction runs, SQLite's preupdate hook reports each row. At
//! COMMIT, the rows go to the table `densite_changed` ([`queue`]), in the same transaction. So they
//! are in the order of the commits, and exist if and only if the changes do.

mod feed;
mod queue;
mod recorded;
mod recorder;

pub(crate) use recorded::{IS_OURS, config};

use densite_sqlite::{Connection, Result};

/// Names of the tables.
pub(crate) const OWN_TABLES: [&str; 2] = ["densite_changed", "densite_change_subscribers"];

/// Adds the recorder and the functions for subscribers to a connection.
pub(crate) fn create(connection: &Connection) -> Result<()> {
    let changes = recorder::create(connection)?;
    feed::create(connection, changes)
}

/// Adds the recorder to a connection of Densite's own.
pub(crate) fn create_recorder(connection: &Connection) -> Result<()> {
    recorder::create(connection).map(drop)
}

/// Makes the connection's transaction take part in recording.
///
/// # Errors
/// SQLite's; as the first change of a recorded table.
pub(crate) fn join(connection: &Connection) -> Result<()> {
    connection.exec("DELETE FROM densite_recorder")
}
