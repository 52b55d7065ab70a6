//! A column of a result, to which values are added one by one.
//!
//! The first batch decides the type of a column. With floating point, an integer becomes floating
//! point if that is exact. With text, a number becomes SQLite's text of it, as by CAST. With blobs,
//! text becomes its bytes. Numbers and blobs cannot share a column. The order of the rows does not
//! matter: values of several types are kept until the batch ends. Values of later batches must
//! fit that type.

use crate::bits::BitsBuilder;
use crate::kind::Kind;
use crate::mixed::{Mixed, TextOf};
use crate::piece::{append, exact, inexact, utf8};
use crate::values::{Filled, Values};
use densite_sqlite::ValueRef;

/// The values of a batch that is being filled.
#[derive(Debug)]
enum Cells {
    Of(Values),
    /// Values of several types, until the batch ends.
    Mixed(Mixed),
}

/// A column of a batch that is being filled.
#[derive(Debug)]
pub(crate) struct Column {
    cells: Cells,
    /// The rows that are not NULL; `None` before the first NULL.
    valid: Option<BitsBuilder>,
    /// The type of the column, once decided.
    settled: Option<Kind>,
}

impl Column {
    /// A column with a given type, or one whose values decide its type. It reserves memory for
    /// `room` numbers, or for the ends of that many texts.
    pub(crate) fn new(kind: Option<Kind>, room: usize) -> Column {
        let mut values = Values::of(kind.unwrap_or(Kind::Null), 0);
        match &mut values {
            Values::Nulls(_) => {}
            Values::Integers(values) => values.reserve_exact(room),
            Values::Reals(values) => values.reserve_exact(room),
            Values::Strings { ends, .. } => ends.reserve_exact(room),
        }
        Column {
            cells: Cells::Of(values),
            valid: None,
            settled: kind,
        }
    }

    /// Ends a batch: converts the values to one type. An error has the row that does not fit, and
    /// the reason.
    pub(crate) fn finish(self, text_of: TextOf<'_>) -> Result<Filled, (usize, String)> {
        let values = match self.cells {
            Cells::Of(values) => values,
            Cells::Mixed(mixed) => {
                let kind = self.settled.unwrap_or(mixed.kind());
                mixed.into_one(kind, text_of)?
            }
        };
        Ok(Filled {
            values,
            valid: self.valid,
        })
    }

    /// The values, if they are integers and none is NULL so far.
    #[inline]
    pub(crate) fn integers(&mut self) -> Option<&mut Vec<i64>> {
        match (&mut self.cells, &self.valid) {
            (Cells::Of(Values::Integers(values)), None) => Some(values),
            _ => None,
        }
    }

    /// The values, if they are floating point and none is NULL so far.
    #[inline]
    pub(crate) fn reals(&mut self) -> Option<&mut Vec<f64>> {
        match (&mut self.cells, &self.valid) {
            (Cells::Of(Values::Reals(values)), None) => Some(values),
            _ => None,
        }
    }

    /// Adds a value. An error says why it does not fit.
    #[inline]
    pub(crate) fn push(&mut self, value: ValueRef<'_>) -> Result<(), String> {
        let values = match &mut self.cells {
            Cells::Of(values) => values,
            Cells::Mixed(_) => return self.push_mixed(value),
        };
        match (values, value) {
            (Values::Integers(values), ValueRef::Integer(n)) => values.push(n),
            (Values::Reals(values), ValueRef::Real(x)) => values.push(x),
            (
                Values::Strings {
                    ends,
                    bytes,
                    text: true,
                },
                ValueRef::Text(piece),
            ) if std::str::from_utf8(piece).is_ok() => append(ends, bytes, piece)?,
            (
                Values::Strings {
                    ends,
                    bytes,
                    text: false,
                },
                ValueRef::Blob(piece) | ValueRef::Text(piece),
            ) => append(ends, bytes, piece)?,
            (values, ValueRef::Null) => {
                let rows = values.rows();
                values.push_null();
                let valid = self.valid.get_or_insert_with(|| BitsBuilder::ones(rows));
                valid.push(false);
                return Ok(());
            }
            (_, value) => return self.push_other(value),
        }
        if let Some(valid) = &mut self.valid {
            valid.push(true);
        }
        Ok(())
    }

    /// Adds a value whose type differs from the column's.
    #[inline(never)]
    fn push_other(&mut self, value: ValueRef<'_>) -> Result<(), String> {
        if let (Some(Kind::Real), ValueRef::Integer(n)) = (self.settled, value) {
            let x = exact(n).ok_or_else(|| inexact(n))?;
            return self.push(ValueRef::Real(x));
        }
        let values = match std::mem::replace(&mut self.cells, Cells::Mixed(Mixed::default())) {
            Cells::Of(Values::Nulls(rows)) if self.settled.is_none() => {
                self.cells = Cells::Of(Values::of(Kind::of(value), rows));
                return self.push(value);
            }
            Cells::Of(values) => values,
            mixed @ Cells::Mixed(_) => {
                self.cells = mixed;
                return self.push_mixed(value);
            }
        };
        let valid = self.valid.as_ref();
        let is_there = |row| valid.is_none_or(|valid| valid.get(row));
        self.cells = Cells::Mixed(Mixed::from(values, is_there));
        self.push_mixed(value)
    }

    /// Adds a value to a column of several types.
    #[inline(never)]
    fn push_mixed(&mut self, value: ValueRef<'_>) -> Result<(), String> {
        let Cells::Mixed(mixed) = &mut self.cells else {
            return self.push(value);
        };
        match (self.settled, value) {
            (None, _) | (Some(_), ValueRef::Null) => {}
            (Some(Kind::Text), ValueRef::Text(piece)) => utf8(piece)?,
            (Some(Kind::Text), ValueRef::Integer(_) | ValueRef::Real(_)) => {}
            (Some(kind), value) => {
                return Err(format!(
                    "{} in a column that began with {}; use CAST to make it one type",
                    Kind::of(value).words(),
                    kind.words()
                ));
            }
        }
        let rows = mixed.len();
        mixed.push(value)?;
        let is_null = matches!(value, ValueRef::Null);
        if is_null && self.valid.is_none() {
            self.valid = Some(BitsBuilder::ones(rows));
        }
        if let Some(valid) = &mut self.valid {
            valid.push(!is_null);
        }
        Ok(())
    }
}
