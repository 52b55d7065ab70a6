//! Which open files of this process are the same file.
//!
//! Files of the system are identified by device and inode, because a file can have several names.
//! Files of other hosts are identified by their names, and remote files by URL and version.

use crate::path_check::{Place, has_system_files};
use densite_sqlite::{HostFile, HostVfs};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Equal for two connections of this process if and only if they have the same file open.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Identity(String);

impl Identity {
    /// The identity of a file that `vfs` has opened under this path.
    pub(crate) fn of(vfs: HostVfs, file: &HostFile, path: &CStr) -> Identity {
        static UNIQUE: AtomicU64 = AtomicU64::new(0);
        if !has_system_files(vfs) {
            return Identity::of_name(vfs, path);
        }
        Identity::of_place(&Place::of(vfs, file, path)).unwrap_or_else(|| {
            let number = UNIQUE.fetch_add(1, Ordering::Relaxed);
            Identity(format!("moved:{number}"))
        })
    }

    /// The identity of the file that this path of `vfs` leads to now; `None` if there is no file.
    pub(crate) fn at(vfs: HostVfs, path: &CStr) -> Option<Identity> {
        if !has_system_files(vfs) {
            return Some(Identity::of_name(vfs, path));
        }
        Identity::of_place(&Place::of_path(vfs, path))
    }

    fn of_place(place: &Place) -> Option<Identity> {
        match place {
            Place::Here(_, (device, inode)) => Some(Identity(format!("{device}:{inode}"))),
            Place::Unknown | Place::Left => None,
        }
    }

    /// From the bytes of the name: different names can look the same as text.
    fn of_name(vfs: HostVfs, path: &CStr) -> Identity {
        Identity(format!("{}:{path:?}", vfs.name()))
    }

    /// The identity of a version of a remote file.
    pub(crate) fn of_remote(version: &str) -> Identity {
        Identity(format!("remote:{version}"))
    }

    /// An invented identity for tests.
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Identity {
        Identity(name.to_owned())
    }

    /// As text, for the store.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
