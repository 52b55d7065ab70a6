//! The callbacks of `sqlite3_vfs`.

use super::methods::{self, Shell};
use super::{Opened, Vfs};
use crate::api::Api;
use crate::ffi;
use crate::filename::FileName;
use crate::host::HostVfs;
use crate::panic::guard;
use crate::{Code, Error, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// How much longer than a database's path SQLite lets the names of the files beside it be.
const BESIDE: usize = "-journal".len();

/// The data that `pAppData` points to.
struct Data<V> {
    api: Api,
    /// The host's VFS, for calls that are forwarded without asking `vfs`.
    host: HostVfs,
    vfs: V,
}

/// Registers a VFS under a name; it stays registered for ever. It hides another VFS with the same
/// name, so check with [`registered`](super::registered) first.
///
/// # Errors
/// SQLite's; [`Code::TOOBIG`] if the host's files are too large for SQLite's field.
pub fn register_vfs<V: Vfs>(api: Api, name: &CStr, vfs: V, make_default: bool) -> Result<HostVfs> {
    let host = vfs.host();
    if host.api() != api {
        return Err(Error::new(
            Code::MISUSE,
            "the VFS below belongs to another SQLite library",
        ));
    }
    let below = host.raw();
    let size = host.file_size().max(size_of::<Shell>());
    let size = c_int::try_from(size).map_err(|_| Error::from(Code::TOOBIG))?;
    let longest = vfs.longest_own_path();
    // SQLite can call at any time, so both are leaked.
    let name: &'static CStr = Box::leak(CString::from(name).into_boxed_c_str());
    let data: &'static Data<V> = Box::leak(Box::new(Data { api, host, vfs }));
    let table = Box::new(ffi::Vfs {
        iVersion: below.iVersion.min(3),
        szOsFile: size,
        mxPathname: below.mxPathname.max(longest),
        pNext: std::ptr::null_mut(),
        zName: name.as_ptr(),
        pAppData: std::ptr::from_ref(data).cast_mut().cast::<c_void>(),
        xOpen: Some(open::<V>),
        xDelete: Some(delete::<V>),
        xAccess: Some(access::<V>),
        xFullPathname: Some(full_pathname::<V>),
        xDlOpen: below.xDlOpen.and(Some(dl_open::<V>)),
        xDlError: below.xDlError.and(Some(dl_error::<V>)),
        xDlSym: below.xDlSym.and(Some(dl_sym::<V>)),
        xDlClose: below.xDlClose.and(Some(dl_close::<V>)),
        xRandomness: Some(randomness::<V>),
        xSleep: Some(sleep::<V>),
        xCurrentTime: Some(current_time::<V>),
        xGetLastError: below.xGetLastError.and(Some(get_last_error::<V>)),
        xCurrentTimeInt64: since(below, 2, below.xCurrentTimeInt64)
            .and(Some(current_time_int64::<V>)),
        xSetSystemCall: since(below, 3, below.xSetSystemCall).and(Some(set_system_call::<V>)),
        xGetSystemCall: since(below, 3, below.xGetSystemCall).and(Some(get_system_call::<V>)),
        xNextSystemCall: since(below, 3, below.xNextSystemCall).and(Some(next_system_call::<V>)),
    });
    // SAFETY: a complete VFS that is never freed.
    let rc = unsafe { (api.raw().vfs_register)(Box::into_raw(table), c_int::from(make_default)) };
    Code(rc).ok()?;
    HostVfs::find(api, Some(name)).ok_or_else(|| Error::from(Code::INTERNAL))
}

/// An entry of a later version of the table; `None` if the host's table is older.
fn since<T>(vfs: &ffi::Vfs, version: c_int, entry: Option<T>) -> Option<T> {
    entry.filter(|_| vfs.iVersion >= version)
}

/// Whether a VFS was made by [`register_vfs`] of this build for the type `V`.
pub(super) fn is_ours<V: Vfs>(vfs: &HostVfs) -> bool {
    vfs.raw().xOpen.is_some_and(|found| {
        std::ptr::fn_addr_eq(
            found,
            open::<V>
                as unsafe extern "C" fn(
                    *mut ffi::Vfs,
                    *const c_char,
                    *mut ffi::File,
                    c_int,
                    *mut c_int,
                ) -> c_int,
        )
    })
}

/// The VFS below one of ours.
pub(super) fn below<V: Vfs>(vfs: &HostVfs) -> HostVfs {
    // SAFETY: the caller has checked that it is ours.
    unsafe { data::<V>(vfs.as_ptr()) }.host
}

/// The data of a VFS of ours.
///
/// # Safety
/// [`register_vfs`] registered `vfs` for the type `V`.
unsafe fn data<V: Vfs>(vfs: *mut ffi::Vfs) -> &'static Data<V> {
    // SAFETY: `register_vfs` has set it; it is leaked and never changed.
    unsafe { &*(*vfs).pAppData.cast::<Data<V>>() }
}

