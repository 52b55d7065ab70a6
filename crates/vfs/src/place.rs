//! Whether a file's name still leads to it.
//!
//! SQLite finds a database's journal and its WAL by its name. After `densite vacuum`, or whatever puts another file in the place of one, a
//! connection that had the old one open without a lock would take what lies beside the new one for its own: roll its journal back into the old
//! file, or checkpoint its WAL there, and delete it. SQLite looks whether the file was moved only before it begins a journal on the disk. So for a connection whose
//! file was replaced no journal and no WAL is there (`absent.rs`), none is begun in any mode, and shared memory is refused: it reads what the old file holds.

use crate::main_file::{Done, MainFile};
use densite_sqlite::{Code, ffi};
use std::ffi::{OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Device and inode.
pub(crate) type Inode = (u64, u64);

/// Where a file was when it was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The host has files that are none of the system's, or the name leads nowhere.
    Unknown,
    /// The name leads to it.
    Here(Box<Path>, Inode),
    /// The name leads to another file.
    Left,
}

impl Place {
    /// Whether the name leads to another file now. One that leads nowhere does not.
    pub(crate) fn is_left(&self) -> bool {
        match self {
            Place::Unknown => false,
            Place::Here(path, inode) => inode_of(path).is_some_and(|now| now != *inode),
            Place::Left => true,
        }
    }
}

fn inode_of(path: &Path) -> Option<Inode> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

impl MainFile {
    /// By the path, because an open descriptor of our own would drop SQLite's locks when closed (rule 14). The path may meanwhile name another file; the host knows.
    pub(crate) fn locate(&self) -> Place {
        let is_unix = self
            .host_vfs
            .is_some_and(|host| host.name().starts_with("unix"));
        let Some(name) = self.name().filter(|_| is_unix) else {
            return Place::Unknown;
        };
        let path = Path::new(OsStr::from_bytes(name.path().to_bytes()));
        let Some(inode) = inode_of(path) else {
            return Place::Unknown;
        };
        let mut moved: c_int = 0;
        // SAFETY: this operation puts an int there.
        let rc = unsafe {
            self.host
                .file_control(ffi::FCNTL_HAS_MOVED, (&raw mut moved).cast::<c_void>())
        };
        match moved == 0 || rc == Code::NOTFOUND {
            true => Place::Here(path.into(), inode),
            false => Place::Left,
        }
    }

    /// For what needs the name to lead to the file.
    ///
    /// # Errors
    /// [`Code::READONLY_DBMOVED`] if it leads to another one.
    pub(crate) fn must_be_here(&self) -> Done {
        if !self.absent.is_left() {
            return Ok(());
        }
        let code = Code::READONLY_DBMOVED;
        self.report(
            code,
            &"another file was put in its place; close this connection and open it again",
        );
        Err(code)
    }
}
