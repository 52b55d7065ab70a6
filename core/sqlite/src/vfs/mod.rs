//! Implementing a VFS: two traits, and the callbacks through which SQLite calls them.

mod above;
mod methods;
mod shim;

use crate::api::Api;
use crate::filename::FileName;
use crate::host::HostVfs;
use crate::hostfile::HostFile;
use crate::{Code, Result};
use std::ffi::{CStr, CString, c_void};

pub use above::Above;
pub(crate) use methods::peek;
pub use shim::register_vfs;

/// The result of [`Vfs::open`].
pub enum Opened<F, C> {
    /// A file of this VFS.
    File {
        /// The file.
        file: F,
        /// The flags that it was actually opened with (`OPEN_READONLY` instead of
        /// `OPEN_READWRITE`).
        flags: i32,
    },
    /// A companion file of a database: a file of this VFS of the other type.
    Companion {
        /// The file.
        file: C,
        /// As for `File`.
        flags: i32,
    },
    /// The host's VFS opens the file itself, in SQLite's memory. From then on SQLite calls the
    /// host's methods directly.
    Host,
    /// The same under another name. Its memory lives until SQLite has closed the file.
    HostAs(FileName<'static>),
}

/// A virtual file system over another one.
///
/// All other calls go to the host's VFS unchanged: loading libraries, randomness, time, sleeping,
/// system calls.
pub trait Vfs: Send + Sync + 'static {
    /// An open database.
    type File: VfsFile;
    /// An open journal or WAL that this VFS handles itself.
    type Companion: VfsFile;

    /// The VFS below. Always the same one.
    fn host(&self) -> HostVfs;

    /// Opens a file. `flags` are `OPEN_...`. The memory of `name` lives until the file is closed.
    /// Without a name it is a temporary file.
    ///
    /// # Errors
    /// A code for SQLite, usually [`Code::CANTOPEN`].
    fn open(
        &self,
        name: Option<FileName<'_>>,
        flags: i32,
    ) -> std::result::Result<Opened<Self::File, Self::Companion>, Code>;

    /// The host could not open a file that it was to open itself ([`Opened::Host`]). Without a path
    /// it is a temporary file.
    fn not_opened(&self, path: Option<&CStr>, code: Code) {
        let _ = (path, code);
    }

    /// Deletes a file; with `sync_dir`, durably.
    ///
    /// # Errors
    /// A code for SQLite; [`Code::IOERR_DELETE_NOENT`] if there is no such file.
    fn delete(&self, path: &CStr, sync_dir: bool) -> std::result::Result<(), Code> {
        self.host().delete(path, sync_dir)
    }

    /// Whether a file exists or is accessible, by `flags` (`ACCESS_...`).
    ///
    /// # Errors
    /// A code for SQLite.
    fn access(&self, path: &CStr, flags: i32) -> std::result::Result<bool, Code> {
        self.host().access(path, flags)
    }

    /// The length in bytes of the longest path that [`Vfs::full_pathname`] itself returns. The paths
    /// of the host's VFS have its own limit.
    fn longest_own_path(&self) -> i32 {
        0
    }

    /// The full path of a name; with `None`, the host's VFS answers.
    ///
    /// # Errors
    /// A code for SQLite.
    fn full_pathname(&self, path: &CStr) -> std::result::Result<Option<CString>, Code> {
        let _ = path;
        Ok(None)
    }
}

