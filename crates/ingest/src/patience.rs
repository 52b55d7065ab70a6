//! How long a connection waits for other processes that use the log.
//!
//! A lock of the log is held for a write and a sync, also by processes that do nothing wrong. So a connection waits for its `busy_timeout`, and for two seconds where it has a shorter one or none:
//! only a process that is stopped, or whose disk hangs, holds one for so long. `sqlite3_interrupt` ends the wait.

use densite_log::Waiting;
use densite_sqlite::{Code, Connection};
use std::cell::Cell;
use std::time::Duration;

/// The shortest wait.
const LEAST: Duration = Duration::from_secs(2);
/// Nobody is asked before.
const SHORT: Duration = Duration::from_millis(5);

/// Of this connection.
pub(crate) fn patience(connection: &Connection) -> impl Fn(Duration) -> Waiting + '_ {
    let limit = Cell::new(None);
    move |waited| {
        if waited < SHORT {
            return Waiting::GoesOn;
        }
        // Asks nothing of the database, but whether somebody has interrupted the connection.
        if let Err(e) = connection.query_i64("SELECT 1")
            && e.code.primary() == Code::INTERRUPT
        {
            return Waiting::IsInterrupted;
        }
        let limit = limit.get().unwrap_or_else(|| {
            let told = connection.query_i64("PRAGMA busy_timeout");
            let ms = told.ok().flatten().and_then(|ms| u64::try_from(ms).ok());
            let time = LEAST.max(Duration::from_millis(ms.unwrap_or(0)));
            limit.set(Some(time));
            time
        });
        match waited < limit {
            true => Waiting::GoesOn,
            false => Waiting::IsOver,
        }
    }
}
