//! The methods of the registered `sqlite3_vfs` itself.
//!
//! Invariant: `pAppData` of a `sqlite3_vfs` of this module points to a [`State`] that is never
//! freed.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_vfs};

use super::io_methods::{Handle, METHODS, answer};
use super::machine::State;
use super::open_file::{Code, OpenFile, code, parent};

/// The longest path in bytes, including its end.
pub(super) const PATH_MAX: c_int = 512;

/// Milliseconds from the start of the Julian calendar to 1970.
const JULIAN_1970_MS: i64 = 210_866_760_000_000;

/// Creates a `sqlite3_vfs` without registering it. `name` and `state` live forever.
pub(super) fn table(name: &'static CStr, state: &'static Arc<State>) -> sqlite3_vfs {
    sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<Handle>() as c_int,
        mxPathname: PATH_MAX,
        pNext: std::ptr::null_mut(),
        zName: name.as_ptr(),
        pAppData: std::ptr::from_ref(state).cast_mut().cast::<c_void>(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: Some(dl_open),
        xDlError: Some(dl_error),
        xDlSym: Some(dl_sym),
        xDlClose: Some(dl_close),
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(get_last_error),
        xCurrentTimeInt64: Some(current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

/// The state behind a VFS.
///
/// # Safety
/// `vfs` was created by this module.
unsafe fn state<'a>(vfs: *mut sqlite3_vfs) -> &'a Arc<State> {
    // SAFETY: by the invariant above.
    unsafe { &*(*vfs).pAppData.cast::<Arc<State>>() }
}

/// A path as text.
///
/// # Safety
/// `name` is a zero-terminated string that outlives the result.
unsafe fn text<'a>(name: *const c_char) -> Result<&'a str, Code> {
    // SAFETY: as the caller promises.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().map_err(|_| ffi::SQLITE_CANTOPEN)
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    answer(|| {
        let handle = file.cast::<Handle>();
        // SAFETY: SQLite hands in szOsFile bytes, the size of a Handle. Null methods tell it
        // that there is nothing to close, should the rest fail.
        unsafe {
            (*handle).base.pMethods = std::ptr::null();
            (*handle).file = std::ptr::null_mut();
        }
        let path = if name.is_null() {
            None
        } else {
            // SAFETY: not null, so a string of SQLite's that outlives the call.
            Some(unsafe { text(name) }?)
        };
        // SAFETY: SQLite hands in the VFS that it was asked for.
        let opened = OpenFile::open(unsafe { state(vfs) }, path, flags)?;
        // SAFETY: as above; the Box is taken back by xClose.
        unsafe {
            (*handle).file = Box::into_raw(Box::new(opened));
            (*handle).base.pMethods = &METHODS;
        }
        if !out_flags.is_null() {
            // SAFETY: not null, so a place for the answer.
            unsafe { *out_flags = flags };
        }
        Ok(())
    })
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync_dir: c_int) -> c_int {
    answer(|| {
        // SAFETY: SQLite hands in the VFS and a path.
        let (state, path) = unsafe { (state(vfs), text(name)?) };
        let disk = &state.machine().disk;
        disk.remove(path).map_err(|e| code(&e))?;
        if sync_dir & 1 != 0 {
            let synced = disk.sync_dir(parent(path));
            synced.map_err(|_| ffi::SQLITE_IOERR_DIR_FSYNC)?;
        }
        Ok(())
    })
}

/// An empty file does not count as existing, as in SQLite's unix VFS.
unsafe extern "C" fn access(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    answer(|| {
        use densite_disk::{File, OpenMode};
        // SAFETY: SQLite hands in the VFS and a path.
        let (state, path) = unsafe { (state(vfs), text(name)?) };
        let disk = &state.machine().disk;
        let failed = |_| ffi::SQLITE_IOERR_ACCESS;
        let mut there = disk.exists(path).map_err(failed)?;
        if there && flags == ffi::SQLITE_ACCESS_EXISTS {
            let file = disk.open(path, OpenMode::Read).map_err(failed)?;
            there = file.len().map_err(failed)? > 0;
        }
        // SAFETY: SQLite hands in a place for the answer.
        unsafe { *out = c_int::from(there) };
        Ok(())
    })
}

/// Paths start at the root. There is no current directory, and there are no links.
unsafe extern "C" fn full_pathname(
    _vfs: *mut sqlite3_vfs,
    name: *const c_char,
    len_max: c_int,
    out: *mut c_char,
) -> c_int {
    answer(|| {
        // SAFETY: SQLite hands in a path.
        let path = unsafe { text(name) }?;
        let full = format!("/{}\0", path.trim_start_matches('/'));
        let room = usize::try_from(len_max).unwrap_or(0);
        if full.len() > room {
            return Err(ffi::SQLITE_CANTOPEN);
        }
        // SAFETY: the output has room for `len_max` bytes, and the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(full.as_ptr().cast(), out, full.len()) };
        Ok(())
    })
}

unsafe extern "C" fn dl_open(_vfs: *mut sqlite3_vfs, _name: *const c_char) -> *mut c_void {
    std::ptr::null_mut()
}

unsafe extern "C" fn dl_error(_vfs: *mut sqlite3_vfs, len: c_int, out: *mut c_char) {
    if len > 0 {
        // SAFETY: the output has room for `len` bytes.
        unsafe { *out = 0 };
    }
}

type Symbol = unsafe extern "C" fn(*mut sqlite3_vfs, *mut c_void, *const c_char);

unsafe extern "C" fn dl_sym(
    _vfs: *mut sqlite3_vfs,
    _library: *mut c_void,
    _name: *const c_char,
) -> Option<Symbol> {
    None
}

unsafe extern "C" fn dl_close(_vfs: *mut sqlite3_vfs, _library: *mut c_void) {}

unsafe extern "C" fn randomness(_vfs: *mut sqlite3_vfs, n: c_int, out: *mut c_char) -> c_int {
    let Ok(len) = usize::try_from(n) else {
        return 0;
    };
    // SAFETY: the output has room for `n` bytes.
    let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), len) };
    match densite_disk::random::random_bytes(out) {
        Ok(()) => n,
        Err(_) => 0,
    }
}

unsafe extern "C" fn sleep(_vfs: *mut sqlite3_vfs, microseconds: c_int) -> c_int {
    std::thread::sleep(Duration::from_micros(
        u64::try_from(microseconds).unwrap_or(0),
    ));
    microseconds
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    JULIAN_1970_MS + since.map_or(0, |d| d.as_millis() as i64)
}

unsafe extern "C" fn current_time(_vfs: *mut sqlite3_vfs, out: *mut f64) -> c_int {
    // SAFETY: SQLite hands in a place for the answer.
    unsafe { *out = now_ms() as f64 / 86_400_000.0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn current_time_int64(_vfs: *mut sqlite3_vfs, out: *mut sqlite3_int64) -> c_int {
    // SAFETY: SQLite hands in a place for the answer.
    unsafe { *out = now_ms() };
    ffi::SQLITE_OK
}

unsafe extern "C" fn get_last_error(_: *mut sqlite3_vfs, _: c_int, _: *mut c_char) -> c_int {
    0
}
