//! The callbacks of `sqlite3_io_methods`.

use super::VfsFile;
use crate::Code;
use crate::api::Api;
use crate::ffi::{self, IoMethods};
use crate::panic::guard;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

/// The content of SQLite's memory for an open file: the methods, and a pointer to our file. Our
/// file is elsewhere, so SQLite need not know its size and alignment.
#[repr(C)]
pub(super) struct Shell {
    base: ffi::File,
    slot: *mut c_void,
}

struct Slot<F> {
    api: Api,
    /// A method is running. A method that is called from within it gets an error, never a second
    /// `&mut` to the file.
    busy: bool,
    file: F,
}

/// Turns SQLite's memory into an open file.
///
/// # Safety
/// `memory` has space for a [`Shell`], is aligned for pointers and is not an open file.
pub(super) unsafe fn install<F: VfsFile>(api: Api, memory: *mut ffi::File, mut file: F) {
    let with_shm = guard(api, "xShmMap", false, || file.has_shm());
    let methods: &'static IoMethods = if with_shm {
        &Table::<F>::WITH_SHM
    } else {
        &Table::<F>::WITHOUT_SHM
    };
    let slot = Box::into_raw(Box::new(Slot {
        api,
        busy: false,
        file,
    }))
    .cast::<c_void>();
    let shell = Shell {
        base: ffi::File { pMethods: methods },
        slot,
    };
    // SAFETY: the caller guarantees the memory.
    unsafe { memory.cast::<Shell>().write(shell) };
}

/// The tables of methods for one type of file.
struct Table<F>(PhantomData<F>);

impl<F: VfsFile> Table<F> {
    const WITH_SHM: IoMethods = IoMethods {
        iVersion: 3,
        xClose: Some(close::<F>),
        xRead: Some(read::<F>),
        xWrite: Some(write::<F>),
        xTruncate: Some(truncate::<F>),
        xSync: Some(sync::<F>),
        xFileSize: Some(file_size::<F>),
        xLock: Some(lock::<F>),
        xUnlock: Some(unlock::<F>),
        xCheckReservedLock: Some(check_reserved::<F>),
        xFileControl: Some(file_control::<F>),
        xSectorSize: Some(sector_size::<F>),
        xDeviceCharacteristics: Some(device_characteristics::<F>),
        xShmMap: Some(shm_map::<F>),
        xShmLock: Some(shm_lock::<F>),
        xShmBarrier: Some(shm_barrier::<F>),
        xShmUnmap: Some(shm_unmap::<F>),
        xFetch: Some(fetch::<F>),
        xUnfetch: Some(unfetch::<F>),
    };

    /// Null shared-memory methods tell SQLite that there is no WAL.
    const WITHOUT_SHM: IoMethods = IoMethods {
        xShmMap: None,
        xShmLock: None,
        xShmBarrier: None,
        xShmUnmap: None,
        ..Self::WITH_SHM
    };
}

/// Runs a method of the file behind SQLite's memory.
///
/// # Safety
/// `file` is an open file that [`install`] made for the type `F`, and no other thread runs one of
/// its methods.
unsafe fn with<F: VfsFile, T>(
    file: *mut ffi::File,
    name: &str,
    fallback: T,
    body: impl FnOnce(&mut F) -> T,
) -> T {
    // SAFETY: the caller guarantees the file. `busy` keeps a nested call from getting a second
    // `&mut` to the file. So the fields are accessed through the pointer until `busy` is checked.
    unsafe {
        let slot = (*file.cast::<Shell>()).slot.cast::<Slot<F>>();
        let api = (*slot).api;
        if std::mem::replace(&mut (*slot).busy, true) {
            api.log(
                Code::MISUSE,
                &format!("densite: {name} called from within the same file"),
            );
            return fallback;
        }
        let answer = guard(api, name, fallback, || body(&mut (*slot).file));
        (*slot).busy = false;
        answer
    }
}

/// Gives `look` access to an open file, if [`install`] made it for the type `F`.
///
/// # Safety
/// `file` is null or an open file, and none of its methods is running.
pub(crate) unsafe fn peek<F: VfsFile, T>(
    file: *mut ffi::File,
    look: impl FnOnce(&F) -> T,
) -> Option<T> {
    type Close = unsafe extern "C" fn(*mut ffi::File) -> c_int;
    // SAFETY: the caller guarantees the file. The methods of an open file are a static table. Only
    // our table has this entry, and its files are shells.
    unsafe {
        let methods = file.as_ref()?.pMethods.as_ref()?;
        if !std::ptr::fn_addr_eq(methods.xClose?, close::<F> as Close) {
            return None;
        }
        let slot = (*file.cast::<Shell>()).slot.cast::<Slot<F>>();
        Some(look(&(*slot).file))
    }
}

