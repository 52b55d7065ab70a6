//! Permissions of one file, applied to another.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

/// Owner, group and permission bits of a file. Set-id bits and the sticky bit are left out: no
/// database needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    owner: u32,
    group: u32,
    mode: u32,
}

impl Rights {
    pub(crate) fn from_stat(owner: u32, group: u32, mode: u32) -> Rights {
        Rights {
            owner,
            group,
            mode: mode & 0o777,
        }
    }

    /// Those of a new file of this process, with these permission bits.
    #[must_use]
    pub fn own(mode: u32) -> Rights {
        Rights::from_stat(
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
            mode,
        )
    }

    /// The permissions in this metadata.
    #[must_use]
    pub fn of_meta(meta: &fs::Metadata) -> Rights {
        Rights::from_stat(meta.uid(), meta.gid(), meta.mode())
    }

    /// The permissions for files beside the database at `path` that hold its rows. As SQLite does
    /// for a WAL and a journal, they are those of the database, and the owner can always read and
    /// write. `None` if there is no such file.
    pub(crate) fn beside(path: &Path) -> Option<Rights> {
        let of = Rights::of_meta(&fs::metadata(path).ok()?);
        Some(Rights {
            mode: (of.mode & 0o666) | 0o600,
            ..of
        })
    }

    /// The user's number.
    #[must_use]
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// The group's number.
    #[must_use]
    pub fn group(&self) -> u32 {
        self.group
    }

    /// The permission bits.
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// The same with other permission bits.
    #[must_use]
    pub fn with_mode(self, mode: u32) -> Rights {
        Rights {
            mode: mode & 0o777,
            ..self
        }
    }

    /// As a directory's mode: users who can read can enter.
    pub(crate) fn of_directory(&self) -> u32 {
        self.mode | (self.mode & 0o444) >> 2
    }

    /// Applies these permissions to a new file or directory. Owner or group stay unchanged if this
    /// process cannot change them.
    ///
    /// This uses the descriptor, because the name can lead to another file by now.
    pub(crate) fn give(&self, made: &fs::File, mode: u32) {
        let Ok(now) = made.metadata() else { return };
        let owner = (now.uid() != self.owner).then_some(self.owner);
        let group = (now.gid() != self.group).then_some(self.group);
        if (owner.is_some() || group.is_some()) && fchown(made, owner, group).is_err() {
            fchown(made, None, group).ok();
        }
        // This comes last, because chown clears bits.
        made.set_permissions(fs::Permissions::from_mode(mode)).ok();
    }
}
