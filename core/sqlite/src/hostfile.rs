//! An open file of the host's VFS.

mod disk;

use crate::Code;
use crate::api::Api;
use crate::ffi::{self, IoMethods};
use crate::filename::OwnedName;
use densite_disk::sync::Mutex;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// An open file. Clones are the same file. [`HostFile::close`] or dropping the last clone closes
/// it. After that every call returns an error.
///
/// Only one call runs at a time, because a VFS need not allow two threads in one file.
#[derive(Clone)]
pub struct HostFile(Arc<Mutex<Open>>);

impl std::fmt::Debug for HostFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostFile({:p})", Arc::as_ptr(&self.0))
    }
}

struct Open {
    api: Api,
    /// The `sqlite3_file`, in words so that it is aligned; empty once closed.
    memory: Box<[u64]>,
    /// Whether a sync of all metadata uses `SYNC_FULL` instead of `SYNC_NORMAL`.
    full_sync: bool,
    /// Freed after the file is closed, because the file can keep a pointer to it.
    _name: Option<OwnedName>,
}

// SAFETY: a `sqlite3_file` is not bound to a thread, and the mutex around this admits one thread at
// a time.
unsafe impl Send for Open {}

impl Open {
    /// The file and its methods; `None` if it is closed.
    fn parts(&mut self) -> Option<(*mut ffi::File, &'static IoMethods)> {
        if self.memory.is_empty() {
            return None;
        }
        let file = self.memory.as_mut_ptr().cast::<ffi::File>();
        // SAFETY: the memory holds a `sqlite3_file` that was opened. Its methods, if not null, are
        // a static table of its VFS.
        let methods = unsafe { (*file).pMethods.as_ref() }?;
        Some((file, methods))
    }

    fn close(&mut self) -> Result<(), Code> {
        let rc = match self.parts() {
            Some((file, methods)) => match methods.xClose {
                // SAFETY: it is open and not used again, because its memory is freed below.
                Some(close) => Code(unsafe { close(file) }).ok(),
                None => Ok(()),
            },
            None => Ok(()),
        };
        self.memory = Box::default();
        rc
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // An error cannot be returned here.
        let _ = self.close();
    }
}

/// Calls a method of the open file. Gives `$missing` if the file is closed or the VFS has no such
/// method.
macro_rules! call {
    ($self:ident, $method:ident, $missing:expr $(, $arg:expr)*) => {{
        let mut open = $self.0.lock();
        match open.parts() {
            Some((file, IoMethods { $method: Some(method), .. })) => {
                // SAFETY: a method of an open file, called by one thread at a time, with arguments
                // whose memory the caller keeps alive during the call.
                unsafe { method(file $(, $arg)*) }
            }
            _ => $missing,
        }
    }};
}

/// The same for methods of later versions of the table.
macro_rules! call_since {
    ($self:ident, $version:literal, $method:ident, $missing:expr $(, $arg:expr)*) => {{
        let mut open = $self.0.lock();
        match open.parts() {
            Some((file, methods)) if methods.iVersion >= $version => match methods.$method {
                // SAFETY: as in `call`, and the table has this entry.
                Some(method) => unsafe { method(file $(, $arg)*) },
                None => $missing,
            },
            _ => $missing,
        }
    }};
}

impl HostFile {
    /// The file that a VFS opens by `open`, which gets `size` zeroed bytes for its `sqlite3_file`.
    /// `name` is kept until the file is closed.
    ///
    /// # Errors
    /// The code that `open` returns.
    ///
    /// # Safety
    /// `size` is at least what the VFS requires. `open` is the xOpen of a VFS of this library on
    /// the memory that it gets, and the file's name lives until the file is closed.
    pub(crate) unsafe fn opened_by(
        api: Api,
        size: usize,
        name: Option<OwnedName>,
        open: impl FnOnce(*mut ffi::File) -> Code,
    ) -> Result<HostFile, Code> {
        let words = size.max(size_of::<ffi::File>()).div_ceil(size_of::<u64>());
        let mut opened = Open {
            api,
            memory: vec![0u64; words].into_boxed_slice(),
            full_sync: false,
            _name: name,
        };
        // SQLite closes a file that failed to open if it has methods. So does `drop` here.
        open(opened.memory.as_mut_ptr().cast::<ffi::File>()).ok()?;
        Ok(HostFile(Arc::new(Mutex::new(opened))))
    }