unsafe extern "C" fn close<F: VfsFile>(file: *mut ffi::File) -> c_int {
    // SAFETY: SQLite closes an open file of ours once.
    let slot = unsafe {
        let shell = &mut *file.cast::<Shell>();
        shell.base.pMethods = std::ptr::null();
        Box::from_raw(std::mem::replace(&mut shell.slot, std::ptr::null_mut()).cast::<Slot<F>>())
    };
    let mut slot = slot;
    let api = slot.api;
    let rc = guard(api, "xClose", Code::IOERR_CLOSE.0, || {
        Code::of(slot.file.close()).0
    });
    guard(api, "xClose", (), || drop(slot));
    rc
}

unsafe extern "C" fn read<F: VfsFile>(
    file: *mut ffi::File,
    out: *mut c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    let fail = Code::IOERR_READ.0;
    let (Ok(len), Ok(offset)) = (usize::try_from(amount), u64::try_from(offset)) else {
        return fail;
    };
    // SAFETY: SQLite calls this on an open file of ours, with `amount` bytes to fill.
    unsafe {
        with::<F, _>(file, "xRead", fail, |file| {
            let buf: &mut [u8] = if len == 0 {
                &mut []
            } else {
                std::slice::from_raw_parts_mut(out.cast::<u8>(), len)
            };
            match file.read(buf, offset) {
                Ok(n) if n >= len => Code::OK.0,
                Ok(n) => {
                    // "If xRead() returns SQLITE_IOERR_SHORT_READ it must also fill in the
                    // unread portions of the buffer with zeros."
                    buf.get_mut(n..).unwrap_or_default().fill(0);
                    Code::IOERR_SHORT_READ.0
                }
                Err(code) => code.0,
            }
        })
    }
}

unsafe extern "C" fn write<F: VfsFile>(
    file: *mut ffi::File,
    data: *const c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    let fail = Code::IOERR_WRITE.0;
    let (Ok(len), Ok(offset)) = (usize::try_from(amount), u64::try_from(offset)) else {
        return fail;
    };
    // SAFETY: SQLite calls this on an open file of ours, with `amount` bytes to write.
    unsafe {
        with::<F, _>(file, "xWrite", fail, |file| {
            let buf: &[u8] = if len == 0 {
                &[]
            } else {
                std::slice::from_raw_parts(data.cast::<u8>(), len)
            };
            Code::of(file.write(buf, offset)).0
        })
    }
}

unsafe extern "C" fn truncate<F: VfsFile>(file: *mut ffi::File, len: i64) -> c_int {
    let fail = Code::IOERR_TRUNCATE.0;
    let Ok(len) = u64::try_from(len) else {
        return fail;
    };
    // SAFETY: SQLite calls this on an open file of ours.
    unsafe {
        with::<F, _>(file, "xTruncate", fail, |file| {
            Code::of(file.truncate(len)).0
        })
    }
}

unsafe extern "C" fn sync<F: VfsFile>(file: *mut ffi::File, flags: c_int) -> c_int {
    // SAFETY: SQLite calls this on an open file of ours.
    unsafe {
        with::<F, _>(file, "xSync", Code::IOERR_FSYNC.0, |file| {
            Code::of(file.sync(flags)).0
        })
    }
}

unsafe extern "C" fn file_size<F: VfsFile>(file: *mut ffi::File, out: *mut i64) -> c_int {
    let fail = Code::IOERR_FSTAT.0;
    // SAFETY: SQLite calls this on an open file of ours, with a place for the result.
    unsafe {
        with::<F, _>(file, "xFileSize", fail, |file| match file.file_size() {
            Ok(size) => match i64::try_from(size) {
                Ok(size) => {
                    *out = size;
                    Code::OK.0
                }
                Err(_) => fail,
            },
            Err(code) => code.0,
        })
    }
}

unsafe extern "C" fn lock<F: VfsFile>(file: *mut ffi::File, level: c_int) -> c_int {
    // SAFETY: SQLite calls this on an open file of ours.
    unsafe {
        with::<F, _>(file, "xLock", Code::IOERR_LOCK.0, |file| {
            Code::of(file.lock(level)).0
        })
    }
}

unsafe extern "C" fn unlock<F: VfsFile>(file: *mut ffi::File, level: c_int) -> c_int {
    // SAFETY: SQLite calls this on an open file of ours.
    unsafe {
        with::<F, _>(file, "xUnlock", Code::IOERR_UNLOCK.0, |file| {
            Code::of(file.unlock(level)).0
        })
    }
}

