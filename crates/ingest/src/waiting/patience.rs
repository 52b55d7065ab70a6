//! How long a connection waits for other processes that use the log.
//!
//! A lock of the log is held for a write and a sync, even by healthy processes. So a connection
//! waits for its `busy_timeout`, but at least two seconds. Only a process that is stopped, or whose
//! disk hangs, holds a lock that long. `sqlite3_interrupt` ends the wait.

use densite_log::Waiting;
use densite_sqlite::{Code, Connection};
use std::cell::Cell;
use std::time::Duration;

/// The shortest wait.
const LEAST: Duration = Duration::from_secs(2);
/// Waits shorter than this do not query the connection.
const SHORT: Duration = Duration::from_millis(5);

/// The patience of this connection.
pub(crate) fn patience(connection: &Connection) -> impl Fn(Duration) -> Waiting + '_ {
    let limit = Cell::new(None);
    move |waited| {
        if waited < SHORT {
            return Waiting::GoesOn;
        }
        // This reads nothing. It fails if the connection was interrupted.
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
