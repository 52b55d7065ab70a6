//! Collecting rows, and encoding them.

use super::{Form, NULLABLE, Value};
use densite_disk::memory::mapped;

/// Values of one column in row order: one tag for each row; numbers and bytes are separate.
#[derive(Debug, Clone, Default)]
struct Column {
    /// The form of each value.
    tags: Vec<u8>,
    /// For each row the bits of its number, or the length of its bytes.
    words: Vec<u64>,
    bytes: Vec<u8>,
}

impl Column {
    fn push(&mut self, value: Value<'_>) {
        let (tag, word) = match value {
            Value::Null => (Form::Null, 0),
            Value::Int(v) => (Form::Int, v as u64),
            Value::Real(v) => (Form::Real, v.to_bits()),
            Value::Text(b) | Value::Blob(b) => {
                self.bytes.extend_from_slice(b);
                let text = matches!(value, Value::Text(_));
                (if text { Form::Text } else { Form::Blob }, b.len() as u64)
            }
        };
        self.tags.push(tag as u8);
        self.words.push(word);
    }

    fn truncate(&mut self, rows: usize) {
        let gone = self.tags.iter().zip(&self.words).skip(rows);
        let in_bytes = gone.filter(|(tag, _)| **tag >= Form::Text as u8);
        let bytes: u64 = in_bytes.map(|(_, len)| *len).sum();
        self.bytes.truncate(self.bytes.len() - bytes as usize);
        self.tags.truncate(rows);
        self.words.truncate(rows);
    }

    fn clear(&mut self) {
        self.tags.clear();
        self.words.clear();
        self.bytes.clear();
    }

    fn capacity(&self) -> usize {
        self.tags.capacity() + 8 * self.words.capacity() + self.bytes.capacity()
    }

    /// The one form of all values except NULL, and whether there are NULLs.
    fn form(&self) -> (Form, bool) {
        let mut seen = [false; 5];
        for tag in &self.tags {
            if let Some(s) = seen.get_mut(usize::from(*tag)) {
                *s = true;
            }
        }
        let form = match seen {
            [_, false, false, false, false] => return (Form::Null, false),
            [_, true, false, false, false] => Form::Int,
            [_, false, true, false, false] => Form::Real,
            [_, false, false, true, false] => Form::Text,
            [_, false, false, false, true] => Form::Blob,
            _ => return (Form::Mixed, false),
        };
        (form, matches!(seen, [true, ..]))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let (form, nullable) = self.form();
        out.push(form as u8 | if nullable { NULLABLE } else { 0 });
        if nullable {
            for tags in self.tags.chunks(8) {
                let bit = |(i, tag): (usize, &u8)| u8::from(*tag == Form::Null as u8) << i;
                out.push(tags.iter().enumerate().map(bit).sum());
            }
        }
        match form {
            Form::Null => {}
            Form::Int => self.encode_ints(out),
            Form::Real => out.extend(self.words.iter().flat_map(|w| w.to_le_bytes())),
            Form::Text | Form::Blob => {
                put_lens(self.words.iter().copied(), out);
                out.extend_from_slice(&self.bytes);
            }
            Form::Mixed => self.encode_mixed(out),
        }
    }

    fn encode_ints(&self, out: &mut Vec<u8>) {
        let not_null = self.tags.iter().zip(&self.words);
        let values = not_null.filter(|(tag, _)| **tag == Form::Int as u8);
        let values = values.map(|(_, word)| *word as i64);
        let (least, most) = values.fold((i64::MAX, i64::MIN), |(l, m), v| (l.min(v), m.max(v)));
        let width = width_of((most as u64).wrapping_sub(least as u64));
        out.extend_from_slice(&least.to_le_bytes());
        out.push(width as u8);
        out.reserve(width * self.words.len() + 8);
        for (tag, word) in self.tags.iter().zip(&self.words) {
            let offset = match *tag == Form::Int as u8 {
                true => word.wrapping_sub(least as u64),
                false => 0,
            };
            // Writes eight bytes and truncates the unused ones, which avoids a loop over bytes.
            let end = out.len() + width;
            out.extend_from_slice(&offset.to_le_bytes());
            out.truncate(end);
        }
    }

