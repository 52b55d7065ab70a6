//! The default VFS under another name, whose main databases are watched where SQLite meets the disk.

use rusqlite::ffi;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

pub(crate) type Sync = unsafe extern "C" fn(*mut ffi::sqlite3_file, c_int) -> c_int;
pub(crate) type Write =
    unsafe extern "C" fn(*mut ffi::sqlite3_file, *const c_void, c_int, i64) -> c_int;

pub(crate) type Delete = unsafe extern "C" fn(*mut ffi::sqlite3_vfs, *const c_char, c_int) -> c_int;

/// What takes the place of the methods of main databases; `None` leaves the default VFS's.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) sync: Option<Sync>,
    pub(crate) write: Option<Write>,
    /// They take the place of those of WALs, too.
    pub(crate) wal: bool,
    /// Of any file.
    pub(crate) delete: Option<Delete>,
}

static REAL: OnceLock<(Sync, Write)> = OnceLock::new();

/// The default VFS's own methods, once a database was opened.
pub(crate) fn real() -> (Sync, Write) {
    *REAL.get().expect("opened before")
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: the default VFS opens it as it would without us; its table of methods is copied, never written; what was registered are this VFS's hooks.
    unsafe {
        let host = ffi::sqlite3_vfs_find(std::ptr::null());
        let done = (*host).xOpen.expect("a method")(host, name, file, flags, out);
        let hooks = &*(*vfs).pAppData.cast::<Hooks>();
        let is_wal = hooks.wal && flags & ffi::SQLITE_OPEN_WAL != 0;
        if done == ffi::SQLITE_OK && (is_wal || flags & ffi::SQLITE_OPEN_MAIN_DB != 0) {
            let mut methods = *(*file).pMethods;
            let (sync, write) = (methods.xSync, methods.xWrite);
            REAL.get_or_init(|| (sync.expect("a method"), write.expect("a method")));
            methods.xSync = hooks.sync.or(sync);
            methods.xWrite = hooks.write.or(write);
            (*file).pMethods = Box::leak(Box::new(methods));
        }
        done
    }
}

/// Makes such a VFS known to SQLite.
pub(crate) fn register(name: &'static CStr, hooks: Hooks) {
    // SAFETY: the copy stays for ever, and so do its name and its hooks.
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
