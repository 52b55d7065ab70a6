//! Columns of values to insert into a table.

use crate::{Error, Nullable, Result};
use densite_bulk::{Bits, Chunk, Data, Places, Set, Slice};
use rusqlite::types::Value;

/// Columns of one length, for [`insert`](crate::insert()).
///
/// A column takes values, or options of values, where `None` is NULL. SQLite stores NaN as NULL.
///
/// ```
/// let columns = densite::Columns::new()
///     .integers("user", vec![1, 2, 3])
///     .reals("score", vec![Some(0.5), None, Some(2.0)])
///     .texts("name", ["a", "b", "c"])
///     .blobs("icon", vec![None, Some(vec![0u8, 255]), None]);
/// assert_eq!(columns.names().collect::<Vec<_>>(), ["user", "score", "name", "icon"]);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "columns are stored by `insert`"]
pub struct Columns(Vec<Column>);

#[derive(Debug, Clone)]
struct Column {
    name: String,
    valid: Valid,
    values: Values,
}

#[derive(Debug, Clone)]
enum Values {
    Integers(Vec<i64>),
    Reals(Vec<f64>),
    Strings(Strings),
    Any {
        tags: Vec<u8>,
        payloads: Vec<i64>,
        bytes: Vec<u8>,
    },
}

/// Texts or blobs, one after the other.
#[derive(Debug, Clone)]
struct Strings {
    /// The value of row `i` is from `ends[i]` to `ends[i + 1]`.
    ends: Vec<i64>,
    bytes: Vec<u8>,
    text: bool,
}

/// A bit for each row, set if the value is not NULL; `None` before the first NULL.
#[derive(Debug, Clone, Default)]
struct Valid {
    rows: usize,
    bits: Option<Vec<u8>>,
}

impl Valid {
    fn push(&mut self, valid: bool) {
        let row = self.rows;
        self.rows += 1;
        if valid && self.bits.is_none() {
            return;
        }
        let bits = self.bits.get_or_insert_with(|| vec![0xff; row.div_ceil(8)]);
        if row.is_multiple_of(8) {
            bits.push(0);
        }
        if let Some(byte) = bits.last_mut() {
            let bit = 1 << (row % 8);
            *byte = if valid { *byte | bit } else { *byte & !bit };
        }
    }
}

impl Columns {
    /// An empty set of columns.
    pub fn new() -> Columns {
        Columns::default()
    }

