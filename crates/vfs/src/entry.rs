//! How SQLite gets to know Densite: the entry points of an extension.

use crate::main_file::refusal;
use crate::sql::create_functions;
use crate::vfs::{NAME, register};
use densite_sqlite::{Code, Connection, Error, Result, entry_point, ffi::Db};
use std::ffi::{c_char, c_int, c_void};

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
    unsafe { entry_point(db, error, table, init) }
}

/// What [`densite_init`] does, for a program that has a connection already.
///
/// # Errors
/// SQLite's, and the reason why the connection's database cannot be used.
pub fn init(connection: &Connection) -> Result<()> {
    register(connection.api(), NAME, None, false)?;
    create_functions(connection)?;
    match refusal(connection) {
        Some(message) => fail_to_open(connection, message),
        None => Ok(()),
    }
}

/// Makes opening fail with a message.
///
/// SQLite begins the answer of an automatic extension with "automatic extension loading failed".
/// But it also takes the connection's newest error for the result of opening. So a statement fails
/// with the message: one for which SQLite need not read the file.
fn fail_to_open(connection: &Connection, message: String) -> Result<()> {
    match connection.exec("PRAGMA main.densite_level") {
        Err(said) if said.message == message => Ok(()),
        _ => Err(Error::new(Code::CANTOPEN, message)),
    }
}
