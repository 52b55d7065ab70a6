//! Rows as columns of one type each.

use crate::{Error, Result};
use densite_bulk::{Batch, OwnedColumn, Values as OwnedValues};
use rusqlite::types::ValueRef;

/// Some rows of a [`QueryResult`](crate::QueryResult), column by column.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordBatch {
    rows: usize,
    columns: Vec<Column>,
}

impl RecordBatch {
    pub(crate) fn new(names: &[String], batch: Batch) -> Result<RecordBatch> {
        let rows = batch.rows;
        let columns = names.iter().zip(batch.into_columns());
        let columns = columns.map(|(name, column)| Column::new(name, column));
        Ok(RecordBatch {
            rows,
            columns: columns.collect::<Result<_>>()?,
        })
    }

    /// The number of rows, at least 1.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The columns, in the order of the statement.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The first column with that name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// The values of a column. In place of a NULL there is 0 or an empty value: [`Column::is_null`]
/// tells them apart.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Values {
    /// Only NULLs, for this number of rows.
    Nulls(usize),
    /// Integers.
    Integers(Vec<i64>),
    /// Floating-point numbers.
    Reals(Vec<f64>),
    /// Texts.
    Texts(Texts),
    /// Blobs.
    Blobs(Blobs),
}

/// A column of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    name: String,
    values: Values,
    /// A bit for each row, set if the value is not NULL.
    valid: Option<Vec<u8>>,
}

impl Column {
    fn new(name: &str, column: OwnedColumn) -> Result<Column> {
        let values = match column.values {
            OwnedValues::Nulls(rows) => Values::Nulls(rows),
            OwnedValues::Integers(values) => Values::Integers(values),
            OwnedValues::Reals(values) => Values::Reals(values),
            OwnedValues::Strings {
                ends,
                bytes,
                text: false,
            } => Values::Blobs(Blobs { ends, bytes }),
            OwnedValues::Strings {
                ends,
                bytes,
                text: true,
            } => {
                // Each value was verified when it was read.
                let text = String::from_utf8(bytes).map_err(|_| {
                    Error::Columns(format!("column {name} has text that is not UTF-8"))
                })?;
                Values::Texts(Texts { ends, text })
            }
        };
        Ok(Column {
            name: name.to_owned(),
            values,
            valid: column.valid,
        })
    }

    /// The name, as in the statement.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The values.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Whether the value in a row is NULL; true if there is no such row.
    pub fn is_null(&self, row: usize) -> bool {
        if row >= self.len() || matches!(self.values, Values::Nulls(_)) {
            return true;
        }
        let bit = |valid: &Vec<u8>| {
            valid
                .get(row / 8)
                .is_some_and(|byte| byte >> (row % 8) & 1 == 1)
        };
        self.valid.as_ref().is_some_and(|valid| !bit(valid))
    }

    /// Whether any value is NULL.
    pub fn has_nulls(&self) -> bool {
        self.valid.is_some() || matches!(self.values, Values::Nulls(n) if n > 0)
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Nulls(rows) => *rows,
            Values::Integers(values) => values.len(),
            Values::Reals(values) => values.len(),
            Values::Texts(texts) => texts.len(),
            Values::Blobs(blobs) => blobs.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The integers, if the column has integers. A NULL is 0.
    pub fn integers(&self) -> Option<&[i64]> {
        match &self.values {
            Values::Integers(values) => Some(values),
            _ => None,
        }
    }

    /// The numbers, if the column has floating point. A NULL is 0.
    pub fn reals(&self) -> Option<&[f64]> {
        match &self.values {
            Values::Reals(values) => Some(values),
            _ => None,
        }
    }

    /// The texts, if the column has texts. A NULL is empty.
    pub fn texts(&self) -> Option<&Texts> {
        match &self.values {
            Values::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    /// The blobs, if the column has blobs. A NULL is empty.
    pub fn blobs(&self) -> Option<&Blobs> {
        match &self.values {
            Values::Blobs(blobs) => Some(blobs),
            _ => None,
        }
    }

    /// The value in a row; NULL if there is no such row.
    pub fn get(&self, row: usize) -> ValueRef<'_> {
        if self.is_null(row) {
            return ValueRef::Null;
        }
        let value = match &self.values {
            Values::Nulls(_) => None,
            Values::Integers(values) => values.get(row).map(|n| ValueRef::Integer(*n)),
            Values::Reals(values) => values.get(row).map(|x| ValueRef::Real(*x)),
            Values::Texts(texts) => texts.get(row).map(|text| ValueRef::Text(text.as_bytes())),
            Values::Blobs(blobs) => blobs.get(row).map(ValueRef::Blob),
        };
        value.unwrap_or(ValueRef::Null)
    }
}

/// Texts, one after the other in one allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// The text of row `i` is from `ends[i]` to `ends[i + 1]`.
    ends: Vec<i32>,
    text: String,
}

impl Texts {
    /// The text in a row.
    pub fn get(&self, row: usize) -> Option<&str> {
        self.text.get(range(&self.ends, row)?)
    }

    /// The number of texts.
    pub fn len(&self) -> usize {
        self.ends.len().saturating_sub(1)
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The texts in the order of the rows.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|row| self.get(row))
    }
}

/// Blobs, one after the other in one allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blobs {
    /// The blob of row `i` is from `ends[i]` to `ends[i + 1]`.
    ends: Vec<i32>,
    bytes: Vec<u8>,
}

impl Blobs {
    /// The blob in a row.
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        self.bytes.get(range(&self.ends, row)?)
    }

    /// The number of blobs.
    pub fn len(&self) -> usize {
        self.ends.len().saturating_sub(1)
    }

    /// Whether there are no blobs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The blobs in the order of the rows.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|row| self.get(row))
    }
}

fn range(ends: &[i32], row: usize) -> Option<std::ops::Range<usize>> {
    let (from, to) = (*ends.get(row)?, *ends.get(row + 1)?);
    Some(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
}
