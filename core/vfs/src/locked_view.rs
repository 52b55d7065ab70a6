//! The VFS "densite-locked-view": a database that its caller has locked, as a main database file.
//!
//! One connection can read it and change what it sees. The file itself is neither locked again nor
//! written. Names are tokens that live as long as their [`LockedView`]. There are no locks and no
//! files beside it, so the journal mode must be `OFF` or `MEMORY`. The output of VACUUM INTO
//! ([`LockedView::output`]) has a journal that drops its contents: after a failure the caller
//! discards the output. A database in WAL mode, whose WAL the caller has checkpointed, appears in a
//! rollback mode.

use crate::vfs::host_vfs;
use densite_disk::sync::Mutex;
use densite_sqlite::PerProcess;
use densite_sqlite::{Api, Code, Error, FileName, HostVfs, Opened, Result, Vfs, VfsFile, ffi};
use densite_sqlite_format::header::show_rollback_mode;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of the VFS.
const LOCKED_VIEW_VFS: &CStr = c"densite-locked-view";

/// The bytes that SQLite reads and writes instead of the file.
pub trait ViewBytes: Send + Sync {
    /// Reads at `offset`. Returns how many bytes were read before the end.
    ///
    /// # Errors
    /// A code for SQLite.
    fn read(&self, buf: &mut [u8], offset: u64) -> std::result::Result<usize, Code>;
    /// Writes all of `buf` at `offset`.
    ///
    /// # Errors
    /// A code for SQLite.
    fn write(&self, buf: &[u8], offset: u64) -> std::result::Result<(), Code>;
    /// Sets the length in bytes.
    ///
    /// # Errors
    /// A code for SQLite.
    fn truncate(&self, len: u64) -> std::result::Result<(), Code>;
    /// The length in bytes.
    fn len(&self) -> u64;
    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[derive(Default)]
struct Tokens {
    next: AtomicU64,
    views: Mutex<HashMap<String, Arc<dyn ViewBytes>>>,
}

static TOKENS: PerProcess<Tokens> = PerProcess::new();

/// A locked view that SQLite can open. Dropping it invalidates its name.
pub struct LockedView {
    token: String,
}

impl LockedView {
    /// Makes `bytes` a database that SQLite can open by [`LockedView::uri`].
    ///
    /// SQLite's errors, and an error if this build has not registered the VFS "densite".
    pub fn new(api: Api, bytes: Arc<dyn ViewBytes>) -> Result<LockedView> {
        let host = host_vfs(api).ok_or_else(|| {
            Error::new(
                Code::ERROR,
                "the VFS \"densite\" is not registered with this SQLite",
            )
        })?;
        if HostVfs::find(api, Some(LOCKED_VIEW_VFS)).is_none() {
            densite_sqlite::register_vfs(api, LOCKED_VIEW_VFS, LockedViewVfs { host }, false)?;
        }
        let tokens = TOKENS.get();
        let token = format!("view-{}", tokens.next.fetch_add(1, Ordering::Relaxed));
        tokens.views.lock().insert(token.clone(), bytes);
        Ok(LockedView { token })
    }

    /// Makes empty `bytes` a database that SQLite can write by [`LockedView::uri`]. Journal writes
    /// are dropped, so nothing can be rolled back: VACUUM INTO always gives its destination a
    /// journal.
    ///
    /// # Errors
    /// As [`LockedView::new`].
    pub fn output(api: Api, bytes: Arc<dyn ViewBytes>) -> Result<LockedView> {
        let view = LockedView::new(api, bytes)?;
        let mut tokens = TOKENS.get().views.lock();
        tokens.insert(view.journal(), Arc::new(Dropped));
        drop(tokens);
        Ok(view)
    }

    fn journal(&self) -> String {
        format!("{}-journal", self.token)
    }

    /// The URI to open it by.
    pub fn uri(&self) -> String {
        format!(
            "file:{}?vfs={}",
            self.token,
            LOCKED_VIEW_VFS.to_string_lossy()
        )
    }
}

impl Drop for LockedView {
    fn drop(&mut self) {
        let mut tokens = TOKENS.get().views.lock();
        tokens.remove(&self.token);
        tokens.remove(&self.journal());
    }
}

/// A file that drops everything written to it.
struct Dropped;

impl ViewBytes for Dropped {
    fn read(&self, _: &mut [u8], _: u64) -> std::result::Result<usize, Code> {
        Ok(0)
    }

