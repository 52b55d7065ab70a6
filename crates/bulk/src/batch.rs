//! Batches of a result's rows, column by column.

use crate::bits::BitsBuilder;
use crate::values::{Filled, Values};

/// Rows, column by column.
#[derive(Debug)]
pub struct Batch {
    /// The number of rows.
    pub rows: usize,
    pub(crate) columns: Vec<Filled>,
}

/// A column of a [`Batch`] that owns its memory. In place of a NULL there is 0 or an empty value.
#[derive(Debug)]
pub struct OwnedColumn {
    /// The values.
    pub values: OwnedValues,
    /// A bit for each row, set if the value is not NULL. The lowest bit of the first byte is the
    /// first row. `None` if no row is NULL.
    pub valid: Option<Vec<u8>>,
}

/// Values of one type.
#[derive(Debug)]
pub enum OwnedValues {
    /// Only NULLs, for this number of rows.
    Nulls(usize),
    /// Integers.
    Integers(Vec<i64>),
    /// Double precision.
    Reals(Vec<f64>),
    /// Text (valid UTF-8) or blobs.
    Strings {
        /// The value of row `i` is from `ends[i]` to `ends[i + 1]`.
        ends: Vec<i32>,
        /// The bytes of all values.
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
