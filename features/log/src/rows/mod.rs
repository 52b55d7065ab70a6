//! Rows of one batch, column by column: null, integers, reals, text, blobs, or mixed
//! (docs/FORMAT.md, Log record, has the bytes). When rows are decoded, every length is checked once,
//! then each value is found directly.
//!
//! A NULL in a column with a bitmap keeps its place (as the least value, 0.0 or nothing). So the
//! place of a value is found without counting NULLs.

mod build;
#[cfg(test)]
mod tests;

pub(crate) use build::{RowsBuilder, TEXTUAL, encode_row, is_textual, room_for};

use densite_disk::Fields;
use std::ops::{Deref, Range};
use std::sync::Arc;

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
enum Form {
    Null = 0,
    Int = 1,
    Real = 2,
    Text = 3,
    Blob = 4,
    Mixed = 5,
}

/// Set in a form's byte when a bitmap of NULLs follows.
const NULLABLE: u8 = 0x80;

/// The places of a column's parts in the payload.
#[derive(Debug, Clone)]
struct Column {
    form: Form,
    nulls: Option<Range<usize>>,
    /// The least value of a column of integers.
    least: i64,
    width: usize,
    /// Integers or reals; in a mixed column the tags.
    fixed: Range<usize>,
    /// Offset in the payload at which each row's bytes end. The first entry is where the bytes
    /// begin.
    ends: Vec<u32>,
}

/// The bytes of a decoded batch.
#[derive(Debug, Clone)]
pub(crate) enum Payload {
    Own(Vec<u8>),
    /// The payload of an encoded batch that is not compressed.
    Shared(Arc<Vec<u8>>),
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Payload::Own(bytes) => bytes,
            Payload::Shared(bytes) => bytes,
        }
    }
}

/// The rows of a record.
#[derive(Debug, Clone)]
pub struct Rows {
    payload: Payload,
    count: usize,
    columns: Vec<Column>,
}

impl Rows {
    /// Decodes a payload; `None` if it does not have `count` valid rows.
    pub(crate) fn decode(payload: Payload, count: usize) -> Option<Rows> {
        let mut take = Counted::new(&payload);
        let n = take.rest.u16()?;
        // Each column has at least one byte.
        let mut columns = Vec::with_capacity(usize::from(n).min(payload.len()));
        for _ in 0..n {
            columns.push(Column::decode(&mut take, count)?);
        }
        take.rest.rest().is_empty().then_some(Rows {
            payload,
            count,
            columns,
        })
    }

    /// The same rows without their first `columns` columns, in their own memory; `None` if there
    /// are fewer columns.
    pub fn without_first(&self, columns: usize) -> Option<Rows> {
        let left = u16::try_from(self.columns().checked_sub(columns)?).ok()?;
        let mut take = Counted::new(&self.payload);
        take.rest.u16()?;
        for _ in 0..columns {
            Column::decode(&mut take, self.count)?;
        }
        let rest = take.rest.rest();
        let mut payload = Vec::with_capacity(2 + rest.len());
        payload.extend_from_slice(&left.to_le_bytes());
        payload.extend_from_slice(rest);
        Rows::decode(Payload::Own(payload), self.count)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no rows; a record has at least one.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the packed values.
    pub fn bytes(&self) -> usize {
        self.payload.len()
    }

    /// The rows as in the payload of a record that is not compressed.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Whether an [`EncodedBatch`](crate::EncodedBatch) shares this memory.
    pub fn is_shared(&self) -> bool {
        matches!(self.payload, Payload::Shared(_))
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The value in a row and a column, both counted from 0; `None` if there is no such row or
    /// column.
    pub fn get(&self, row: usize, column: usize) -> Option<Value<'_>> {
        if row >= self.count {
            return None;
        }
        self.columns.get(column)?.get(&self.payload, row)
    }

    /// The values of one row; empty if there is no such row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = Value<'_>> {
        let columns = self.columns.iter().filter(move |_| row < self.count);
        columns.map(move |c| c.get(&self.payload, row).unwrap_or(Value::Null))
    }
}

