//! The worker's connection.

use crate::database::connection_spec::ConnectionSpec;
use densite_sqlite::{Connection, Result};

/// The worker waits for locks in steps of this many milliseconds, so that it can be stopped.
pub(super) const BUSY_MS: i32 = 100;

/// Opens the worker's connection, with a page cache of this many KiB.
///
/// # Errors
/// SQLite's.
pub(super) fn open(spec: &ConnectionSpec, cache_kib: u32) -> Result<Connection> {
    let connection = spec.open_to_write()?;
    connection.busy_timeout(BUSY_MS)?;
    connection.exec(&format!(
        "PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -{cache_kib}"
    ))?;
    Ok(connection)
}
