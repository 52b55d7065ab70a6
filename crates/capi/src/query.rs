//! Results as Arrow streams: `densite_query_...`.

use crate::failure::{Failure, answer, number};
use densite_bulk::arrow::{ArrowArrayStream, stream_of};
use densite_bulk::queries;
use std::ffi::c_int;

/// `densite_query_new`: a place that `SELECT densite_query(handle, sql, 0, parameters…)` fills.
#[unsafe(no_mangle)]
pub extern "C" fn densite_query_new() -> i64 {
    number(|| Ok(queries::reserve()))
}

/// `densite_query_keep`: the query owns a set of columns that its statement reads, and releases it at its end.
#[unsafe(no_mangle)]
pub extern "C" fn densite_query_keep(handle: i64, columns: i64) -> c_int {
    answer(|| Ok(queries::keep(handle, columns)?))
}

/// `densite_query_stream`: the result as a stream, once.
///
/// # Safety
/// A place for a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_query_stream(handle: i64, out: *mut ArrowArrayStream) -> c_int {
    answer(|| {
        if out.is_null() {
            return Err(Failure::misuse("out is NULL"));
        }
        let stream = stream_of(queries::take(handle)?, |error| {
            // The newest failure of the thread that reads.
            answer(|| Err(error.clone().into()));
        });
        // SAFETY: a place.
        unsafe { out.write(stream) };
        Ok(())
    })
}

/// `densite_query_release`: gives the place free; a stream that was made lives on.
#[unsafe(no_mangle)]
pub extern "C" fn densite_query_release(handle: i64) -> c_int {
    answer(|| Ok(queries::release(handle)?))
}
