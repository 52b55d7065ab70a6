//! Rows to apply, as a virtual table: so one statement inserts many rows.
//!
//! Running a statement once costs as much as finding a row's place in a small index. The table is
//! in `temp`, which belongs to the worker's connection alone, and statements name that schema. So
//! it is never confused with a table of the database, whatever its name.

use super::values::Values;
use densite_disk::sync::Mutex;
use densite_sqlite::{
    Arguments, Connection, Existence, Origin, Plan, Result, TableCursor, ValueRef, VirtualTable,
    create_module,
};
use std::ops::Range;
use std::sync::Arc;

/// Name of the module, and of its table.
const NAME: &str = "densite_rows_to_apply";
/// Rows with more columns are applied one by one.
const COLUMNS: usize = 64;

fn names(columns: usize) -> String {
    let names: Vec<String> = (0..columns).map(|i| format!("c{i}")).collect();
    names.join(", ")
}

/// The SELECT of rows with this many columns, which can be followed by ON CONFLICT; `None` for too
/// many columns.
pub(super) fn select(columns: usize) -> Option<String> {
    let names = (columns <= COLUMNS).then(|| names(columns))?;
    // Without WHERE, SQLite would parse ON as that of a join.
    Some(format!("SELECT {names} FROM temp.{NAME} WHERE true"))
}

#[derive(Default)]
struct Lent {
    values: Arc<Values>,
    rows: Range<usize>,
    /// All rows were read.
    is_read: bool,
}

/// The rows that the table of a connection shows now.
#[derive(Clone, Default)]
pub(super) struct Source(Arc<Mutex<Lent>>);

impl Source {
    /// Makes the table in a connection's `temp`.
    ///
    /// # Errors
    /// SQLite's.
    pub(super) fn of(connection: &Connection) -> Result<Source> {
        let source = Source::default();
        create_module::<Table>(connection, NAME, source.clone())?;
        connection.exec(&format!("CREATE VIRTUAL TABLE temp.{NAME} USING {NAME}"))?;
        Ok(source)
    }

    /// Runs a statement that reads the table, while the table shows these rows. Returns whether it
    /// read all of them.
    ///
    /// # Errors
    /// The statement's.
    pub(super) fn lend(
        &self,
        values: &Arc<Values>,
        rows: Range<usize>,
        run: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        *self.0.lock() = Lent {
            values: values.clone(),
            rows,
            is_read: false,
        };
        let done = run();
        let lent = std::mem::take(&mut *self.0.lock());
        done.map(|()| lent.is_read)
    }
}

struct Table(Source);

/// Keeps the lent values alive while it reads.
struct Cursor {
    source: Source,
    values: Arc<Values>,
    rows: Range<usize>,
}

impl VirtualTable for Table {
    type Shared = Source;
    type Cursor = Cursor;
    const EXISTENCE: Existence = Existence::Created;
    const DIRECT_ONLY: bool = true;

    fn connect(source: &Source, _: &Connection, _: &Origin) -> Result<(Table, String)> {
        let declaration = format!("CREATE TABLE x({})", names(COLUMNS));
        Ok((Table(source.clone()), declaration))
    }

    fn best_index(&self, _: &mut Plan<'_>) -> Result<bool> {
        Ok(true)
    }

    fn open(&self) -> Result<Cursor> {
        Ok(Cursor {
            source: self.0.clone(),
            values: Arc::default(),
            rows: 0..0,
        })
    }
}

impl TableCursor for Cursor {
    fn filter(&mut self, _: &Connection, _: i32, _: &str, _: Arguments<'_>) -> Result<()> {
        let lent = self.source.0.lock();
        self.values = lent.values.clone();
        self.rows = lent.rows.clone();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.rows.next();
        if self.rows.is_empty() {
            self.source.0.lock().is_read = true;
        }
        Ok(())
    }

    fn is_at_end(&self) -> bool {
        self.rows.is_empty()
    }

    fn column(&mut self, column: usize) -> Result<ValueRef<'_>> {
        let value = self.values.get(self.rows.start, column);
        Ok(value.unwrap_or(ValueRef::Null))
    }

    fn row_id(&mut self) -> Result<i64> {
        Ok(i64::try_from(self.rows.start).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_sqlite::ffi;

    /// The table that the statement writes to is not confused with it either.
    #[test]
    fn a_table_of_the_database_may_have_its_name() {
        let api = densite_linked::api().expect("the linked SQLite");
        let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE;
        let con = Connection::open(api, ":memory:", flags, None).expect("opens");
        con.exec(&format!(
            "CREATE TABLE {NAME}(c0, x); INSERT INTO {NAME} VALUES (1, 1), (2, 2)"
        ))
        .expect("a table");
        let source = Source::of(&con).expect("a source");
        let insert = format!("INSERT INTO main.{NAME}(c0) {}", select(1).expect("one"));
        let mut statement = con.prepare(&insert).expect("a statement");
        let none: Arc<Values> = Arc::default();
        let ran = source.lend(&none, 0..3, || statement.step().map(|_| ()));
        assert_eq!(ran, Ok(true), "it read all lent rows");
        let count = format!("SELECT count(*) FROM main.{NAME}");
        assert_eq!(con.query_i64(&count), Ok(Some(5)));
    }
}
