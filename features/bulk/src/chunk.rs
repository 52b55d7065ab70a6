//! A column of one batch, and its values.

use crate::bits::{Bits, BitsBuilder};
use crate::memory::Slice;
use crate::text::{Unit, date, timestamp};
use densite_sqlite::ValueRef;
use std::collections::BTreeMap;

/// The position of each text or blob.
pub enum Places {
    /// Value `i` is from `ends[i]` to `ends[i + 1]`.
    Ends32(Slice<i32>),
    /// The same with 64-bit numbers.
    Ends64(Slice<i64>),
    /// All values have this size in bytes.
    Fixed(usize),
}

/// The values of a column, without its NULLs.
pub enum Data {
    /// Only NULLs.
    Null,
    /// One bit each.
    Bits(Bits),
    /// One byte each, zero or nonzero.
    Bytes(Slice<u8>),
    /// Integers.
    I8(Slice<i8>),
    /// Integers.
    I16(Slice<i16>),
    /// Integers.
    I32(Slice<i32>),
    /// Integers.
    I64(Slice<i64>),
    /// Integers.
    U8(Slice<u8>),
    /// Integers.
    U16(Slice<u16>),
    /// Integers.
    U32(Slice<u32>),
    /// Integers that were checked to fit into SQLite's.
    U64(Slice<u64>),
    /// Half precision, as its bits.
    F16(Slice<u16>),
    /// Single precision.
    F32(Slice<f32>),
    /// Double precision.
    F64(Slice<f64>),
    /// Text or blobs.
    Strings {
        /// Their positions.
        places: Places,
        /// The bytes of all values.
        bytes: Slice<u8>,
        /// Text, checked to be valid UTF-8; otherwise blobs.
        text: bool,
    },
    /// Text or blobs by views of 16 bytes each, which contain short values.
    Views {
        /// The views.
        views: Slice<[u8; 16]>,
        /// The buffers that the other views point into.
        buffers: Vec<Slice<u8>>,
        /// As in `Strings`.
        text: bool,
    },
    /// Values of another column by index.
    Dictionary {
        /// The index of each value.
        indices: Box<Data>,
        /// The values.
        values: Box<Chunk>,
    },
    /// Any of SQLite's types in each row.
    Any {
        /// 0 NULL, 1 integer, 2 floating point, 3 text, 4 blob.
        tags: Slice<u8>,
        /// The integer, the number's bits, or the end of the text or blob. Texts and blobs are
        /// contiguous.
        payloads: Slice<i64>,
        /// Text and blobs.
        bytes: Slice<u8>,
        /// The start of each row's text or blob.
        starts: Slice<i64>,
    },
}

/// The kind of numbers of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    Integers,
    Reals,
}

/// A column of one batch.
pub struct Chunk {
    /// The number of rows.
    pub rows: usize,
    /// The rows that are not NULL; `None` if no row is NULL.
    pub valid: Option<Bits>,
    /// The values.
    pub data: Data,
}

