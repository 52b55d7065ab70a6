//! Who may use a file, given to another one.

use crate::real::failed;
use crate::{Op, Result};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

/// Who may use a file: as SQLite does it with a WAL and a journal, what lies beside a database and has its rows has its owner and mode.
pub(crate) struct Rights {
    owner: u32,
    group: u32,
    pub(crate) mode: u32,
}

impl Rights {
    /// `None` where there is no such file.
    pub(crate) fn of(path: &Path) -> Option<Rights> {
        let meta = fs::metadata(path).ok()?;
        Some(Rights {
            owner: meta.uid(),
            group: meta.gid(),
            // Who makes something can use it.
            mode: (meta.mode() & 0o666) | 0o600,
        })
    }

    /// Who may read may enter.
    pub(crate) fn of_directory(&self) -> u32 {
        self.mode | (self.mode & 0o444) >> 2
    }

    /// Gives them to what was just made with `mode` less the umask. What this process may not give stays its own.
    ///
    /// By its descriptor: what the name leads to may be something else by now.
    pub(crate) fn give(&self, made: &fs::File, mode: u32) {
        let Ok(now) = made.metadata() else { return };
        let owner = (now.uid() != self.owner).then_some(self.owner);
        let group = (now.gid() != self.group).then_some(self.group);
        if (owner.is_some() || group.is_some()) && fchown(made, owner, group).is_err() {
            fchown(made, None, group).ok();
        }
        // Last, since chown clears bits.
        made.set_permissions(fs::Permissions::from_mode(mode)).ok();
    }
}

/// Gives the file at `to` the owner, group and permission bits of the file at `from`.
///
/// Call it before anything private is written to `to`: until then `to` has the mode it was
/// created with. Nothing is changed where owner and group are equal already, so a person
/// without privileges may copy their own file.
///
/// # Errors
/// `Permission` when the owner may not be changed, `NotFound` when either file is missing,
/// `Io` otherwise; all with [`Op::Open`].
pub fn copy_owner_and_mode(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    let to = to.as_ref();
    let want = fs::metadata(from).map_err(failed(Op::Open))?;
    let have = fs::metadata(to).map_err(failed(Op::Open))?;
    let uid = (want.uid() != have.uid()).then_some(want.uid());
    let gid = (want.gid() != have.gid()).then_some(want.gid());
    if uid.is_some() || gid.is_some() {
        std::os::unix::fs::chown(to, uid, gid).map_err(failed(Op::Open))?;
    }
    // Last, since chown clears the set-id bits.
    let mode = fs::Permissions::from_mode(want.mode() & 0o7777);
    fs::set_permissions(to, mode).map_err(failed(Op::Open))
}
