//! Densite within the SQLite that is linked into the tests, and where the tests keep files.

use std::path::PathBuf;
use std::sync::Once;

use rusqlite::{Connection, ffi};

/// Makes `vfs=densite` and Densite's SQL functions known to every connection opened from
/// now on. Calling it again does nothing.
///
/// # Panics
/// When SQLite refuses.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        type Declared = unsafe extern "C" fn(
            *mut ffi::sqlite3,
            *mut *mut std::ffi::c_char,
            *const ffi::sqlite3_api_routines,
        ) -> std::ffi::c_int;
        let entry: densite_sqlite::EntryPoint = densite_vfs::densite_init;
        // SAFETY: the same function; the last parameter is the table of routines, which the
        // entry point takes as an untyped pointer. It is part of this program, so it stays.
        let rc = unsafe {
            let entry = std::mem::transmute::<densite_sqlite::EntryPoint, Declared>(entry);
            ffi::sqlite3_auto_extension(Some(entry))
        };
        assert_eq!(rc, ffi::SQLITE_OK, "SQLite refuses the entry point");
        // The first connection registers the VFS that later ones name.
        Connection::open_in_memory().expect("open a connection in memory");
    });
}

/// A new folder for a test's files: in memory where the system offers it, for the tests that
/// use it ask what is answered, not what survives a power cut. `DENSITE_TEST_DIR` names
/// another place.
///
/// # Panics
/// When it cannot be made.
pub fn folder() -> tempfile::TempDir {
    let chosen = std::env::var_os("DENSITE_TEST_DIR").map(PathBuf::from);
    let memory = Some(PathBuf::from("/dev/shm")).filter(|p| p.is_dir());
    let builder = tempfile::Builder::new();
    if let Some(chosen) = chosen {
        return builder
            .tempdir_in(chosen)
            .expect("make a folder in DENSITE_TEST_DIR");
    }
    if let Some(Ok(dir)) = memory.map(|memory| builder.tempdir_in(memory)) {
        return dir;
    }
    builder.tempdir().expect("make a temporary folder")
}
