//! Whether a file's name still leads to it.
//!
//! SQLite finds a database's journal and WAL by name. If a program replaces a file that a
//! connection has open without a lock, the connection would take the files beside the new file for
//! its own, and destroy them. SQLite checks for such a move only before it begins a journal on the
//! disk. So a connection whose file was replaced sees no journal and no WAL (`absent.rs`), begins
//! no journal in any mode, and gets no shared memory. It reads the contents of the old file.

use densite_sqlite::{Code, HostFile, HostVfs, ffi};
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Device and inode.
pub(crate) type Inode = (u64, u64);

/// Where a file was when this was determined.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The host's files are not files of the system, or the name leads nowhere.
    Unknown,
    /// The name leads to it.
    Here(Box<Path>, Inode),
    /// The name leads to another file.
    Left,
}

impl Place {
    /// The file that a path of `vfs` leads to.
    pub(crate) fn of_path(vfs: HostVfs, path: &CStr) -> Place {
        if !has_system_files(vfs) {
            return Place::Unknown;
        }
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        match inode_of(path) {
            Some(inode) => Place::Here(path.into(), inode),
            None => Place::Unknown,
        }
    }

    /// The place of a file that `vfs` has opened under this path.
    ///
    /// It is found by the path, because closing a descriptor of our own would drop SQLite's locks
    /// (rule S14). The path can lead to another file by now; the host knows that.
    pub(crate) fn of(vfs: HostVfs, file: &HostFile, path: &CStr) -> Place {
        let place = Place::of_path(vfs, path);
        if !matches!(place, Place::Here(..)) {
            return place;
        }
        let mut moved: c_int = 0;
        // SAFETY: this operation writes an int to its argument.
        let rc =
            unsafe { file.file_control(ffi::FCNTL_HAS_MOVED, (&raw mut moved).cast::<c_void>()) };
        match moved == 0 || rc == Code::NOTFOUND {
            true => place,
            false => Place::Left,
        }
    }

    /// Whether the name leads to another file now. False if it leads nowhere.
    pub(crate) fn is_left(&self) -> bool {
        match self {
            Place::Unknown => false,
            Place::Here(path, inode) => inode_of(path).is_some_and(|now| now != *inode),
            Place::Left => true,
        }
    }
}

/// Whether the VFS keeps its files in the system's directories, under the same names.
pub(crate) fn has_system_files(vfs: HostVfs) -> bool {
    vfs.name().starts_with("unix")
}

fn inode_of(path: &Path) -> Option<Inode> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
