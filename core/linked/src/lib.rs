//! The SQLite that is linked into a program: the library, the command, the benchmarks, the tests.
//!
//! Densite calls SQLite through the table of functions that SQLite passes to an extension's entry
//! point. A linked SQLite passes it to a function given to `sqlite3_auto_extension`, when a
//! connection opens.

use densite_disk::sync::Mutex;
use densite_sqlite::{Api, Connection, EntryPoint, Error, entry_point};
use rusqlite::auto_extension::RawAutoExtension;
use rusqlite::ffi;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// The linked SQLite's functions.
///
/// # Errors
/// If it lacks a function that Densite calls.
pub fn api() -> Result<Api, Error> {
    // Locked meanwhile, because the list of automatic extensions belongs to the whole library.
    static KNOWN: Mutex<Option<Api>> = Mutex::new(None);
    let mut known = KNOWN.lock();
    if let Some(api) = *known {
        return Ok(api);
    }
    // SAFETY: `prime` gives the entry point only to the linked SQLite, which is never unloaded.
    let api = unsafe { Api::capture(prime) }?;
    #[cfg(preupdate_hook)]
    provide_preupdate(api);
    *known = Some(api);
    Ok(api)
}

/// Names the functions of the preupdate hook, if the linked SQLite has it.
#[cfg(preupdate_hook)]
fn provide_preupdate(api: Api) {
    let addresses = [
        ffi::sqlite3_preupdate_hook as *const c_void,
        ffi::sqlite3_preupdate_old as *const c_void,
        ffi::sqlite3_preupdate_new as *const c_void,
        ffi::sqlite3_preupdate_blobwrite as *const c_void,
    ];
    // SAFETY: the functions of the linked library, which is that of `api`.
    unsafe { densite_sqlite::provide_preupdate(api, addresses) }
}

/// Makes SQLite call the entry point once, by opening and closing a connection.
fn prime(entry: EntryPoint) {
    // SAFETY: both are the type of an extension's entry point; only the names of the opaque types
    // differ. The connection is closed whether or not it opened (null is allowed). The entry point
    // stores the table for its own thread, so a connection that another thread opens meanwhile does
    // no harm.
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

/// A function that is called for each new connection. Its error makes opening fail with its
/// message.
pub type Init = fn(&Connection) -> Result<(), Error>;

/// In the order of registration.
static INITS: Mutex<Vec<Init>> = Mutex::new(Vec::new());

/// Calls `init` for every connection that is opened from now on, after functions registered before.
///
/// # Errors
/// As [`api`]; also if out of memory.
pub fn for_every_connection(init: Init) -> Result<(), Error> {
    let api = api()?;
    INITS.lock().push(init);
    // SAFETY: `opened` keeps the contract of an extension's entry point and is linked into this
    // program.
    unsafe { api.auto_extension(opened) }
}

/// The entry point of every connection. SQLite registers it only once, even if it is registered
/// often.
unsafe extern "C" fn opened(
    db: *mut densite_sqlite::ffi::Db,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: SQLite's own arguments; `entry_point` catches panics.
    unsafe {
        entry_point(db, error, table, |connection| {
            // A copy, because an `init` can open another connection, which calls this function
            // again.
            let inits = INITS.lock().clone();
            inits.into_iter().try_for_each(|init| init(connection))
        })
    }
}
