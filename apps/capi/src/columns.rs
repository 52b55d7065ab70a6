//! Sets of columns: `densite_columns_...`.

use crate::edge::{give, text};
use crate::failure::{Failure, Result, answer, number};
use densite_bulk::arrow::{
    ArrowArray, ArrowArrayStream, ArrowSchema, OwnedArray, OwnedSchema, Stream, columns_of,
    fields_of,
};
use densite_bulk::{
    Bits, Chunk, Collation, Data, Owner, Places, Plain, Set, Slice, SortKey, Unit, sets, since,
};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// `densite_column`: a plain buffer that the caller keeps until the set is released. `size` is the
/// size of the caller's structure.
#[repr(C)]
pub struct Column {
    size: u32,
    kind: i32,
    rows: i64,
    values: *const c_void,
    stride: i64,
    offsets: *const i64,
    validity: *const u8,
    values_bytes: i64,
}

/// `densite_sort_key`
#[repr(C)]
pub struct Key {
    column: i32,
    flags: i32,
}

/// A flag that is added to a type.
const COPY: i32 = 256;
const DESCENDING: i32 = 1;
const NOCASE: i32 = 2;

/// `densite_rows`: gets the number of rows read so far; a nonzero result stops the statement.
type Told = unsafe extern "C" fn(*mut c_void, u64) -> c_int;

/// `densite_columns_new`: an empty set.
#[unsafe(no_mangle)]
pub extern "C" fn densite_columns_new() -> i64 {
    number(|| Ok(sets::add(Set::new())))
}

/// `densite_columns_add`: adds a column from a plain buffer.
///
/// # Safety
/// The contract of `densite.h`: the buffers have the type's layout and do not change until the set
/// is released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_columns_add(
    handle: i64,
    name: *const c_char,
    column: *const Column,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's string and structure.
        let (name, column) = unsafe { (text("name", name)?, column.as_ref()) };
        let column =
            column.ok_or_else(|| Failure::misuse("column is NULL; give a densite_column"))?;
        if usize::try_from(column.size).ok() != Some(size_of::<Column>()) {
            return Err(Failure::misuse(
                "the size of the column is not that of this version's densite_column",
            ));
        }
        // SAFETY: as above.
        let chunk = unsafe { chunk(name, column) }?;
        Ok(sets::change(handle, |set| set.add_column(name, chunk))?)
    })
}

/// Values that the caller keeps, or a copy of them.
///
/// # Safety
/// `ptr` is null or points to `len` values.
unsafe fn kept<T: Plain>(ptr: *const T, len: usize, copy: bool) -> Slice<T> {
    let owner: Owner = Arc::new(());
    // SAFETY: the caller guarantees it. Without a copy, the contract is that the values do not
    // change until the set is released.
    let slice = unsafe { Slice::new(ptr, len, &owner) };
    if copy {
        Slice::from(slice.to_vec())
    } else {
        slice
    }
}

/// The values of a column.
///
/// # Safety
/// As [`densite_columns_add`].
unsafe fn chunk(name: &str, column: &Column) -> Result<Chunk> {
    let rows = usize::try_from(column.rows)
        .ok()
        .filter(|rows| u32::try_from(*rows).is_ok());
    let rows =
        rows.ok_or_else(|| Failure::misuse(format!("column {name} has {} rows", column.rows)))?;
    let len = usize::try_from(column.values_bytes).unwrap_or(0);
    let copy = column.kind & COPY != 0;
    // SAFETY: for all calls below: the caller guarantees it.
    unsafe {
        let valid = (!column.validity.is_null())
            .then(|| Bits::new(kept(column.validity, Bits::bytes_for(0, rows), copy), 0));
        let offsets = |n| kept(column.offsets, n, copy);
        let bytes = || kept(column.values.cast::<u8>(), len, copy);
        macro_rules! numbers {
            () => {{
                let stride = isize::try_from(column.stride).unwrap_or(0);
                match column.values.is_null() && rows > 0 {
                    true => {
                        return Err(Failure::misuse(format!(
                            "the values of column {name} are NULL; give an array, or 0 rows"
                        )));
                    }
                    false if stride == 0 => kept(column.values.cast(), rows, copy),
                    false => Slice::gather(column.values.cast(), rows, stride),
                }
            }};
        }
        let moments = |unit: Option<Unit>| -> Result<Chunk> { Ok(since(numbers!(), rows, unit)) };
        let data = match column.kind & !COPY {
            1 => Data::I8(numbers!()),
            2 => Data::I16(numbers!()),
            3 => Data::I32(numbers!()),
            4 => Data::I64(numbers!()),
            5 => Data::U8(numbers!()),
            6 => Data::U16(numbers!()),
            7 => Data::U32(numbers!()),
            8 => Data::U64(numbers!()),
            9 => Data::F16(numbers!()),
            10 => Data::F32(numbers!()),
            11 => Data::F64(numbers!()),
            12 => Data::Bytes(numbers!()),
            kind @ (13 | 14) => Data::Strings {
                places: Places::Ends64(offsets(rows + 1)),
                bytes: bytes(),
                text: kind == 13,
            },
            15 => {
                let tags: Slice<u8> = kept(column.validity, rows, copy);
                return Ok(Chunk {
                    rows,
                    valid: None,
                    data: Data::any(tags, offsets(rows), bytes()),
                });
            }
            16 => return moments(None),
            17 => return moments(Some(Unit::Seconds)),
            18 => return moments(Some(Unit::Milli)),
            19 => return moments(Some(Unit::Micro)),
            20 => return moments(Some(Unit::Nano)),
            other => {
                return Err(Failure::misuse(format!(
                    "column {name}: there is no type {other}"
                )));
            }
        };
        Ok(Chunk { rows, valid, data })
    }
}

