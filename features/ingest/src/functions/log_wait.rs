//! Waiting for rows that any process appends: `densite_log_wait`.
//!
//! The log wakes waiting threads, so waiting here costs nothing and a row arrives at once. SQLite
//! cannot interrupt a function that waits, so the function checks regularly whether its connection
//! was interrupted.

use super::wait_functions::asked;
use crate::vtab::session::Session;
use densite_sqlite::{Connection, Result, Value, create_function, ffi};
use std::sync::Arc;
use std::time::Duration;

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
                let time = until.left().min(LOOK_EVERY);
                let came = database_log.log().wait_after(seq, time);
                if came.map_err(|e| database_log.failed(e))? || until.is_over() {
                    return Ok(Value::Integer(i64::try_from(last()?).unwrap_or(i64::MAX)));
                }
                connection.check_interrupt()?;
            }
        },
    )
}
