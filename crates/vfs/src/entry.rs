//! How SQLite gets to know Densite: the entry points of an extension.

use crate::private::refusal;
use crate::sql::create_functions;
use crate::vfs::{NAME, register};
use densite_sqlite::{Api, Code, Connection, Error, Result, ffi::Db};
use std::ffi::{c_char, c_int, c_void};
use std::panic::catch_unwind;

/// What a loaded extension does once: registers the VFS and, for this connection and all
/// later ones of the library, the SQL functions.
///
/// Answers `SQLITE_OK_LOAD_PERMANENTLY`, or an error with a message in `error` that SQLite
/// frees.
///
/// # Safety
/// Called by SQLite, or with its arguments, as an extension's entry point.
pub unsafe fn load(db: *mut Db, error: *mut *mut c_char, table: *const c_void) -> c_int {
    // SAFETY: passed on to the caller.
    let done = unsafe {
        entry_point(db, error, table, |connection| {
            let api = connection.api();
            register(api, NAME, None, false)?;
            api.auto_extension(densite_init)?;
            create_functions(connection)
        })
    };
    if done == Code::OK.0 {
        Code::OK_LOAD_PERMANENTLY.0
    } else {
        done
    }
}

/// The entry point for `sqlite3_auto_extension`: of a statically linked SQLite, and of
/// every connection after [`load`].
///
/// It is idempotent. A connection whose database cannot be used for a reason that a user
/// must act on (a wrong URI parameter, a format that is too new) fails to open with that
/// reason as its message: here alone a VFS has a say in what `sqlite3_errmsg` shows.
///
/// # Safety
/// Called by SQLite, or with its arguments, as an extension's entry point.
pub unsafe extern "C" fn densite_init(
    db: *mut Db,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe {
        entry_point(db, error, table, |connection| {
            register(connection.api(), NAME, None, false)?;
            create_functions(connection)?;
            match refusal(connection) {
                Some(message) => fail_to_open(connection, message),
                None => Ok(()),
            }
        })
    }
}

/// Makes opening fail with a message. What an automatic extension answers SQLite begins with "automatic extension loading failed"; but it also
/// takes the connection's newest error for the result of opening: so a statement fails with the message, one for which SQLite need not read the file.
fn fail_to_open(connection: &Connection, message: String) -> Result<()> {
    match connection.exec("PRAGMA main.densite_level") {
        Err(said) if said.message == message => Ok(()),
        _ => Err(Error::new(Code::CANTOPEN, message)),
    }
}

/// Runs an extension's entry point: its error, or a panic, becomes a code and a message.
///
/// # Safety
/// The arguments are those that SQLite hands to an extension's entry point.
pub unsafe fn entry_point(
    db: *mut Db,
    error: *mut *mut c_char,
    table: *const c_void,
    body: impl FnOnce(&Connection) -> Result<()> + std::panic::UnwindSafe,
) -> c_int {
    // SAFETY: the table that SQLite hands to its extensions.
    let api = match unsafe { Api::from_raw(table) } {
        Ok(api) => api,
        Err(refused) => {
            // SAFETY: the same table, and a place for a message or null.
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
            // Dropping a payload may run code that panics; a leak may not.
            std::mem::forget(payload);
            Error::new(Code::ERROR, "densite: internal error while loading")
        }
    };
    if !error.is_null() {
        // SAFETY: a place for a message, which SQLite frees.
        unsafe { *error = api.string(&failed.message) };
    }
    failed.code.0
}

/// Puts a message of ours where a library that is too old for us looks for it.
///
/// # Safety
/// `table` is null or the table of a SQLite library; `error` is null or a place.
unsafe fn refuse(table: *const c_void, error: *mut *mut c_char, message: &str) {
    if !error.is_null() {
        // SAFETY: as the caller vouches.
        unsafe { *error = densite_sqlite::string_of_any_version(table, message) };
    }
}
