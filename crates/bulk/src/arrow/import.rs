//! What a producer hands over, as columns.

use super::abi::{
    ArrowArray, ArrowArrayStream, ArrowSchema, OwnedArray, OwnedSchema, OwnedStream, text,
};
use super::format::{Type, name};
use crate::bits::Bits;
use crate::chunk::{Chunk, Data, Places};
use crate::memory::{Owner, Plain, Slice};
use crate::set::Source;
use crate::text::{Decimal, Unit, date, decimal, time, timestamp};
use crate::{Error, Result};
use std::ffi::c_void;
use std::sync::Arc;

/// A column of a schema.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name.
    pub name: String,
    kind: Type,
    /// The type of the values, where the column has numbers of a dictionary.
    dictionary: Option<Box<Field>>,
}

/// A stream of batches that is ours to read and to release.
pub struct Stream {
    stream: OwnedStream,
    fields: Vec<Field>,
}

impl Stream {
    /// Takes over a stream and asks for its schema.
    ///
    /// # Errors
    /// [`Error::Misuse`] when it was released; [`Error::Type`] naming a column of a type without
    /// counterpart; the producer's.
    ///
    /// # Safety
    /// `place` is null or a stream that keeps the interface's rules.
    pub unsafe fn take(place: *mut ArrowArrayStream) -> Result<Stream> {
        // SAFETY: passed on.
        let stream = unsafe { OwnedStream::take(place) };
        let mut stream =
            stream.ok_or_else(|| Error::Misuse("the Arrow stream was consumed already".into()))?;
        let mut schema = ArrowSchema::empty();
        let raw = &raw mut stream.0;
        // SAFETY: a live stream's own method, and a place for the schema.
        let done = unsafe { (*raw).get_schema.map(|call| call(raw, &raw mut schema)) };
        if done != Some(0) {
            return Err(failed(&mut stream));
        }
        // SAFETY: the producer has just made it.
        let schema = unsafe { OwnedSchema::take(&raw mut schema) };
        let schema =
            schema.ok_or_else(|| Error::Source("the Arrow stream has no schema".into()))?;
        // SAFETY: as above.
        let fields = unsafe { fields_of(&schema) }?;
        Ok(Stream { stream, fields })
    }

    /// The names of the columns.
    pub fn names(&self) -> Vec<String> {
        let names = self.fields.iter().map(|field| field.name.clone());
        names.collect()
    }
}

impl Source for Stream {
    fn next_batch(&mut self) -> Result<Option<(usize, Vec<Chunk>)>> {
        let mut array = ArrowArray::empty();
        let raw = &raw mut self.stream.0;
        // SAFETY: a live stream's own method, and a place for the array.
        let done = unsafe { (*raw).get_next.map(|call| call(raw, &raw mut array)) };
        if done != Some(0) {
            return Err(failed(&mut self.stream));
        }
        // SAFETY: the producer has just made it, or marked the end.
        let Some(array) = (unsafe { OwnedArray::take(&raw mut array) }) else {
            return Ok(None);
        };
        // SAFETY: as above, of the stream's schema.
        unsafe { columns_of(&self.fields, array) }.map(Some)
    }
}

/// What a producer says about its failure.
fn failed(stream: &mut OwnedStream) -> Error {
    let raw = &raw mut stream.0;
    // SAFETY: a live stream's own method; the text is copied before another call.
    let said = unsafe { (*raw).get_last_error.map(|call| text(call(raw))) };
    let said = said.filter(|said| !said.is_empty());
    Error::Source(
        said.unwrap_or_else(|| "the source of the Arrow stream failed and does not say why".into()),
    )
}

/// The columns of a schema: its children, for it must be a struct.
///
/// # Errors
/// [`Error::Type`].
///
/// # Safety
/// A schema that keeps the interface's rules.
pub unsafe fn fields_of(schema: &OwnedSchema) -> Result<Vec<Field>> {
    // SAFETY: as the caller vouches.
    unsafe {
        if text(schema.0.format) != "+s" {
            return Err(Error::Type(
                "the Arrow data is a single column; hand over a table or record batches".into(),
            ));
        }
        schema
            .0
            .children()
            .into_iter()
            .map(|child| field(child))
            .collect()
    }
}

/// # Safety
/// As [`fields_of`].
unsafe fn field(schema: &ArrowSchema) -> Result<Field> {
    // SAFETY: as the caller vouches; the dictionary is null or lives as long.
    let (column, format, dictionary) = unsafe {
        (
            text(schema.name),
            text(schema.format),
            schema.dictionary.as_ref(),
        )
    };
    let Some(kind) = Type::of(&format) else {
        return Err(Error::Type(format!(
            "column {column} is {}, which SQLite cannot store; leave it out or convert it",
            name(&format)
        )));
    };
    // SAFETY: as above.
    let dictionary = dictionary
        .map(|values| unsafe { field(values) })
        .transpose();
    let dictionary = dictionary.map_err(|_| {
        Error::Type(format!(
            "column {column} has a dictionary of values that SQLite cannot store"
        ))
    })?;
    Ok(Field {
        name: column,
        kind,
        dictionary: dictionary.map(Box::new),
    })
}

