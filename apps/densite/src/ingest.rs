//! Many small writes: rows that are durable in a log and move into their table later.

use crate::insert::{OnConflict, Target, insert_columns, list};
use crate::log_queries::{ask, object, seq, to_sql, with_log};
use crate::set::Registered;
use crate::transaction::{Transaction, alone};
use crate::{Columns, Error, Result};
use densite_sqlite::quoted;
use rusqlite::{Connection, OptionalExtension, Params, params};
use std::time::Duration;

/// Opens a table for ingest through the log, with the defaults of [`IngestOptions`].
///
/// ```
/// use std::time::Duration;
/// # let dir = tempfile::tempdir()?;
/// # let con = densite::open(dir.path().join("app.db"))?;
/// con.pragma_update(None, "journal_mode", "wal")?;
/// con.execute_batch(
///     "CREATE TABLE vote(user INTEGER, article INTEGER, PRIMARY KEY (user, article))",
/// )?;
/// let log = densite::ingest(&con, "vote")?;
/// log.append([(1, 10), (2, 10)])?; // durable
/// let seen: i64 = con.query_row("SELECT count(*) FROM temp.vote_in", [], |row| row.get(0))?;
/// assert_eq!(seen, 2);
/// log.wait(Some(Duration::from_secs(30)))?; // in the table
/// assert!(log.rejects()?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`IngestOptions::ingest`].
pub fn ingest<'c>(con: &'c Connection, table: &str) -> Result<Ingest<'c>> {
    IngestOptions::new().ingest(con, table)
}

/// What happens to a row whose key is already in the table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum IngestConflict {
    /// The row goes to the rejected rows ([`Ingest::rejects`]).
    #[default]
    Abort,
    /// The row is skipped.
    Ignore,
    /// The row replaces the old one.
    Replace,
    /// These columns of the old row change.
    Update(Vec<String>),
    /// Columns of the old row are set to expressions, as by `DO UPDATE SET` of SQLite:
    /// `n = n + excluded.n`.
    Set(String),
}

impl IngestConflict {
    /// The value of `on_conflict=` in SQL.
    fn policy(&self) -> String {
        match self {
            IngestConflict::Abort => "abort".to_owned(),
            IngestConflict::Ignore => "ignore".to_owned(),
            IngestConflict::Replace => "replace".to_owned(),
            IngestConflict::Update(columns) => {
                format!("update({})", list(columns.iter().map(|name| quoted(name))))
            }
            IngestConflict::Set(assignments) => format!("update({assignments})"),
        }
    }
}

/// What an append does while more than `max_unapplied_bytes` are not applied yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnFull {
    /// It waits for space, at most for the connection's busy timeout.
    #[default]
    Wait,
    /// It fails at once.
    Error,
}

/// How to ingest.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let con = densite::open(dir.path().join("app.db"))?;
/// con.execute_batch("CREATE TABLE vote(user INTEGER PRIMARY KEY, article INTEGER)")?;
/// let log = densite::IngestOptions::new()
///     .on_conflict(densite::IngestConflict::Replace)
///     .ingest(&con, "vote")?;
/// log.append([(1, 10), (1, 20)])?;
/// log.wait(None)?;
/// let article: i64 = con.query_row("SELECT article FROM vote", [], |row| row.get(0))?;
/// assert_eq!(article, 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "options do nothing until `ingest` is called"]
pub struct IngestOptions {
    on_conflict: IngestConflict,
    on_full: OnFull,
    name: Option<String>,
}

impl IngestOptions {
    /// The defaults.
    pub fn new() -> IngestOptions {
        IngestOptions::default()
    }

    /// What happens to a row whose key is already in the table. The default is
    /// [`IngestConflict::Abort`].
    pub fn on_conflict(mut self, on_conflict: IngestConflict) -> IngestOptions {
        self.on_conflict = on_conflict;
        self
    }

    /// What an append does while too many bytes are not applied yet. The default is
    /// [`OnFull::Wait`].
    pub fn on_full(mut self, on_full: OnFull) -> IngestOptions {
        self.on_full = on_full;
        self
    }

    /// The name of the temporary virtual table that shows table and log as one. The default is the
    /// table's name and `_in`. If this connection has made that table with the same options, it is
    /// used again.
    pub fn name(mut self, name: impl Into<String>) -> IngestOptions {
        self.name = Some(name.into());
        self
    }