unsafe extern "C" fn open<V: Vfs>(
    vfs: *mut ffi::Vfs,
    name: *const c_char,
    file: *mut ffi::File,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls this for a VFS of ours, with memory of the required size. A failed open
    // leaves null methods, so that SQLite does not close the file.
    let data = unsafe {
        (*file).pMethods = std::ptr::null();
        data::<V>(vfs)
    };
    let answer = guard(data.api, "xOpen", Err(Code::CANTOPEN), || {
        let with_parameters = ffi::OPEN_MAIN_DB | ffi::OPEN_MAIN_JOURNAL | ffi::OPEN_WAL;
        // SAFETY: null or a terminated string; for these kinds of files it is in SQLite's own form.
        // It lives until the file is closed.
        let name = unsafe {
            if flags & with_parameters != 0 {
                FileName::from_ptr(data.api, name)
            } else {
                FileName::from_plain_ptr(data.api, name)
            }
        };
        data.vfs.open(name, flags)
    });
    let flags = match answer {
        Ok(Opened::File {
            file: opened,
            flags,
        }) => {
            // SAFETY: the memory is large enough for a `Shell`.
            unsafe { methods::install(data.api, file, opened) };
            flags
        }
        Ok(Opened::Companion {
            file: opened,
            flags,
        }) => {
            // SAFETY: as above.
            unsafe { methods::install(data.api, file, opened) };
            flags
        }
        Ok(host @ (Opened::Host | Opened::HostAs(_))) => {
            let name = match host {
                Opened::HostAs(other) => other.as_ptr(),
                _ => name,
            };
            let code = match data.host.raw().xOpen {
                // SAFETY: the host's method with SQLite's own arguments, or a name that lives as long,
                // and enough memory.
                Some(call) => unsafe { call(data.host.as_ptr(), name, file, flags, out_flags) },
                None => Code::CANTOPEN.0,
            };
            if code != Code::OK.0 {
                guard(data.api, "xOpen", (), || {
                    // SAFETY: null or a terminated string that lives until SQLite has the answer.
                    let path = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
                    data.vfs.not_opened(path, Code(code));
                });
            }
            return code;
        }
        Err(code) => return code.0,
    };
    if !out_flags.is_null() {
        // SAFETY: `out_flags` is valid for writing.
        unsafe { *out_flags = flags };
    }
    Code::OK.0
}

unsafe extern "C" fn delete<V: Vfs>(
    vfs: *mut ffi::Vfs,
    path: *const c_char,
    sync_dir: c_int,
) -> c_int {
    // SAFETY: a VFS of ours and a terminated path.
    let (data, path) = unsafe { (data::<V>(vfs), CStr::from_ptr(path)) };
    guard(data.api, "xDelete", Code::IOERR_DELETE.0, || {
        Code::of(data.vfs.delete(path, sync_dir != 0)).0
    })
}

unsafe extern "C" fn access<V: Vfs>(
    vfs: *mut ffi::Vfs,
    path: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: a VFS of ours and a terminated path.
    let (data, path) = unsafe { (data::<V>(vfs), CStr::from_ptr(path)) };
    match guard(data.api, "xAccess", Err(Code::IOERR_ACCESS), || {
        data.vfs.access(path, flags)
    }) {
        Ok(yes) => {
            // SAFETY: `out` is valid for writing.
            unsafe { *out = c_int::from(yes) };
            Code::OK.0
        }
        Err(code) => code.0,
    }
}