/// The columns of a batch and its rows.
///
/// # Errors
/// [`Error::Source`] for a batch that does not fit the schema.
///
/// # Safety
/// An array of that schema that keeps the interface's rules.
pub unsafe fn columns_of(fields: &[Field], array: OwnedArray) -> Result<(usize, Vec<Chunk>)> {
    let array = Arc::new(array);
    let owner: Owner = Arc::clone(&array) as Owner;
    let rows = length(array.0.length)?;
    let offset = length(array.0.offset)?;
    // SAFETY: as the caller vouches.
    let children = unsafe { array.0.children() };
    if children.len() != fields.len() {
        return Err(misfit());
    }
    // SAFETY: as above; the validity bitmap has a bit for each row, where there is one.
    let valid = unsafe {
        let bits = array.0.buffer(0).cast::<u8>();
        let none = bits.is_null() || array.0.null_count == 0;
        (!none).then(|| {
            Bits::new(
                Slice::new(bits, Bits::bytes_for(offset, rows), &owner),
                offset,
            )
        })
    };
    // A count of -1 says that nobody has counted. A table's rows have no NULLs of their own.
    if valid.is_some_and(|valid| (0..rows).any(|row| !valid.get(row))) {
        return Err(Error::Source(
            "rows of the Arrow data are NULL as a whole".into(),
        ));
    }
    let columns = fields.iter().zip(children).map(|(field, child)| {
        if length(child.length)? < offset.saturating_add(rows) {
            return Err(misfit());
        }
        // SAFETY: as above.
        unsafe { chunk(field, child, offset, rows, &owner) }
    });
    Ok((rows, columns.collect::<Result<_>>()?))
}

fn misfit() -> Error {
    Error::Source("a batch of the Arrow data does not fit its schema".into())
}

fn length(n: i64) -> Result<usize> {
    usize::try_from(n).map_err(|_| misfit())
}

/// # Safety
/// `array` is of the field's type and lives as long as `owner`; it has `skip + rows` values.
unsafe fn chunk(
    field: &Field,
    array: &ArrowArray,
    skip: usize,
    rows: usize,
    owner: &Owner,
) -> Result<Chunk> {
    let first = length(array.offset)? + skip;
    // A producer whose batches are not of its schema would have memory read that is not there: its
    // numbers of buffers tell the worst of that.
    if !field.kind.has_buffers(array.n_buffers)
        || field.dictionary.is_some() == array.dictionary.is_null()
    {
        return Err(misfit());
    }
    // SAFETY: the validity bitmap has a bit for each value, where there is one.
    let valid = unsafe {
        let bits = array.buffer(0).cast::<u8>();
        let none = bits.is_null() || array.null_count == 0 || field.kind == Type::Null;
        (!none).then(|| Bits::new(Slice::new(bits, Bits::bytes_for(first, rows), owner), first))
    };
    // SAFETY: as the caller vouches.
    let mut data = unsafe { data(&field.kind, array, first, rows, valid.as_ref(), owner) }?;
    // SAFETY: as above; the dictionary is null or lives as long.
    let dictionary = unsafe { array.dictionary.as_ref() };
    if let (Some(values), Some(dictionary)) = (&field.dictionary, dictionary) {
        let len = length(dictionary.length)?;
        data = Data::Dictionary {
            indices: Box::new(data),
            // SAFETY: as above.
            values: Box::new(unsafe { chunk(values, dictionary, 0, len, owner) }?),
        };
    }
    Ok(Chunk { rows, valid, data })
}

/// Offsets that there are for so many strings. For none there may be none.
fn ends_of(rows: usize) -> usize {
    if rows == 0 { 0 } else { rows + 1 }
}