    /// Opens the table for ingest through the database's log. The log is created if needed.
    ///
    /// # Errors
    /// [`Error::TransactionOpen`] within a transaction; [`Error::Table`] if the virtual table's
    /// name is in use; [`Error::Sqlite`] if there is no such table, the log is missing or damaged,
    /// or the database is locked.
    pub fn ingest<'c>(&self, con: &'c Connection, table: &str) -> Result<Ingest<'c>> {
        alone(con, "a table is opened for ingest")?;
        let name = self.name.clone().unwrap_or_else(|| format!("{table}_in"));
        self.create(con, table, &name)?;
        Ok(Ingest {
            con,
            table: table.to_owned(),
            target: Target::describe(con, "temp", &name, OnConflict::Abort)?,
        })
    }

    /// Creates the virtual table, unless the connection has it already.
    fn create(&self, con: &Connection, table: &str, name: &str) -> Result<()> {
        let on_full = match self.on_full {
            OnFull::Wait => "wait",
            OnFull::Error => "error",
        };
        let using = format!(
            "USING densite_ingest({}, on_conflict='{}', on_full={on_full})",
            quoted(table),
            self.on_conflict.policy().replace('\'', "''")
        );
        let found: Option<String> = con
            .query_row(
                "SELECT sql FROM temp.sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE",
                [name],
                |row| row.get(0),
            )
            .optional()?;
        let hidden: Option<String> = con
            .query_row(
                "SELECT schema FROM pragma_table_list(?1) WHERE schema <> 'temp'",
                [name],
                |row| row.get(0),
            )
            .optional()?;
        match (hidden, found) {
            // A statement meant for the other table would read this one and write into the log.
            (Some(schema), _) if self.name.is_none() => Err(Error::Table(format!(
                "{schema} has a table {name}, which temp.{name} would hide on this connection; give another name"
            ))),
            (_, Some(sql)) if sql.ends_with(&using) => Ok(()),
            (_, Some(sql)) => Err(Error::Table(format!(
                "this connection has another table temp.{name}: {sql}; give another name, or drop that table"
            ))),
            (_, None) => with_log(con, || {
                con.execute_batch(&format!(
                    "CREATE VIRTUAL TABLE temp.{} {using}",
                    quoted(name)
                ))
                .map_err(Error::of_function)
            }),
        }
    }
}

/// A row that its table refused.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Reject {
    /// Its sequence number in the log.
    pub seq: u64,
    /// Its columns. A blob is `{"hex": "00FF"}`, text that is not UTF-8 is `{"text_hex": "61FF"}`,
    /// an infinite number is its name.
    pub row: serde_json::Map<String, serde_json::Value>,
    /// SQLite's message.
    pub error: String,
    /// The time in UTC: `2026-01-01T12:30:00.000Z`.
    pub at: String,
}

/// A table that is open for ingest on one connection. See [`ingest`](fn@ingest).
pub struct Ingest<'c> {
    con: &'c Connection,
    table: String,
    target: Target,
}

impl std::fmt::Debug for Ingest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Ingest");
        shown
            .field("table", &self.table)
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