unsafe extern "C" fn full_pathname<V: Vfs>(
    vfs: *mut ffi::Vfs,
    path: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: a VFS of ours and a terminated path.
    let (data, name) = unsafe { (data::<V>(vfs), CStr::from_ptr(path)) };
    let answer = guard(data.api, "xFullPathname", Err(Code::CANTOPEN), || {
        data.vfs.full_pathname(name)
    });
    match answer {
        Ok(Some(full)) => {
            let bytes = full.as_bytes_with_nul();
            if usize::try_from(room).is_ok_and(|room| bytes.len() <= room) {
                // SAFETY: `out` has `room` bytes, and the path fits.
                unsafe { out.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
                Code::OK.0
            } else {
                Code::CANTOPEN.0
            }
        }
        Ok(None) => {
            // The host's buffers have its own limit, and SQLite's check goes by ours.
            let most = data.host.raw().mxPathname;
            let Some(call) = data.host.raw().xFullPathname else {
                return Code::CANTOPEN.0;
            };
            // SAFETY: the host's method with SQLite's own arguments, and no more room than there is.
            let code = unsafe { call(data.host.as_ptr(), path, room.min(most + 1), out) };
            if is_found(code) && most < data.vfs.longest_own_path() {
                // SAFETY: a terminated path, as the host found one.
                let found = unsafe { CStr::from_ptr(out) }.count_bytes();
                if found + BESIDE > usize::try_from(most).unwrap_or(0) {
                    return Code::CANTOPEN.0;
                }
            }
            code
        }
        Err(code) => code.0,
    }
}

/// Whether xFullPathname found a path: SQLITE_OK_SYMLINK (512) is a success too.
fn is_found(code: c_int) -> bool {
    code == Code::OK.0 || code == 512
}

/// A method that is forwarded to the host's VFS.
macro_rules! forward {
    ($name:ident, $method:ident, $missing:expr, ($($arg:ident: $ty:ty),*) -> $out:ty) => {
        unsafe extern "C" fn $name<V: Vfs>(vfs: *mut ffi::Vfs $(, $arg: $ty)*) -> $out {
            // SAFETY: a VFS of ours.
            let host = unsafe { data::<V>(vfs) }.host;
            match host.raw().$method {
                // SAFETY: the host's method with SQLite's own arguments.
                Some(call) => unsafe { call(host.as_ptr() $(, $arg)*) },
                None => $missing,
            }
        }
    };
}

forward!(dl_open, xDlOpen, std::ptr::null_mut(), (path: *const c_char) -> *mut c_void);
forward!(dl_error, xDlError, (), (room: c_int, out: *mut c_char) -> ());
forward!(dl_sym, xDlSym, None, (library: *mut c_void, name: *const c_char) -> ffi::SyscallPtr);
forward!(dl_close, xDlClose, (), (library: *mut c_void) -> ());
forward!(randomness, xRandomness, 0, (n: c_int, out: *mut c_char) -> c_int);
forward!(sleep, xSleep, 0, (microseconds: c_int) -> c_int);
forward!(current_time, xCurrentTime, Code::ERROR.0, (out: *mut f64) -> c_int);
forward!(current_time_int64, xCurrentTimeInt64, Code::ERROR.0, (out: *mut i64) -> c_int);
forward!(get_last_error, xGetLastError, 0, (room: c_int, out: *mut c_char) -> c_int);
forward!(
    set_system_call,
    xSetSystemCall,
    Code::NOTFOUND.0,
    (name: *const c_char, call: ffi::SyscallPtr) -> c_int
);
forward!(get_system_call, xGetSystemCall, None, (name: *const c_char) -> ffi::SyscallPtr);
forward!(next_system_call, xNextSystemCall, std::ptr::null(), (name: *const c_char) -> *const c_char);
