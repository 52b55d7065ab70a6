//! The worker's connection.

use crate::database::connection_spec::ConnectionSpec;
use densite_sqlite::{Connection, Result};
use std::time::Duration;

/// The worker waits for locks in steps of this time, so that it can be stopped.
pub(super) const LOCK_STEP: Duration = Duration::from_millis(100);

/// Opens the worker's connection, with a page cache of this many KiB.
///
/// # Errors
/// SQLite's.
pub(super) fn open(spec: &ConnectionSpec, cache_kib: u32) -> Result<Connection> {
    let connection = spec.open_to_write()?;
    connection.set_busy_timeout(LOCK_STEP)?;
    connection.exec(&format!(
        "PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -{cache_kib}"
    ))?;
    Ok(connection)
}
