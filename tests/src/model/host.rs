//! Registers Densite with the SQLite that is linked into the tests, and chooses the directory for
//! test files.

use std::path::PathBuf;
use std::sync::Once;

use rusqlite::{Connection, ffi};

/// Makes `vfs=densite` and Densite's SQL functions available to every later connection. A second
/// call has no effect.
///
/// # Panics
/// If SQLite refuses.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        type Declared = unsafe extern "C" fn(
            *mut ffi::sqlite3,
            *mut *mut std::ffi::c_char,
            *const ffi::sqlite3_api_routines,
        ) -> std::ffi::c_int;
        let entry: densite_sqlite::EntryPoint = densite_vfs::densite_init;
        // SAFETY: both types describe the same function. Its last parameter is the table of
        // routines, which the entry point takes as an untyped pointer. The function is part of this
        // program, so it stays valid.
        let rc = unsafe {
            let entry = std::mem::transmute::<densite_sqlite::EntryPoint, Declared>(entry);
            ffi::sqlite3_auto_extension(Some(entry))
        };
        assert_eq!(rc, ffi::SQLITE_OK, "SQLite refuses the entry point");
        // The first connection registers the VFS that later connections name.
        Connection::open_in_memory().expect("open a connection in memory");
    });
}

/// Creates a directory for the files of a test. It is in memory where the system supports this,
/// because these tests do not depend on what survives a power cut. `DENSITE_TEST_DIR` selects
/// another place.
///
/// # Panics
/// If the directory cannot be created.
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
