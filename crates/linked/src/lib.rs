//! The SQLite that is linked into a program: the command, the benchmarks, the tests.
//!
//! Densite calls SQLite through the table of its functions, which SQLite hands to an extension's entry point. A linked SQLite hands it to a
//! function given to `sqlite3_auto_extension`, when a connection opens.

use densite_disk::sync::Mutex;
use densite_sqlite::{Api, EntryPoint, Error};
use rusqlite::auto_extension::RawAutoExtension;
use rusqlite::ffi;
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
