//! The values of the rows of a transaction, one after the other. The records of the log are
//! scattered in memory, so values are collected before the write lock is taken.

use super::sort::{order, permute, sort};
use crate::rows::unit::Unit;
use crate::schema::collation::Collation;
use densite_log::{Record, Value};
use densite_sqlite::ValueRef;
use std::ops::Range;

/// The most values to collect.
const VALUES: usize = 1 << 19;
/// The most bytes of text and blobs to collect. Rows beyond it are read from their records.
const BYTES: usize = 16 << 20;

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
