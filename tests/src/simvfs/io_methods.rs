//! The `sqlite3_io_methods` of a simulated file.
//!
//! Invariant: from `xOpen` until `xClose`, memory that SQLite passes as a `sqlite3_file` of this
//! VFS holds a [`Handle`] whose `file` came from `Box::into_raw`. SQLite makes one call at a time
//! on it.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{Ordering, fence};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64};

use super::open_file::{Code, OpenFile};

/// The content of a `sqlite3_file` of this VFS.
#[repr(C)]
pub(super) struct Handle {
    pub(super) base: sqlite3_file,
    pub(super) file: *mut OpenFile,
}

pub(super) static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Runs the body of a callback. A panic becomes `SQLITE_IOERR` and does not unwind further.
pub(super) fn answer(body: impl FnOnce() -> Result<(), Code>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => ffi::SQLITE_OK,
        Ok(Err(code)) => code,
        Err(_) => ffi::SQLITE_IOERR,
    }
}

/// The open file behind a `sqlite3_file`.
///
/// # Safety
/// `file` is an open file of this VFS, and no other call uses it.
unsafe fn open<'a>(file: *mut sqlite3_file) -> &'a mut OpenFile {
    // SAFETY: by the invariant above.
    unsafe { &mut *(*file.cast::<Handle>()).file }
}

fn offset(n: sqlite3_int64, or: Code) -> Result<u64, Code> {
    u64::try_from(n).map_err(|_| or)
}

fn length(n: c_int, or: Code) -> Result<usize, Code> {
    usize::try_from(n).map_err(|_| or)
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    answer(|| {
        let handle = file.cast::<Handle>();
        // SAFETY: by the invariant above; the pointer is taken out, so that it is freed once.
        let inner = unsafe { std::mem::replace(&mut (*handle).file, std::ptr::null_mut()) };
        if !inner.is_null() {
            // SAFETY: it came from Box::into_raw and nothing else refers to it.
            drop(unsafe { Box::from_raw(inner) });
        }
        Ok(())
    })
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    buf: *mut c_void,
    n: c_int,
    at: sqlite3_int64,
) -> c_int {
    answer(|| {
        let n = length(n, ffi::SQLITE_IOERR_READ)?;
        // SAFETY: SQLite hands in an open file and a buffer of `n` bytes of its own.
        let (file, buf) = unsafe {
            (
                open(file),
                std::slice::from_raw_parts_mut(buf.cast::<u8>(), n),
            )
        };
        file.read(buf, offset(at, ffi::SQLITE_IOERR_READ)?)
    })
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    buf: *const c_void,
    n: c_int,
    at: sqlite3_int64,
) -> c_int {
    answer(|| {
        let n = length(n, ffi::SQLITE_IOERR_WRITE)?;
        // SAFETY: SQLite hands in an open file and a buffer of `n` bytes.
        let (file, buf) = unsafe { (open(file), std::slice::from_raw_parts(buf.cast::<u8>(), n)) };
        file.write(buf, offset(at, ffi::SQLITE_IOERR_WRITE)?)
    })
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, len: sqlite3_int64) -> c_int {
    answer(|| {
        // SAFETY: SQLite hands in an open file.
        let file = unsafe { open(file) };
        file.truncate(offset(len, ffi::SQLITE_IOERR_TRUNCATE)?)
    })
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    answer(|| {
        // SAFETY: SQLite hands in an open file.
        unsafe { open(file) }.sync(flags)
    })
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut sqlite3_int64) -> c_int {
    answer(|| {
        // SAFETY: SQLite hands in an open file.
        let len = unsafe { open(file) }.len()?;
        let len = sqlite3_int64::try_from(len).map_err(|_| ffi::SQLITE_IOERR_FSTAT)?;
        // SAFETY: SQLite hands in a place for the answer.
        unsafe { *size = len };
        Ok(())
    })
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    answer(|| {
        // SAFETY: SQLite hands in an open file.
        unsafe { open(file) }.lock(level)
    })
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    answer(|| {
        // SAFETY: SQLite hands in an open file.
        unsafe { open(file) }.unlock(level);
        Ok(())
    })
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, out: *mut c_int) -> c_int {
    answer(|| {
        // SAFETY: SQLite hands in an open file.
        let reserved = unsafe { open(file) }.reserved();
        // SAFETY: SQLite hands in a place for the answer.
        unsafe { *out = c_int::from(reserved) };
        Ok(())
    })
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    answer(|| {
        // SAFETY: SQLite hands in an open file.
        let open = unsafe { open(file) };
        let number = arg.cast::<c_int>();
        match op {
            ffi::SQLITE_FCNTL_LOCKSTATE => {
                // SAFETY: the argument of this operation is a place for an int.
                unsafe { *number = open.lock_state() };
            }
            ffi::SQLITE_FCNTL_HAS_MOVED => {
                // SAFETY: the argument of this operation is a place for an int.
                unsafe { *number = c_int::from(open.has_moved()) };
            }
            ffi::SQLITE_FCNTL_EXTERNAL_READER => {
                // All connections belong to this process.
                // SAFETY: the argument of this operation is a place for an int.
                unsafe { *number = 0 };
            }
            ffi::SQLITE_FCNTL_PERSIST_WAL => {
                // SAFETY: the argument of this operation is an int, read and written.
                unsafe { *number = open.persist_wal(*number) };
            }
            ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE => {
                let psow = open.characteristics() & ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
                // SAFETY: the argument of this operation is an int, read and written.
                unsafe { *number = c_int::from(psow != 0) };
            }
            ffi::SQLITE_FCNTL_SIZE_HINT | ffi::SQLITE_FCNTL_CHUNK_SIZE => {}
            _ => return Err(ffi::SQLITE_NOTFOUND),
        }
        Ok(())
    })
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite hands in an open file. The call cannot panic.
    unsafe { open(file) }.sector_size()
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite hands in an open file. The call cannot panic.
    unsafe { open(file) }.characteristics()
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    index: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    answer(|| {
        // SAFETY: SQLite hands in an open file.
        let region = unsafe { open(file) }.shm_map(index, size, extend != 0)?;
        // SAFETY: SQLite hands in a place for the answer. The region lives until this file
        // leaves the shared memory, after which SQLite does not use it.
        unsafe { *out = region.cast::<c_void>() };
        Ok(())
    })
}

unsafe extern "C" fn shm_lock(
    file: *mut sqlite3_file,
    first: c_int,
    n: c_int,
    flags: c_int,
) -> c_int {
    answer(|| {
        // SAFETY: SQLite hands in an open file.
        unsafe { open(file) }.shm_lock(first, n, flags)
    })
}

unsafe extern "C" fn shm_barrier(_file: *mut sqlite3_file) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, _delete: c_int) -> c_int {
    answer(|| {
        // SAFETY: SQLite hands in an open file.
        unsafe { open(file) }.shm_unmap();
        Ok(())
    })
}
