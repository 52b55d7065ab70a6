//! The host's file of a main database, the name that SQLite opened it by, and the names of the files
//! beside it. They live until the file is closed.

use crate::companions::{Beside, Found, Which, find};
use crate::identity::Identity;
use crate::path_check::{Place, has_system_files};
use crate::remote::RemoteFile;
use densite_disk::{Dir as _, RealDir};
use densite_sqlite::{Api, Code, FileName, HostFile, HostVfs, ffi};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

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
    /// `None` if no file is beside it: it is remote, or not open.
    beside: Option<Beside>,
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
        let mut file = NamedFile::over(vfs, host, name);
        // SAFETY: as above.
        let beside = unsafe { Beside::of(vfs.api(), name) };
        file.beside = Some(beside.map_err(|error| error.code)?);
        Ok((file, flags))
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
            beside: None,
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

    /// The name of its journal.
    pub(crate) fn journal(&self) -> Option<FileName<'_>> {
        self.beside.as_ref()?.now(Which::Journal)
    }

    /// The file is plain, or it is not: the names of its journal and its WAL depend on that.
    /// Returns whether they have changed.
    pub(crate) fn set_plain(&self, is_plain: bool) -> bool {
        (self.beside.as_ref()).is_some_and(|beside| beside.set_plain(is_plain))
    }

    /// Gives a WAL with SQLite's name its right name, if the file has one of its own: RBU renames
    /// its WAL into place under the lock that this connection holds. Returns whether it did.
    pub(crate) fn adopt_wal(&self) -> bool {
        let names = (self.beside.as_ref()).map(|b| (b.plain(Which::Wal), b.now(Which::Wal)));
        let Some((Some(from), Some(to))) = names else {
            return false;
        };
        if from.path() == to.path() || !has_system_files(self.vfs) {
            return false;
        }
        let is_there = self.vfs.access(from.path(), ffi::ACCESS_EXISTS) == Ok(true);
        let path = |name: FileName<'_>| PathBuf::from(OsStr::from_bytes(name.path().to_bytes()));
        let (from, to) = (path(from), path(to));
        let (Some(dir), Some(from), Some(to)) = (from.parent(), from.file_name(), to.file_name())
        else {
            return false;
        };
        let names = from.to_str().zip(to.to_str());
        is_there && names.is_some_and(|(from, to)| RealDir::new(dir).rename(from, to).is_ok())
    }

    /// What there is with the name that SQLite would give to the journal or the WAL.
    ///
    /// # Errors
    /// The host's, if it cannot tell.
    pub(crate) fn foreign(&self, which: Which) -> Result<Found, Code> {
        self.plain(which)
            .map_or(Ok(Found::Nothing), |name| find(self.vfs, name, which))
    }

    /// Removes the journal and the WAL with SQLite's names, which SQLite itself does if the database
    /// is empty.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn remove_foreign(&self) -> Result<(), Code> {
        for name in [Which::Journal, Which::Wal].map(|which| self.plain(which)) {
            if let Some(name) = name
                && self.vfs.access(name.path(), ffi::ACCESS_EXISTS)?
            {
                self.vfs.delete(name.path(), true)?;
            }
        }
        Ok(())
    }

    /// SQLite's name of a file beside it.
    pub(crate) fn plain(&self, which: Which) -> Option<FileName<'_>> {
        self.beside.as_ref()?.plain(which)
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
        match self.journal() {
            Some(journal) => Ok(find(self.vfs, journal, Which::Journal)? == Found::Hot),
            None => Ok(true),
        }
    }

    /// Takes EXCLUSIVE in the three steps that other connections do not notice
    /// (`main_file/at_rest_and_close.rs`), for a connection at this level. Returns whether it is held. If not,
    /// lower locks can be held.
    pub(crate) fn lock_alone(&self, level: i32) -> bool {
        let host = &self.host;
        (level >= ffi::LOCK_SHARED || host.lock(ffi::LOCK_SHARED).is_ok())
            && !self.journal_may_be_hot()
            && host.lock(ffi::LOCK_RESERVED).is_ok()
            && host.lock(ffi::LOCK_EXCLUSIVE).is_ok()
    }
}
