//! Rows of one batch, column by column.
//!
//! ```text
//! 2 bytes: number of columns; then for each column 1 byte: its form, plus 128 if a bitmap of one
//! bit per row follows (1: NULL), and
//!   0  null   nothing
//!   1  int    8 bytes: the least value; 1 byte: width w; for each row w bytes: the value less the
//!             least, modulo 2^64
//!   2  real   for each row 8 bytes
//!   3  text   1 byte: width w (1, 2 or 4); for each row w bytes: its length in bytes; then the bytes
//!             of all rows
//!   4  blob   the same
//!   5  mixed  for each row 1 byte: 0 null, 1 int, 2 real, 3 text, 4 blob; then as blob, numbers in
//!             8 bytes each
//! ```
//!
//! A NULL in a column with a bitmap keeps its place (as the least value, 0.0 or nothing). So the
//! place of a value is found without counting NULLs.

mod build;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use build::{RowsBuilder, encode_row, is_textual, room_for};
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
