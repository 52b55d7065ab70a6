//! Whether a connection that waits for the worker itself blocks the worker (rule L6).

use densite_log::Seq;
use densite_sqlite::{Code, Connection, Error, Result, TxnState};
use std::time::{Duration, Instant};

/// If no row is applied for this long, the connection's own locks are checked.
const STUCK: Duration = Duration::from_secs(2);

/// Whether the connection has a transaction open on main.
pub(crate) fn holds_main(connection: &Connection) -> bool {
    connection.txn_state(Some(c"main")) != TxnState::None
}

/// Whether the connection's own transaction prevents the worker's commit. In WAL mode a reader only
/// prevents checkpoints from completing.
///
/// # Errors
/// SQLite's.
pub(crate) fn stops_the_worker(connection: &Connection) -> Result<bool> {
    Ok(match connection.txn_state(Some(c"main")) {
        TxnState::None => false,
        TxnState::Read => {
            let mode = connection.query_string("PRAGMA main.journal_mode")?;
            !mode.is_some_and(|mode| mode.eq_ignore_ascii_case("wal"))
        }
        _ => true,
    })
}

/// A connection that waits for the worker.
pub(crate) struct Waiter {
    since: Instant,
    /// How far rows were applied, and since when.
    applied: Option<(Seq, Instant)>,
}

impl Waiter {
    pub(crate) fn begin() -> Waiter {
        Waiter {
            since: Instant::now(),
            applied: None,
        }
    }

    /// When the wait began.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Rows are applied up to here. If a connection keeps its locks after a transaction, it can
    /// block the worker. Then the wait would never end.
    ///
    /// # Errors
    /// An error if that is possible.
    pub(crate) fn check_locks(&mut self, connection: &Connection, applied: Seq) -> Result<()> {
        let since = match self.applied {
            Some((known, since)) if known == applied => since,
            _ => {
                let now = Instant::now();
                self.applied = Some((applied, now));
                now
            }
        };
        if since.elapsed() < STUCK {
            return Ok(());
        }
        let mode = connection.query_string("PRAGMA main.locking_mode")?;
        match mode.as_deref() {
            Some("exclusive") => Err(Error::new(
                Code::BUSY,
                "this connection keeps its locks (PRAGMA locking_mode = EXCLUSIVE), which the worker has to wait for; set it to NORMAL and read a table",
            )),
            _ => Ok(()),
        }
    }
}