    /// Adds a column of integers.
    pub fn integers<V: Nullable<i64>>(
        self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Columns {
        let (valid, values) = numbers(values);
        self.with(name, valid, Values::Integers(values))
    }

    /// Adds a column of floating-point numbers.
    pub fn reals<V: Nullable<f64>>(
        self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Columns {
        let (valid, values) = numbers(values);
        self.with(name, valid, Values::Reals(values))
    }

    /// Adds a column of texts.
    pub fn texts<V: Nullable<str>>(
        self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Columns {
        let mut column = Strings::new(true);
        let mut valid = Valid::default();
        for value in values {
            valid.push(value.value().is_some());
            column.push(value.value().unwrap_or_default().as_bytes());
        }
        self.with(name, valid, Values::Strings(column))
    }

    /// Adds a column of blobs.
    pub fn blobs<V: Nullable<[u8]>>(
        self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Columns {
        let mut column = Strings::new(false);
        let mut valid = Valid::default();
        for value in values {
            valid.push(value.value().is_some());
            column.push(value.value().unwrap_or_default());
        }
        self.with(name, valid, Values::Strings(column))
    }

    /// Adds a column whose values have any type.
    ///
    /// ```
    /// use densite::rusqlite::types::Value;
    /// # let _ =
    /// densite::Columns::new().values(
    ///     "any",
    ///     vec![Value::Integer(1), Value::Null, Value::Text("x".into())],
    /// );
    /// ```
    pub fn values(
        self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = Value>,
    ) -> Columns {
        let (mut tags, mut payloads, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let mut valid = Valid::default();
        let mut append = |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            end(bytes.len())
        };
        for value in values {
            // No value is missing: here NULL is a type.
            valid.push(true);
            let (tag, payload) = match &value {
                Value::Null => (0, 0),
                Value::Integer(n) => (1, *n),
                Value::Real(x) => (2, x.to_bits().cast_signed()),
                Value::Text(text) => (3, append(text.as_bytes())),
                Value::Blob(blob) => (4, append(blob)),
            };
            tags.push(tag);
            payloads.push(payload);
        }
        let values = Values::Any {
            tags,
            payloads,
            bytes,
        };
        self.with(name, valid, values)
    }

    /// The names of the columns, in the order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|column| column.name.as_str())
    }

    fn with(mut self, name: impl Into<String>, valid: Valid, values: Values) -> Columns {
        self.0.push(Column {
            name: name.into(),
            valid,
            values,
        });
        self
    }

    /// The same columns, for SQLite to read.
    pub(crate) fn into_set(self) -> Result<Set> {
        let mut set = Set::new();
        for column in self.0 {
            if u32::try_from(column.valid.rows).is_err() {
                return Err(Error::Columns(format!(
                    "column {} has {} rows, and an insert takes 4294967295 at most; insert them in parts",
                    column.name, column.valid.rows
                )));
            }
            let chunk = Chunk {
                rows: column.valid.rows,
                valid: column
                    .valid
                    .bits
                    .map(|bits| Bits::new(Slice::from(bits), 0)),
                data: column.values.into_data(),
            };
            set.add_column(&column.name, chunk)?;
        }
        Ok(set)
    }
}

impl Values {
    fn into_data(self) -> Data {
        match self {
            Values::Integers(values) => Data::I64(Slice::from(values)),
            Values::Reals(values) => Data::F64(Slice::from(values)),
            Values::Strings(Strings { ends, bytes, text }) => Data::Strings {
                places: Places::Ends64(Slice::from(ends)),
                bytes: Slice::from(bytes),
                text,
            },
            Values::Any {
                tags,
                payloads,
                bytes,
            } => Data::any(Slice::from(tags), Slice::from(payloads), Slice::from(bytes)),
        }
    }
}

impl Strings {
    fn new(text: bool) -> Strings {
        Strings {
            ends: vec![0],
            bytes: Vec::new(),
            text,
        }
    }

    fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        self.ends.push(end(self.bytes.len()));
    }
}

/// An offset; no memory is longer than `i64::MAX` bytes.
fn end(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

fn numbers<T: Copy + Default, V: Nullable<T>>(
    values: impl IntoIterator<Item = V>,
) -> (Valid, Vec<T>) {
    let mut valid = Valid::default();
    let number = |value: V| {
        let value = value.value().copied();
        valid.push(value.is_some());
        value.unwrap_or_default()
    };
    let numbers = values.into_iter().map(number).collect();
    (valid, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_sqlite::ValueRef;

    #[test]
    fn a_null_after_any_number_of_values_is_the_only_one() {
        for before in 0..20 {
            let values = (0..before + 5).map(|n| (n != before).then_some(n));
            let set = Columns::new()
                .integers("a", values)
                .into_set()
                .expect("one column");
            assert_eq!(set.rows(), usize::try_from(before + 5).expect("few"));
            assert!(set.has_null(0));
            let (_, values) = numbers::<i64, Option<i64>>([Some(1), None]);
            assert_eq!(values, [1, 0]);
        }
    }

    #[test]
    fn values_of_any_type_keep_it() {
        let values = [
            Value::Text("ü".into()),
            Value::Null,
            Value::Blob(vec![1, 2]),
            Value::Real(-0.5),
            Value::Integer(-1),
            Value::Text(String::new()),
        ];
        let column = Columns::new().values("a", values).0.remove(0);
        let chunk = Chunk {
            rows: 6,
            valid: None,
            data: column.values.into_data(),
        };
        let expected = [
            ValueRef::Text("ü".as_bytes()),
            ValueRef::Null,
            ValueRef::Blob(&[1, 2]),
            ValueRef::Real(-0.5),
            ValueRef::Integer(-1),
            ValueRef::Text(b""),
        ];
        for (row, value) in expected.iter().enumerate() {
            assert_eq!(chunk.get(row), *value);
        }
    }
}
