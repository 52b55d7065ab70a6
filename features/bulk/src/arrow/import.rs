//! Reads a producer's data as columns.

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
    /// The type of the values, if the column has indices into a dictionary.
    dictionary: Option<Box<Field>>,
}

/// An owned stream of batches.
pub struct Stream {
    stream: OwnedStream,
    fields: Vec<Field>,
}

impl Stream {
    /// Takes over a stream and reads its schema.
    ///
    /// # Errors
    /// [`Error::Misuse`] if it was already released; [`Error::Type`] with the name of a column
    /// whose type has no counterpart in SQLite; the producer's.
    ///
    /// # Safety
    /// `place` is null or a stream that keeps the interface's rules.
    pub unsafe fn take(place: *mut ArrowArrayStream) -> Result<Stream> {
        // SAFETY: the caller guarantees it.
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
        // SAFETY: the producer has just made it, or has marked the end.
        let Some(array) = (unsafe { OwnedArray::take(&raw mut array) }) else {
            return Ok(None);
        };
        // SAFETY: as above; the array has the stream's schema.
        unsafe { columns_of(&self.fields, array) }.map(Some)
    }
}

/// A producer's failure.
fn failed(stream: &mut OwnedStream) -> Error {
    let raw = &raw mut stream.0;
    // SAFETY: a live stream's own method; the text is copied before another call.
    let said = unsafe { (*raw).get_last_error.map(|call| text(call(raw))) };
    let said = said.filter(|said| !said.is_empty());
    Error::Source(
        said.unwrap_or_else(|| "the source of the Arrow stream failed and does not say why".into()),
    )
}

/// The columns of a schema: its children. The schema must be a struct.
///
/// # Errors
/// [`Error::Type`].
///
/// # Safety
/// The schema keeps the interface's rules.
pub unsafe fn fields_of(schema: &OwnedSchema) -> Result<Vec<Field>> {
    // SAFETY: the caller guarantees it.
    unsafe {
        if text(schema.0.format) != "+s" {
            return Err(Error::Type(
                "the Arrow data is a single column; pass a table or record batches".into(),
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

/// A column of a schema.
///
/// # Safety
/// As [`fields_of`].
unsafe fn field(schema: &ArrowSchema) -> Result<Field> {
    // SAFETY: the caller guarantees it; the dictionary is null or lives as long.
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

/// The number of rows of a batch, and its columns.
///
/// # Errors
/// [`Error::Source`] if the batch does not match the schema.
///
/// # Safety
/// The array has that schema and keeps the interface's rules.
pub unsafe fn columns_of(fields: &[Field], array: OwnedArray) -> Result<(usize, Vec<Chunk>)> {
    let array = Arc::new(array);
    let owner: Owner = Arc::clone(&array) as Owner;
    let rows = length(array.0.length)?;
    let offset = length(array.0.offset)?;
    // SAFETY: the caller guarantees it.
    let children = unsafe { array.0.children() };
    if children.len() != fields.len() {
        return Err(misfit());
    }
    // SAFETY: as above; the validity bitmap, if there is one, has a bit for each row.
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
    // A count of -1 means unknown. A row of a table cannot itself be NULL.
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

/// A column of a batch.
///
/// # Safety
/// `array` is of the field's type, lives as long as `owner`, and has `skip + rows` values.
unsafe fn chunk(
    field: &Field,
    array: &ArrowArray,
    skip: usize,
    rows: usize,
    owner: &Owner,
) -> Result<Chunk> {
    let first = length(array.offset)? + skip;
    // If a producer's batches did not match its schema, this would read invalid memory. The number
    // of buffers reveals the worst cases.
    if !field.kind.has_buffers(array.n_buffers)
        || field.dictionary.is_some() == array.dictionary.is_null()
    {
        return Err(misfit());
    }
    // SAFETY: the validity bitmap, if there is one, has a bit for each value.
    let valid = unsafe {
        let bits = array.buffer(0).cast::<u8>();
        let none = bits.is_null() || array.null_count == 0 || field.kind == Type::Null;
        (!none).then(|| Bits::new(Slice::new(bits, Bits::bytes_for(first, rows), owner), first))
    };
    // SAFETY: the caller guarantees it.
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

/// The number of offsets for this many strings. For no strings there may be no offsets.
fn ends_of(rows: usize) -> usize {
    if rows == 0 { 0 } else { rows + 1 }
}

/// The values of a column, starting at `first`.
///
/// # Safety
/// As [`chunk`].
unsafe fn data(
    kind: &Type,
    array: &ArrowArray,
    first: usize,
    rows: usize,
    valid: Option<&Bits>,
    owner: &Owner,
) -> Result<Data> {
    // SAFETY: for all calls below: the buffer has the type's layout, with a value for each row from
    // `first` on.
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
                // The last buffer has the lengths of the buffers between it and the views.
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
                // The format requires whole days. Any other value is written as a timestamp, so
                // nothing is lost.
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

/// Values of a buffer.
///
/// # Safety
/// The buffer has `len` values, starting at `first`.
unsafe fn slice<T: Plain>(
    buffer: *const c_void,
    first: usize,
    len: usize,
    owner: &Owner,
) -> Slice<T> {
    let values = buffer.cast::<T>();
    // SAFETY: the caller guarantees it.
    unsafe {
        let from = if values.is_null() {
            values
        } else {
            values.add(first)
        };
        Slice::new(from, len, owner)
    }
}

/// A column of strings.
///
/// # Safety
/// The buffer has `len` bytes.
unsafe fn strings(
    places: Places,
    buffer: *const c_void,
    len: std::result::Result<usize, std::num::TryFromIntError>,
    text: bool,
    owner: &Owner,
) -> Result<Data> {
    let len = len.map_err(|_| misfit())?;
    // SAFETY: the caller guarantees it.
    let bytes = unsafe { Slice::new(buffer.cast(), len, owner) };
    Ok(Data::Strings {
        places,
        bytes,
        text,
    })
}
