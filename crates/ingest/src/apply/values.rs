//! The values of the rows of a transaction, one after the other: the log's records lie apart in memory, and are better looked for before the write lock is taken.

use super::batch::Unit;
use densite_log::{Record, Value};
use densite_sqlite::ValueRef;
use std::ops::Range;

/// No more values are taken out of their records.
const VALUES: usize = 1 << 18;
/// Nor more bytes of text and blobs: a row that has more of its own is read from its record.
const BYTES: usize = 4 << 20;

#[derive(Clone, Copy)]
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    /// From here to there in [`Values::bytes`].
    Text(u32, u32),
    Blob(u32, u32),
}

/// How many bytes of a value are kept beside its cell.
fn length(value: Value<'_>) -> usize {
    match value {
        Value::Text(bytes) | Value::Blob(bytes) => bytes.len(),
        Value::Null | Value::Int(_) | Value::Real(_) => 0,
    }
}

/// See the module. Rows that are too many for it are not in it.
#[derive(Default)]
pub(super) struct Values {
    cells: Vec<Cell>,
    /// Where those of each row end.
    ends: Vec<u32>,
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
            let long: usize = record.rows.row(unit.row as usize).map(length).sum();
            if values.cells.len() > VALUES || values.bytes.len() + long > BYTES {
                break;
            }
            for value in record.rows.row(unit.row as usize) {
                let cell = match value {
                    Value::Null => Cell::Null,
                    Value::Int(n) => Cell::Integer(n),
                    Value::Real(x) => Cell::Real(x),
                    Value::Text(text) => {
                        let (from, to) = values.keep(text);
                        Cell::Text(from, to)
                    }
                    Value::Blob(blob) => {
                        let (from, to) = values.keep(blob);
                        Cell::Blob(from, to)
                    }
                };
                values.cells.push(cell);
            }
            values.ends.push(values.cells.len() as u32);
        }
        values
    }

    fn keep(&mut self, bytes: &[u8]) -> (u32, u32) {
        let from = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        (from, self.bytes.len() as u32)
    }

    /// How many rows it has.
    pub(super) fn rows(&self) -> usize {
        self.ends.len()
    }

    fn cells_of(&self, row: usize) -> Option<Range<usize>> {
        let from = match row.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        Some(from as usize..*self.ends.get(row)? as usize)
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
