//! The wait for room: a writer waits while more bytes are unapplied than `max_unapplied_bytes`
//! allows.
//!
//! A writer waits when its transaction begins to write, before it holds a lock, and again at
//! COMMIT. By then it can have read: in a rollback mode that blocks the worker, in WAL mode it does
//! not (rule L6).

use crate::apply::DatabaseWorker;
use crate::database::database_file::still_has_its_name;
use crate::database::open_log::OpenLog;
use crate::error::refused;
use crate::waiting::self_block::{Waiter, holds_main, stops_the_worker};
use densite_disk::sync::Mutex;
use densite_log::Txn;
use densite_sqlite::{Code, Connection, Error, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a waiting writer checks for room.
const POLL: Duration = Duration::from_millis(5);
/// How long a check of the unapplied bytes and of the settings stays valid.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a writer does if too many bytes are unapplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// It gets an error.
    Fail,
    /// It waits for its `busy_timeout`.
    Wait,
    /// It waits too. But if its own transaction blocks the worker, its rows are accepted, because
    /// there was room when the transaction began.
    WaitOrPass,
}

/// The room for unapplied rows of one database.
pub(crate) struct Backpressure {
    open: Arc<OpenLog>,
    worker: Arc<DatabaseWorker>,
    looked: Mutex<Looked>,
}

/// What the last check found.
#[derive(Clone, Copy, Default)]
struct Looked {
    at: Option<Instant>,
    /// Too many bytes were unapplied.
    is_full: bool,
    /// The most bytes of a transaction; 0: no limit.
    largest: u64,
}

impl Backpressure {
    pub(crate) fn new(open: Arc<OpenLog>, worker: Arc<DatabaseWorker>) -> Backpressure {
        Backpressure {
            open,
            worker,
            looked: Mutex::default(),
        }
    }

    /// Waits for room for a transaction that begins to write, if the connection holds no lock yet.
    /// Returns whether there is room.
    ///
    /// # Errors
    /// As [`Backpressure::wait_for_space`].
    pub(crate) fn to_begin(&self, connection: &Connection) -> Result<bool> {
        if holds_main(connection) {
            return Ok(false);
        }
        match self.wait_for_space(connection, WhenFull::Wait) {
            Ok(()) => Ok(true),
            Err(e) => {
                // The log that cannot be read may belong to another file.
                still_has_its_name(connection)?;
                Err(e)
            }
        }
    }

    /// Refuses a transaction that is too large for the stream of which the database is a member. Call
    /// it after [`Backpressure::wait_for_space`], which finds out how large it may be.
    ///
    /// # Errors
    /// `TOOBIG`.
    pub(crate) fn fits(&self, txn: &Txn) -> Result<()> {
        let bytes = txn.packed_max();
        let most = self.looked.lock().largest;
        if most == 0 || bytes <= most {
            return Ok(());
        }
        Err(Error::new(
            Code::TOOBIG,
            format!(
                "the transaction has {bytes} bytes, and a message of the stream takes {most}: commit more often, or raise max_payload of the server"
            ),
        ))
    }

    /// Back-pressure: waits or fails while more bytes are unapplied than `max_unapplied_bytes`
    /// allows.
    ///
    /// # Errors
    /// `FULL` for a writer that does not wait. `BUSY` after `busy_timeout`, or if the connection
    /// itself blocks the worker. The worker's error if rows cannot be applied.
    pub(crate) fn wait_for_space(
        &self,
        connection: &Connection,
        when_full: WhenFull,
    ) -> Result<()> {
        let looked = *self.looked.lock();
        if looked.at.is_some_and(|at| at.elapsed() < LOOK_EVERY) && !looked.is_full {
            return Ok(());
        }
        let mut largest;
        let mut wait = Waiter::begin();
        let since = wait.since();
        let mut limit_of_time = None;
        loop {
            let config = self.open.log().config().map_err(|e| self.open.failed(e))?;
            let limit = config.max_unapplied_bytes;
            largest = config.max_transaction_bytes;
            if limit == 0 {
                break;
            }
            let applying = self.worker.applying(connection)?;
            // A commit of this connection is running, so it would read an older state of the
            // database.
            let (applied, trouble) = applying.progress(Duration::ZERO, since);
            let bytes = self
                .open
                .log()
                .bytes_after(applied)
                .map_err(|e| self.open.failed(e))?;
            if bytes <= limit {
                break;
            }
            *self.looked.lock() = Looked {
                at: Some(Instant::now()),
                is_full: true,
                largest,
            };
            let what = format!(
                "{bytes} bytes of the log are not applied yet, and max_unapplied_bytes is {limit}"
            );
            if when_full == WhenFull::Fail {
                return Err(Error::new(Code::FULL, format!("{what}; try again later")));
            }
            if stops_the_worker(connection)? {
                if when_full == WhenFull::WaitOrPass {
                    return Ok(());
                }
                return Err(Error::new(
                    Code::BUSY,
                    format!(
                        "{what}; this transaction has read before it wrote, and outside of WAL mode the worker has to wait for it: roll it back and try again, or write first"
                    ),
                ));
            }
            if let Some(error) = trouble.filter(|e| !e.is_busy()) {
                let said = format!("{what}; they cannot be applied: {}", error.message);
                return Err(match holds_main(connection) {
                    false => refused(said),
                    // This transaction may be the reader that prevents checkpoints.
                    true => Error::new(
                        Code::BUSY,
                        format!(
                            "{said}; this transaction has read, too: roll it back and try again"
                        ),
                    ),
                });
            }
            still_has_its_name(connection)?;
            self.open
                .log()
                .is_in_place()
                .map_err(|e| self.open.failed(e))?;
            connection.check_interrupt()?;
            let most = match limit_of_time {
                Some(most) => most,
                None => *limit_of_time.insert(connection.busy_timeout()?),
            };
            if since.elapsed() >= most {
                return Err(Error::new(
                    Code::BUSY,
                    format!(
                        "{what}; there was no room within {} ms, which is this connection's busy_timeout: try again, or set a longer one",
                        most.as_millis()
                    ),
                ));
            }
            wait.check_locks(connection, applied)?;
            applying.progress(POLL, since);
        }
        *self.looked.lock() = Looked {
            at: Some(Instant::now()),
            is_full: false,
            largest,
        };
        Ok(())
    }
}