    fn write(&self, _: &[u8], _: u64) -> std::result::Result<(), Code> {
        Ok(())
    }

    fn truncate(&self, _: u64) -> std::result::Result<(), Code> {
        Ok(())
    }

    fn len(&self) -> u64 {
        0
    }
}

struct LockedViewVfs {
    host: HostVfs,
}

impl Vfs for LockedViewVfs {
    type File = LockedViewFile;
    type Companion = LockedViewFile;

    fn host(&self) -> HostVfs {
        self.host
    }

    fn open(
        &self,
        name: Option<FileName<'_>>,
        flags: i32,
    ) -> std::result::Result<Opened<LockedViewFile, LockedViewFile>, Code> {
        let of_database = ffi::OPEN_MAIN_DB | ffi::OPEN_MAIN_JOURNAL | ffi::OPEN_WAL;
        let Some(name) = name.filter(|_| flags & of_database != 0) else {
            // A temporary file.
            return Ok(Opened::Host);
        };
        let token = name.path().to_string_lossy();
        let view = TOKENS.get().views.lock().get(&*token).cloned();
        let file = LockedViewFile(view.ok_or(Code::CANTOPEN)?);
        Ok(Opened::File { file, flags })
    }

    fn delete(&self, path: &CStr, sync_dir: bool) -> std::result::Result<(), Code> {
        let token = path.to_string_lossy();
        match is_token(path) {
            true if TOKENS.get().views.lock().contains_key(&*token) => Ok(()),
            true => Err(Code::IOERR_DELETE_NOENT),
            false => self.host.delete(path, sync_dir),
        }
    }

    fn access(&self, path: &CStr, flags: i32) -> std::result::Result<bool, Code> {
        match is_token(path) {
            true => Ok(false),
            false => self.host.access(path, flags),
        }
    }

    fn full_pathname(&self, path: &CStr) -> std::result::Result<Option<CString>, Code> {
        Ok(is_token(path).then(|| path.into()))
    }
}

/// Whether a path is a locked view, or its journal or WAL.
fn is_token(path: &CStr) -> bool {
    let path = path.to_string_lossy();
    let name = path.trim_end_matches("-journal").trim_end_matches("-wal");
    TOKENS.get().views.lock().contains_key(name)
}

/// An open locked view.
struct LockedViewFile(Arc<dyn ViewBytes>);

impl VfsFile for LockedViewFile {
    fn close(&mut self) -> std::result::Result<(), Code> {
        Ok(())
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> std::result::Result<usize, Code> {
        let n = self.0.read(buf, offset)?;
        if let Some(bytes) = buf.get_mut(..n) {
            show_rollback_mode(bytes, offset);
        }
        Ok(n)
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> std::result::Result<(), Code> {
        self.0.write(buf, offset)
    }

    fn truncate(&mut self, len: u64) -> std::result::Result<(), Code> {
        self.0.truncate(len)
    }

    fn sync(&mut self, _flags: i32) -> std::result::Result<(), Code> {
        Ok(())
    }

    fn file_size(&mut self) -> std::result::Result<u64, Code> {
        Ok(self.0.len())
    }

    fn lock(&mut self, _level: i32) -> std::result::Result<(), Code> {
        Ok(())
    }

    fn unlock(&mut self, _level: i32) -> std::result::Result<(), Code> {
        Ok(())
    }

    fn check_reserved(&mut self) -> std::result::Result<bool, Code> {
        Ok(false)
    }

    unsafe fn file_control(&mut self, _op: i32, _arg: *mut c_void) -> Code {
        Code::NOTFOUND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_locked_views_are_tokens() {
        let tokens = &TOKENS.get().views;
        tokens.lock().insert("view-x".into(), Arc::new(Dropped));
        assert!(is_token(c"view-x") && is_token(c"view-x-journal") && is_token(c"view-x-wal"));
        assert!(!is_token(c"view-y") && !is_token(c"/view-x"));
        tokens.lock().remove("view-x");
        assert!(!is_token(c"view-x"));
    }
}
