//! The SQLite that is linked into a program: the library, the command, the benchmarks, the tests.
//!
//! Densite calls SQLite through the table of its functions, which SQLite hands to an extension's entry point. A linked SQLite hands it to a
//! function given to `sqlite3_auto_extension`, when a connection opens.

use densite_disk::sync::Mutex;
use densite_sqlite::{Api, Connection, EntryPoint, Error, entry_point};
use rusqlite::auto_extension::RawAutoExtension;
use rusqlite::ffi;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// The linked SQLite's functions.
///
/// # Errors
/// When it lacks one that Densite calls.
pub fn api() -> Result<Api, Error> {
    // Held meanwhile: the list of automatic extensions is the whole library's.
    static KNOWN: Mutex<Option<Api>> = Mutex::new(None);
    let mut known = KNOWN.lock();
    if let Some(api) = *known {
        return Ok(api);
    }
    // SAFETY: `prime` gives the entry point to the linked SQLite alone, which is never unloaded.
    let api = unsafe { Api::capture(prime) }?;
    *known = Some(api);
    Ok(api)
}

/// Has the entry point called once, by opening a connection that is closed again.
fn prime(entry: EntryPoint) {
    // SAFETY: both are the type of an extension's entry point, with the pointers to opaque types named differently; the connection is closed
    // whether or not it opened (null is allowed). The entry point notes the table for its own thread, so a connection that another thread opens
    // meanwhile does no harm.
    unsafe {
        let entry = std::mem::transmute::<EntryPoint, RawAutoExtension>(entry);
        ffi::sqlite3_auto_extension(Some(entry));
        let mut db = null_mut();
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_MEMORY;
        ffi::sqlite3_open_v2(c":memory:".as_ptr(), &raw mut db, flags, null());
        ffi::sqlite3_close(db);
        ffi::sqlite3_cancel_auto_extension(Some(entry));
    }
}

/// What a connection begins with. An error makes opening the connection fail with its message.
pub type Init = fn(&Connection) -> Result<(), Error>;

/// In the order in which they were given.
static INITS: Mutex<Vec<Init>> = Mutex::new(Vec::new());

/// Has `init` called for every connection that is opened from now on, after those that were given before.
///
/// # Errors
/// As [`api`]; when there is no memory.
pub fn for_every_connection(init: Init) -> Result<(), Error> {
    let api = api()?;
    INITS.lock().push(init);
    // SAFETY: `opened` keeps the contract of an extension's entry point, and is linked into this program.
    unsafe { api.auto_extension(opened) }
}

/// The entry point of every connection: SQLite knows it once, however often it is registered.
unsafe extern "C" fn opened(
    db: *mut densite_sqlite::ffi::Db,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: SQLite's own arguments. No panic comes out of it.
    unsafe {
        entry_point(db, error, table, |connection| {
            // A copy: an `init` can open another connection, which calls this function again.
            let inits = INITS.lock().clone();
            inits.into_iter().try_for_each(|init| init(connection))
        })
    }
}
