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

mod affinity;
mod apply;
mod changes;
mod clustered;
mod code;
mod collation;
mod connection_spec;
mod database_file;
mod database_log;
mod deadline;
mod default;
mod durable;
mod error;
mod expression;
mod feed;
mod functions;
mod ids;
mod in_the_way;
pub mod json;
mod listen;
mod marks;
mod member;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod messages;
mod names;
mod naming;
mod open_log;
mod overwritten;
mod own_tables;
mod own_triggers;
mod patience;
mod pause;
mod paused;
mod pending;
mod policy;
mod position;
mod rate;
mod read;
mod room;
mod scan;
mod session;
mod status;
mod storage;
mod stored;
mod sync_failed;
mod target;
mod unit;
mod update;
mod vtab;
mod wait;

pub use affinity::Affinity;
pub use clustered::ClusteredLimits;
pub use database_log::DatabaseLog;
pub use durable::position as durable_position;
pub use error::from_log;
pub use feed::{Entry, entries};
pub use position::{ClusteredPosition, Position};
pub use rate::applied_per_second;
pub use storage::{FileInfo, StorageBackend};

use densite_sqlite::{Code, Connection, Error, Result, Value, create_function, create_module, ffi};
use position::number;
use session::Session;
use std::sync::Arc;

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
    functions::create(connection, &session)?;
    feed::create(connection, &session)?;
    listen::create(connection, &session)?;
    changes::create(connection, session.storage())?;
    status::create(connection, &session)?;
    member::functions::create(connection, &session)?;
    let tables = vtab::Tables::new(session.clone());
    create_module::<vtab::Ingest>(connection, "densite_ingest", tables)?;
    let own = session.clone();
    create_function(
        connection,
        "densite_last_seq",
        0,
        ffi::DIRECTONLY,
        move |_, _| Ok(own.last().map_or(Value::Null, number)),
    )?;
    let own = session.clone();
    create_function(
        connection,
        "densite_log_last",
        0,
        ffi::DIRECTONLY,
        move |connection, _| {
            let Some(database_log) = own.database_log(connection)? else {
                return Ok(Value::Null);
            };
            let last = database_log
                .log()
                .last()
                .map_err(|e| database_log.failed(e))?;
            // The connection's own last row can be behind rows that are not decided yet.
            Ok(number(last.max(own.last_in(&database_log).unwrap_or(0))))
        },
    )?;
    let own = session.clone();
    create_function(
        connection,
        "densite_wait",
        -1,
        ffi::DIRECTONLY,
        move |connection, arguments| {
            let (arguments, in_stream) = wait::or_stream(arguments);
            let (seq, until) = wait::asked("densite_wait", &arguments)?;
            let Some(database_log) = own.database_log(connection)? else {
                return match seq {
                    None | Some(0) => Ok(Value::Integer(0)),
                    Some(_) => Err(Error::new(
                        Code::ERROR,
                        "densite_wait: this database has no log",
                    )),
                };
            };
            let mine = own.last().unwrap_or(0);
            let mut last = database_log
                .log()
                .last()
                .map_err(|e| database_log.failed(e))?;
            if last < mine && seq.is_none_or(|seq| seq > last) {
                database_log.wait_visible(mine)?;
                last = database_log
                    .log()
                    .last()
                    .map_err(|e| database_log.failed(e))?;
            }
            let seq = seq.unwrap_or(last);
            if seq > last {
                return Err(Error::new(
                    Code::ERROR,
                    format!("densite_wait: row {seq} is not in the log, which ends at {last}"),
                ));
            }
            let reached = match in_stream {
                true => member::wait::wait(&database_log, connection, seq, until),
                false => database_log.wait_applied(connection, seq, until),
            };
            reached.map(number)
        },
    )?;
    stored::make(connection, &session)
}