/// # Safety
/// As [`chunk`], from the value at `first` on.
unsafe fn data(
    kind: &Type,
    array: &ArrowArray,
    first: usize,
    rows: usize,
    valid: Option<&Bits>,
    owner: &Owner,
) -> Result<Data> {
    // SAFETY: for all below: a buffer of the type's layout, with a value for each row from `first`
    // on.
    unsafe {
        let values = array.buffer(1);
        Ok(match kind {
            Type::Null => Data::Null,
            Type::Bool => {
                let bytes = Slice::new(values.cast(), Bits::bytes_for(first, rows), owner);
                Data::Bits(Bits::new(bytes, first))
            }
            Type::Integer {
                signed: true,
                bytes: 1,
            } => Data::I8(slice(values, first, rows, owner)),
            Type::Integer {
                signed: true,
                bytes: 2,
            } => Data::I16(slice(values, first, rows, owner)),
            Type::Integer {
                signed: true,
                bytes: 4,
            } => Data::I32(slice(values, first, rows, owner)),
            Type::Integer { signed: true, .. } | Type::Duration => {
                Data::I64(slice(values, first, rows, owner))
            }
            Type::Integer { bytes: 1, .. } => Data::U8(slice(values, first, rows, owner)),
            Type::Integer { bytes: 2, .. } => Data::U16(slice(values, first, rows, owner)),
            Type::Integer { bytes: 4, .. } => Data::U32(slice(values, first, rows, owner)),
            Type::Integer { .. } => Data::U64(slice(values, first, rows, owner)),
            Type::Float(2) => Data::F16(slice(values, first, rows, owner)),
            Type::Float(4) => Data::F32(slice(values, first, rows, owner)),
            Type::Float(_) => Data::F64(slice(values, first, rows, owner)),
            Type::Strings { text, large: false } => {
                let ends: Slice<i32> = slice(values, first, ends_of(rows), owner);
                let len = ends.last().copied().unwrap_or(0);
                strings(
                    Places::Ends32(ends),
                    array.buffer(2),
                    usize::try_from(len),
                    *text,
                    owner,
                )?
            }
            Type::Strings { text, large: true } => {
                let ends: Slice<i64> = slice(values, first, ends_of(rows), owner);
                let len = ends.last().copied().unwrap_or(0);
                strings(
                    Places::Ends64(ends),
                    array.buffer(2),
                    usize::try_from(len),
                    *text,
                    owner,
                )?
            }
            Type::Fixed(width) => {
                let bytes = slice(values, first * width, rows * width, owner);
                Data::Strings {
                    places: Places::Fixed(*width),
                    bytes,
                    text: false,
                }
            }
            Type::Views { text } => {
                // The last buffer tells the lengths of those between it and the views.
                let n = usize::try_from(array.n_buffers)
                    .unwrap_or(0)
                    .saturating_sub(3);
                let lengths: Slice<i64> = slice(array.buffer(n + 2), 0, n, owner);
                let buffer = |(i, len): (usize, &i64)| {
                    Ok(Slice::new(array.buffer(i + 2).cast(), length(*len)?, owner))
                };
                let buffers = lengths
                    .iter()
                    .enumerate()
                    .map(buffer)
                    .collect::<Result<_>>()?;
                Data::Views {
                    views: slice(values, first, rows, owner),
                    buffers,
                    text: *text,
                }
            }
            Type::Days => {
                let days: Slice<i32> = slice(values, first, rows, owner);
                Data::written(rows, valid, |out, row| {
                    date(out, i64::from(days.get(row).copied().unwrap_or(0)))
                })
            }
            Type::DaysInMilli => {
                const DAY: i64 = 86_400_000;
                let at: Slice<i64> = slice(values, first, rows, owner);
                // Whole days, says the format; what is none of them loses nothing.
                Data::written(rows, valid, |out, row| {
                    match at.get(row).copied().unwrap_or(0) {
                        whole if whole % DAY == 0 => date(out, whole / DAY),
                        other => timestamp(out, other, Unit::Milli, false),
                    }
                })
            }
            Type::Timestamp { unit, utc } => {
                let at: Slice<i64> = slice(values, first, rows, owner);
                Data::written(rows, valid, |out, row| {
                    timestamp(out, at.get(row).copied().unwrap_or(0), *unit, *utc)
                })
            }
            Type::Time { unit, bytes: 4 } => {
                let at: Slice<i32> = slice(values, first, rows, owner);
                Data::written(rows, valid, |out, row| {
                    time(out, i64::from(at.get(row).copied().unwrap_or(0)), *unit)
                })
            }
            Type::Time { unit, .. } => {
                let at: Slice<i64> = slice(values, first, rows, owner);
                Data::written(rows, valid, |out, row| {
                    time(out, at.get(row).copied().unwrap_or(0), *unit)
                })
            }
            Type::Decimal(Decimal {
                bytes: width,
                scale,
            }) => {
                let bytes: Slice<u8> = slice(values, first * width, rows * width, owner);
                Data::written(rows, valid, |out, row| {
                    decimal(
                        out,
                        bytes
                            .get(row * width..(row + 1) * width)
                            .unwrap_or_default(),
                        *scale,
                    );
                })
            }
        })
    }
}

/// # Safety
/// A buffer with `len` values from the value at `first` on.
unsafe fn slice<T: Plain>(
    buffer: *const c_void,
    first: usize,
    len: usize,
    owner: &Owner,
) -> Slice<T> {
    let values = buffer.cast::<T>();
    // SAFETY: as the caller vouches.
    unsafe {
        let from = if values.is_null() {
            values
        } else {
            values.add(first)
        };
        Slice::new(from, len, owner)
    }
}

/// # Safety
/// A buffer that reaches as far as the last place.
unsafe fn strings(
    places: Places,
    buffer: *const c_void,
    len: std::result::Result<usize, std::num::TryFromIntError>,
    text: bool,
    owner: &Owner,
) -> Result<Data> {
    let len = len.map_err(|_| misfit())?;
    // SAFETY: as the caller vouches.
    let bytes = unsafe { Slice::new(buffer.cast(), len, owner) };
    Ok(Data::Strings {
        places,
        bytes,
        text,
    })
}
