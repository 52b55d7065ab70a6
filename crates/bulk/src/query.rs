//! A statement whose rows come out as batches of columns.
//!
//! It is compiled on the connection that the SQL function `densite_query(handle, sql, named, …)` runs on: so the driver has seen to it that the
//! connection is open and used from the right thread, and nobody passes pointers to connections around. From then on it has its own claim on
//! the connection.

use crate::bits::BitsBuilder;
use crate::build::{Column, Filled, Values};
use crate::set::sets;
use crate::sink::{BATCH_ROWS, Filling, Registered};
use crate::{Error, Result};
use densite_disk::sync::Mutex;
use densite_sqlite::{
    Code, Connection, Detached, PerProcess, Row, Value, ValueRef, create_function, ffi,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The type of a result's column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing but NULL.
    Null,
    /// 64-bit integers.
    Integer,
    /// Double precision.
    Real,
    /// UTF-8.
    Text,
    /// Bytes.
    Blob,
}

impl Kind {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Kind::Null => "NULL",
            Kind::Integer => "integers",
            Kind::Real => "floating point",
            Kind::Text => "text",
            Kind::Blob => "blobs",
        }
    }

    /// SQLite's rule for the affinity of a declared type, where it says enough.
    fn of_declared(declared: &str) -> Kind {
        let declared = declared.to_ascii_uppercase();
        let has = |part: &str| declared.contains(part);
        if has("INT") {
            Kind::Integer
        } else if ["CHAR", "CLOB", "TEXT", "DATE", "TIME"]
            .into_iter()
            .any(has)
        {
            // Dates and times are NUMERIC by affinity, and text in SQLite's own forms of them.
            Kind::Text
        } else if has("BLOB") {
            Kind::Blob
        } else {
            Kind::Real
        }
    }
}

/// Rows, column by column.
#[derive(Debug)]
pub struct Batch {
    /// How many.
    pub rows: usize,
    pub(crate) columns: Vec<Filled>,
}

/// A column of a [`Batch`] as its own memory. NULLs are 0 or empty among the values.
#[derive(Debug)]
pub struct OwnedColumn {
    /// The values.
    pub values: OwnedValues,
    /// Which rows are not NULL: the lowest bit of the first byte is the first row. Without it no row is NULL.
    pub valid: Option<Vec<u8>>,
}

/// Values of one type.
#[derive(Debug)]
pub enum OwnedValues {
    /// Nothing but NULL, in so many rows.
    Nulls(usize),
    /// Integers.
    Integers(Vec<i64>),
    /// Double precision.
    Reals(Vec<f64>),
    /// Text (valid UTF-8) or blobs.
    Strings {
        /// One more than values: each from its own to the next.
        ends: Vec<i32>,
        /// All of them.
        bytes: Vec<u8>,
        /// Whether they are text.
        text: bool,
    },
}

impl Batch {
    /// The columns, for readers that do not use Arrow.
    pub fn into_columns(self) -> Vec<OwnedColumn> {
        let owned = |column: Filled| OwnedColumn {
            valid: column
                .valid
                .filter(|valid| valid.zeros > 0)
                .map(BitsBuilder::into_bytes),
            values: match column.values {
                Values::Unknown(rows) => OwnedValues::Nulls(rows),
                Values::Integers(values) => OwnedValues::Integers(values),
                Values::Reals(values) => OwnedValues::Reals(values),
                Values::Strings { ends, bytes, text } => OwnedValues::Strings { ends, bytes, text },
            },
        };
        self.columns.into_iter().map(owned).collect()
    }
}

/// A statement that is being read.
pub struct Query {
    /// Until the last row was read.
    statement: Option<Detached>,
    /// Gives SQLite's text of a number; as long as the statement.
    text_of: Option<Detached>,
    /// Where the statement has its rows; without one they are asked for row by row.
    sink: Option<Registered>,
    names: Vec<String>,
    /// What a column is that begins with NULLs alone.
    declared: Vec<Option<Kind>>,
    kinds: Option<Vec<Kind>>,
    /// The first batch, read for its types.
    first: Option<Batch>,
    rows: u64,
    /// Sets of columns that the statement reads.
    keeps: Vec<i64>,
}

