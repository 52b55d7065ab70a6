//! The entry points through which SQLite loads Densite.

use crate::main_file::refusal;
use crate::sql::create_functions;
use crate::vfs::{NAME, is_of_another_copy, register};
use densite_sqlite::{
    Code, Connection, EntryPoint, Error, Result, entry_point, ffi::Db, keep_loaded, serves,
};
use std::ffi::{c_char, c_int, c_void};

/// What a library adds to the functions of this crate.
#[derive(Clone, Copy)]
pub struct Addition {
    /// Adds its functions to a connection, unless it has them.
    pub create: fn(&Connection) -> Result<()>,
    /// The entry point that does so for later connections.
    pub later: EntryPoint,
}

/// Loads the extension: registers the VFS, as the default one if `make_default` is set, and the SQL
/// functions, for this connection and all later ones of this SQLite.
///
/// If another copy of this library has registered the VFS, it stays, and serves all connections.
/// Then only functions that this connection lacks are registered.
///
/// Returns `SQLITE_OK_LOAD_PERMANENTLY`, or an error code with a message in `error` that SQLite
/// frees. Then nothing is registered. SQLite unloads the library after an error. So a later failure
/// is reported in SQLite's log.
///
/// # Safety
/// SQLite calls it as an extension's entry point, or the caller passes the same arguments.
pub unsafe fn load(
    db: *mut Db,
    error: *mut *mut c_char,
    table: *const c_void,
    addition: Addition,
    make_default: bool,
) -> c_int {
    // SAFETY: the caller guarantees it.
    let done = unsafe {
        entry_point(db, error, table, |connection| {
            let api = connection.api();
            serves(api)?;
            // A panic below is an error, too.
            keep_loaded();
            register(api, NAME, None, make_default)?;
            if let Err(e) = add_functions(connection, addition) {
                let message = format!("Densite is loaded, but not all functions: {}", e.message);
                api.log(e.code, &message);
            }
            Ok(())
        })
    };
    if done == Code::OK.0 {
        Code::OK_LOAD_PERMANENTLY.0
    } else {
        done
    }
}

fn add_functions(connection: &Connection, addition: Addition) -> Result<()> {
    let api = connection.api();
    if is_of_another_copy(api) {
        if connection.prepare("SELECT densite_version()").is_ok() {
            return Ok(());
        }
    } else {
        // SAFETY: they keep the contract of an extension's entry point, and are never unloaded.
        unsafe { api.auto_extension(densite_init) }?;
        // SAFETY: as above.
        unsafe { api.auto_extension(addition.later) }?;
    }
    create_functions(connection)?;
    (addition.create)(connection)
}

/// The entry point for `sqlite3_auto_extension`, for a statically linked SQLite and for every
/// connection after [`load`].
///
/// It is idempotent. If the connection's database cannot be used for a reason that the user must
/// fix (a wrong URI parameter, a format that is too new), opening fails with that reason as its
/// message. Only here can a VFS affect what `sqlite3_errmsg` shows.
///
/// # Safety
/// SQLite calls it as an extension's entry point, or the caller passes the same arguments.
pub unsafe extern "C" fn densite_init(
    db: *mut Db,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { entry_point(db, error, table, init) }
}

/// The same as [`densite_init`], for a program that already has a connection.
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
/// SQLite puts "automatic extension loading failed" before the message of an automatic extension.
/// But it also takes the connection's newest error as the result of opening. So this runs a
/// statement that fails with the message and for which SQLite need not read the file.
fn fail_to_open(connection: &Connection, message: String) -> Result<()> {
    match connection.exec("PRAGMA main.densite_level") {
        Err(said) if said.message == message => Ok(()),
        _ => Err(Error::new(Code::CANTOPEN, message)),
    }
}
