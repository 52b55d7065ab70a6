//! Bulk insert: inserts columns into a table, all rows or none.

mod orphan;
mod refused;
mod target;
mod watch;

use crate::set::Registered;
use crate::transaction::Transaction;
use crate::{Columns, Error, Result};
use densite_sqlite::quoted;
use rusqlite::Connection;
use std::ops::ControlFlow;
pub(crate) use target::Target;
use watch::Watch;

/// What happens to a row that violates a UNIQUE, NOT NULL or CHECK constraint. It overrides ON
/// CONFLICT of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnConflict {
    /// The insert fails, and no row is inserted.
    #[default]
    Abort,
    /// The row is skipped.
    Ignore,
    /// The row replaces the rows that conflict with it.
    Replace,
}

impl OnConflict {
    fn word(self) -> &'static str {
        match self {
            OnConflict::Abort => "ABORT",
            OnConflict::Ignore => "IGNORE",
            OnConflict::Replace => "REPLACE",
        }
    }
}

/// Inserts columns into a table, all rows or none. Returns the number of inserted rows.
///
/// It uses the open transaction, or its own. Missing columns get their defaults. Rows are first
/// sorted by the primary key, because filling a b-tree in order is several times as fast. Rows with
/// equal keys keep their order. If the order could change the result, the rows are not sorted.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let con = densite::open(dir.path().join("app.db"))?;
/// con.execute_batch(
///     "CREATE TABLE result(a INTEGER, b INTEGER, val REAL, PRIMARY KEY (a, b)) WITHOUT ROWID",
/// )?;
/// let columns = densite::Columns::new()
///     .integers("a", vec![2, 1])
///     .integers("b", vec![1, 1])
///     .reals("val", vec![Some(0.5), None]);
/// assert_eq!(densite::insert(&con, "result", columns)?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Row`] for a row that the table refuses; [`Error::ForeignKey`] for a row that refers to a
/// missing row; [`Error::Table`] if there is no such table or column; [`Error::Columns`] if the
/// columns do not match each other; [`Error::Sqlite`] for everything else, also for a foreign key
/// that is deferred to the commit.
pub fn insert(con: &Connection, table: &str, columns: Columns) -> Result<u64> {
    InsertOptions::new().insert(con, table, columns)
}

/// How to insert.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let con = densite::open(dir.path().join("app.db"))?;
/// con.execute_batch("CREATE TABLE vote(user INTEGER PRIMARY KEY, article INTEGER)")?;
/// let columns = densite::Columns::new()
///     .integers("user", vec![1, 1])
///     .integers("article", vec![10, 20]);
/// densite::InsertOptions::new()
///     .on_conflict(densite::OnConflict::Replace)
///     .insert(&con, "vote", columns)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "options do nothing until `insert` is called"]
pub struct InsertOptions {
    on_conflict: OnConflict,
    schema: String,
}

impl Default for InsertOptions {
    fn default() -> InsertOptions {
        InsertOptions {
            on_conflict: OnConflict::Abort,
            schema: "main".to_owned(),
        }
    }
}

impl InsertOptions {
    /// The defaults.
    pub fn new() -> InsertOptions {
        InsertOptions::default()
    }

    /// What happens to a row that violates a constraint. The default is [`OnConflict::Abort`].
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> InsertOptions {
        self.on_conflict = on_conflict;
        self
    }

    /// The database of the table: `main` (the default), `temp`, or the name of an attached one.
    pub fn schema(mut self, schema: impl Into<String>) -> InsertOptions {
        self.schema = schema.into();
        self
    }

    /// As [`insert`](fn@insert), with these options.
    ///
    /// # Errors
    /// The same.
    pub fn insert(&self, con: &Connection, table: &str, columns: Columns) -> Result<u64> {
        self.run(con, table, &Registered::new(columns)?)
    }

    /// As [`InsertOptions::insert`], and calls `progress` about every 65,536 rows and after the last
    /// row. It gets the number of rows read so far and the number of all rows. Its answer
    /// [`ControlFlow::Break`] stops the insert, and no row is inserted. If the table has triggers,
    /// SQLite reads all rows before it writes the first.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// # let dir = tempfile::tempdir()?;
    /// # let con = densite::open(dir.path().join("app.db"))?;
    /// con.execute_batch("CREATE TABLE vote(user INTEGER PRIMARY KEY)")?;
    /// let cancelled = Arc::new(AtomicBool::new(false)); // a button sets it
    /// let seen = Arc::clone(&cancelled);
    /// let progress = move |done, all| {
    ///     println!("{done} of {all} rows");
    ///     match seen.load(Ordering::Relaxed) {
    ///         true => ControlFlow::Break(()),
    ///         false => ControlFlow::Continue(()),
    ///     }
    /// };
    /// let columns = densite::Columns::new().integers("user", 0..200_000i64);
    /// densite::InsertOptions::new().insert_with(&con, "vote", columns, progress)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The same; [`Error::Stopped`] if `progress` stopped it.
    ///
    /// # Panics
    /// If `progress` panics, after the rows are undone.
    pub fn insert_with<P>(
        &self,
        con: &Connection,
        table: &str,
        columns: Columns,
        progress: P,
    ) -> Result<u64>
    where
        P: FnMut(u64, u64) -> ControlFlow<()> + Send + 'static,
    {
        let columns = Registered::new(columns)?;
        let watch = Watch::begin(&columns, progress)?;
        watch.end(self.run(con, table, &columns))
    }

    fn run(&self, con: &Connection, table: &str, columns: &Registered) -> Result<u64> {
        let begin = match self.schema.as_str() {
            "temp" => "BEGIN",
            _ => "BEGIN IMMEDIATE",
        };
        let transaction = Transaction::join(con, begin)?;
        let target = Target::describe(con, &self.schema, table, self.on_conflict)?;
        let rows = insert_columns(con, &target, columns, self.on_conflict, true)?;
        transaction.commit()?;
        Ok(rows)
    }
}

/// Inserts columns within the open transaction.
pub(crate) fn insert_columns(
    con: &Connection,
    target: &Target,
    columns: &Registered,
    on_conflict: OnConflict,
    sort: bool,
) -> Result<u64> {
    let names = columns.names();
    target.check_names(names)?;
    if names.is_empty() {
        return Ok(0);
    }
    if sort {
        columns.sort(&target.sort_keys(columns)?)?;
    }
    let sql = format!(
        "INSERT OR {} INTO {}.{} ({}) SELECT {} FROM {}",
        on_conflict.word(),
        quoted(&target.schema),
        quoted(&target.name),
        list(names.iter().map(|name| quoted(name))),
        list((0..names.len()).map(|i| format!("c{i}"))),
        columns.table()
    );
    match con.execute(&sql, []) {
        Ok(rows) => Ok(rows as u64),
        Err(error) => Err(refused::with_row(
            con,
            Error::of_function(error),
            target,
            columns,
        )),
    }
}

/// Joins words with commas.
pub(crate) fn list(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}