/// The bytes of a view. It has the length, then the bytes themselves if they are short; otherwise
/// their start, buffer and offset.
fn viewed<'a>(view: &'a [u8; 16], buffers: &'a [Slice<u8>]) -> Option<&'a [u8]> {
    let number = |at: usize| {
        let bytes: [u8; 4] = view.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    let len = number(0)?;
    if len <= 12 {
        return view.get(4..4 + len);
    }
    let offset = number(12)?;
    buffers
        .get(number(8)?)?
        .get(offset..offset.checked_add(len)?)
}

impl Places {
    /// The range of the value in a row.
    pub(crate) fn of(&self, row: usize) -> Option<std::ops::Range<usize>> {
        match self {
            Places::Ends32(ends) => {
                let (from, to) = (*ends.get(row)?, *ends.get(row + 1)?);
                Some(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
            }
            Places::Ends64(ends) => {
                let (from, to) = (*ends.get(row)?, *ends.get(row + 1)?);
                Some(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
            }
            Places::Fixed(width) => Some(row.checked_mul(*width)?..(row + 1).checked_mul(*width)?),
        }
    }
}

impl Data {
    /// Text that `write` appends, value by value. A row that is not `valid` gets an empty text.
    pub(crate) fn written(
        rows: usize,
        valid: Option<&Bits>,
        mut write: impl FnMut(&mut String, usize),
    ) -> Data {
        let mut text = String::with_capacity(rows.saturating_mul(19));
        let mut ends: Vec<i64> = Vec::with_capacity(rows + 1);
        ends.push(0);
        for row in 0..rows {
            if valid.is_none_or(|valid| valid.get(row)) {
                write(&mut text, row);
            }
            ends.push(i64::try_from(text.len()).unwrap_or(i64::MAX));
        }
        Data::Strings {
            places: Places::Ends64(Slice::from(ends)),
            bytes: Slice::from(text.into_bytes()),
            text: true,
        }
    }

    /// Values of any type in each row: their tags, their payloads (the value, or the end of its
    /// text or blob), and the bytes of texts and blobs.
    pub fn any(tags: Slice<u8>, payloads: Slice<i64>, bytes: Slice<u8>) -> Data {
        let mut end = 0;
        let starts = tags.iter().zip(payloads.iter()).map(|(tag, payload)| {
            let start = end;
            if matches!(tag, 3 | 4) {
                end = *payload;
            }
            start
        });
        Data::Any {
            starts: Slice::from(starts.collect::<Vec<i64>>()),
            tags,
            payloads,
            bytes,
        }
    }

    /// The value in a row; `None` if there is no such row.
    #[inline]
    fn get(&self, row: usize) -> Option<ValueRef<'_>> {
        // The most frequent types are handled inline.
        match self {
            Data::I64(v) => Some(ValueRef::Integer(*v.get(row)?)),
            Data::F64(v) => Some(real(*v.get(row)?)),
            _ => self.get_other(row),
        }
    }

    #[inline(never)]
    fn get_other(&self, row: usize) -> Option<ValueRef<'_>> {
        let string = |bytes, text| match text {
            true => ValueRef::Text(bytes),
            false => ValueRef::Blob(bytes),
        };
        Some(match self {
            Data::Null => ValueRef::Null,
            Data::I64(v) => ValueRef::Integer(*v.get(row)?),
            Data::F64(v) => real(*v.get(row)?),
            Data::I32(v) => ValueRef::Integer(i64::from(*v.get(row)?)),
            Data::I16(v) => ValueRef::Integer(i64::from(*v.get(row)?)),
            Data::I8(v) => ValueRef::Integer(i64::from(*v.get(row)?)),
            Data::U8(v) => ValueRef::Integer(i64::from(*v.get(row)?)),
            Data::U16(v) => ValueRef::Integer(i64::from(*v.get(row)?)),
            Data::U32(v) => ValueRef::Integer(i64::from(*v.get(row)?)),
            Data::U64(v) => ValueRef::Integer(i64::try_from(*v.get(row)?).ok()?),
            Data::F32(v) => real(f64::from(*v.get(row)?)),
            Data::F16(v) => real(crate::number::half(*v.get(row)?)),
            Data::Bits(bits) => ValueRef::Integer(i64::from(bits.get(row))),
            Data::Bytes(v) => ValueRef::Integer(i64::from(*v.get(row)? != 0)),
            Data::Strings {
                places,
                bytes,
                text,
            } => string(bytes.get(places.of(row)?)?, *text),
            Data::Views {
                views,
                buffers,
                text,
            } => string(viewed(views.get(row)?, buffers)?, *text),
            Data::Dictionary { indices, values } => {
                let index = indices.get(row)?.as_i64()?;
                values.get(usize::try_from(index).ok()?)
            }
            Data::Any {
                tags,
                payloads,
                bytes,
                starts,
            } => {
                let payload = *payloads.get(row)?;
                let piece = || {
                    let from = usize::try_from(*starts.get(row)?).ok()?;
                    bytes.get(from..usize::try_from(payload).ok()?)
                };
                match *tags.get(row)? {
                    1 => ValueRef::Integer(payload),
                    2 => real(f64::from_bits(payload.cast_unsigned())),
                    3 => ValueRef::Text(piece()?),
                    4 => ValueRef::Blob(piece()?),
                    _ => ValueRef::Null,
                }
            }
        })
    }
}

/// Dates (days since 1970-01-01, if there is no unit) or timestamps as text. `i64::MIN`, NumPy's
/// "not a time", is NULL.
pub fn since(moments: Slice<i64>, rows: usize, unit: Option<Unit>) -> Chunk {
    let mut valid = BitsBuilder::default();
    for row in 0..rows {
        valid.push(moments.get(row).is_some_and(|at| *at != i64::MIN));
    }
    let valid = Bits::new(Slice::from(valid.into_bytes()), 0);
    let data = Data::written(rows, Some(&valid), |out, row| {
        let at = moments.get(row).copied().unwrap_or(0);
        match unit {
            Some(unit) => timestamp(out, at, unit, false),
            None => date(out, at),
        }
    });
    Chunk {
        rows,
        valid: Some(valid),
        data,
    }
}

/// SQLite has no NaN and stores NULL instead.
#[inline]
fn real(x: f64) -> ValueRef<'static> {
    if x.is_nan() {
        ValueRef::Null
    } else {
        ValueRef::Real(x)
    }
}

