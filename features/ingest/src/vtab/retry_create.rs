//! Waiting for a turn to make a database's log.
//!
//! A statement that makes a table has read the schema when it writes the log's name. SQLite does
//! not let a reader wait for the write lock: two of them could block each other, and what was read
//! may be out of date. So the constructor fails with SQLITE_SCHEMA. SQLite then ends the
//! statement's transaction and begins the statement again. The constructor waits at the beginning
//! of that try, when it holds no lock.

use densite_disk::sync::Mutex;
use densite_disk::wait::pause;
use densite_sqlite::{Code, Connection, Error, Result};
use std::time::{Duration, Instant};

/// The length of the first wait. Each following one is a quarter of the time since the first try.
const FIRST: Duration = Duration::from_millis(2);
/// SQLite begins a statement again up to fifty times. By then the waits are minutes long.
const TRIES: u32 = 45;
/// A later try belongs to another statement.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The turn of one connection.
#[derive(Default)]
pub(crate) struct RetryCreate(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    waiting: Option<Waiting>,
    /// When the current try began.
    begun: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Waiting {
    since: Instant,
    limit: Duration,
    tries: u32,
    /// When the last try ended.
    ended: Instant,
}

impl RetryCreate {
    /// Called at the beginning of a try.
    pub(super) fn wait(&self) {
        let mut inner = self.0.lock();
        inner.begun = Some(Instant::now());
        inner.waiting = inner.waiting.filter(|w| w.ended.elapsed() < AT_ONCE);
        if let Some(waiting) = inner.waiting {
            let waited = waiting.since.elapsed();
            let step = (waited / 4).max(FIRST);
            pause(step.min(waiting.limit.saturating_sub(waited)));
        }
    }

    /// Called at the end of a try. Replaces an error that waiting can resolve.
    pub(super) fn end<T>(&self, connection: &Connection, done: Result<T>) -> Result<T> {
        let (before, begun) = {
            let mut inner = self.0.lock();
            (inner.waiting.take(), inner.begun)
        };
        let error = match done {
            // Within a transaction, the reads of the connection must stay valid.
            Err(e) if e.is_busy() && connection.is_autocommit() => e,
            done => return done,
        };
        let mut waiting = match before {
            Some(waiting) => waiting,
            None => {
                let now = Instant::now();
                Waiting {
                    // The try may have waited for another lock.
                    since: begun.unwrap_or(now),
                    limit: connection.busy_timeout()?,
                    tries: 0,
                    ended: now,
                }
            }
        };
        if waiting.since.elapsed() >= waiting.limit || waiting.tries == TRIES {
            return Err(error);
        }
        waiting.tries += 1;
        waiting.ended = Instant::now();
        self.0.lock().waiting = Some(waiting);
        Err(Error::new(Code::SCHEMA, error.message))
    }
}