impl Drop for Query {
    fn drop(&mut self) {
        // The statement first: a set that is read is not released.
        self.end();
        for set in self.keeps.drain(..) {
            // One that another statement reads too stays registered.
            let _ = sets::release(set);
        }
    }
}

impl Query {
    /// Compiles a statement that answers rows and changes nothing.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn new(connection: &Connection, sql: &str) -> Result<Query> {
        Query::compile(connection, sql, Detached::prepare)
    }

    /// The same, also on a connection without a mutex: then the caller uses the query as the connection, from one thread at a time.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn for_one_thread(connection: &Connection, sql: &str) -> Result<Query> {
        Query::compile(connection, sql, Detached::prepare_for_one_thread)
    }

    fn compile(
        connection: &Connection,
        sql: &str,
        prepare: fn(&Connection, &str) -> densite_sqlite::Result<Detached>,
    ) -> Result<Query> {
        let statement = prepare(connection, sql)?;
        let refused = if !statement.is_readonly() {
            Some("the statement changes the database; run it with the connection's own execute")
        } else if statement.column_count() == 0 {
            Some("the statement answers no rows; run it with the connection's own execute")
        } else {
            None
        };
        if let Some(why) = refused {
            return Err(densite_sqlite::Error::new(Code::MISUSE, why).into());
        }
        let columns = 0..statement.column_count();
        let sink = Registered::new();
        // What does not compile there (a PRAGMA, say) is read row by row.
        let joined = sink
            .statement(connection, &statement.sql(), columns.len())
            .and_then(|sql| prepare(connection, &sql).ok())
            .filter(|joined| joined.parameter_count() == statement.parameter_count());
        Ok(Query {
            names: columns.clone().map(|i| statement.column_name(i)).collect(),
            declared: columns
                .map(|i| {
                    statement
                        .column_declared(i)
                        .map(|declared| Kind::of_declared(&declared))
                })
                .collect(),
            sink: joined.is_some().then_some(sink),
            statement: Some(joined.unwrap_or(statement)),
            text_of: Some(prepare(connection, "SELECT CAST(?1 AS TEXT)")?),
            kinds: None,
            first: None,
            rows: 0,
            keeps: Vec::new(),
        })
    }

    /// Binds what [`create`]'s function was given: values in order, or names and values in turn.
    fn bind(&mut self, named: bool, values: &[ValueRef<'_>]) -> Result<()> {
        let Some(statement) = &mut self.statement else {
            return Ok(());
        };
        let misuse = |message: String| densite_sqlite::Error::new(Code::MISUSE, message);
        let wanted = statement.parameter_count();
        if !named {
            if values.len() != wanted {
                return Err(misuse(format!(
                    "the statement has {wanted} parameters, and {} were given",
                    values.len()
                ))
                .into());
            }
            for (i, value) in values.iter().enumerate() {
                statement.bind(i + 1, *value)?;
            }
            return Ok(());
        }
        let mut bound = 0;
        for pair in values.chunks_exact(2) {
            let [name, value] = pair else { continue };
            let name = name.as_str().unwrap_or_default();
            for sign in [":", "@", "$"] {
                if let Some(index) = statement.parameter_index(&format!("{sign}{name}")) {
                    statement.bind(index, *value)?;
                    bound += 1;
                }
            }
        }
        if bound < wanted {
            return Err(misuse(format!(
                "the statement has {wanted} parameters, and {bound} of them were given by name"
            ))
            .into());
        }
        Ok(())
    }

    /// Ends it without waiting for anything that another thread does. Who drops a result may hold a lock (Python's) that a function of the same
    /// connection waits for on another thread, within a statement there; and to free a statement waits for that one's end. So reading ends here if
    /// it can, which also ends its transaction, and the statement is freed on a thread of its own.
    pub fn abandon(mut self) {
        let Some(statement) = &mut self.statement else {
            return;
        };
        statement.try_reset();
        // Where there can be no thread, the closure is dropped here, and the query with it.
        let _ = std::thread::Builder::new()
            .name("densite-result".to_owned())
            .spawn(move || drop(self));
    }

    /// The columns' names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The columns' types; reads the first batch.
    ///
    /// # Errors
    /// As [`Query::next_batch`].
    pub fn kinds(&mut self) -> Result<Vec<Kind>> {
        if let Some(kinds) = &self.kinds {
            return Ok(kinds.clone());
        }
        let mut batch = self.read()?;
        let over = self.statement.is_none();
        for (column, declared) in batch.columns.iter_mut().zip(&self.declared) {
            // With rows to come they may be of any type, and text takes most.
            let otherwise = if over { Kind::Null } else { Kind::Text };
            column.set_kind(declared.unwrap_or(otherwise));
        }
        let kinds: Vec<Kind> = batch
            .columns
            .iter()
            .map(|column| column.values.kind())
            .collect();
        self.kinds = Some(kinds.clone());
        self.first = Some(batch);
        Ok(kinds)
    }

    /// The next rows; `None` after the last.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Value`] for a value that does not fit its column's type.
    pub fn next_batch(&mut self) -> Result<Option<Batch>> {
        self.kinds()?;
        let batch = match self.first.take() {
            Some(first) => first,
            None => self.read()?,
        };
        Ok((batch.rows > 0).then_some(batch))
    }

    fn end(&mut self) {
        (self.statement, self.text_of) = (None, None);
    }

    fn read(&mut self) -> Result<Batch> {
        let Some(statement) = &mut self.statement else {
            let kinds = self.kinds.iter().flatten();
            let columns = kinds.map(|kind| Filled::empty(*kind)).collect();
            return Ok(Batch { rows: 0, columns });
        };
        let columns = match &self.kinds {
            Some(kinds) => kinds
                .iter()
                .map(|kind| Column::new(Some(*kind), BATCH_ROWS))
                .collect(),
            None => self.names.iter().map(|_| Column::new(None, 0)).collect(),
        };
        let mut filling = Filling::new(columns);
        let more = match &self.sink {
            Some(Registered { sink, .. }) => {
                sink.put(filling);
                let more = statement.rows(|_| Ok::<bool, densite_sqlite::Error>(false));
                let gone = || Error::Source("densite: internal error: the batch is gone".into());
                filling = sink.take().ok_or_else(gone)?;
                more
            }
            None => statement.rows(|row: &Row<'_>| Ok(filling.push(row))),
        };
        let rows = filling.rows;
        let filled = match (filling.failed.take(), more) {
            (Some((column, what)), _) => Err((column, rows, what)),
            (None, Err(error)) => {
                self.end();
                return Err(error.into());
            }
            (None, Ok(is_more)) => {
                let finish = |(i, column): (usize, Column)| {
                    let text_of = &mut |x| text_of(self.text_of.as_mut(), x);
                    let filled = column.finish(text_of);
                    filled.map_err(|(row, what)| (i, row, what))
                };
                let columns = filling.columns.into_iter().enumerate();
                let filled = columns.map(finish).collect::<std::result::Result<_, _>>();
                if !is_more {
                    // What has ended holds no transaction open, and no connection that is closed.
                    self.end();
                }
                filled
            }
        };
        let columns = filled.map_err(|(column, row, what)| {
            self.end();
            let name = self.names.get(column).map_or("", String::as_str);
            Error::value(name, self.rows + row as u64, what)
        })?;
        self.rows += rows as u64;
        Ok(Batch { rows, columns })
    }
}

/// SQLite's text of a floating-point number, whose digits depend on its version.
fn text_of(statement: Option<&mut Detached>, x: f64) -> std::result::Result<String, String> {
    let said = |e: densite_sqlite::Error| e.to_string();
    let statement = statement.ok_or("densite: internal error: the statement is gone")?;
    let mut text = String::new();
    statement.bind(1, ValueRef::Real(x)).map_err(said)?;
    statement
        .rows(|row| {
            text.push_str(row.column(0).as_str().unwrap_or_default());
            Ok::<bool, densite_sqlite::Error>(true)
        })
        .map_err(said)?;
    statement.reset();
    Ok(text)
}

/// The queries that are registered.
pub mod queries {
    use super::*;

    type Entry = Arc<Mutex<Option<Query>>>;
    static NEXT: AtomicI64 = AtomicI64::new(1);
    /// A child after a fork begins with none: statements are its parent's.
    static QUERIES: PerProcess<Mutex<BTreeMap<i64, Entry>>> = PerProcess::new();

    /// A place for a query, which `SELECT densite_query(handle, sql, …)` fills.
    pub fn reserve() -> i64 {
        let handle = NEXT.fetch_add(1, Ordering::Relaxed);
        QUERIES.get().lock().insert(handle, Arc::default());
        handle
    }

    fn entry(handle: i64) -> Result<Entry> {
        let found = QUERIES.get().lock().get(&handle).cloned();
        found.ok_or_else(|| unknown(handle))
    }

    pub(super) fn fill(handle: i64, query: Query) -> Result<()> {
        *entry(handle)?.lock() = Some(query);
        Ok(())
    }

    /// Has a query own a set of columns.
    ///
    /// # Errors
    /// [`Error::Misuse`] when there is no such query, or its statement never compiled.
    pub fn keep(handle: i64, columns: i64) -> Result<()> {
        let entry = entry(handle)?;
        let mut query = entry.lock();
        let query = query.as_mut().ok_or_else(gone)?;
        query.keeps.push(columns);
        Ok(())
    }

    /// Takes a query out: it is read once.
    ///
    /// # Errors
    /// [`Error::Misuse`] when there is none, or it was taken already.
    pub fn take(handle: i64) -> Result<Query> {
        let entry = entry(handle)?;
        let query = entry.lock().take();
        query.ok_or_else(gone)
    }

    /// Gives the place free, and ends a statement that nobody took.
    ///
    /// # Errors
    /// [`Error::Misuse`] when there is no such place.
    pub fn release(handle: i64) -> Result<()> {
        let entry = QUERIES.get().lock().remove(&handle);
        entry.map(drop).ok_or_else(|| unknown(handle))
    }

    fn gone() -> Error {
        Error::Misuse(
            "the result was read already, or its statement never compiled; run the query again"
                .into(),
        )
    }

    fn unknown(handle: i64) -> Error {
        Error::Misuse(format!(
            "there is no query with the handle {handle} in this process; it was released, or made by its parent before a fork"
        ))
    }
}

/// The third argument of `densite_query`: parameters by name.
const NAMED: i64 = 1;
/// The same: parameters in order, and the result is read on the thread of the connection ([`Query::for_one_thread`]).
pub const ONE_THREAD: i64 = 2;

/// Adds `densite_query(handle, sql, named, …)`.
pub(crate) fn create(connection: &Connection) -> densite_sqlite::Result<()> {
    create_function(
        connection,
        "densite_query",
        -1,
        ffi::DIRECTONLY,
        |connection, arguments| {
            let [handle, sql, named, values @ ..] = arguments else {
                return Err(densite_sqlite::Error::new(
                    Code::MISUSE,
                    "densite_query is for the library itself; use densite.query",
                ));
            };
            let (Some(handle), Some(sql)) = (handle.as_i64(), sql.as_str()) else {
                return Err(densite_sqlite::Error::new(
                    Code::MISUSE,
                    "densite_query takes a handle and a statement's text",
                ));
            };
            let run = || -> Result<()> {
                let named = named.as_i64();
                let mut query = match named {
                    Some(ONE_THREAD) => Query::for_one_thread(connection, sql)?,
                    _ => Query::new(connection, sql)?,
                };
                query.bind(named == Some(NAMED), values)?;
                queries::fill(handle, query)
            };
            run().map(|()| Value::Null).map_err(|error| match error {
                Error::Sqlite(error) => error,
                other => densite_sqlite::Error::new(Code::MISUSE, other.to_string()),
            })
        },
    )
}
