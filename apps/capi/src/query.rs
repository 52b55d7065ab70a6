//! Results as Arrow streams: `densite_query_...`.

use crate::failure::{Failure, answer, number};
use densite_bulk::arrow::{ArrowArrayStream, stream_of};
use densite_bulk::queries;
use std::ffi::c_int;

/// `densite_query_new`: a handle for `SELECT densite_query(handle, sql, 0, parameters…)` to fill.
#[unsafe(no_mangle)]
pub extern "C" fn densite_query_new() -> i64 {
    number(|| Ok(queries::reserve()))
}

/// `densite_query_keep`: gives the query a set of columns that its statement reads; the query
/// releases the set at its end.
#[unsafe(no_mangle)]
pub extern "C" fn densite_query_keep(handle: i64, columns: i64) -> c_int {
    answer(|| Ok(queries::keep(handle, columns)?))
}

/// `densite_query_stream`: the result as a stream; can be called once.
///
/// # Safety
/// `out` is null or valid for writing a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_query_stream(handle: i64, out: *mut ArrowArrayStream) -> c_int {
    answer(|| {
        if out.is_null() {
            return Err(Failure::misuse(
                "out is NULL; give an ArrowArrayStream to fill",
            ));
        }
        let stream = stream_of(queries::take(handle)?, |error| {
            // The failure is kept for the thread that reads the stream.
            answer(|| Err(error.clone().into()));
        });
        // SAFETY: not null, so the caller guarantees that it is valid.
        unsafe { out.write(stream) };
        Ok(())
    })
}

/// `densite_query_release`: frees the handle; a stream that was made stays usable.
#[unsafe(no_mangle)]
pub extern "C" fn densite_query_release(handle: i64) -> c_int {
    answer(|| Ok(queries::release(handle)?))
}
