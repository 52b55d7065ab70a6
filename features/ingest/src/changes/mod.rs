//! What tables became: every changed row of the tables that the application names, for subscribers
//! (docs/decisions/changes.md).
//!
//! A recorded table has three triggers, which never run. But they write to the virtual table
//! `densite_recorder`, so SQLite reports transactions that can change the table to it
//! ([`recorder`]). While such a transaction runs, SQLite's preupdate hook reports each row. At
//! COMMIT, the rows go to the table `densite_changed` ([`queue`]), in the same transaction. So they
//! are in the order of the commits, and exist if and only if the changes do.

mod changes_wait;
mod column;
mod feed;
mod queue;
mod recorded;
mod recorder;
mod reread;
mod subscribers;

pub(crate) use recorded::config;
pub(crate) use subscribers::{Subscriber, all as subscribers};

use crate::error::refused;
use crate::storage::StorageBackend;
use densite_sqlite::{Connection, Result, Value, ValueRef};
use std::sync::Arc;

/// Adds the recorder and the functions for subscribers to a connection.
pub(crate) fn create(connection: &Connection, storage: &Arc<dyn StorageBackend>) -> Result<()> {
    let changes = recorder::create(connection)?;
    feed::create(connection, changes, storage)
}

/// `densite_config('changes_max_retained_bytes' [, bytes])`: reads or sets the most bytes that are
/// kept for a subscriber.
pub(crate) fn config_max_bytes(connection: &Connection, given: &[ValueRef<'_>]) -> Result<Value> {
    let wants = || refused("changes_max_retained_bytes is a number of bytes, 0 for no limit");
    match given {
        [] => {}
        [bytes] => {
            let bytes = bytes.as_i64().filter(|n| *n >= 0).ok_or_else(wants)?;
            queue::atomically(connection, || subscribers::set_max_bytes(connection, bytes))?;
        }
        _ => return Err(wants()),
    }
    subscribers::max_bytes(connection).map(Value::Integer)
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
