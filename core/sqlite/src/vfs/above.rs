//! A file that wraps one of the host's.

use super::VfsFile;
use crate::{Code, HostFile};
use std::ffi::c_void;

type Done = std::result::Result<(), Code>;

/// An open file that wraps one of the host's. Each call of [`VfsFile`] goes to the host, unless the
/// wrapper overrides it.
///
/// Each method corresponds to the method of the same name of [`VfsFile`]; the errors of the default
/// methods are the host's.
///
/// Bytes are never mapped: [`VfsFile::fetch`] gives SQLite no pointers, even if the host could. So
/// every byte is read by [`Above::read`] and written by [`Above::write`].
pub trait Above: Send + 'static {
    /// The file below. Always the same one.
    fn host(&self) -> &HostFile;

    /// Closes the host's file.
    ///
    /// # Errors
    /// The host's.
    fn close(&mut self) -> Done {
        self.host().close()
    }

    /// Reads all of `buf`. After the end of the file the host returns `IOERR_SHORT_READ` and fills
    /// the rest with zeros.
    ///
    /// # Errors
    /// The host's.
    fn read(&mut self, buf: &mut [u8], offset: u64) -> std::result::Result<usize, Code> {
        self.host().read(buf, offset)?;
        Ok(buf.len())
    }

    /// Writes all of `buf`.
    ///
    /// # Errors
    /// The host's.
    fn write(&mut self, buf: &[u8], offset: u64) -> Done {
        self.host().write(buf, offset)
    }

    /// Sets the length in bytes.
    ///
    /// # Errors
    /// The host's.
    fn truncate(&mut self, len: u64) -> Done {
        self.host().truncate(len)
    }

    /// Makes the file durable.
    ///
    /// # Errors
    /// The host's.
    fn sync(&mut self, flags: i32) -> Done {
        self.host().sync_with(flags)
    }

    /// The length in bytes.
    ///
    /// # Errors
    /// The host's.
    fn file_size(&mut self) -> std::result::Result<u64, Code> {
        self.host().file_size()
    }

    /// Any other operation.
    ///
    /// # Safety
    /// As for [`VfsFile::file_control`].
    unsafe fn file_control(&mut self, op: i32, arg: *mut c_void) -> Code {
        // SAFETY: the argument of the same operation, as the caller guarantees.
        unsafe { self.host().file_control(op, arg) }
    }

    /// Whether the host's file can share memory between connections.
    fn has_shm(&mut self) -> bool {
        self.host().has_shm()
    }

    /// Takes or releases locks of the shared memory.
    ///
    /// # Errors
    /// The host's.
    fn shm_lock(&mut self, offset: i32, n: i32, flags: i32) -> Done {
        self.host().shm_lock(offset, n, flags)
    }

    /// Unmaps the shared memory.
    ///
    /// # Errors
    /// The host's.
    fn shm_unmap(&mut self, delete: bool) -> Done {
        self.host().shm_unmap(delete)
    }
}

/// Calls without a method in [`Above`] (locks of the file, device characteristics, mapping of
/// shared memory) go directly to the host.
impl<F: Above> VfsFile for F {
    fn close(&mut self) -> Done {
        Above::close(self)
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> std::result::Result<usize, Code> {
        Above::read(self, buf, offset)
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Done {
        Above::write(self, buf, offset)
    }

    fn truncate(&mut self, len: u64) -> Done {
        Above::truncate(self, len)
    }

    fn sync(&mut self, flags: i32) -> Done {
        Above::sync(self, flags)
    }

    fn file_size(&mut self) -> std::result::Result<u64, Code> {
        Above::file_size(self)
    }

    fn lock(&mut self, level: i32) -> Done {
        self.host().lock(level)
    }

    fn unlock(&mut self, level: i32) -> Done {
        self.host().unlock(level)
    }

    fn check_reserved(&mut self) -> std::result::Result<bool, Code> {
        self.host().check_reserved()
    }

    unsafe fn file_control(&mut self, op: i32, arg: *mut c_void) -> Code {
        // SAFETY: the argument of the same operation, as the caller guarantees.
        unsafe { Above::file_control(self, op, arg) }
    }

    fn sector_size(&mut self) -> i32 {
        self.host().sector_size()
    }

    fn device_characteristics(&mut self) -> i32 {
        self.host().device_characteristics()
    }

    fn has_shm(&mut self) -> bool {
        Above::has_shm(self)
    }

    fn shm_map(&mut self, region: i32, size: i32, extend: bool) -> (Code, *mut c_void) {
        self.host().shm_map(region, size, extend)
    }

    fn shm_lock(&mut self, offset: i32, n: i32, flags: i32) -> Done {
        Above::shm_lock(self, offset, n, flags)
    }

    fn shm_barrier(&mut self) {
        self.host().shm_barrier();
    }

    fn shm_unmap(&mut self, delete: bool) -> Done {
        Above::shm_unmap(self, delete)
    }
}