/// `densite_columns_from_stream`: a set that reads batches from an Arrow stream. It takes over the
/// stream, also on failure.
///
/// # Safety
/// The stream keeps the rules of the Arrow C stream interface.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_columns_from_stream(stream: *mut ArrowArrayStream) -> i64 {
    number(|| {
        // SAFETY: the caller guarantees it.
        let stream = unsafe { Stream::take(stream) }?;
        Ok(sets::add(Set::from_source(
            stream.names(),
            Box::new(stream),
        )?))
    })
}

/// `densite_columns_read`: drops the set's rows and reads about `rows_max` more rows of its stream.
/// Returns the number of rows; 0 at the end.
#[unsafe(no_mangle)]
pub extern "C" fn densite_columns_read(handle: i64, rows_max: i64) -> i64 {
    number(|| {
        let rows_max = usize::try_from(rows_max.max(1)).unwrap_or(usize::MAX);
        let rows = sets::change(handle, |set| set.read(rows_max))?;
        Ok(i64::try_from(rows).unwrap_or(i64::MAX))
    })
}

/// `densite_columns_from_array`: a set of one record batch. It takes over both structures, also on
/// failure.
///
/// # Safety
/// The schema and its array keep the rules of the Arrow C data interface.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_columns_from_array(
    schema: *mut ArrowSchema,
    array: *mut ArrowArray,
) -> i64 {
    number(|| {
        // SAFETY: the caller guarantees it.
        let (schema, array) = unsafe { (OwnedSchema::take(schema), OwnedArray::take(array)) };
        let (Some(schema), Some(array)) = (schema, array) else {
            return Err(Failure::misuse("the Arrow array was consumed already"));
        };
        // SAFETY: as above.
        let fields = unsafe { fields_of(&schema) }?;
        // SAFETY: as above.
        let (rows, columns) = unsafe { columns_of(&fields, array) }?;
        let mut set = Set::with_columns(fields.into_iter().map(|field| field.name).collect())?;
        set.add_batch(0, rows, columns)?;
        Ok(sets::add(set))
    })
}

/// `densite_columns_sort`: sorts the rows; equal rows keep their order. Stores in `was_sorted`,
/// unless it is null, whether they were already sorted.
///
/// # Safety
/// `keys` has `n` keys, or is null, which is refused. `was_sorted` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_columns_sort(
    handle: i64,
    keys: *const Key,
    n: i32,
    was_sorted: *mut c_int,
) -> c_int {
    answer(|| {
        let n = usize::try_from(n).map_err(|_| {
            Failure::misuse(format!("there are {n} keys to sort by; give 0 or more"))
        })?;
        if keys.is_null() && n > 0 {
            return Err(Failure::misuse(format!(
                "keys is NULL; give an array of {n} keys, or 0 keys"
            )));
        }
        let key = |i: usize| {
            // SAFETY: one of the caller's `n` keys.
            let key = unsafe { &*keys.add(i) };
            SortKey {
                column: usize::try_from(key.column).unwrap_or(usize::MAX),
                descending: key.flags & DESCENDING != 0,
                collation: match key.flags & NOCASE {
                    0 => Collation::Binary,
                    _ => Collation::NoCase,
                },
            }
        };
        let keys: Vec<SortKey> = (0..n).map(key).collect();
        let was = sets::change(handle, |set| set.sort(&keys))?;
        if !was_sorted.is_null() {
            // SAFETY: valid for writing, as the caller guarantees.
            unsafe { *was_sorted = c_int::from(was) };
        }
        Ok(())
    })
}

