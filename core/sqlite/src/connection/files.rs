//! A connection's database files: names, state, syncs and checkpoints.

use super::Connection;
use crate::ffi;
use crate::{Code, Error, Result};
use std::ffi::{CStr, c_void};

/// The result of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpointed {
    /// Frames in the WAL; -1 if the database is not in WAL mode.
    pub wal_frames: i32,
    /// How many of these are now in the database file.
    pub checkpointed: i32,
}

impl Connection {
    /// The path of a schema's database file; empty for a temporary or in-memory one. `None` if
    /// there is no such schema, or the path is not UTF-8.
    pub fn filename(&self, schema: &CStr) -> Option<String> {
        // SAFETY: an open connection and a terminated string.
        let name = unsafe { (self.api.raw().db_filename)(self.as_ptr(), schema.as_ptr()) };
        if name.is_null() {
            return None;
        }
        // SAFETY: not null, so a terminated string that lives as long as the schema.
        let name = unsafe { CStr::from_ptr(name) };
        // A lossy conversion could give another file's name.
        name.to_str().ok().map(str::to_owned)
    }

    /// Whether a schema's database is read-only; `None` if there is no such schema.
    pub fn is_readonly(&self, schema: &CStr) -> Option<bool> {
        // SAFETY: an open connection and a terminated string.
        match unsafe { (self.api.raw().db_readonly)(self.as_ptr(), schema.as_ptr()) } {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Passes an operation to the schema's file (`sqlite3_file_control`); `None` means main.
    ///
    /// # Safety
    /// `arg` is what SQLite's documentation, or the VFS's own, requires for `op`.
    pub unsafe fn file_control(&self, schema: Option<&CStr>, op: i32, arg: *mut c_void) -> Code {
        // SAFETY: an open connection, null or a terminated string; the caller guarantees `arg`.
        Code(unsafe {
            (self.api.raw().file_control)(
                self.as_ptr(),
                schema.map_or(std::ptr::null(), CStr::as_ptr),
                op,
                arg,
            )
        })
    }

    /// A number that changes with each write transaction that any connection commits to a schema's
    /// database. A rollback does not change it. `None` if there is no such schema.
    pub fn data_version(&self, schema: &CStr) -> Option<u32> {
        let mut version: std::ffi::c_uint = 0;
        // SAFETY: this operation writes an unsigned int to its argument.
        let rc = unsafe {
            let place = (&raw mut version).cast::<c_void>();
            self.file_control(Some(schema), ffi::FCNTL_DATA_VERSION, place)
        };
        (rc == Code::OK).then_some(version)
    }

    /// Whether a schema's file no longer has its name: it was moved, removed or replaced. False if
    /// the VFS cannot tell.
    pub fn has_moved(&self, schema: &CStr) -> bool {
        let mut moved: std::ffi::c_int = 0;
        // SAFETY: this operation writes an int to its argument.
        let rc = unsafe {
            let place = (&raw mut moved).cast::<c_void>();
            self.file_control(Some(schema), ffi::FCNTL_HAS_MOVED, place)
        };
        rc == Code::OK && moved != 0
    }

    /// The name of the VFS of a schema's file.
    pub fn vfs_name(&self, schema: Option<&CStr>) -> Option<String> {
        let mut name: *mut std::ffi::c_char = std::ptr::null_mut();
        // SAFETY: this operation takes a `char**` and stores allocated text there.
        let rc = unsafe {
            self.file_control(schema, ffi::FCNTL_VFSNAME, (&raw mut name).cast::<c_void>())
        };
        if rc != Code::OK || name.is_null() {
            return None;
        }
        // SAFETY: terminated text of SQLite's allocator that the caller frees.
        unsafe {
            let text = CStr::from_ptr(name).to_string_lossy().into_owned();
            (self.api.raw().free)(name.cast());
            Some(text)
        }
    }

    /// The name under which the VFS of a schema's file is registered, to open another connection
    /// with it.
    pub fn registered_vfs(&self, schema: &CStr) -> Option<String> {
        let mut vfs: *mut ffi::Vfs = std::ptr::null_mut();
        // SAFETY: this operation takes a `sqlite3_vfs**`.
        let rc = unsafe {
            let place = (&raw mut vfs).cast::<c_void>();
            self.file_control(Some(schema), ffi::FCNTL_VFS_POINTER, place)
        };
        if rc != Code::OK || vfs.is_null() {
            return None;
        }
        // SAFETY: a VFS in use is registered and has a terminated name.
        Some(
            unsafe { CStr::from_ptr((*vfs).zName) }
                .to_string_lossy()
                .into_owned(),
        )
    }

    /// The URI parameters with which a schema's database was opened.
    pub fn uri_parameters(&self, schema: &CStr) -> Vec<(String, String)> {
        let text = |c: &CStr| c.to_string_lossy().into_owned();
        // SAFETY: an open connection and a terminated string. The name is SQLite's own and lives as
        // long as the schema.
        let name = unsafe {
            let name = (self.api.raw().db_filename)(self.as_ptr(), schema.as_ptr());
            crate::FileName::from_ptr(self.api, name)
        };
        let Some(name) = name.filter(|n| !n.path().is_empty()) else {
            return Vec::new();
        };
        let value = |key| name.parameter(key).map(text).unwrap_or_default();
        name.keys().map(|key| (text(key), value(key))).collect()
    }

    /// Makes durable what any connection has written to a schema's database file (xSync), but not
    /// its WAL or journal. Do not call it if [`Connection::shares_cache`]: it bypasses SQLite's
    /// locks of a shared cache.
    ///
    /// # Errors
    /// The code of the VFS.
    pub fn sync_file(&self, schema: &CStr) -> Result<()> {
        let file = self.file(schema)?;
        // SAFETY: the open file of this connection, which no other thread uses during the call. Its
        // methods are null or a static table.
        let sync = unsafe {
            let methods = file.as_ref().and_then(|f| f.pMethods.as_ref());
            methods.and_then(|m| m.xSync)
        };
        let sync = sync.ok_or_else(|| Error::from(Code::IOERR_FSYNC))?;
        // SAFETY: the file's own method.
        Ok(Code(unsafe { sync(file, ffi::SYNC_NORMAL) }).ok()?)
    }

    /// The open file of a schema's database.
    pub(crate) fn file(&self, schema: &CStr) -> Result<*mut ffi::File> {
        let mut file: *mut ffi::File = std::ptr::null_mut();
        // SAFETY: this operation takes a `sqlite3_file**`.
        let rc = unsafe {
            let place = (&raw mut file).cast::<c_void>();
            self.file_control(Some(schema), ffi::FCNTL_FILE_POINTER, place)
        };
        rc.ok()?;
        Ok(file)
    }

    /// Runs a checkpoint; `mode` is `CHECKPOINT_...`.
    ///
    /// # Errors
    /// SQLite's; [`Code::BUSY`] if another connection prevents it.
    pub fn checkpoint(&self, schema: Option<&CStr>, mode: i32) -> Result<Checkpointed> {
        let (mut wal_frames, mut checkpointed) = (-1, -1);
        // SAFETY: an open connection, null or a terminated string, places for two numbers.
        let rc = unsafe {
            (self.api.raw().wal_checkpoint_v2)(
                self.as_ptr(),
                schema.map_or(std::ptr::null(), CStr::as_ptr),
                mode,
                &raw mut wal_frames,
                &raw mut checkpointed,
            )
        };
        self.check(rc)?;
        Ok(Checkpointed {
            wal_frames,
            checkpointed,
        })
    }
}