/// Takes bytes from the front and knows its offset.
struct Counted<'a> {
    len: usize,
    rest: Fields<'a>,
}

impl<'a> Counted<'a> {
    fn new(bytes: &'a [u8]) -> Counted<'a> {
        Counted {
            len: bytes.len(),
            rest: Fields::new(bytes),
        }
    }

    fn range(&mut self, len: usize) -> Option<Range<usize>> {
        let from = self.len - self.rest.rest().len();
        self.rest.bytes(len)?;
        Some(from..from + len)
    }

    /// Reads the lengths of `count` rows and skips their bytes. Returns the ends of the rows.
    fn ends(&mut self, count: usize) -> Option<Vec<u32>> {
        let width = usize::from(self.rest.u8()?);
        if !matches!(width, 1 | 2 | 4) {
            return None;
        }
        let lens = self.rest.bytes(count.checked_mul(width)?)?;
        let mut at = (self.len - self.rest.rest().len()) as u64;
        let mut ends = Vec::with_capacity(count + 1);
        let from = at;
        ends.push(at as u32);
        for len in lens.chunks_exact(width) {
            at += word(len);
            ends.push(u32::try_from(at).ok()?);
        }
        self.rest.bytes(usize::try_from(at - from).ok()?)?;
        Some(ends)
    }
}

/// Up to eight little-endian bytes as a number.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))
}

impl Column {
    fn decode(take: &mut Counted<'_>, count: usize) -> Option<Column> {
        let byte = take.rest.u8()?;
        let form = match byte & !NULLABLE {
            0 => Form::Null,
            1 => Form::Int,
            2 => Form::Real,
            3 => Form::Text,
            4 => Form::Blob,
            5 => Form::Mixed,
            _ => return None,
        };
        let nulls = match byte & NULLABLE {
            0 => None,
            _ => Some(take.range(count.div_ceil(8))?),
        };
        let mut column = Column {
            form,
            nulls,
            least: 0,
            width: 8,
            fixed: 0..0,
            ends: Vec::new(),
        };
        match form {
            Form::Null => {}
            Form::Int => {
                column.least = take.rest.u64()? as i64;
                column.width = usize::from(take.rest.u8()?);
                if column.width > 8 {
                    return None;
                }
                column.fixed = take.range(count.checked_mul(column.width)?)?;
            }
            Form::Real => column.fixed = take.range(count.checked_mul(8)?)?,
            Form::Text | Form::Blob => column.ends = take.ends(count)?,
            Form::Mixed => {
                column.fixed = take.range(count)?;
                column.ends = take.ends(count)?;
            }
        }
        Some(column)
    }

    fn get<'a>(&self, payload: &'a [u8], row: usize) -> Option<Value<'a>> {
        if let Some(nulls) = &self.nulls {
            let byte = payload.get(nulls.clone())?.get(row / 8)?;
            if byte >> (row % 8) & 1 == 1 {
                return Some(Value::Null);
            }
        }
        let fixed = payload.get(self.fixed.clone())?;
        let at = |width: usize| fixed.get(row * width..(row + 1) * width);
        Some(match self.form {
            Form::Null => Value::Null,
            Form::Int => Value::Int(self.least.wrapping_add(word(at(self.width)?) as i64)),
            Form::Real => Value::Real(f64::from_bits(word(at(8)?))),
            Form::Text => Value::Text(self.bytes(payload, row)?),
            Form::Blob => Value::Blob(self.bytes(payload, row)?),
            Form::Mixed => {
                let bytes = self.bytes(payload, row)?;
                match fixed.get(row)? {
                    1 => Value::Int(i64::from_le_bytes(bytes.try_into().ok()?)),
                    2 => Value::Real(f64::from_le_bytes(bytes.try_into().ok()?)),
                    3 => Value::Text(bytes),
                    4 => Value::Blob(bytes),
                    _ => Value::Null,
                }
            }
        })
    }

    fn bytes<'a>(&self, payload: &'a [u8], row: usize) -> Option<&'a [u8]> {
        let (from, to) = (*self.ends.get(row)?, *self.ends.get(row + 1)?);
        payload.get(from as usize..to as usize)
    }
}