impl Chunk {
    /// The value in a row; NULL if there is no such row.
    #[inline]
    pub fn get(&self, row: usize) -> ValueRef<'_> {
        if self.valid.as_ref().is_some_and(|valid| !valid.get(row)) {
            return ValueRef::Null;
        }
        self.data.get(row).unwrap_or(ValueRef::Null)
    }

    /// The values, if all are 64-bit integers and none is NULL.
    pub(crate) fn integers(&self) -> Option<&[i64]> {
        match &self.data {
            Data::I64(values) if self.valid.is_none() => values.get(..self.rows),
            _ => None,
        }
    }

    /// The values, if all have double precision and none is NULL. They can include NaN.
    pub(crate) fn reals(&self) -> Option<&[f64]> {
        match &self.data {
            Data::F64(values) if self.valid.is_none() => values.get(..self.rows),
            _ => None,
        }
    }

    /// The kind of numbers, if the column has only integers or only floating point.
    pub(crate) fn is_numbers(&self) -> Option<Numbers> {
        match &self.data {
            Data::F64(_) | Data::F32(_) | Data::F16(_) => Some(Numbers::Reals),
            Data::Null
            | Data::Strings { .. }
            | Data::Views { .. }
            | Data::Dictionary { .. }
            | Data::Any { .. } => None,
            _ => Some(Numbers::Integers),
        }
    }

    /// The types of its values, without NULL, as bits: 1 integer, 2 floating point, 4 text, 8 blob.
    /// It may report extra types, never too few.
    pub(crate) fn types(&self) -> u8 {
        match &self.data {
            Data::Null => 0,
            Data::F64(_) | Data::F32(_) | Data::F16(_) => 2,
            Data::Strings { text, .. } | Data::Views { text, .. } => {
                if *text {
                    4
                } else {
                    8
                }
            }
            Data::Dictionary { values, .. } => values.types(),
            Data::Any { tags, .. } => tags.iter().fold(0, |types, tag| match tag {
                1..=4 => types | 1 << (tag - 1),
                _ => types,
            }),
            _ => 1,
        }
    }

    /// Whether a value is NULL, or NaN, which is stored as NULL.
    pub(crate) fn has_null(&self) -> bool {
        let all_there = self.valid.is_none() && self.is_numbers() == Some(Numbers::Integers);
        !all_there && (0..self.rows).any(|row| matches!(self.get(row), ValueRef::Null))
    }

    /// Whether the column's bits mark the row as not NULL.
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid.get(row))
    }

    /// Whether a row has NaN, which SQLite stores as NULL.
    pub fn is_nan(&self, row: usize) -> bool {
        self.is_valid(row)
            && match &self.data {
                Data::F64(v) => v.get(row).is_some_and(|x| x.is_nan()),
                Data::F32(v) => v.get(row).is_some_and(|x| x.is_nan()),
                Data::F16(v) => v.get(row).is_some_and(|x| crate::number::half(*x).is_nan()),
                Data::Any { tags, payloads, .. } => {
                    tags.get(row) == Some(&2)
                        && payloads
                            .get(row)
                            .is_some_and(|x| f64::from_bits(x.cast_unsigned()).is_nan())
                }
                _ => false,
            }
    }

    /// Checks every value that SQLite might not be able to store. `name` and `first` (the number of
    /// the first row) are for the message.
    pub(crate) fn check(&self, name: &str, first: u64) -> crate::Result<()> {
        self.check_from(0, name, first)
    }

    /// The same for the values from a row on.
    fn check_from(&self, from: usize, name: &str, first: u64) -> crate::Result<()> {
        let bad =
            |row: usize, what: String| Err(crate::Error::value(name, first + row as u64, what));
        match &self.data {
            Data::U64(v) => {
                let large = |row: &usize| v.get(*row).is_some_and(|n| i64::try_from(*n).is_err());
                match (from..self.rows).find(|row| large(row) && self.is_valid(*row)) {
                    Some(row) => bad(
                        row,
                        format!(
                            "{} does not fit into SQLite's integers, which end at 9223372036854775807; store it as text or floating point",
                            v.get(row).copied().unwrap_or(0)
                        ),
                    ),
                    None => Ok(()),
                }
            }
            Data::Strings {
                places,
                bytes,
                text,
            } => {
                // One check of all bytes is enough if each row's bytes are within them, and begin
                // and end between characters.
                let whole = *text && std::str::from_utf8(bytes).is_ok();
                for row in (from..self.rows).filter(|row| self.is_valid(*row)) {
                    let range = places.of(row);
                    let Some(value) = range.clone().and_then(|range| bytes.get(range)) else {
                        return bad(row, "its offsets reach beyond its data".to_owned());
                    };
                    if *text && !(whole && between(bytes, range)) {
                        utf8(value).or_else(|what| bad(row, what))?;
                    }
                }
                Ok(())
            }
            Data::Views {
                views,
                buffers,
                text,
            } => {
                for row in (from..self.rows).filter(|row| self.is_valid(*row)) {
                    let value = views.get(row).and_then(|view| viewed(view, buffers));
                    let Some(value) = value else {
                        return bad(row, "its view reaches beyond its data".to_owned());
                    };
                    if *text {
                        utf8(value).or_else(|what| bad(row, what))?;
                    }
                }
                Ok(())
            }
            Data::Dictionary { indices, values } => {
                // A bad value is reported with a row that has it. One that no row has is harmless.
                let bad_values = values.bad()?;
                for row in (from..self.rows).filter(|row| self.is_valid(*row)) {
                    let index = indices.get(row).and_then(ValueRef::as_i64);
                    let place = index.and_then(|n| usize::try_from(n).ok());
                    match place.filter(|place| *place < values.rows) {
                        Some(place) => match bad_values.get(&place) {
                            Some(what) => return bad(row, what.clone()),
                            None => continue,
                        },
                        None => {
                            return bad(
                                row,
                                format!("its dictionary has no value {}", index.unwrap_or(-1)),
                            );
                        }
                    }
                }
                Ok(())
            }
            Data::Any { tags, .. } => {
                for row in from..self.rows {
                    match (tags.get(row), self.data.get(row)) {
                        (Some(3), Some(ValueRef::Text(text))) => {
                            utf8(text).or_else(|what| bad(row, what))?
                        }
                        (_, None) => return bad(row, "its bytes reach beyond the data".to_owned()),
                        _ => {}
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// All values that SQLite cannot store, with the reasons.
    fn bad(&self) -> crate::Result<BTreeMap<usize, String>> {
        let (mut found, mut from) = (BTreeMap::new(), 0);
        loop {
            match self.check_from(from, "", 0) {
                Ok(()) => return Ok(found),
                Err(crate::Error::Value { row, what, .. }) => {
                    let row = usize::try_from(row).unwrap_or(usize::MAX);
                    found.insert(row, what);
                    from = row.saturating_add(1);
                }
                Err(other) => return Err(other),
            }
        }
    }
}

/// Whether a range of valid text begins and ends between characters.
fn between(bytes: &[u8], range: Option<std::ops::Range<usize>>) -> bool {
    let starts = |at: usize| bytes.get(at).is_none_or(|byte| byte & 0xc0 != 0x80);
    range.is_some_and(|range| starts(range.start) && starts(range.end))
}

fn utf8(bytes: &[u8]) -> Result<(), String> {
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(e) => {
            let start: Vec<u8> = bytes.iter().copied().take(40).collect();
            Err(format!(
                "text that is not UTF-8 from byte {} on: b\"{}\"; store it as a blob, or repair it",
                e.valid_up_to(),
                start.escape_ascii()
            ))
        }
    }
}
