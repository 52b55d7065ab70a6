//! Functions for the Python package only: Arrow streams in capsules, callbacks through one pointer,
//! and statements that the Python driver prepares and the library runs.
//!
//! The Arrow PyCapsule interface passes a stream in a capsule. The capsule's destructor releases
//! the stream if it was not consumed. Python runs the destructor when it drops the capsule,
//! possibly while the interpreter ends. So the destructor is a function here and not Python code.
//! It gets the capsule's pointer by Python's own function, whose address the package passes once.

use crate::failure::{answer, number};
use densite_bulk::arrow::ArrowArrayStream;
use densite_bulk::changes;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// `PyCapsule_GetPointer`
type GetPointer = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

static GET_POINTER: OnceLock<GetPointer> = OnceLock::new();

/// `densite_capsule_init`: sets the address of `PyCapsule_GetPointer`.
///
/// # Safety
/// It is that function's address, in the interpreter of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_capsule_init(get_pointer: Option<GetPointer>) {
    if let Some(get_pointer) = get_pointer {
        GET_POINTER.get_or_init(|| get_pointer);
    }
}

/// The name of capsules with a stream.
const NAME: &CStr = c"arrow_array_stream";

/// `densite_capsule_name`: that name. It is static, because a capsule keeps the pointer and not a
/// copy.
#[unsafe(no_mangle)]
pub extern "C" fn densite_capsule_name() -> *const c_char {
    NAME.as_ptr()
}

/// `densite_capsule_new`: memory for a stream, for a capsule with `densite_capsule_destroy`.
#[unsafe(no_mangle)]
pub extern "C" fn densite_capsule_new() -> *mut ArrowArrayStream {
    Box::into_raw(Box::new(ArrowArrayStream::empty()))
}

/// `densite_capsule_destroy`: a capsule's destructor.
///
/// # Safety
/// Python calls it for a capsule named "arrow_array_stream" around memory of `densite_capsule_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_capsule_destroy(capsule: *mut c_void) {
    let Some(get_pointer) = GET_POINTER.get() else {
        return;
    };
    // SAFETY: Python's own function, on the capsule that it destroys. The memory is a box of ours
    // that is freed once.
    unsafe {
        let place = get_pointer(capsule, NAME.as_ptr()).cast::<ArrowArrayStream>();
        if !place.is_null() {
            let mut place = Box::from_raw(place);
            place.release();
        }
    }
}

/// A Python callback and its arguments, in one `context`. Python runs a signal handler (Ctrl-C)
/// when its next function begins, and an exception from it is lost if that function is the callback
/// itself. A generator that is resumed within a `try` loses nothing, but takes one argument.
///
/// Without a callback, another Python thread reads `done`, and sets `stop` to a nonzero value to
/// stop the work.
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
/// `context` is null or a valid `Told` that one call at a time uses. Another thread can access only
/// `done` and `stop` meanwhile. The strings are null or terminated.
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
    // SAFETY: the caller guarantees it. No reference is held while Python accesses the memory.
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
    // SAFETY: the caller guarantees it.
    unsafe { densite_capsule_progress(context, std::ptr::null(), rows, 0, std::ptr::null()) }
}

/// `densite_capsule_change_new`: a handle for `SELECT densite_change(handle, sql)` to fill.
#[unsafe(no_mangle)]
pub extern "C" fn densite_capsule_change_new() -> i64 {
    number(|| Ok(changes::reserve()))
}

/// `densite_capsule_change_run`: runs the statement. Returns the number of changed rows, or -1 for
/// a failure, which `SELECT densite_change(handle)` repeats.
#[unsafe(no_mangle)]
pub extern "C" fn densite_capsule_change_run(handle: i64) -> i64 {
    number(|| Ok(changes::run(handle)?))
}

/// `densite_capsule_change_release`: ends the statement and frees its handle.
#[unsafe(no_mangle)]
pub extern "C" fn densite_capsule_change_release(handle: i64) -> c_int {
    answer(|| Ok(changes::release(handle)?))
}
