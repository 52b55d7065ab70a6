//! Following a database's log.

use crate::log::{ask, object, seq, to_sql, with_log};
use crate::transaction::alone;
use crate::{Error, Result};
use rusqlite::{Connection, params};
use std::time::{Duration, Instant};

/// Rows of a batch, unless the caller says otherwise.
const MAX_ROWS: u64 = 1000;
/// How long one statement waits. `sqlite3_interrupt` ends it before.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Where a new subscriber begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Start {
    /// With the first row that the log still has.
    Beginning,
    /// With the next row that is appended.
    Now,
}

/// Follows the log of the main database as a named subscriber. The log keeps all rows that it has not acknowledged. A
/// subscriber of that name that exists continues where it was, and `start` has no effect then.
///
/// A name is 1 to 64 letters, digits, `-`, `_` or `.`. The log is created if there is none.
///
/// ```
/// use std::time::Duration;
/// # let dir = tempfile::tempdir()?;
/// # let con = densite::open(dir.path().join("app.db"))?;
/// # con.execute_batch("CREATE TABLE vote(user INTEGER PRIMARY KEY, article INTEGER)")?;
/// # densite::ingest(&con, "vote")?.append([(1, 10)])?;
/// let mut sub = densite::subscribe(&con, "indexer", densite::Start::Beginning)?;
/// while let Some(batch) = sub.next(Some(Duration::ZERO))? {
///     for change in &batch.changes {
///         println!("{} {:?} {:?} {:?}", change.table, change.op, change.key, change.row);
///     }
///     sub.ack(batch.seq)?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::TransactionOpen`] within a transaction; [`Error::Sqlite`] for a wrong name, and if the log is missing or
/// damaged, or the database is locked.
pub fn subscribe<'c>(con: &'c Connection, name: &str, start: Start) -> Result<Subscription<'c>> {
    alone(con, "a subscriber is added")?;
    let from = match start {
        Start::Beginning => "start",
        Start::Now => "now",
    };
    let begun = with_log(con, || {
        ask::<i64>(con, "SELECT densite_subscribe(?1, ?2)", (name, from))
    });
    let acked = match begun {
        Ok(acked) => acked,
        // One that exists has a position, which acknowledging nothing returns. Otherwise the first error says why.
        Err(first) => ask(con, "SELECT densite_ack(?1, 0)", [name]).map_err(|_| first)?,
    };
    Ok(Subscription {
        con,
        name: name.to_owned(),
        max_rows: MAX_ROWS,
        acked: seq(acked),
        read: seq(acked),
    })
}

/// What was done to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// It was inserted.
    Insert,
    /// It was updated.
    Update,
    /// It was deleted.
    Delete,
}

/// One row of the log.
///
/// Values are JSON values: a blob is `{"hex": "00FF"}`, text that is not UTF-8 `{"text_hex": "61FF"}`, an infinite
/// number its name.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// Its sequence number.
    pub seq: u64,
    /// The table.
    pub table: String,
    /// What was done.
    pub op: Op,
    /// The columns of the primary key.
    pub key: serde_json::Map<String, serde_json::Value>,
    /// All columns; `None` for a deleted row.
    pub row: Option<serde_json::Map<String, serde_json::Value>>,
}

/// Some rows of the log, in its order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Batch {
    /// The sequence number of the last row: what to acknowledge when all are done.
    pub seq: u64,
    /// The rows, at least one.
    pub changes: Vec<Change>,
}

/// A subscriber's position in the log, on one connection. See [`subscribe`](fn@subscribe).
#[derive(Debug)]
pub struct Subscription<'c> {
    con: &'c Connection,
    name: String,
    max_rows: u64,
    /// Durable in the log: it keeps what follows.
    acked: u64,
    /// What was given last.
    read: u64,
}

impl Subscription<'_> {
    /// Sets how many rows a batch has at most, at least 1. The default is 1000. A batch can end within a transaction,
    /// whose other rows come first in the next one.
    #[must_use]
    pub fn max_rows(mut self, rows: u32) -> Self {
        self.max_rows = u64::from(rows.max(1));
        self
    }

    /// The next batch, which begins behind the last one that this object returned, acknowledged or not. `None` when no
    /// row came within the timeout: zero does not wait, `None` waits without a limit. A row that any process appends
    /// ends the wait at once.
    ///
    /// # Errors
    /// [`Error::Sqlite`] if there is no such subscriber any more, the log cannot be read, or the connection was
    /// interrupted.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Batch>> {
        let begun = Instant::now();
        loop {
            if let Some(batch) = self.read()? {
                return Ok(Some(batch));
            }
            let left = match timeout {
                None => WAIT_MAX,
                Some(timeout) => timeout.saturating_sub(begun.elapsed()).min(WAIT_MAX),
            };
            if left.is_zero() {
                return Ok(None);
            }
            let wait = "SELECT densite_log_wait(?1, ?2)";
            ask::<Option<i64>>(self.con, wait, (to_sql(self.read), left.as_secs_f64()))?;
        }
    }

    fn read(&mut self) -> Result<Option<Batch>> {
        // The log is read from what is acknowledged on. Numbers in between can be fewer rows, never more.
        let limit = self.max_rows + (self.read - self.acked);
        let mut statement = self
            .con
            .prepare_cached(
                "SELECT seq, \"table\", op, \"key\", \"row\" FROM densite_log(?1, ?2) WHERE seq > ?3 LIMIT ?4",
            )
            .map_err(Error::of_function)?;
        let given = params![
            self.name,
            to_sql(limit),
            to_sql(self.read),
            to_sql(self.max_rows)
        ];
        let changes = statement.query_map(given, change)?;
        let changes = changes.collect::<rusqlite::Result<Vec<Change>>>()?;
        let Some(last) = changes.last() else {
            return Ok(None);
        };
        self.read = last.seq;
        Ok(Some(Batch {
            seq: self.read,
            changes,
        }))
    }

    /// Records durably that all rows up to this number are done, so that the log need not keep them for this subscriber.
    /// Returns the subscriber's position. An older number changes nothing.
    ///
    /// # Errors
    /// [`Error::Sqlite`] if no row has that number yet, there is no such subscriber any more, or the disk is full.
    pub fn ack(&mut self, done: u64) -> Result<u64> {
        let acked: i64 = ask(
            self.con,
            "SELECT densite_ack(?1, ?2)",
            (&self.name, to_sql(done)),
        )?;
        self.acked = seq(acked);
        self.read = self.read.max(self.acked);
        Ok(self.acked)
    }

    /// Removes the subscriber: nothing is kept for it any more. Dropping the subscription keeps it.
    ///
    /// # Errors
    /// SQLite's.
    pub fn unsubscribe(self) -> Result<()> {
        ask::<Option<i64>>(self.con, "SELECT densite_unsubscribe(?1)", [&self.name]).map(drop)
    }
}

fn change(row: &rusqlite::Row<'_>) -> rusqlite::Result<Change> {
    let op = row.get_ref(2)?.as_str()?;
    Ok(Change {
        seq: seq(row.get(0)?),
        table: row.get(1)?,
        op: match op {
            "insert" => Op::Insert,
            "update" => Op::Update,
            _ => Op::Delete,
        },
        key: object(row, 3)?,
        row: match row.get_ref(4)? {
            rusqlite::types::ValueRef::Null => None,
            _ => Some(object(row, 4)?),
        },
    })
}
