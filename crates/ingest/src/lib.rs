//! Rows at the speed of a log: acknowledged once they are durable there, moved into their tables by a worker, read at once.
//!
//! [`create_functions`] makes it known to a connection: the virtual table `densite_ingest`, `densite_last_seq()` and `densite_wait()`. [`Home`] is what all connections of
//! a process on one database share: its log, the worker, what is known of unapplied rows.
//!
//! The six rules of ingest and how they are kept are in `docs/decisions/ingest.md`, what survives in `docs/DURABILITY.md`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod durable;
mod error;
mod feed;
mod functions;
mod home;
pub mod json;
mod place;
mod position;

pub use durable::position as durable_position;
pub use error::from_log;
pub use feed::{Entry, entries};
pub use home::Home;
pub use position::Position;

use densite_sqlite::{Connection, Result};

/// Adds the virtual table and the SQL functions of ingest to a connection.
///
/// # Errors
/// SQLite's.
pub fn create_functions(connection: &Connection) -> Result<()> {
    functions::create(connection)?;
    feed::create(connection)
}
