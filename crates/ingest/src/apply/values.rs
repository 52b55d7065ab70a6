//! The values of the rows of a transaction, one after the other: the log's records lie apart in
//! memory, and are better looked for before the write lock is taken.

use super::sort::{order, permute, sort};
use crate::collation::Collation;
use crate::unit::Unit;
use densite_log::{Record, Value};
use densite_sqlite::ValueRef;
use std::ops::Range;

/// No more values are taken out of their records.
const VALUES: usize = 1 << 19;
/// Nor more bytes of text and blobs: a row that has more of its own is read from its record.
const BYTES: usize = 16 << 20;

#[derive(Clone, Copy)]
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    /// From here to there in [`Values::bytes`].
    Text(u32, u32),
    Blob(u32, u32),
}

/// See the module. Rows that are too many for it are not in it.
#[derive(Default)]
pub(super) struct Values {
    cells: Vec<Cell>,
    /// Where those of each row begin and end.
    rows: Vec<(u32, u32)>,
    bytes: Vec<u8>,
}

impl Values {
    /// Those of these units, or of the first of them.
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

    /// The same, once the units are in the order of this key, if it has columns. Records of a
    /// clustered apply lie far apart in memory: they are looked for in the order in which they lie
    /// there, and where all rows fit once only.
    pub(super) fn sorted(records: &[Record], units: &mut [Unit], key: &[Collation]) -> Values {
        if key.is_empty() {
            return Values::of(records, units);
        }
        // Which is that of the log for rows of one key, too.
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

    /// Adds a row, unless its bytes are too many; answers whether it did.
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

    /// How many rows it has.
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

    /// Those of a row; `None` where it is not in it.
    pub(super) fn row(&self, row: usize) -> Option<impl Iterator<Item = ValueRef<'_>>> {
        let cells = self.cells.get(self.cells_of(row)?)?;
        Some(cells.iter().map(move |cell| self.value(*cell)))
    }

    /// One of a row.
    pub(super) fn get(&self, row: usize, column: usize) -> Option<ValueRef<'_>> {
        let cells = self.cells.get(self.cells_of(row)?)?;
        cells.get(column).map(|cell| self.value(*cell))
    }
}
