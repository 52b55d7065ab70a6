//! Rows of one batch, column by column: null, integers, reals, text, blobs, or mixed
//! (docs/FORMAT.md, Log record, has the bytes).
//!
//! A NULL in a column with a bitmap keeps its place (as the least value, 0.0 or nothing). So the
//! place of a value is found without counting NULLs.

mod build;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use build::{RowsBuilder, TEXTUAL, encode_row, is_textual, room_for};
pub(crate) use read::Payload;
pub use read::Rows;

/// One value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// An integer.
    Int(i64),
    /// A floating-point number; all its bits are kept.
    Real(f64),
    /// Text as SQLite has it: usually UTF-8, but this is not checked.
    Text(&'a [u8]),
    /// A blob.
    Blob(&'a [u8]),
}

impl Value<'_> {
    /// Bytes of a text or a blob; 0 for others.
    pub fn bytes(&self) -> usize {
        match self {
            Value::Text(bytes) | Value::Blob(bytes) => bytes.len(),
            Value::Null | Value::Int(_) | Value::Real(_) => 0,
        }
    }
}

/// The form of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Form {
    Null = 0,
    Int = 1,
    Real = 2,
    Text = 3,
    Blob = 4,
    Mixed = 5,
}

/// Set in a form's byte when a bitmap of NULLs follows.
pub(crate) const NULLABLE: u8 = 0x80;
