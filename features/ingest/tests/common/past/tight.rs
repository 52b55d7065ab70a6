//! A database whose disk is full when a test wants it.

use crate::common::hooked::{self, Files, Hooks};
use crate::common::storage::Own;
use rusqlite::ffi;
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Neither the database nor its WAL can grow through ingest.
pub(super) static IS_FULL: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    len: c_int,
    at: i64,
) -> c_int {
    // SAFETY: the file is open, its methods are the default VFS's except two, and the argument is a
    // valid place for a number.
    unsafe {
        if IS_FULL.load(Ordering::SeqCst) {
            let mut size = 0;
            let of_size = (*(*file).pMethods).xFileSize.expect("a method");
            let told = of_size(file, &raw mut size);
            if told != ffi::SQLITE_OK || at + i64::from(len) > size {
                return ffi::SQLITE_FULL;
            }
        }
        hooked::real().1(file, bytes, len, at)
    }
}

/// A connection with ingest through that VFS, whose log is on this storage backend.
pub(super) fn connect(path: &Path, storage: Own) -> rusqlite::Connection {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let write: hooked::Write = write;
        let hooks = Hooks {
            write: Some(write),
            files: Files::Both,
            ..Hooks::default()
        };
        hooked::register(c"tight", hooks);
    });
    storage.connect_through(path, c"tight")
}
