//! The host's file of a main database, and the name that SQLite opened it by.
//!
//! From that name SQLite derives the journal and the WAL beside the file. The name lives until the
//! file is closed.

use crate::identity::Identity;
use crate::place::Place;
use crate::remote::RemoteFile;
use densite_sqlite::{Api, Code, FileName, HostFile, HostVfs, ffi};

/// A main database file of the host, with its name.
pub(crate) struct NamedFile {
    vfs: HostVfs,
    host: HostFile,
    /// SQLite's name. Lives until the file is closed.
    name: *const std::ffi::c_char,
    /// The path, for messages. Without secrets, if it is a URL.
    path: String,
    /// The remote file that `host` reads.
    remote: Option<RemoteFile>,
}

// SAFETY: `name` points to memory of SQLite that does not change while the file is open. All other
// fields are Send.
unsafe impl Send for NamedFile {}

impl NamedFile {
    /// Opens the file. Returns it and the flags that it was opened with.
    ///
    /// # Errors
    /// The host's.
    ///
    /// # Safety
    /// `name` lives until the file is closed.
    pub(crate) unsafe fn open(
        vfs: HostVfs,
        name: FileName<'_>,
        flags: i32,
    ) -> Result<(NamedFile, i32), Code> {
        // SAFETY: the caller guarantees it.
        let (host, flags) = unsafe { vfs.open(Some(name), flags) }?;
        Ok((NamedFile::over(vfs, host, name), flags))
    }

    /// A file that is not open: each call to the host fails.
    ///
    /// # Safety
    /// As [`NamedFile::open`].
    pub(crate) unsafe fn closed(vfs: HostVfs, name: FileName<'_>) -> NamedFile {
        NamedFile::over(vfs, HostFile::closed(vfs.api()), name)
    }

    fn over(vfs: HostVfs, host: HostFile, name: FileName<'_>) -> NamedFile {
        NamedFile {
            vfs,
            host,
            name: name.as_ptr(),
            path: name.path().to_string_lossy().into_owned(),
            remote: None,
        }
    }

    /// A remote file.
    ///
    /// # Safety
    /// As [`NamedFile::open`].
    pub(crate) unsafe fn remote(vfs: HostVfs, name: FileName<'_>, remote: RemoteFile) -> NamedFile {
        let mut file = NamedFile::over(vfs, remote.host_file(), name);
        remote.url().clone_into(&mut file.path);
        file.remote = Some(remote);
        file
    }

    /// The remote file, if it is one.
    pub(crate) fn as_remote(&self) -> Option<&RemoteFile> {
        self.remote.as_ref()
    }

    /// The SQLite library that uses it.
    pub(crate) fn api(&self) -> Api {
        self.vfs.api()
    }

    /// The host's VFS.
    pub(crate) fn vfs(&self) -> HostVfs {
        self.vfs
    }

    /// The file itself.
    pub(crate) fn host(&self) -> &HostFile {
        &self.host
    }

    /// The path, for messages.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// SQLite's name for it.
    pub(crate) fn name(&self) -> Option<FileName<'_>> {
        // SAFETY: the name lives until the file is closed, as `open` requires.
        unsafe { FileName::from_ptr(self.api(), self.name) }
    }

    /// SQLite's name for its journal.
    pub(crate) fn journal(&self) -> Option<FileName<'_>> {
        self.name()?.journal()
    }

    /// Where it is.
    pub(crate) fn place(&self) -> Place {
        self.name().map_or(Place::Unknown, |name| {
            Place::of(self.vfs, &self.host, name.path())
        })
    }

    /// The file's identity.
    pub(crate) fn identity(&self) -> Identity {
        if let Some(remote) = &self.remote {
            return Identity::of_remote(&remote.identity());
        }
        let path = self.name().map_or(c"", FileName::path);
        Identity::of(self.vfs, &self.host, path)
    }

    /// Whether a WAL exists beside it; false if the host cannot tell.
    pub(crate) fn has_wal(&self) -> bool {
        self.name()
            .and_then(FileName::wal)
            .is_some_and(|wal| self.vfs.access(wal.path(), ffi::ACCESS_EXISTS) == Ok(true))
    }

    /// As [`NamedFile::may_be_hot`]; true if the host cannot tell.
    pub(crate) fn journal_may_be_hot(&self) -> bool {
        self.may_be_hot().unwrap_or(true)
    }

    /// Whether a journal beside the file might be hot. By SQLite's own rule that is a journal whose
    /// first byte is not zero. A journal that cannot be opened counts too.
    ///
    /// # Errors
    /// The host's, if it cannot tell.
    pub(crate) fn may_be_hot(&self) -> Result<bool, Code> {
        let Some(journal) = self.journal() else {
            return Ok(true);
        };
        if !self.vfs.access(journal.path(), ffi::ACCESS_EXISTS)? {
            return Ok(false);
        }
        let flags = ffi::OPEN_READONLY | ffi::OPEN_MAIN_JOURNAL;
        // SAFETY: the name is part of the database's name, and this file is closed at the end of
        // this function.
        let Ok((file, _)) = (unsafe { self.vfs.open(Some(journal), flags) }) else {
            return Ok(true);
        };
        let mut first = [0];
        match file.read(&mut first, 0) {
            Ok(()) => Ok(first != [0]),
            Err(Code::IOERR_SHORT_READ) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Takes EXCLUSIVE in the three steps that other connections do not notice
    /// (`main_file/rest.rs`), for a connection at this level. Returns whether it is held. If not,
    /// lower locks can be held.
    pub(crate) fn lock_alone(&self, level: i32) -> bool {
        let host = &self.host;
        (level >= ffi::LOCK_SHARED || host.lock(ffi::LOCK_SHARED).is_ok())
            && !self.journal_may_be_hot()
            && host.lock(ffi::LOCK_RESERVED).is_ok()
            && host.lock(ffi::LOCK_EXCLUSIVE).is_ok()
    }
}
