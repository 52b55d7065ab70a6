//! Densite as a loadable SQLite extension: the entry points and nothing else. The functions of `include/densite.h` come
//! with the crate that it calls.
//!
//! ```sql
//! .load libdensite
//! .open file:app.db?vfs=densite
//! ```
//!
//! The extension stays loaded and serves all later connections of the SQLite that loaded
//! it. It calls SQLite only through the table that SQLite hands over here.

use std::ffi::{c_char, c_int, c_void};

/// The entry point that SQLite finds by the library's name.
///
/// # Safety
/// Called by SQLite when it loads the extension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_densite_init(
    db: *mut densite_sqlite::ffi::Db,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: SQLite's own arguments, passed on; no panic comes out of it.
    unsafe { densite_capi::load(db, error, table) }
}

/// The entry point to name where a driver opens files by path alone, without URIs: as the other one, and all files that
/// are opened from then on without naming a VFS go through Densite.
///
/// # Safety
/// Called by SQLite when it loads the extension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_densite_default_init(
    db: *mut densite_sqlite::ffi::Db,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: SQLite's own arguments, passed on; no panic comes out of it.
    unsafe { densite_capi::load_as_default(db, error, table) }
}
