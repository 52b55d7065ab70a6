//! A VFS of the host: the one below ours.

use crate::api::Api;
use crate::ffi;
use crate::filename::{FileName, OwnedName};
use crate::hostfile::HostFile;
use crate::{Code, Error, Result};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::NonNull;

/// A registered VFS. It must stay registered for ever, as SQLite requires of every VFS in use.
#[derive(Clone, Copy)]
pub struct HostVfs {
    api: Api,
    ptr: NonNull<ffi::Vfs>,
}

// SAFETY: by its contract a `sqlite3_vfs` can be called from any thread; this crate never writes to
// it.
unsafe impl Send for HostVfs {}
// SAFETY: as above.
unsafe impl Sync for HostVfs {}

impl HostVfs {
    /// Finds a VFS by name, or the default one.
    pub fn find(api: Api, name: Option<&CStr>) -> Option<HostVfs> {
        Some(HostVfs {
            api,
            ptr: api.find_vfs(name)?,
        })
    }

    /// The library it is registered with.
    pub fn api(self) -> Api {
        self.api
    }

    /// The raw pointer, for calls of SQLite.
    pub fn as_ptr(self) -> *mut ffi::Vfs {
        self.ptr.as_ptr()
    }

    pub(crate) fn raw(&self) -> &ffi::Vfs {
        // SAFETY: it is registered, so it is alive. SQLite changes only `pNext`, which is
        // pointer-sized and is not read here.
        unsafe { self.ptr.as_ref() }
    }

    /// Its name.
    pub fn name(self) -> String {
        let name = self.raw().zName;
        if name.is_null() {
            return String::new();
        }
        // SAFETY: a registered VFS has a terminated name.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    }

    /// The size of an open file's memory, in bytes.
    pub fn file_size(self) -> usize {
        usize::try_from(self.raw().szOsFile)
            .unwrap_or(0)
            .max(size_of::<ffi::File>())
    }

    /// Opens a file whose name came from SQLite, or a temporary one if there is no name. Returns
    /// the file and the flags it was opened with.
    ///
    /// # Errors
    /// The code of the VFS.
    ///
    /// # Safety
    /// The memory of `name` lives until the file is closed.
    pub unsafe fn open(
        self,
        name: Option<FileName<'_>>,
        flags: i32,
    ) -> std::result::Result<(HostFile, i32), Code> {
        // SAFETY: the caller guarantees it.
        unsafe { self.open_file(name.map(FileName::as_ptr), None, flags) }
    }

    /// Opens a file and keeps `owned` with it.
    ///
    /// # Safety
    /// `name` is null or a name of this library that lives until the file is closed. `owned`, if
    /// given, is what keeps it alive.
    unsafe fn open_file(
        self,
        name: Option<*const c_char>,
        owned: Option<OwnedName>,
        flags: i32,
    ) -> std::result::Result<(HostFile, i32), Code> {
        let call = self.raw().xOpen.ok_or(Code::CANTOPEN)?;
        let name = name.unwrap_or(std::ptr::null());
        let mut out_flags = flags;
        // SAFETY: the VFS's own method, with zeroed, aligned memory of the size that it requires.
        // The caller guarantees the name.
        let open = |file: *mut ffi::File| unsafe {
            Code(call(self.as_ptr(), name, file, flags, &raw mut out_flags))
        };
        // SAFETY: `open` is this VFS's xOpen; the caller guarantees the name's lifetime.
        let file = unsafe { HostFile::opened_by(self.api, self.file_size(), owned, open) }?;
        Ok((file, out_flags))
    }

    /// Opens a file by a path and parameters.
    ///
    /// # Errors
    /// The code of the VFS.
    pub fn open_path(
        self,
        path: &CStr,
        parameters: &[(&CStr, &CStr)],
        flags: i32,
    ) -> Result<(HostFile, i32)> {
        let name = OwnedName::new(self.api, path, parameters)?;
        let ptr = name.as_name().as_ptr();
        // SAFETY: the file keeps the name alive.
        unsafe { self.open_file(Some(ptr), Some(name), flags) }.map_err(|code| Error {
            errno: self.last_errno(code),
            ..Error::from(code)
        })
    }

    /// The operating system's error number (xGetLastError) for a `code` that this thread's newest
    /// call of xOpen or xShmMap has returned. `None` if no file failed to open.
    pub fn last_errno(self, code: Code) -> Option<i32> {
        if code.primary() != Code::CANTOPEN {
            return None;
        }
        let call = self.raw().xGetLastError?;
        // SAFETY: the VFS's own method. SQLite calls it without a buffer too.
        Some(unsafe { call(self.as_ptr(), 0, std::ptr::null_mut()) }).filter(|n| *n != 0)
    }

    /// Deletes a file; with `sync_dir`, durably.
    ///
    /// # Errors
    /// The code of the VFS.
    pub fn delete(self, path: &CStr, sync_dir: bool) -> std::result::Result<(), Code> {
        let Some(call) = self.raw().xDelete else {
            return Err(Code::IOERR_DELETE);
        };
        // SAFETY: the VFS's own method with a terminated path.
        Code(unsafe { call(self.as_ptr(), path.as_ptr(), c_int::from(sync_dir)) }).ok()
    }

    /// Checks whether a file exists or is accessible (`ACCESS_...`).
    ///
    /// # Errors
    /// The code of the VFS.
    pub fn access(self, path: &CStr, flags: i32) -> std::result::Result<bool, Code> {
        let Some(call) = self.raw().xAccess else {
            return Err(Code::IOERR_ACCESS);
        };
        let mut out = 0;
        // SAFETY: the VFS's own method with a terminated path and a place for the result.
        Code(unsafe { call(self.as_ptr(), path.as_ptr(), flags, &raw mut out) }).ok()?;
        Ok(out != 0)
    }

    /// The full path of a name.
    ///
    /// # Errors
    /// The code of the VFS.
    pub fn full_pathname(self, path: &CStr) -> Result<CString> {
        let Some(call) = self.raw().xFullPathname else {
            return Err(Error::from(Code::CANTOPEN));
        };
        let size = usize::try_from(self.raw().mxPathname).unwrap_or(0).max(512) + 1;
        let mut out: Vec<u8> = vec![0; size];
        let room = c_int::try_from(size).unwrap_or(c_int::MAX);
        // SAFETY: the VFS's own method with a terminated path and `room` bytes for the result.
        let rc = unsafe {
            call(
                self.as_ptr(),
                path.as_ptr(),
                room,
                out.as_mut_ptr().cast::<c_char>(),
            )
        };
        // SQLITE_OK_SYMLINK (512) is a success too.
        if rc != Code::OK.0 && rc != 512 {
            return Err(Error::from(Code(rc)));
        }
        let end = out.iter().position(|&b| b == 0).unwrap_or(0);
        out.truncate(end);
        Ok(CString::new(out).unwrap_or_default())
    }
}
