//! The values of the rows of a transaction: one after the other, sorted by key, and as a virtual
//! table, so that one statement inserts many rows.
//!
//! The records of the log are scattered in memory, so values are collected before the write lock is
//! taken. Rows of one key keep the order of the log.

use crate::rows::unit::Unit;
use crate::schema::affinity::from_log;
use crate::schema::collation::Collation;
use densite_disk::sync::Mutex;
use densite_log::{Record, Value};
use densite_sqlite::{
    Arguments, Connection, Existence, Origin, Plan, Result, TableCursor, ValueRef, VirtualTable,
    create_module,
};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// The most values to collect.
const VALUES: usize = 1 << 19;
/// The most bytes of text and blobs to collect. Rows beyond it are read from their records.
const BYTES: usize = 16 << 20;

/// Name of the module, and of its table.
const NAME: &str = "densite_rows_to_apply";
/// Rows with more columns are applied one by one.
const COLUMNS: usize = 64;

#[derive(Clone, Copy)]
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    /// A range in [`Values::bytes`].
    Text(u32, u32),
    Blob(u32, u32),
}

/// See the module. It has only as many rows as the limits allow.
#[derive(Default)]
pub(super) struct Values {
    cells: Vec<Cell>,
    /// The range of each row's cells.
    rows: Vec<(u32, u32)>,
    bytes: Vec<u8>,
}

impl Values {
    /// The values of these units, or of the first of them.
    pub(super) fn of(records: &[Record], units: &[Unit]) -> Values {
        let mut values = Values::default();
        for unit in units {
            let Some(record) = records.get(unit.record as usize) else {
                break;
            };
            if values.cells.len() > VALUES || !values.add(record.rows.row(unit.row as usize)) {
                break;
            }
        }
        values
    }

    /// Sorts the units by this key, if it has columns, and collects their values. Records of a
    /// clustered apply are scattered in memory, so they are read in memory order, and only once if
    /// all rows fit.
    pub(super) fn sorted(records: &[Record], units: &mut [Unit], key: &[Collation]) -> Values {
        if key.is_empty() {
            return Values::of(records, units);
        }
        // This is also the log's order for rows of one key.
        units.sort_unstable();
        let mut values = Values::of(records, units);
        if values.rows.len() < units.len() {
            sort(units, records, key);
            return Values::of(records, units);
        }
        let order = order(units.len(), key, |row, column| values.get(row, column));
        permute(units, &order);
        permute(&mut values.rows, &order);
        values
    }

    /// Adds a row, unless it has too many bytes. Returns whether it did.
    fn add<'a>(&mut self, row: impl Iterator<Item = Value<'a>>) -> bool {
        let (cells, bytes) = (self.cells.len(), self.bytes.len());
        for value in row {
            let cell = match value {
                Value::Null => Some(Cell::Null),
                Value::Int(n) => Some(Cell::Integer(n)),
                Value::Real(x) => Some(Cell::Real(x)),
                Value::Text(text) => self.keep(text).map(|(from, to)| Cell::Text(from, to)),
                Value::Blob(blob) => self.keep(blob).map(|(from, to)| Cell::Blob(from, to)),
            };
            let Some(cell) = cell else {
                self.cells.truncate(cells);
                self.bytes.truncate(bytes);
                return false;
            };
            self.cells.push(cell);
        }
        self.rows.push((cells as u32, self.cells.len() as u32));
        true
    }

    fn keep(&mut self, bytes: &[u8]) -> Option<(u32, u32)> {
        let from = self.bytes.len();
        let to = from + bytes.len();
        (to <= BYTES).then(|| {
            self.bytes.extend_from_slice(bytes);
            (from as u32, to as u32)
        })
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    fn cells_of(&self, row: usize) -> Option<Range<usize>> {
        let (from, to) = *self.rows.get(row)?;
        Some(from as usize..to as usize)
    }

    fn value(&self, cell: Cell) -> ValueRef<'_> {
        let bytes = |from, to| self.bytes.get(from as usize..to as usize).unwrap_or(&[]);
        match cell {
            Cell::Null => ValueRef::Null,
            Cell::Integer(n) => ValueRef::Integer(n),
            Cell::Real(x) => ValueRef::Real(x),
            Cell::Text(from, to) => ValueRef::Text(bytes(from, to)),
            Cell::Blob(from, to) => ValueRef::Blob(bytes(from, to)),
        }
    }

    /// The values of a row; `None` if it was not collected.
    pub(super) fn row(&self, row: usize) -> Option<impl Iterator<Item = ValueRef<'_>>> {
        let cells = self.cells.get(self.cells_of(row)?)?;
        Some(cells.iter().map(move |cell| self.value(*cell)))
    }

    /// One value of a row; `None` if it was not collected.
    pub(super) fn get(&self, row: usize, column: usize) -> Option<ValueRef<'_>> {
        let cells = self.cells.get(self.cells_of(row)?)?;
        cells.get(column).map(|cell| self.value(*cell))
    }
}

/// Sorts units by their keys. Units of one key keep their order.
pub(super) fn sort(units: &mut [Unit], records: &[Record], collations: &[Collation]) {
    let value = |i: usize, column: usize| {
        let unit = units.get(i)?;
        let record = records.get(unit.record as usize)?;
        record.rows.get(unit.row as usize, column).map(from_log)
    };
    let order = order(units.len(), collations, value);
    permute(units, &order);
}

/// The indexes of `all` items, sorted by key. `value(item, column)` is a column of a key. Items of
/// one key keep their order.
fn order<'a>(
    all: usize,
    collations: &[Collation],
    value: impl Fn(usize, usize) -> Option<ValueRef<'a>>,
) -> Vec<u32> {
    // For the usual keys, the values are read only once.
    let integers = match collations.len() {
        1 => by_integers::<1>(all, &value),
        2 => by_integers::<2>(all, &value),
        _ => None,
    };
    integers.unwrap_or_else(|| {
        let value = |i: u32, column| value(i as usize, column).unwrap_or(ValueRef::Null);
        let mut order: Vec<u32> = (0..all as u32).collect();
        order.sort_by(|a, b| {
            let columns = collations.iter().enumerate();
            let mut each = columns.map(|(c, how)| how.compare(value(*a, c), value(*b, c)));
            each.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
        });
        order
    })
}

/// `None` if a key has a value that is not an integer.
fn by_integers<'a, const N: usize>(
    all: usize,
    value: impl Fn(usize, usize) -> Option<ValueRef<'a>>,
) -> Option<Vec<u32>> {
    let mut keyed = Vec::with_capacity(all);
    for i in 0..all {
        let mut key = [0; N];
        for (column, part) in key.iter_mut().enumerate() {
            *part = value(i, column)?.as_i64()?;
        }
        keyed.push((key, i as u32));
    }
    keyed.sort_unstable();
    Some(keyed.into_iter().map(|(_, i)| i).collect())
}

/// Reorders items: the item `order[i]` moves to `i`.
fn permute<T: Copy>(all: &mut [T], order: &[u32]) {
    let was = all.to_vec();
    for (to, from) in all.iter_mut().zip(order) {
        if let Some(from) = was.get(*from as usize) {
            *to = *from;
        }
    }
}

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
///
/// Running a statement once costs as much as finding a row's place in a small index. The table is
/// in `temp`, which belongs to the worker's connection alone, and statements name that schema. So
/// it is never confused with a table of the database, whatever its name.
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
