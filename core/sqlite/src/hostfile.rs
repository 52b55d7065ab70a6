//! An open file of the host's VFS, and as a file of the disk contract.

use crate::Code;
use crate::api::Api;
use crate::ffi::{self, IoMethods};
use crate::filename::OwnedName;
use densite_disk as disk;
use densite_disk::sync::Mutex;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// The most bytes in one read or write of the host: SQLite's largest page, which is the most that
/// SQLite itself asks for. SQLite's unix VFS uses only the low 17 bits of a length.
const CHUNK: usize = 1 << 16;

/// How often a read at a moving end of file is tried again.
const SHORT_READ_TRIES: u32 = 16;

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

    /// The error of a write. SQLite's VFSs return SQLITE_FULL only for a full disk, and an I/O error
    /// for a quota or a limit on the length of files. For all of these the caller can do the same.
    fn write_error(&self, op: disk::Op, code: Code) -> disk::Error {
        let error = disk_error(op, code);
        if error.kind != disk::ErrorKind::Io {
            return error;
        }
        let mut errno: c_int = 0;
        // SAFETY: this operation takes a pointer to an `int`.
        let known = unsafe {
            self.file_control(ffi::FCNTL_LAST_ERRNO, (&raw mut errno).cast::<c_void>()) == Code::OK
        };
        let system = std::io::Error::from_raw_os_error(errno);
        if known && disk::Error::from_io(op, &system).kind == disk::ErrorKind::Full {
            let kind = disk::ErrorKind::Full;
            return disk::Error { kind, ..error };
        }
        error
    }
}

/// A SQLite code as an error of the disk contract.
fn disk_error(op: disk::Op, code: Code) -> disk::Error {
    let kind = match code.primary() {
        Code::FULL => disk::ErrorKind::Full,
        Code::PERM | Code::READONLY => disk::ErrorKind::Permission,
        _ => disk::ErrorKind::Io,
    };
    disk::Error {
        kind,
        op,
        code: Some(code.0),
    }
}

impl disk::File for HostFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> disk::Result<usize> {
        let fail = |code| disk_error(disk::Op::Read, code);
        let mut done = 0;
        for chunk in buf.chunks_mut(CHUNK) {
            let at = offset + done as u64;
            let mut want = chunk.len();
            let mut tries = 0;
            // The host reports only that a read was short. The file's length shows how short. The
            // file can grow or shrink in between, so bytes count only when they are read in full.
            while want > 0 {
                let Some(part) = chunk.get_mut(..want) else {
                    break;
                };
                match self.read(part, at) {
                    Ok(()) => break,
                    Err(Code::IOERR_SHORT_READ) => {
                        let left = self.file_size().map_err(fail)?.saturating_sub(at);
                        want = usize::try_from(left).unwrap_or(0).min(chunk.len());
                        tries += 1;
                        if tries > SHORT_READ_TRIES {
                            return Err(fail(Code::IOERR_READ));
                        }
                    }
                    Err(code) => return Err(fail(code)),
                }
            }
            done += want;
            if want < chunk.len() {
                break;
            }
        }
        Ok(done)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> disk::Result<()> {
        let mut at = offset;
        for chunk in buf.chunks(CHUNK) {
            self.write(chunk, at)
                .map_err(|code| self.write_error(disk::Op::Write, code))?;
            at += chunk.len() as u64;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> disk::Result<()> {
        let fail = |code| self.write_error(disk::Op::Truncate, code);
        self.truncate(len).map_err(fail)?;
        // xTruncate need not grow a file, so this writes a byte at the end.
        if self.file_size().map_err(fail)? < len {
            self.write(&[0], len - 1).map_err(fail)?;
        }
        Ok(())
    }

    fn sync(&self, kind: disk::SyncKind) -> disk::Result<()> {
        let strength = if self.0.lock().full_sync {
            ffi::SYNC_FULL
        } else {
            ffi::SYNC_NORMAL
        };
        let flags = match kind {
            disk::SyncKind::Data => strength | ffi::SYNC_DATAONLY,
            disk::SyncKind::Full => strength,
        };
        self.sync_with(flags)
            .map_err(|code| disk_error(disk::Op::Sync, code))
    }

    fn len(&self) -> disk::Result<u64> {
        self.file_size()
            .map_err(|code| disk_error(disk::Op::Len, code))
    }
}