unsafe extern "C" fn check_reserved<F: VfsFile>(file: *mut ffi::File, out: *mut c_int) -> c_int {
    let fail = Code::IOERR_CHECKRESERVEDLOCK.0;
    // SAFETY: SQLite calls this on an open file of ours, with a place for the result.
    unsafe {
        with::<F, _>(file, "xCheckReservedLock", fail, |file| {
            match file.check_reserved() {
                Ok(yes) => {
                    *out = c_int::from(yes);
                    Code::OK.0
                }
                Err(code) => code.0,
            }
        })
    }
}

unsafe extern "C" fn file_control<F: VfsFile>(
    file: *mut ffi::File,
    op: c_int,
    arg: *mut c_void,
) -> c_int {
    // When a connection joins a shared cache, SQLite makes this call without the cache's mutex,
    // while another thread can be in a method of the file. No file of ours needs the connection.
    if op == ffi::FCNTL_PDB {
        return Code::NOTFOUND.0;
    }
    // SAFETY: SQLite calls this on an open file of ours. The caller of SQLite guarantees the
    // argument.
    unsafe {
        with::<F, _>(file, "xFileControl", Code::IOERR.0, |file| {
            file.file_control(op, arg).0
        })
    }
}

unsafe extern "C" fn sector_size<F: VfsFile>(file: *mut ffi::File) -> c_int {
    // SAFETY: SQLite calls this on an open file of ours.
    unsafe { with::<F, _>(file, "xSectorSize", 4096, |file| file.sector_size()) }
}

unsafe extern "C" fn device_characteristics<F: VfsFile>(file: *mut ffi::File) -> c_int {
    // SAFETY: SQLite calls this on an open file of ours.
    unsafe {
        with::<F, _>(file, "xDeviceCharacteristics", 0, |file| {
            file.device_characteristics()
        })
    }
}

unsafe extern "C" fn shm_map<F: VfsFile>(
    file: *mut ffi::File,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    let fail = (Code::IOERR_SHMMAP, std::ptr::null_mut());
    // SAFETY: SQLite calls this on an open file of ours, with a place for the address.
    unsafe {
        let (code, address) = with::<F, _>(file, "xShmMap", fail, |file| {
            file.shm_map(region, size, extend != 0)
        });
        *out = address;
        code.0
    }
}

unsafe extern "C" fn shm_lock<F: VfsFile>(
    file: *mut ffi::File,
    offset: c_int,
    n: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: SQLite calls this on an open file of ours.
    unsafe {
        with::<F, _>(file, "xShmLock", Code::IOERR_LOCK.0, |file| {
            Code::of(file.shm_lock(offset, n, flags)).0
        })
    }
}

unsafe extern "C" fn shm_barrier<F: VfsFile>(file: *mut ffi::File) {
    // SAFETY: SQLite calls this on an open file of ours.
    unsafe { with::<F, _>(file, "xShmBarrier", (), |file| file.shm_barrier()) }
}

unsafe extern "C" fn shm_unmap<F: VfsFile>(file: *mut ffi::File, delete: c_int) -> c_int {
    // SAFETY: SQLite calls this on an open file of ours.
    unsafe {
        with::<F, _>(file, "xShmUnmap", Code::IOERR.0, |file| {
            Code::of(file.shm_unmap(delete != 0)).0
        })
    }
}

unsafe extern "C" fn fetch<F: VfsFile>(
    file: *mut ffi::File,
    offset: i64,
    len: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls this on an open file of ours, with a place for the address.
    unsafe {
        *out = std::ptr::null_mut();
        let Ok(offset) = u64::try_from(offset) else {
            return Code::OK.0;
        };
        with::<F, _>(file, "xFetch", Code::OK.0, |file| {
            match file.fetch(offset, len) {
                Ok(address) => {
                    *out = address;
                    Code::OK.0
                }
                Err(code) => code.0,
            }
        })
    }
}

unsafe extern "C" fn unfetch<F: VfsFile>(
    file: *mut ffi::File,
    offset: i64,
    page: *mut c_void,
) -> c_int {
    let Ok(offset) = u64::try_from(offset) else {
        return Code::OK.0;
    };
    // SAFETY: SQLite calls this on an open file of ours, with a pointer that xFetch returned.
    unsafe {
        with::<F, _>(file, "xUnfetch", Code::OK.0, |file| {
            Code::of(file.unfetch(offset, page)).0
        })
    }
}
