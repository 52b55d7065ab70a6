//! Following a database's log.

use crate::log_queries::{ask, object, seq, to_sql, with_log};
use crate::transaction::alone;
use crate::{Error, Result};
use rusqlite::{Connection, params};
use std::time::{Duration, Instant};

/// The most rows of a batch, unless the caller sets another number.
const MAX_ROWS: u64 = 1000;
/// How long one statement waits at most. `sqlite3_interrupt` ends the wait early.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Where a new subscriber begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Start {
    /// At the first row that the log still has.
    Beginning,
    /// At the next row that is appended.
    Now,
}

/// Follows the log of the main database as a named subscriber. The log keeps all rows that the
/// subscriber has not acknowledged. An existing subscriber continues at its position, and `start`
/// has no effect.
///
/// A name is 1 to 64 letters, digits, `-`, `_` or `.`. The log is created if needed.
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
/// [`Error::TransactionOpen`] within a transaction; [`Error::Sqlite`] if the name is invalid, the
/// log is missing or damaged, or the database is locked.
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
        // An existing subscriber has a position, which acknowledging 0 returns. Otherwise the first
        // error is the reason.
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

/// The change of a row.
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
/// Values are JSON values: a blob is `{"hex": "00FF"}`, text that is not UTF-8 is `{"text_hex":
/// "61FF"}`, an infinite number is its name.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// Its sequence number in the log.
    pub seq: u64,
    /// The table.
    pub table: String,
    /// The kind of change.
    pub op: Op,
    /// The columns of the primary key.
    pub key: serde_json::Map<String, serde_json::Value>,
    /// All columns; `None` for a deleted row.
    pub row: Option<serde_json::Map<String, serde_json::Value>>,
}

/// Some rows of the log, in order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Batch {
    /// The sequence number of the last row: acknowledge it when all rows are processed.
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
    /// The last acknowledged row; this position is durable in the log.
    acked: u64,
    /// The last row that was returned.
    read: u64,
}

impl Subscription<'_> {
    /// Sets the most rows of a batch, at least 1. The default is 1000. A batch can end within a
    /// transaction; the next batch then begins with the other rows of that transaction.
    #[must_use]
    pub fn max_rows(mut self, rows: u32) -> Self {
        self.max_rows = u64::from(rows.max(1));
        self
    }

    /// The next batch. It begins after the last batch that this object returned, acknowledged or
    /// not. `None` if no row came within the timeout: zero does not wait, `None` waits without
    /// limit. A row that any process appends ends the wait at once.
    ///
    /// # Errors
    /// [`Error::Sqlite`] if the subscriber no longer exists, the log cannot be read, or the
    /// connection was interrupted.
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
        // The log is read from the acknowledged position on. There are at most as many rows in
        // between as numbers.
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

    /// Records durably that all rows up to this number are processed, so that the log need not keep
    /// them for this subscriber. Returns the subscriber's position. An older number changes
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Sqlite`] if no row has that number yet, the subscriber no longer exists, or the
    /// disk is full.
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

    /// Removes the subscriber, so that the log keeps nothing for it. Dropping the subscription does
    /// not remove it.
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