/// `densite_columns_rows`
#[unsafe(no_mangle)]
pub extern "C" fn densite_columns_rows(handle: i64) -> i64 {
    number(|| Ok(i64::try_from(sets::get(handle)?.rows()).unwrap_or(i64::MAX)))
}

/// `densite_columns_count`
#[unsafe(no_mangle)]
pub extern "C" fn densite_columns_count(handle: i64) -> i64 {
    number(|| Ok(i64::try_from(sets::get(handle)?.names().len()).unwrap_or(i64::MAX)))
}

/// `densite_columns_types`: the types of a column's values, `DENSITE_HAS_...`; -1 for a failure.
#[unsafe(no_mangle)]
pub extern "C" fn densite_columns_types(handle: i64, column: i32) -> i64 {
    number(|| {
        let set = sets::get(handle)?;
        Ok(i64::from(set.types(place_of(&set, column)?)))
    })
}

/// `densite_columns_has_null`: 1 if a column has a NULL, otherwise 0; -1 for a failure.
#[unsafe(no_mangle)]
pub extern "C" fn densite_columns_has_null(handle: i64, column: i32) -> i64 {
    number(|| {
        let set = sets::get(handle)?;
        Ok(i64::from(set.has_null(place_of(&set, column)?)))
    })
}

/// The index of a column, checked against the set.
fn place_of(set: &Set, column: i32) -> Result<usize> {
    usize::try_from(column)
        .ok()
        .filter(|column| *column < set.names().len())
        .ok_or_else(|| Failure::misuse(format!("there is no column {column}")))
}

/// `densite_columns_name`: a column's name, to be freed with `densite_free`.
///
/// # Safety
/// `out` is null or valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_columns_name(
    handle: i64,
    column: i32,
    out: *mut *mut c_char,
) -> c_int {
    answer(|| {
        let set = sets::get(handle)?;
        let place = place_of(&set, column)?;
        let name = set.names().get(place).map_or("", String::as_str);
        // SAFETY: the caller guarantees `out`.
        unsafe { give(out, name) };
        Ok(())
    })
}

/// `densite_columns_last_row`: the number of the row that a statement read last, in the caller's
/// order.
#[unsafe(no_mangle)]
pub extern "C" fn densite_columns_last_row(handle: i64) -> i64 {
    number(|| Ok(i64::try_from(sets::get(handle)?.last_row()).unwrap_or(i64::MAX)))
}

/// `densite_columns_last_value`: a value of that row as text, to be freed with `densite_free`.
///
/// # Safety
/// `out` is null or valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_columns_last_value(
    handle: i64,
    column: i32,
    out: *mut *mut c_char,
) -> c_int {
    answer(|| {
        let value = sets::get(handle)?.last_value(usize::try_from(column).unwrap_or(usize::MAX));
        // SAFETY: the caller guarantees `out`.
        unsafe { give(out, &value) };
        Ok(())
    })
}

/// A caller's function and its context.
struct Caller {
    told: Told,
    context: *mut c_void,
}

// SAFETY: the header says that the function is called on the thread that reads.
unsafe impl Send for Caller {}
// SAFETY: as above.
unsafe impl Sync for Caller {}

impl Caller {
    fn tell(&self, rows: u64) -> bool {
        // SAFETY: the caller's function with the caller's context. Both stay valid until the set is
        // released or gets another function.
        unsafe { (self.told)(self.context, rows) == 0 }
    }
}

/// `densite_columns_progress`: sets a function that is called while statements read the rows; null
/// for none.
///
/// # Safety
/// The function can be called with the context, on any thread, until the set is released or gets
/// another one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_columns_progress(
    handle: i64,
    told: Option<Told>,
    context: *mut c_void,
) -> c_int {
    answer(|| {
        let progress = told.map(|told| {
            let caller = Caller { told, context };
            Box::new(move |rows| caller.tell(rows)) as densite_bulk::Progress
        });
        Ok(sets::change(handle, |set| {
            set.set_progress(progress);
            Ok(())
        })?)
    })
}

/// `densite_columns_release`
#[unsafe(no_mangle)]
pub extern "C" fn densite_columns_release(handle: i64) -> c_int {
    answer(|| Ok(sets::release(handle)?))
}
