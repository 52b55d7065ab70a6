//! The default VFS under another name, with hooks for main databases and WALs.
#![allow(dead_code, reason = "each test file uses a part of it")]

use rusqlite::ffi;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

pub(crate) type Sync = unsafe extern "C" fn(*mut ffi::sqlite3_file, c_int) -> c_int;
pub(crate) type Write =
    unsafe extern "C" fn(*mut ffi::sqlite3_file, *const c_void, c_int, i64) -> c_int;
pub(crate) type Read =
    unsafe extern "C" fn(*mut ffi::sqlite3_file, *mut c_void, c_int, i64) -> c_int;
pub(crate) type Delete = unsafe extern "C" fn(*mut ffi::sqlite3_vfs, *const c_char, c_int) -> c_int;

/// The files whose methods are replaced.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Files {
    #[default]
    Main,
    Wal,
    Both,
}

/// Replacements of the methods of main databases or of WALs; `None` keeps the default VFS's method.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) sync: Option<Sync>,
    pub(crate) write: Option<Write>,
    pub(crate) read: Option<Read>,
    pub(crate) files: Files,
    /// For any file.
    pub(crate) delete: Option<Delete>,
}

static REAL: OnceLock<(Sync, Write, Read)> = OnceLock::new();

/// The default VFS's own methods. A database must have been opened before.
pub(crate) fn real() -> (Sync, Write, Read) {
    *REAL.get().expect("opened before")
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: the default VFS opens the file with SQLite's arguments. Its table of methods is
    // copied and never written. `pAppData` has the hooks that `register` stored.
    unsafe {
        let host = ffi::sqlite3_vfs_find(std::ptr::null());
        let done = (*host).xOpen.expect("a method")(host, name, file, flags, out);
        let hooks = &*(*vfs).pAppData.cast::<Hooks>();
        let wanted = match hooks.files {
            Files::Main => ffi::SQLITE_OPEN_MAIN_DB,
            Files::Wal => ffi::SQLITE_OPEN_WAL,
            Files::Both => ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_WAL,
        };
        if done == ffi::SQLITE_OK && flags & wanted != 0 {
            let mut methods = *(*file).pMethods;
            let (sync, write, read) = (methods.xSync, methods.xWrite, methods.xRead);
            let there = "a method";
            REAL.get_or_init(|| (sync.expect(there), write.expect(there), read.expect(there)));
            methods.xSync = hooks.sync.or(sync);
            methods.xWrite = hooks.write.or(write);
            methods.xRead = hooks.read.or(read);
            (*file).pMethods = Box::leak(Box::new(methods));
        }
        done
    }
}

/// Registers such a VFS in SQLite.
pub(crate) fn register(name: &'static CStr, hooks: Hooks) {
    // SAFETY: the copy, its name and its hooks live forever.
    unsafe {
        let mut vfs = *ffi::sqlite3_vfs_find(std::ptr::null());
        vfs.zName = name.as_ptr();
        vfs.xOpen = Some(open);
        vfs.xDelete = hooks.delete.or(vfs.xDelete);
        vfs.pAppData = Box::into_raw(Box::new(hooks)).cast();
        vfs.pNext = std::ptr::null_mut();
        let vfs = Box::leak(Box::new(vfs));
        assert_eq!(ffi::sqlite3_vfs_register(vfs, 0), ffi::SQLITE_OK);
    }
}
