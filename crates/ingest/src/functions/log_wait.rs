//! Waiting for rows that any process appends: `densite_log_wait`.
//!
//! The log wakes waiting threads, so waiting here costs nothing and a row arrives at once. SQLite
//! cannot interrupt a function that waits, so the function checks regularly whether its connection
//! was interrupted.

use super::wait::asked;
use crate::vtab::session::Session;
use densite_sqlite::{Connection, Result, Value, create_function, ffi};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Adds `densite_log_wait([seq [, seconds]])`. It waits until a row after this one (NULL: after the
/// last one) can be read, and returns the last row that can be read.
pub(crate) fn create(connection: &Connection, session: &Arc<Session>) -> Result<()> {
    let session = Arc::clone(session);
    create_function(
        connection,
        "densite_log_wait",
        -1,
        ffi::DIRECTONLY,
        move |connection, arguments| {
            let (seq, until) = asked("densite_log_wait", arguments)?;
            let database_log = session.existing_log(connection)?;
            let last = || {
                database_log
                    .log()
                    .last()
                    .map_err(|e| database_log.failed(e))
            };
            let seq = seq.map_or_else(last, Ok)?;
            loop {
                let left = until.map_or(LOOK_EVERY, |until| {
                    until.saturating_duration_since(Instant::now())
                });
                let came = database_log.log().wait_after(seq, left.min(LOOK_EVERY));
                let is_over = until.is_some_and(|until| Instant::now() >= until);
                if came.map_err(|e| database_log.failed(e))? || is_over {
                    return Ok(Value::Integer(i64::try_from(last()?).unwrap_or(i64::MAX)));
                }
                // Reads nothing; it fails if the connection was interrupted.
                connection.query_i64("SELECT 1")?;
            }
        },
    )
}
