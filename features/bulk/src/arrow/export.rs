//! A query's columns for an Arrow consumer.
//!
//! Exported structures own their memory: each structure's `private_data` is a box of ours, and its
//! `release` drops that. A consumer can move children out before it releases their parent; moved
//! children are marked, and are not released again.

use super::abi::{ArrowArray, ArrowArrayStream, ArrowSchema};
use crate::batch::Batch;
use crate::kind::Kind;
use crate::query::Query;
use crate::values::{Filled, Values};
use crate::{Error, Result};
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `ARROW_FLAG_NULLABLE`
const NULLABLE: i64 = 2;
/// The result of a stream's methods for a failure: `EIO`.
const EIO: c_int = 5;

/// The memory that an array points to.
struct Memory {
    /// The array's list of pointers to `_buffers`.
    pointers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    _buffers: Vec<Buffer>,
}

enum Buffer {
    Bytes(Vec<u8>),
    Ends(Vec<i32>),
    Integers(Vec<i64>),
    Reals(Vec<f64>),
}

impl Buffer {
    fn pointer(&self) -> *const c_void {
        match self {
            Buffer::Bytes(v) => v.as_ptr().cast(),
            Buffer::Ends(v) => v.as_ptr().cast(),
            Buffer::Integers(v) => v.as_ptr().cast(),
            Buffer::Reals(v) => v.as_ptr().cast(),
        }
    }
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// An array for a batch of rows: a struct whose children are the columns.
fn array_of(batch: Batch) -> ArrowArray {
    let rows = batch.rows;
    let children = batch
        .columns
        .into_iter()
        .map(|column| Box::into_raw(Box::new(child(column))));
    array(rows, 0, vec![None], children.collect())
}

fn child(column: Filled) -> ArrowArray {
    let rows = column.values.rows();
    let nulls = column.valid.as_ref().map_or(0, |valid| valid.zeros);
    let valid = column
        .valid
        .filter(|_| nulls > 0)
        .map(|bits| Buffer::Bytes(bits.into_bytes()));
    let buffers = match column.values {
        // All values are NULL; such an array has no buffers.
        Values::Nulls(rows) => return array(rows, rows, Vec::new(), Vec::new()),
        Values::Integers(values) => vec![valid, Some(Buffer::Integers(values))],
        Values::Reals(values) => vec![valid, Some(Buffer::Reals(values))],
        Values::Strings { ends, bytes, .. } => {
            vec![valid, Some(Buffer::Ends(ends)), Some(Buffer::Bytes(bytes))]
        }
    };
    array(rows, nulls, buffers, Vec::new())
}

fn array(
    rows: usize,
    nulls: usize,
    buffers: Vec<Option<Buffer>>,
    children: Vec<*mut ArrowArray>,
) -> ArrowArray {
    let pointers = buffers
        .iter()
        .map(|buffer| buffer.as_ref().map_or(std::ptr::null(), Buffer::pointer));
    let mut memory = Box::new(Memory {
        pointers: pointers.collect(),
        children,
        _buffers: buffers.into_iter().flatten().collect(),
    });
    ArrowArray {
        length: count(rows),
        null_count: count(nulls),
        offset: 0,
        n_buffers: count(memory.pointers.len()),
        n_children: count(memory.children.len()),
        buffers: memory.pointers.as_mut_ptr(),
        children: memory.children.as_mut_ptr(),
        dictionary: std::ptr::null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(memory).cast(),
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: made by `array`, and its consumer releases it once. Its children are boxes of ours,
    // released or marked as moved.
    unsafe {
        let Some(array) = array.as_mut() else { return };
        let memory = Box::from_raw(array.private_data.cast::<Memory>());
        for &child in &memory.children {
            let mut child = Box::from_raw(child);
            if let Some(release) = child.release {
                release(&raw mut *child);
            }
        }
        array.release = None;
    }
}

/// The strings that a schema points to.
struct Words {
    format: CString,
    name: CString,
    children: Vec<*mut ArrowSchema>,
}

/// The schema for these columns.
fn schema_of(names: &[String], kinds: &[Kind]) -> ArrowSchema {
    let children = names.iter().zip(kinds).map(|(name, kind)| {
        let format = match kind {
            Kind::Null => c"n",
            Kind::Integer => c"l",
            Kind::Real => c"g",
            Kind::Text => c"u",
            Kind::Blob => c"z",
        };
        let name = CString::new(name.replace('\0', "")).unwrap_or_default();
        Box::into_raw(Box::new(schema(
            format.to_owned(),
            name,
            NULLABLE,
            Vec::new(),
        )))
    });
    schema(c"+s".to_owned(), CString::default(), 0, children.collect())
}

fn schema(
    format: CString,
    name: CString,
    flags: i64,
    children: Vec<*mut ArrowSchema>,
) -> ArrowSchema {
    let mut words = Box::new(Words {
        format,
        name,
        children,
    });
    ArrowSchema {
        format: words.format.as_ptr(),
        name: words.name.as_ptr(),
        metadata: std::ptr::null(),
        flags,
        n_children: count(words.children.len()),
        children: words.children.as_mut_ptr(),
        dictionary: std::ptr::null_mut(),
        release: Some(release_schema),
        private_data: Box::into_raw(words).cast(),
    }
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: made by `schema`, and its consumer releases it once. Its children are boxes of ours,
    // released or marked as moved.
    unsafe {
        let Some(schema) = schema.as_mut() else {
            return;
        };
        let words = Box::from_raw(schema.private_data.cast::<Words>());
        for &child in &words.children {
            let mut child = Box::from_raw(child);
            if let Some(release) = child.release {
                release(&raw mut *child);
            }
        }
        schema.release = None;
    }
}

/// Called with a stream's failure, on the thread on which it happens.
pub type OnFailure = fn(&Error);

struct State {
    query: Query,
    /// A failed stream keeps failing, because an end would look like the end of the rows.
    failed: Option<Error>,
    last_error: CString,
    on_failure: OnFailure,
}

impl State {
    /// Runs a method's body and keeps its failure for `get_last_error`.
    fn answer(&mut self, body: impl FnOnce(&mut Query) -> Result<()>) -> c_int {
        if self.failed.is_none() {
            let query = &mut self.query;
            // After a panic the query is not used again.
            let done = catch_unwind(AssertUnwindSafe(|| body(query))).unwrap_or_else(|payload| {
                std::mem::forget(payload);
                Err(Error::Source("densite: internal error".into()))
            });
            self.failed = done.err();
        }
        let Some(error) = &self.failed else { return 0 };
        (self.on_failure)(error);
        self.last_error = CString::new(error.to_string().replace('\0', "")).unwrap_or_default();
        EIO
    }
}

/// A stream of a query's batches, which owns the query.
pub fn stream_of(query: Query, on_failure: OnFailure) -> ArrowArrayStream {
    let state = State {
        query,
        failed: None,
        last_error: CString::default(),
        on_failure,
    };
    ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(Box::new(state)).cast(),
    }
}

/// The state of a stream.
///
/// # Safety
/// A live stream made by [`stream_of`], used by one call at a time.
unsafe fn state<'a>(stream: *mut ArrowArrayStream) -> &'a mut State {
    // SAFETY: the caller guarantees it.
    unsafe { &mut *(*stream).private_data.cast::<State>() }
}

unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: a consumer's call, with a live stream and a valid `out`.
    unsafe {
        state(stream).answer(|query| {
            let kinds = query.kinds()?;
            out.write(schema_of(query.names(), &kinds));
            Ok(())
        })
    }
}

unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: a consumer's call, with a live stream and a valid `out`.
    unsafe {
        state(stream).answer(|query| {
            let batch = query.next_batch()?;
            out.write(batch.map_or_else(ArrowArray::empty, array_of));
            Ok(())
        })
    }
}

unsafe extern "C" fn get_last_error(stream: *mut ArrowArrayStream) -> *const c_char {
    // SAFETY: a consumer's call, with a live stream, whose text lives until its next call.
    unsafe { state(stream).last_error.as_ptr() }
}

unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: made by `stream_of`, and its consumer releases it once.
    unsafe {
        let Some(stream) = stream.as_mut() else {
            return;
        };
        let state = Box::from_raw(stream.private_data.cast::<State>());
        stream.release = None;
        // This ends a statement. Callbacks of SQLite catch their own panics.
        let _ = catch_unwind(AssertUnwindSafe(|| state.query.abandon()));
    }
}
