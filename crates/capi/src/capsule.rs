//! What the Python package alone needs: capsules around Arrow streams, callbacks by one pointer, and statements that its driver compiles and the library runs.
//!
//! The Arrow PyCapsule interface hands a stream over in a capsule, whose destructor releases the stream if nobody consumed it. A destructor runs
//! when Python drops the capsule, possibly while the interpreter ends; so it is one of ours and not Python code. It asks the capsule for its pointer
//! by Python's own function, whose address the package tells once.

use crate::failure::{answer, number};
use densite_bulk::arrow::ArrowArrayStream;
use densite_bulk::changes;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// `PyCapsule_GetPointer`
type GetPointer = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

static GET_POINTER: OnceLock<GetPointer> = OnceLock::new();

/// `densite_capsule_init`: where `PyCapsule_GetPointer` is.
///
/// # Safety
/// That function's address, in the interpreter of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_capsule_init(get_pointer: Option<GetPointer>) {
    if let Some(get_pointer) = get_pointer {
        GET_POINTER.get_or_init(|| get_pointer);
    }
}

/// The name of capsules with a stream.
const NAME: &CStr = c"arrow_array_stream";

/// `densite_capsule_name`: that name, which lives as long as the process: a capsule keeps the pointer, not a copy.
#[unsafe(no_mangle)]
pub extern "C" fn densite_capsule_name() -> *const c_char {
    NAME.as_ptr()
}

/// `densite_capsule_new`: a place for a stream, for a capsule with `densite_capsule_destroy`.
#[unsafe(no_mangle)]
pub extern "C" fn densite_capsule_new() -> *mut ArrowArrayStream {
    Box::into_raw(Box::new(ArrowArrayStream::empty()))
}

/// `densite_capsule_destroy`: a capsule's destructor.
///
/// # Safety
/// Called by Python for a capsule named "arrow_array_stream" around a place of `densite_capsule_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_capsule_destroy(capsule: *mut c_void) {
    let Some(get_pointer) = GET_POINTER.get() else {
        return;
    };
    // SAFETY: Python's own function, on the capsule that it destroys; the place is a box of ours, given back once.
    unsafe {
        let place = get_pointer(capsule, NAME.as_ptr()).cast::<ArrowArrayStream>();
        if !place.is_null() {
            let mut place = Box::from_raw(place);
            place.release();
        }
    }
}

/// A Python callback and what it is told: its `context`. Python runs the handler of a signal (Ctrl-C) when the next of its functions begins, and what
/// that raises is lost if the function is the callback itself. A generator that is resumed within a `try` loses nothing, but takes one argument.
///
/// Without a callback another thread of Python's looks at `done`, and sets `stop` to another number than 0 to end the work.
#[repr(C)]
pub struct Told {
    call: Option<unsafe extern "C" fn(*mut Told) -> c_int>,
    phase: *const c_char,
    done: u64,
    total: u64,
    message: *const c_char,
    stop: c_int,
}

/// `densite_capsule_progress`: a `densite_progress` whose context is a [`Told`].
///
/// # Safety
/// `context` is null or such a place, used by one call at a time, though `done` and `stop` by another thread too; the strings are null or terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_capsule_progress(
    context: *mut c_void,
    phase: *const c_char,
    done: u64,
    total: u64,
    message: *const c_char,
) -> c_int {
    let told = context.cast::<Told>();
    if told.is_null() {
        return 0;
    }
    // SAFETY: as the caller vouches; no reference is held while Python looks at the place.
    unsafe {
        (*told).phase = phase;
        AtomicU64::from_ptr(&raw mut (*told).done).store(done, Ordering::Relaxed);
        (*told).total = total;
        (*told).message = message;
        match (*told).call {
            Some(call) => call(told),
            None => AtomicI32::from_ptr(&raw mut (*told).stop).load(Ordering::Relaxed),
        }
    }
}

/// `densite_capsule_rows`: a `densite_rows` whose context is a [`Told`].
///
/// # Safety
/// As [`densite_capsule_progress`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_capsule_rows(context: *mut c_void, rows: u64) -> c_int {
    // SAFETY: passed on.
    unsafe { densite_capsule_progress(context, std::ptr::null(), rows, 0, std::ptr::null()) }
}

/// `densite_capsule_change_new`: a place that `SELECT densite_change(handle, sql)` fills.
#[unsafe(no_mangle)]
pub extern "C" fn densite_capsule_change_new() -> i64 {
    number(|| Ok(changes::reserve()))
}

/// `densite_capsule_change_run`: runs the statement; answers how many rows it changed, -1 for a failure, which `SELECT densite_change(handle)` repeats.
#[unsafe(no_mangle)]
pub extern "C" fn densite_capsule_change_run(handle: i64) -> i64 {
    number(|| Ok(changes::run(handle)?))
}

/// `densite_capsule_change_release`: ends the statement, and gives its place free.
#[unsafe(no_mangle)]
pub extern "C" fn densite_capsule_change_release(handle: i64) -> c_int {
    answer(|| Ok(changes::release(handle)?))
}
