//! Densite as a loadable SQLite extension: only its entry points. The crate that it calls has the
//! functions of `include/densite.h`.
//!
//! After `.load libdensite`, `.open file:app.db?vfs=densite` opens a database in SQLite's shell.
//! The extension stays loaded and serves all later connections of the SQLite that loaded it. It
//! calls SQLite only through the table that SQLite passes here.

use std::ffi::{c_char, c_int, c_void};

/// The entry point that SQLite finds by the library's name.
///
/// # Safety
/// SQLite calls it when it loads the extension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_densite_init(
    db: *mut densite_sqlite::ffi::Db,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: SQLite's own arguments are passed on; panics are caught.
    unsafe { densite_capi::load(db, error, table, false) }
}

/// The entry point for drivers that open files by path alone, without URIs. It does the same as the
/// other one. Also, all files that are opened from then on without naming a VFS go through Densite.
///
/// # Safety
/// SQLite calls it when it loads the extension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_densite_default_init(
    db: *mut densite_sqlite::ffi::Db,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: SQLite's own arguments are passed on; panics are caught.
    unsafe { densite_capi::load(db, error, table, true) }
}
