//! A batch that is being filled, row by row.

use crate::build::Column;
use densite_sqlite::{Arguments, Row, ValueRef};

/// The most rows of a batch.
pub(crate) const BATCH_ROWS: usize = 1 << 16;
/// A batch ends after this many bytes of text and blobs.
const BATCH_BYTES: usize = 32 << 20;

/// The values of a row, by column.
pub(crate) trait RowValues {
    /// The value of a column.
    fn value(&self, column: usize) -> ValueRef<'_>;
    /// The value of a column, if it is an integer.
    fn integer(&self, column: usize) -> Option<i64>;
    /// The value of a column, if it is a floating-point number.
    fn real(&self, column: usize) -> Option<f64>;
}

/// The arguments of the sink: its handle, then the row.
impl RowValues for Arguments<'_> {
    #[inline]
    fn value(&self, column: usize) -> ValueRef<'_> {
        self.get(column + 1)
    }

    #[inline]
    fn integer(&self, column: usize) -> Option<i64> {
        Arguments::integer(self, column + 1)
    }

    #[inline]
    fn real(&self, column: usize) -> Option<f64> {
        Arguments::real(self, column + 1)
    }
}

/// The current row of a statement.
impl RowValues for Row<'_> {
    fn value(&self, column: usize) -> ValueRef<'_> {
        self.column(column)
    }

    fn integer(&self, column: usize) -> Option<i64> {
        self.column(column).as_i64()
    }

    fn real(&self, column: usize) -> Option<f64> {
        match self.column(column) {
            ValueRef::Real(x) => Some(x),
            _ => None,
        }
    }
}

/// A batch that is being filled.
pub(crate) struct Filling {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: usize,
    bytes: usize,
    /// A column whose value did not fit, and the reason.
    pub(crate) failed: Option<(usize, String)>,
}

impl Filling {
    pub(crate) fn new(columns: Vec<Column>) -> Filling {
        Filling {
            columns,
            rows: 0,
            bytes: 0,
            failed: None,
        }
    }

    /// Adds a row. Returns false if no further row can be added: the batch is full, or a value did
    /// not fit.
    #[inline]
    pub(crate) fn push(&mut self, row: &impl RowValues) -> bool {
        for (i, column) in self.columns.iter_mut().enumerate() {
            // Numbers in a column of numbers come first, because most bulk data are numbers.
            if let Some(integers) = column.integers() {
                if let Some(n) = row.integer(i) {
                    integers.push(n);
                    continue;
                }
            } else if let Some(reals) = column.reals()
                && let Some(x) = row.real(i)
            {
                reals.push(x);
                continue;
            }
            let value = row.value(i);
            if let ValueRef::Text(long) | ValueRef::Blob(long) = value {
                self.bytes += long.len();
            }
            if let Err(what) = column.push(value) {
                self.failed = Some((i, what));
                return false;
            }
        }
        self.rows += 1;
        self.rows < BATCH_ROWS && self.bytes < BATCH_BYTES
    }
}
