//! The SQLite that is linked into the command, with our VFS registered.
//!
//! The library and the VFS call SQLite through the table of its functions, which SQLite hands to an
//! extension's entry point. A linked SQLite hands it to a function given to `sqlite3_auto_extension`.

use crate::failure::Failure;
use densite::Api;
use densite_sqlite::EntryPoint;
use rusqlite::auto_extension::RawAutoExtension;
use rusqlite::ffi;
use serde_json::json;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

/// The VFS every database is opened through.
pub(crate) const VFS: &str = "densite";

/// The linked SQLite's functions; when first called registers the VFS, and for every connection our SQL functions.
pub(crate) fn api() -> Result<Api, Failure> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    API.get_or_init(|| {
        // SAFETY: `prime` gives the entry point to the linked SQLite alone, which is never unloaded.
        let api = unsafe { Api::capture(prime) }.map_err(|e| e.to_string())?;
        densite_vfs::register(api, densite_vfs::NAME, None, false).map_err(|e| e.to_string())?;
        // SAFETY: an extension's entry point, linked into this program.
        unsafe { api.auto_extension(densite_vfs::densite_init) }.map_err(|e| e.to_string())?;
        Ok(api)
    })
    .clone()
    .map_err(|e| Failure::Other("sqlite", 1, e, json!({})))
}

/// Has the entry point called once, by opening a connection that is closed again.
fn prime(entry: EntryPoint) {
    // SAFETY: both are the type of an extension's entry point, with the pointers to opaque types named differently; the connection is closed
    // whether or not it opened (null is allowed), and nobody else opens one meanwhile: this runs once, before any.
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
