//! Rows at the speed of a log: they are acknowledged once they are durable there, a worker moves
//! them to their tables, and readers see them at once.
//!
//! [`create_functions`] adds ingest to a connection: the virtual table `densite_ingest`,
//! `densite_last_seq()`, `densite_log_last()`, `densite_log_wait()`, `densite_wait()`, and the
//! functions for subscribers. [`DatabaseLog`] is what all connections of a process on one database
//! share: its log, its worker and its unapplied rows. `docs/decisions/ingest.md` has the seven
//! rules of ingest and how they are kept; `docs/durability/ingest.md` says what survives.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod apply;
mod changes;
mod cluster;
mod clustered;
mod database;
mod error;
mod functions;
mod log;
mod member;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod messages;
mod read;
mod rows;
mod schema;
mod storage;
mod vtab;
mod waiting;

pub use clustered::ClusteredLimits;
pub use database::durable::position as durable_position;
pub use database::position::{ClusteredPosition, Position};
pub use database::rate::applied_per_second;
pub use error::from_log;
pub use functions::{Entry, entries};
pub use log::database_log::DatabaseLog;
pub use schema::affinity::Affinity;
pub use storage::{FileInfo, StorageBackend};

use densite_sqlite::{Connection, Result, create_module};
use std::sync::Arc;
use vtab::session::Session;

/// Adds the virtual table and the SQL functions of ingest to a connection.
///
/// # Errors
/// SQLite's.
pub fn create_functions(connection: &Connection) -> Result<()> {
    create_functions_on(connection, storage::host())
}

/// As [`create_functions`], for a connection through a VFS whose files are not on the host's file
/// system.
///
/// # Errors
/// SQLite's.
pub fn create_functions_on(
    connection: &Connection,
    storage: Arc<dyn StorageBackend>,
) -> Result<()> {
    let session = Arc::new(Session::on(storage));
    changes::create(connection, session.storage())?;
    functions::create(connection, &session)?;
    cluster::functions::create(connection, &session)?;
    let tables = vtab::Tables::new(session.clone());
    create_module::<vtab::Ingest>(connection, "densite_ingest", tables)?;
    functions::make_persistent_tables(connection, &session)
}
