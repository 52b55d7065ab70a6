//! A statement whose rows are returned as batches of columns. Once prepared, it keeps its
//! connection alive.

use crate::batch::Batch;
use crate::build::Column;
use crate::filling::{BATCH_ROWS, Filling};
use crate::kind::Kind;
use crate::sets;
use crate::sink::Registered;
use crate::values::Filled;
use crate::{Error, Result};
use densite_sqlite::{Code, Connection, Detached, Row, ValueRef};

/// A statement that is being read.
pub struct Query {
    /// `None` after the last row was read.
    statement: Option<Detached>,
    /// Returns SQLite's text of a number; lives as long as the statement.
    text_of: Option<Detached>,
    /// The sink of the statement's rows; without one they are read row by row.
    sink: Option<Registered>,
    names: Vec<String>,
    /// The declared types, for columns that begin with only NULLs.
    declared: Vec<Option<Kind>>,
    kinds: Option<Vec<Kind>>,
    /// The first batch, read to find the types.
    first: Option<Batch>,
    rows: u64,
    /// Sets of columns that the statement reads.
    keeps: Vec<Kept>,
}

/// A registered set of columns. Dropping releases it; if another statement reads it, it stays
/// registered.
pub(crate) struct Kept(i64);

impl Kept {
    pub(crate) fn new(columns: i64) -> Kept {
        Kept(columns)
    }

    /// The names of the columns, if the set is registered.
    pub(crate) fn names(&self) -> Vec<String> {
        sets::get(self.0).map_or_else(|_| Vec::new(), |set| set.names().to_vec())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = sets::release(self.0);
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        // A set cannot be released while the statement reads it.
        self.end();
    }
}

impl Query {
    /// Prepares a statement that returns rows and changes nothing.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn new(connection: &Connection, sql: &str) -> Result<Query> {
        Query::compile(connection, sql, Detached::prepare)
    }

    /// The same, also on a connection without a mutex. Then the caller uses the query like the
    /// connection, from one thread at a time.
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
        // A statement that does not compile there (for example a PRAGMA) is read row by row.
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

    /// Binds parameters: values in order, or alternating names and values.
    pub(crate) fn bind(&mut self, named: bool, values: &[ValueRef<'_>]) -> Result<()> {
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

    /// Ends it without waiting for another thread.
    ///
    /// The thread that drops a result can hold a lock (Python's). A function on the same connection
    /// can wait for that lock on another thread, within a statement. Freeing a statement would wait
    /// for that other statement. So this ends the reading if it can, which also ends its
    /// transaction. A new thread then frees the statement.
    pub fn abandon(mut self) {
        let Some(statement) = &mut self.statement else {
            return;
        };
        statement.try_reset();
        // If no thread can be started, the closure is dropped here, and the query with it.
        let _ = std::thread::Builder::new()
            .name("densite-result".to_owned())
            .spawn(move || drop(self));
    }

    /// Gives the query registered sets of columns, which its statement reads.
    pub(crate) fn keep(&mut self, sets: Vec<Kept>) {
        self.keeps.extend(sets);
    }

    /// The columns' names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The types of the columns. Reads the first batch.
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
            // Further rows can have any type, and text can hold most of them.
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
    /// [`Error::Sqlite`]; [`Error::Value`] if a value does not fit its column's type.
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
                    // A finished query must not keep a transaction or a closed connection open.
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

/// SQLite's text of a floating-point number; its digits depend on SQLite's version.
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