/// One open file of a [`Vfs`]. The names are those of `sqlite3_io_methods`.
///
/// Errors are codes for SQLite. A panic in a method is caught and becomes an error code.
pub trait VfsFile: Send + 'static {
    /// Closes the file. It is dropped afterwards, even after an error.
    ///
    /// # Errors
    /// A code; SQLite ignores it.
    fn close(&mut self) -> std::result::Result<(), Code>;

    /// Reads at `offset`. Returns how many bytes were read before the end of the file. The rest of
    /// `buf` is then filled with zeros, and SQLite gets [`Code::IOERR_SHORT_READ`].
    ///
    /// # Errors
    /// A code. An implementation that returns `IOERR_SHORT_READ` itself has filled `buf`.
    fn read(&mut self, buf: &mut [u8], offset: u64) -> std::result::Result<usize, Code>;

    /// Writes all of `buf` at `offset`.
    ///
    /// # Errors
    /// A code.
    fn write(&mut self, buf: &[u8], offset: u64) -> std::result::Result<(), Code>;

    /// Sets the length in bytes.
    ///
    /// # Errors
    /// A code.
    fn truncate(&mut self, len: u64) -> std::result::Result<(), Code>;

    /// Makes the file durable; `flags` are `SYNC_...`.
    ///
    /// # Errors
    /// A code.
    fn sync(&mut self, flags: i32) -> std::result::Result<(), Code>;

    /// The length in bytes.
    ///
    /// # Errors
    /// A code.
    fn file_size(&mut self) -> std::result::Result<u64, Code>;

    /// Takes a lock, `LOCK_SHARED` to `LOCK_EXCLUSIVE`.
    ///
    /// # Errors
    /// [`Code::BUSY`] if another connection holds a conflicting lock.
    fn lock(&mut self, level: i32) -> std::result::Result<(), Code>;

    /// Releases locks, down to `LOCK_SHARED` or `LOCK_NONE`.
    ///
    /// # Errors
    /// A code.
    fn unlock(&mut self, level: i32) -> std::result::Result<(), Code>;

    /// Whether any connection holds RESERVED or more.
    ///
    /// # Errors
    /// A code.
    fn check_reserved(&mut self) -> std::result::Result<bool, Code>;

    /// Any other operation; [`Code::NOTFOUND`] for an unknown one.
    ///
    /// # Safety
    /// `arg` is what SQLite's documentation, or this VFS's own, requires for `op`.
    unsafe fn file_control(&mut self, op: i32, arg: *mut c_void) -> Code;

    /// The sector size in bytes.
    fn sector_size(&mut self) -> i32 {
        4096
    }

    /// Bits `IOCAP_...`.
    fn device_characteristics(&mut self) -> i32 {
        0
    }

    /// Whether the shared-memory methods work; called once, after opening. Without them, a WAL is
    /// possible only with locking_mode=EXCLUSIVE.
    fn has_shm(&mut self) -> bool {
        false
    }

    /// Maps a region of shared memory. Returns the code and the region's address. The address is
    /// null if the region does not exist and `extend` is false.
    fn shm_map(&mut self, region: i32, size: i32, extend: bool) -> (Code, *mut c_void) {
        let _ = (region, size, extend);
        (Code::IOERR_SHMMAP, std::ptr::null_mut())
    }

    /// Takes or releases `n` locks from `offset`; flags `SHM_...`.
    ///
    /// # Errors
    /// [`Code::BUSY`] if another connection holds a conflicting lock.
    fn shm_lock(&mut self, offset: i32, n: i32, flags: i32) -> std::result::Result<(), Code> {
        let _ = (offset, n, flags);
        Err(Code::IOERR_LOCK)
    }

    /// A memory barrier.
    fn shm_barrier(&mut self) {}

    /// Unmaps the shared memory; with `delete`, also deletes it.
    ///
    /// # Errors
    /// A code.
    fn shm_unmap(&mut self, delete: bool) -> std::result::Result<(), Code> {
        let _ = delete;
        Ok(())
    }

    /// A pointer to mapped bytes; if it is null, SQLite reads them.
    ///
    /// # Errors
    /// A code.
    fn fetch(&mut self, offset: u64, len: i32) -> std::result::Result<*mut c_void, Code> {
        let _ = (offset, len);
        Ok(std::ptr::null_mut())
    }

    /// Releases a pointer of [`VfsFile::fetch`]. If it is null, unmaps the bytes from `offset` on.
    ///
    /// # Safety
    /// `page` is null, or `fetch` returned it for that offset and it was not released yet.
    ///
    /// # Errors
    /// A code.
    unsafe fn unfetch(&mut self, offset: u64, page: *mut c_void) -> std::result::Result<(), Code> {
        let _ = (offset, page);
        Ok(())
    }
}

/// An open file that no VFS has opened: `file` answers its calls.
pub fn file_of<F: VfsFile>(api: Api, file: F) -> HostFile {
    let size = size_of::<methods::Shell>();
    let open = |memory| {
        // SAFETY: `HostFile` gives `size` bytes, aligned for pointers, that are no open file.
        unsafe { methods::install(api, memory, file) };
        Code::OK
    };
    // SAFETY: `size` is what `install` requires, which opens the file as xOpen does. It has no name.
    let opened = unsafe { HostFile::opened_by(api, size, None, open) };
    opened.unwrap_or_else(|_| HostFile::closed(api))
}

/// Whether a VFS with a name is registered, and by which build.
#[derive(Clone, Copy)]
pub enum Registered {
    /// No VFS has that name.
    No,
    /// One of the same type, registered by this build.
    Ours {
        /// The registered VFS.
        vfs: HostVfs,
        /// The VFS below it.
        host: HostVfs,
    },
    /// A VFS of another type, or of another build.
    Foreign(HostVfs),
}

/// Finds a name among the registered VFSes. `V` is the type that counts as ours.
pub fn registered<V: Vfs>(api: Api, name: &CStr) -> Registered {
    match HostVfs::find(api, Some(name)) {
        None => Registered::No,
        Some(vfs) if shim::is_ours::<V>(&vfs) => Registered::Ours {
            vfs,
            host: shim::below::<V>(&vfs),
        },
        Some(vfs) => Registered::Foreign(vfs),
    }
}

/// Makes a registered VFS the default one.
///
/// # Errors
/// SQLite's.
pub fn make_default(vfs: HostVfs) -> Result<()> {
    // SAFETY: a registered VFS; registering it again only changes its place in the list.
    let rc = unsafe { (vfs.api().raw().vfs_register)(vfs.as_ptr(), 1) };
    Ok(Code(rc).ok()?)
}
