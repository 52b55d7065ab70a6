//! Databases as members of a stream: rows of many machines, applied in one order by each.
//!
//! A member acknowledges rows from its own log, as every database does. One process of it, the one
//! that applies, has a [`member`] at work, whose threads send the rows of the log to the stream and
//! read the messages of all members. The worker of `densite-ingest` applies what comes ([`apply`]):
//! own rows, too. The position in `densite_applied` moves in the same transaction: the place in the
//! stream, and how far the own log was applied. So readers see table and own waiting rows as one, as
//! without a stream, and the log is pruned as without one. `docs/decisions/cluster.md` has the
//! reasons.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod apply;
mod catching_up;
mod chosen;
mod demands;
mod functions;
mod join_options;
mod joining;
mod leaving;
mod member;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod messages;
mod reach;
mod reached;
mod schema_change;
mod trimming;
mod wait;
mod words;

use densite_ingest::StorageBackend;
use densite_ingest::parts::{Session, register};
use densite_sqlite::{Connection, Result};
use std::sync::Arc;

/// Adds ingest to a connection ([`densite_ingest::create_functions`]), and the SQL functions of
/// members.
///
/// # Errors
/// SQLite's.
pub fn create_functions(connection: &Connection) -> Result<()> {
    register(&apply::Members);
    create(connection, &densite_ingest::create_functions(connection)?)
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
    register(&apply::Members);
    let session = densite_ingest::create_functions_on(connection, storage)?;
    create(connection, &session)
}

fn create(connection: &Connection, session: &Arc<Session>) -> Result<()> {
    functions::create(connection, session)
}
