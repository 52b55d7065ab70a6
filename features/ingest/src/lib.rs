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
mod clustered;
mod database;
mod error;
mod functions;
mod log;
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
use schema::own_triggers::create_guard;
use std::sync::Arc;
use vtab::session::Session;

/// What the crate of streams, which stands above this one, is built on.
pub mod parts {
    pub use crate::apply::stream::{Begun, Member, StreamMessage, StreamSource, Streams, register};
    pub use crate::apply::{
        Applying, DatabaseWorker, Reached, RecordSource, SourceState, is_of_the_row, reject,
    };
    pub use crate::database::connection_spec::{ConnectionSpec, equip};
    pub use crate::database::database_file::DatabaseFile;
    pub use crate::database::open_log::OpenLog;
    pub use crate::database::position::{StreamPlace, last_reject, log_of, rejects};
    pub use crate::error::{no_log, refused};
    pub use crate::log::backpressure::LOOK_EVERY;
    pub use crate::schema::expression::{Token, tokens};
    pub use crate::schema::member_tables::lacks;
    pub use crate::schema::names::unquoted;
    pub use crate::schema::own_tables::{MEMBER, is_own, tables_of};
    pub use crate::schema::own_triggers::{GUARDS, is_ours};
    pub use crate::vtab::session::Session;
}

/// Adds the virtual table and the SQL functions of ingest to a connection. Returns its session.
///
/// # Errors
/// SQLite's.
pub fn create_functions(connection: &Connection) -> Result<Arc<Session>> {
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
) -> Result<Arc<Session>> {
    let session = Arc::new(Session::on(storage));
    changes::create(connection, session.storage())?;
    functions::create(connection, &session)?;
    create_guard(connection, false)?;
    let tables = vtab::Tables::new(session.clone());
    create_module::<vtab::Ingest>(connection, "densite_ingest", tables)?;
    functions::make_persistent_tables(connection, &session)?;
    Ok(session)
}
