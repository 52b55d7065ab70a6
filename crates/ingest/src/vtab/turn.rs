//! Waiting for one's turn to make a database's log.
//!
//! A statement that makes a table has read the schema when it wants to write the log's name. Whoever has read is not let wait by SQLite: two such might wait for each other, and what was read
//! may be out of date. So the constructor gives up with SQLITE_SCHEMA, for which SQLite ends the statement's transaction and begins the statement anew, and waits at the beginning of its next try, when it
//! holds no lock.

use densite_disk::sync::Mutex;
use densite_sqlite::{Code, Connection, Error, Result};
use std::time::{Duration, Instant};

/// How long the first wait is. Each following one is a quarter of the time since the first try.
const FIRST: Duration = Duration::from_millis(2);
/// SQLite begins a statement anew fifty times. By then the waits are minutes long.
const TRIES: u32 = 45;
/// A try that comes later is not one of SQLite's, but another statement.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Of one connection.
#[derive(Default)]
pub(crate) struct Turn(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    waiting: Option<Waiting>,
    /// When the try that is under way began.
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

impl Turn {
    /// At the beginning of a try.
    pub(super) fn wait(&self) {
        let mut inner = self.0.lock();
        inner.begun = Some(Instant::now());
        inner.waiting = inner.waiting.filter(|w| w.ended.elapsed() < AT_ONCE);
        if let Some(waiting) = inner.waiting {
            let waited = waiting.since.elapsed();
            let step = (waited / 4).max(FIRST);
            std::thread::sleep(step.min(waiting.limit.saturating_sub(waited)));
        }
    }

    /// At its end: what is answered instead of an error that waiting may help against.
    pub(super) fn end<T>(&self, connection: &Connection, done: Result<T>) -> Result<T> {
        let (before, begun) = {
            let mut inner = self.0.lock();
            (inner.waiting.take(), inner.begun)
        };
        let error = match done {
            // Who is in a transaction keeps what he has read.
            Err(e) if e.is_busy() && connection.is_autocommit() => e,
            done => return done,
        };
        let mut waiting = match before {
            Some(waiting) => waiting,
            None => {
                let limit = connection.query_i64("PRAGMA busy_timeout")?.unwrap_or(0);
                let now = Instant::now();
                Waiting {
                    // It may have waited for another lock.
                    since: begun.unwrap_or(now),
                    limit: Duration::from_millis(u64::try_from(limit).unwrap_or(0)),
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
