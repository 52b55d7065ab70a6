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
    pub values: Values,
    /// A bit for each row, set if the value is not NULL. The lowest bit of the first byte is the
    /// first row. `None` if no row is NULL.
    pub valid: Option<Vec<u8>>,
}

impl Batch {
    /// The columns, for readers that do not use Arrow.
    pub fn into_columns(self) -> Vec<OwnedColumn> {
        let owned = |column: Filled| OwnedColumn {
            valid: column
                .valid
                .filter(|valid| valid.zeros > 0)
                .map(BitsBuilder::into_bytes),
            values: column.values,
        };
        self.columns.into_iter().map(owned).collect()
    }
}
