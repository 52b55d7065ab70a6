//! The SQLite libraries that have loaded this library, by number.

use crate::failure::{Failure, Result};
use densite_disk::sync::Mutex;
use densite_sqlite::{Api, Code, Connection, Error, Registration, Value, create_function, ffi};
use std::ffi::{c_char, c_int, c_void};

/// In the order in which they loaded this library; the first is number 1. They are never unloaded.
static HOSTS: Mutex<Vec<Api>> = Mutex::new(Vec::new());

/// The number of a library, which gets one if needed.
fn number(api: Api) -> i64 {
    let mut hosts = HOSTS.lock();
    let place = hosts.iter().position(|known| *known == api);
    let place = place.unwrap_or_else(|| {
        hosts.push(api);
        hosts.len() - 1
    });
    i64::try_from(place + 1).unwrap_or(i64::MAX)
}

/// The library with a number; 0 means the first one.
pub(crate) fn api(number: i64) -> Result<Api> {
    let hosts = HOSTS.lock();
    if hosts.is_empty() {
        return Err(Failure::misuse(
            "no SQLite has loaded Densite yet; load the extension into a connection first",
        ));
    }
    let place = usize::try_from(number.max(1) - 1).ok();
    let found = place.and_then(|place| hosts.get(place)).copied();
    found.filter(|_| number >= 0).ok_or_else(|| {
        Failure::misuse(format!(
            "there is no SQLite number {number}; use the number that SELECT densite_host() returns"
        ))
    })
}

/// The extension's entry point: registers the VFS and all SQL functions, for this connection and
/// every later one of the library. With `make_default`, the VFS also becomes the default one of the
/// library, for drivers that open files by path alone, without URIs.
///
/// # Safety
/// SQLite calls it as an extension's entry point, or the caller passes the same arguments.
pub unsafe fn load(
    db: *mut ffi::Db,
    error: *mut *mut c_char,
    table: *const c_void,
    make_default: bool,
) -> c_int {
    // SAFETY: the table that SQLite passes to its extensions.
    if let Ok(api) = unsafe { Api::from_raw(table) } {
        // Also if the functions are those of another copy.
        number(api);
    }
    let addition = densite_vfs::Addition {
        create: create_functions,
        later,
    };
    // SAFETY: the caller guarantees it.
    unsafe { densite_vfs::load(db, error, table, addition, make_default) }
}

/// The entry point of every later connection, after the VFS's.
unsafe extern "C" fn later(
    db: *mut ffi::Db,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: SQLite's own arguments.
    unsafe { densite_vfs::entry_point(db, error, table, create_functions) }
}

fn create_functions(connection: &Connection) -> densite_sqlite::Result<()> {
    let Some(registration) = Registration::new(connection, "C API") else {
        return Ok(());
    };
    densite_tools::create_functions(connection)?;
    densite_bulk::create_functions(connection)?;
    create_function(connection, "densite_library", 0, ffi::DIRECTONLY, |_, _| {
        let path = densite_sqlite::library_path();
        let path = path.map(|path| path.to_string_lossy().into_owned());
        Ok(path.map_or(Value::Null, Value::from))
    })?;
    let number = number(connection.api());
    let process = std::process::id();
    create_function(
        connection,
        "densite_host",
        0,
        ffi::DIRECTONLY,
        move |_, _| {
            let _until_closed = &registration;
            if process != std::process::id() {
                return Err(Error::new(
                    Code::MISUSE,
                    format!(
                        "this connection belongs to process {process}, which was forked; open one in this process"
                    ),
                ));
            }
            Ok(Value::Integer(number))
        },
    )
}