    fn encode_mixed(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.tags);
        let len = |(tag, word): (&u8, &u64)| match *tag {
            t if t >= Form::Text as u8 => *word,
            0 => 0,
            _ => 8,
        };
        put_lens(self.tags.iter().zip(&self.words).map(len), out);
        let mut bytes = self.bytes.as_slice();
        for (tag, word) in self.tags.iter().zip(&self.words) {
            if *tag >= Form::Text as u8 {
                let (head, tail) = bytes.split_at_checked(*word as usize).unwrap_or_default();
                out.extend_from_slice(head);
                bytes = tail;
            } else if *tag != Form::Null as u8 {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
    }
}

/// Number of bytes that hold `v`, 0 to 8.
fn width_of(v: u64) -> usize {
    (64 - v.leading_zeros()).div_ceil(8) as usize
}

/// Writes the lengths, all with the least width of 1, 2 or 4 bytes.
fn put_lens(lens: impl Iterator<Item = u64> + Clone, out: &mut Vec<u8>) {
    let width = match width_of(lens.clone().max().unwrap_or(0)) {
        0 | 1 => 1,
        2 => 2,
        _ => 4,
    };
    out.push(width);
    for len in lens {
        out.extend_from_slice(
            len.to_le_bytes()
                .get(..usize::from(width))
                .unwrap_or_default(),
        );
    }
}

/// In the log, compression pays from this many bytes of text for each value on. Numbers are packed
/// already.
pub(crate) const TEXTUAL: usize = 2;

/// Whether values have at least 256 bytes of text, and more than `mean` for each value.
pub(crate) fn is_textual(var_bytes: usize, values: usize, mean: usize) -> bool {
    var_bytes >= 256 && var_bytes > values * mean
}

/// Larger buffers are allocated as mappings of their own. A large transaction frees many of them
/// together, and an allocator with its own heap may not return that memory to the system.
const APART: usize = 2 << 20;

/// A buffer of this capacity for a batch.
pub(crate) fn room_for(bytes: usize) -> Vec<u8> {
    match bytes > APART {
        true => mapped(bytes),
        false => Vec::with_capacity(bytes),
    }
}

/// The same bytes as [`RowsBuilder::encode`] of this row alone, without another copy of the row.
pub(crate) fn encode_row(row: &[Value<'_>]) -> Vec<u8> {
    let bytes: usize = row.iter().map(|value| 9 + value.bytes()).sum();
    let mut out = room_for(2 + bytes);
    out.extend_from_slice(&(row.len() as u16).to_le_bytes());
    for value in row {
        match *value {
            Value::Null => out.push(Form::Null as u8),
            Value::Int(v) => {
                out.push(Form::Int as u8);
                out.extend_from_slice(&v.to_le_bytes());
                // Width 0: all values equal the least one.
                out.push(0);
            }
            Value::Real(v) => {
                out.push(Form::Real as u8);
                out.extend_from_slice(&v.to_bits().to_le_bytes());
            }
            Value::Text(b) | Value::Blob(b) => {
                let is_text = matches!(value, Value::Text(_));
                out.push(if is_text { Form::Text } else { Form::Blob } as u8);
                put_lens(std::iter::once(b.len() as u64), &mut out);
                out.extend_from_slice(b);
            }
        }
    }
    out
}

/// Collects the rows of a batch.
#[derive(Debug, Clone)]
pub(crate) struct RowsBuilder {
    columns: Vec<Column>,
    rows: usize,
    /// Bytes of text and blobs.
    var_bytes: usize,
}

impl RowsBuilder {
    pub(crate) fn new(columns: usize) -> RowsBuilder {
        RowsBuilder {
            columns: vec![Column::default(); columns],
            rows: 0,
            var_bytes: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Adds a row, which has as many values as there are columns.
    pub(crate) fn push(&mut self, row: &[Value<'_>]) {
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.push(*value);
            self.var_bytes += value.bytes();
        }
        self.rows += 1;
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        for column in &mut self.columns {
            column.truncate(rows);
        }
        self.rows = self.rows.min(rows);
        self.var_bytes = self.columns.iter().map(|c| c.bytes.len()).sum();
    }

    /// Upper bound of the bytes of the encoded rows.
    pub(crate) fn bytes_max(&self) -> u64 {
        let fixed = self.columns.len() as u64 * (self.rows as u64 * 14 + 16);
        fixed + self.var_bytes as u64
    }

    /// See [`is_textual`].
    pub(crate) fn is_textual(&self, mean: usize) -> bool {
        is_textual(self.var_bytes, self.rows * self.columns.len(), mean)
    }

    /// Removes all rows and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.columns.iter_mut().for_each(Column::clear);
        (self.rows, self.var_bytes) = (0, 0);
    }

    /// Bytes of memory that rows can take without more memory.
    pub(crate) fn capacity(&self) -> usize {
        self.columns.iter().map(Column::capacity).sum()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = room_for(self.bytes_max() as usize + 2);
        out.extend_from_slice(&(self.columns.len() as u16).to_le_bytes());
        for column in &self.columns {
            column.encode(&mut out);
        }
        out
    }
}