    /// A closed file: every call returns an error.
    pub fn closed(api: Api) -> HostFile {
        HostFile(Arc::new(Mutex::new(Open {
            api,
            memory: Box::default(),
            full_sync: false,
            _name: None,
        })))
    }

    /// The library it belongs to.
    pub fn api(&self) -> Api {
        self.0.lock().api
    }

    /// Closes the file now, even if there are clones.
    ///
    /// # Errors
    /// The code of the VFS; the file is closed in any case.
    pub fn close(&self) -> Result<(), Code> {
        self.0.lock().close()
    }

    /// Whether it can share memory between connections (a WAL index).
    pub fn has_shm(&self) -> bool {
        self.0
            .lock()
            .parts()
            .is_some_and(|(_, m)| m.iVersion >= 2 && m.xShmMap.is_some())
    }

    /// xRead. On [`Code::IOERR_SHORT_READ`], the rest of `buf` is zeros.
    ///
    /// # Errors
    /// The code of the VFS.
    pub fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), Code> {
        let amount = c_int::try_from(buf.len()).map_err(|_| Code::IOERR_READ)?;
        let offset = i64::try_from(offset).map_err(|_| Code::IOERR_READ)?;
        Code(call!(
            self,
            xRead,
            Code::IOERR_READ.0,
            buf.as_mut_ptr().cast(),
            amount,
            offset
        ))
        .ok()
    }

    /// xWrite.
    ///
    /// # Errors
    /// The code of the VFS.
    pub fn write(&self, buf: &[u8], offset: u64) -> Result<(), Code> {
        let amount = c_int::try_from(buf.len()).map_err(|_| Code::IOERR_WRITE)?;
        let offset = i64::try_from(offset).map_err(|_| Code::IOERR_WRITE)?;
        Code(call!(
            self,
            xWrite,
            Code::IOERR_WRITE.0,
            buf.as_ptr().cast(),
            amount,
            offset
        ))
        .ok()
    }

    /// xTruncate, to a length in bytes.
    ///
    /// # Errors
    /// The code of the VFS.
    pub fn truncate(&self, len: u64) -> Result<(), Code> {
        let len = i64::try_from(len).map_err(|_| Code::IOERR_TRUNCATE)?;
        Code(call!(self, xTruncate, Code::IOERR_TRUNCATE.0, len)).ok()
    }

    /// xSync with SQLite's flags.
    ///
    /// # Errors
    /// The code of the VFS.
    pub fn sync_with(&self, flags: i32) -> Result<(), Code> {
        Code(call!(self, xSync, Code::IOERR_FSYNC.0, flags)).ok()
    }

    /// Sets the strength of the syncs of the disk contract, as in the flags of SQLite's newest
    /// xSync, where `PRAGMA fullfsync` has set it.
    pub fn set_sync_strength(&self, flags: i32) {
        self.0.lock().full_sync = flags & 0x0f == ffi::SYNC_FULL;
    }

    /// xFileSize in bytes.
    ///
    /// # Errors
    /// The code of the VFS.
    pub fn file_size(&self) -> Result<u64, Code> {
        let mut size: i64 = 0;
        Code(call!(self, xFileSize, Code::IOERR_FSTAT.0, &raw mut size)).ok()?;
        u64::try_from(size).map_err(|_| Code::IOERR_FSTAT)
    }

    /// xLock, to a level `LOCK_...`.
    ///
    /// # Errors
    /// The code of the VFS; [`Code::BUSY`] if another connection holds a conflicting lock.
    pub fn lock(&self, level: i32) -> Result<(), Code> {
        Code(call!(self, xLock, Code::IOERR_LOCK.0, level)).ok()
    }

    /// xUnlock, down to a level `LOCK_...`.
    ///
    /// # Errors
    /// The code of the VFS.
    pub fn unlock(&self, level: i32) -> Result<(), Code> {
        Code(call!(self, xUnlock, Code::IOERR_UNLOCK.0, level)).ok()
    }

    /// xCheckReservedLock: whether any connection holds RESERVED or more.
    ///
    /// # Errors
    /// The code of the VFS.
    pub fn check_reserved(&self) -> Result<bool, Code> {
        let mut out = 0;
        let missing = Code::IOERR_CHECKRESERVEDLOCK.0;
        Code(call!(self, xCheckReservedLock, missing, &raw mut out)).ok()?;
        Ok(out != 0)
    }

    /// xFileControl.
    ///
    /// # Safety
    /// `arg` is what SQLite's documentation requires for `op`.
    pub unsafe fn file_control(&self, op: i32, arg: *mut c_void) -> Code {
        Code(call!(self, xFileControl, Code::NOTFOUND.0, op, arg))
    }

    /// xSectorSize in bytes.
    pub fn sector_size(&self) -> i32 {
        call!(self, xSectorSize, 4096)
    }

    /// xDeviceCharacteristics: bits `IOCAP_...`.
    pub fn device_characteristics(&self) -> i32 {
        call!(self, xDeviceCharacteristics, 0)
    }

    /// xShmMap: the code, and the region's address (null if there is none).
    pub fn shm_map(&self, region: i32, size: i32, extend: bool) -> (Code, *mut c_void) {
        let mut out = std::ptr::null_mut();
        let missing = Code::IOERR_SHMMAP.0;
        let rc = call_since!(
            self,
            2,
            xShmMap,
            missing,
            region,
            size,
            c_int::from(extend),
            &raw mut out
        );
        (Code(rc), out)
    }

    /// xShmLock on `n` locks from `offset`; flags `SHM_...`.
    ///
    /// # Errors
    /// The code of the VFS; [`Code::BUSY`] if another connection holds a conflicting lock.
    pub fn shm_lock(&self, offset: i32, n: i32, flags: i32) -> Result<(), Code> {
        Code(call_since!(
            self,
            2,
            xShmLock,
            Code::IOERR_LOCK.0,
            offset,
            n,
            flags
        ))
        .ok()
    }

    /// xShmBarrier.
    pub fn shm_barrier(&self) {
        call_since!(self, 2, xShmBarrier, ());
    }

    /// xShmUnmap.
    ///
    /// # Errors
    /// The code of the VFS.
    pub fn shm_unmap(&self, delete: bool) -> Result<(), Code> {
        Code(call_since!(
            self,
            2,
            xShmUnmap,
            Code::OK.0,
            c_int::from(delete)
        ))
        .ok()
    }

    /// xFetch: a pointer to mapped bytes, or null if they are not mapped.
    ///
    /// # Errors
    /// The code of the VFS.
    pub fn fetch(&self, offset: i64, len: i32) -> Result<*mut c_void, Code> {
        let mut out = std::ptr::null_mut();
        Code(call_since!(
            self,
            3,
            xFetch,
            Code::OK.0,
            offset,
            len,
            &raw mut out
        ))
        .ok()?;
        Ok(out)
    }

    /// xUnfetch.
    ///
    /// # Safety
    /// `page` is null, or [`HostFile::fetch`] returned it for that offset and it was not released
    /// yet.
    ///
    /// # Errors
    /// The code of the VFS.
    pub unsafe fn unfetch(&self, offset: i64, page: *mut c_void) -> Result<(), Code> {
        Code(call_since!(self, 3, xUnfetch, Code::OK.0, offset, page)).ok()
    }
}
