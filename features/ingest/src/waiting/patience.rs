//! How long a connection waits for other processes that use the log.
//!
//! A lock of the log is held for a write and a sync, even by healthy processes. So a connection
//! waits for its `busy_timeout`, but at least two seconds. Only a process that is stopped, or whose
//! disk hangs, holds a lock that long. `sqlite3_interrupt` ends the wait.

use densite_log::Waiting;
use densite_sqlite::{Code, Connection, Result};
use std::cell::Cell;
use std::time::Duration;

/// The shortest wait for a lock.
const LEAST: Duration = Duration::from_secs(2);
/// Waits shorter than this do not query the connection.
const SHORT: Duration = Duration::from_millis(5);

/// How long this connection waits for locks of other processes: its `busy_timeout`, but at least
/// two seconds.
///
/// # Errors
/// SQLite's.
pub(crate) fn lock_time(connection: &Connection) -> Result<Duration> {
    connection.busy_timeout().map(|time| time.max(LEAST))
}

/// The patience of this connection.
pub(crate) fn patience(connection: &Connection) -> impl Fn(Duration) -> Waiting + '_ {
    let limit = Cell::new(None);
    move |waited| {
        if waited < SHORT {
            return Waiting::GoesOn;
        }
        if let Err(e) = connection.check_interrupt()
            && e.code.primary() == Code::INTERRUPT
        {
            return Waiting::IsInterrupted;
        }
        let limit = limit.get().unwrap_or_else(|| {
            let time = lock_time(connection).unwrap_or(LEAST);
            limit.set(Some(time));
            time
        });
        match waited < limit {
            true => Waiting::GoesOn,
            false => Waiting::IsOver,
        }
    }
}