impl Ingest<'_> {
    /// The name of the virtual table in `temp` that shows table and log as one. It also logs
    /// INSERT, UPDATE and DELETE by key.
    pub fn name(&self) -> &str {
        &self.target.name
    }

    /// Appends rows, all or none, in one transaction. Each row has a value for each column of the
    /// table, in its order. When this returns, the rows are durable, and every reader through
    /// [`Ingest::name`] sees them. Returns the sequence number of the last row.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let con = densite::open(dir.path().join("app.db"))?;
    /// # con.execute_batch("CREATE TABLE vote(user INTEGER, note TEXT)")?;
    /// let log = densite::ingest(&con, "vote")?;
    /// let rows = vec![(1, Some("good")), (2, None)];
    /// let seq = log.append(rows)?;
    /// # log.wait_for(seq, None)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Row`] for a row that the table could never accept; [`Error::TransactionOpen`]
    /// within a transaction; [`Error::Sqlite`] for everything else: no space within the busy
    /// timeout ([`Error::is_locked`]), a full disk ([`Error::is_no_space`]). Errors that only the
    /// table can find are found later: [`Ingest::rejects`].
    pub fn append<P: Params>(&self, rows: impl IntoIterator<Item = P>) -> Result<u64> {
        self.appending(|| {
            let columns = &self.target.columns;
            let sql = format!(
                "INSERT INTO temp.{} ({}) VALUES ({})",
                quoted(self.name()),
                list(columns.iter().map(|name| quoted(name))),
                list((1..=columns.len()).map(|i| format!("?{i}")))
            );
            let mut insert = self.con.prepare_cached(&sql)?;
            for (row, values) in (0..).zip(rows) {
                insert.execute(values).map_err(|source| Error::Row {
                    row,
                    message: source.to_string(),
                    source,
                })?;
            }
            Ok(())
        })
    }

    /// As [`Ingest::append`], from columns. Missing columns get their defaults.
    ///
    /// # Errors
    /// The same; [`Error::Columns`] if the columns do not match each other.
    pub fn append_columns(&self, columns: Columns) -> Result<u64> {
        let columns = Registered::new(columns)?;
        self.appending(|| {
            insert_columns(self.con, &self.target, &columns, OnConflict::Abort, false).map(drop)
        })
    }

    fn appending(&self, append: impl FnOnce() -> Result<()>) -> Result<u64> {
        alone(self.con, "rows are appended")?;
        // Nothing asks for the ids of these rows.
        self.con
            .query_row("SELECT densite_ids_later(1)", [], |_| Ok(()))?;
        let done = self.append_whole(append);
        self.con
            .query_row("SELECT densite_ids_later(0)", [], |_| Ok(()))?;
        done
    }

    fn append_whole(&self, append: impl FnOnce() -> Result<()>) -> Result<u64> {
        let transaction = Transaction::begin(self.con, "BEGIN")?;
        // Waits for space here, before the transaction reads: in a rollback mode a reader blocks
        // the worker.
        self.con
            .execute_batch(&format!("DELETE FROM temp.{} WHERE 0", quoted(self.name())))?;
        append()?;
        transaction.commit()?;
        let last: Option<i64> = ask(self.con, "SELECT densite_last_seq()", [])?;
        Ok(last.map_or(0, seq))
    }

    /// Waits until all rows that are durable now are in their tables, or among the rejected rows.
    /// Without a timeout it waits without limit. Returns the sequence number that it waited for.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::Sqlite`] if rows cannot be applied for a reason other than
    /// their contents, and within a transaction, which could block the rows.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<u64> {
        let last: Option<i64> = ask(self.con, "SELECT densite_log_last()", [])?;
        self.wait_for(last.map_or(0, seq), timeout)
    }

    /// As [`Ingest::wait`], up to the row with a sequence number.
    ///
    /// # Errors
    /// The same; [`Error::Sqlite`] if no row has that number.
    pub fn wait_for(&self, wanted: u64, timeout: Option<Duration>) -> Result<u64> {
        let reached: i64 = match timeout {
            None => ask(self.con, "SELECT densite_wait(?1)", [to_sql(wanted)])?,
            Some(timeout) => ask(
                self.con,
                "SELECT densite_wait(?1, ?2)",
                (to_sql(wanted), timeout.as_secs_f64()),
            )?,
        };
        match (seq(reached), timeout) {
            (reached, Some(timeout)) if reached < wanted => Err(Error::Timeout {
                wanted,
                reached,
                timeout,
            }),
            _ => Ok(wanted),
        }
    }

    /// The rows that this table refused, in the order of the log. They stay in the table
    /// `densite_rejects` until they are deleted there.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let con = densite::open(dir.path().join("app.db"))?;
    /// con.execute_batch(
    ///     "CREATE TABLE vote(user INTEGER PRIMARY KEY, stars INTEGER CHECK (stars <= 5))",
    /// )?;
    /// let log = densite::ingest(&con, "vote")?;
    /// log.append([(1, 5), (2, 6)])?;
    /// log.wait(None)?;
    /// let rejects = log.rejects()?;
    /// assert_eq!(rejects[0].row["user"], 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// SQLite's.
    pub fn rejects(&self) -> Result<Vec<Reject>> {
        let mut statement = self.con.prepare(
            "SELECT seq, \"row\", error, at FROM main.densite_rejects WHERE \"table\" = ?1 COLLATE NOCASE ORDER BY seq",
        )?;
        let rows = statement.query_map(params![self.table], |row| {
            Ok(Reject {
                seq: seq(row.get(0)?),
                row: object(row, 1)?,
                error: row.get(2)?,
                at: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<Vec<Reject>>>()?)
    }
}
