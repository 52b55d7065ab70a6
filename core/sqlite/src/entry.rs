//! The wrapper of an extension's entry point: SQLite's pointers become a connection, and a result
//! becomes a code and a message.

use crate::ffi::Db;
use crate::{Api, Code, Connection, Error, Result, string_of_any_version};
use std::ffi::{c_char, c_int, c_void};
use std::panic::catch_unwind;

/// Runs an extension's entry point. Its error, or a panic, becomes a code and a message.
///
/// # Safety
/// The arguments are those that SQLite passes to an extension's entry point.
pub unsafe fn entry_point(
    db: *mut Db,
    error: *mut *mut c_char,
    table: *const c_void,
    body: impl FnOnce(&Connection) -> Result<()> + std::panic::UnwindSafe,
) -> c_int {
    // SAFETY: the table that SQLite passes to its extensions.
    let api = match unsafe { Api::from_raw(table) } {
        Ok(api) => api,
        Err(refused) => {
            // SAFETY: the same table; `error` is null or valid for a message.
            unsafe { refuse(table, error, &refused.message) };
            return Code::ERROR.0;
        }
    };
    let done = catch_unwind(move || {
        // SAFETY: the connection that SQLite calls for, alive during the call.
        let connection = unsafe { Connection::borrow(api, db) };
        connection
            .ok_or_else(|| Error::from(Code::MISUSE))
            .and_then(|c| body(&c))
    });
    let failed = match done {
        Ok(Ok(())) => return Code::OK.0,
        Ok(Err(failed)) => failed,
        Err(payload) => {
            // Dropping a payload can run code that panics, so it is leaked.
            std::mem::forget(payload);
            Error::new(
                Code::ERROR,
                "densite: internal error while loading, a bug; please report it",
            )
        }
    };
    if !error.is_null() {
        // SAFETY: `error` is valid for a message, which SQLite frees.
        unsafe { *error = api.string(&failed.message) };
    }
    failed.code.0
}

/// Stores our message where a library that is too old for us reads it.
///
/// # Safety
/// `table` is null or the table of a SQLite library; `error` is null or valid for writing.
unsafe fn refuse(table: *const c_void, error: *mut *mut c_char, message: &str) {
    if !error.is_null() {
        // SAFETY: the caller guarantees it.
        unsafe { *error = string_of_any_version(table, message) };
    }
}
