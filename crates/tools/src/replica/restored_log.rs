//! The log of a database that is being restored: a directory that removes itself unless the database
//! gets its name.

use crate::error::{Error, Result};
use crate::log::Beside;
use densite_disk::{Dir, RealDir};
use densite_sqlite::Api;
use std::fs::{self, DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// See the module's documentation.
pub(super) struct RestoredLog {
    path: PathBuf,
    dir: RealDir,
    /// Whether the restored database has a log.
    pub(super) exists: bool,
    live: bool,
}

impl RestoredLog {
    /// Creates an empty directory that only its owner can open, for a file of this run.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Permission`], [`Error::NoSpace`].
    pub(super) fn create(path: &Path) -> Result<RestoredLog> {
        let create = || DirBuilder::new().mode(0o700).create(path);
        let created = create().or_else(|e| match e.kind() {
            // A run that was killed left it. The file beside it is ours.
            ErrorKind::AlreadyExists => fs::remove_dir_all(path).and_then(|()| create()),
            _ => Err(e),
        });
        created.map_err(|e| Error::from_std(path, "create it", &e))?;
        Ok(RestoredLog {
            path: path.to_path_buf(),
            dir: RealDir::new(path),
            exists: false,
            live: true,
        })
    }

    /// The directory.
    pub(super) fn dir(&self) -> &dyn Dir {
        &self.dir
    }

    /// Reads the whole log and compares it with the database at `db`, beside which it is. Returns
    /// how many rows wait in it.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn check(&self, api: Api, db: &Path) -> std::result::Result<u64, String> {
        if !self.exists {
            return Ok(0);
        }
        let log = Beside::find(db).map_err(|e| e.to_string())?;
        let log = log.ok_or("the restored log has no id")?;
        let report = densite_log::check(log.dir.clone(), log.id).map_err(|e| e.to_string())?;
        if let Some(problem) = report.problems.first() {
            return Err(format!(
                "the restored log is damaged ({}, offset {}: {})",
                problem.segment, problem.offset, problem.problem
            ));
        }
        let Some(applied) = log.applied(api).filter(|applied| applied.is_same) else {
            return Ok(0);
        };
        let status = log
            .read()
            .and_then(|open| open.status().map_err(|e| log.failed(&e)));
        let status = status.map_err(|e| e.to_string())?;
        match status.first <= applied.seq + 1 && applied.end <= status.last {
            true => Ok(status.last - applied.seq),
            false => Err(format!(
                "the restored log has the rows {} to {}, and the database has applied {} of them",
                status.first, status.last, applied.seq
            )),
        }
    }

    /// Gives the directory its name, if the database has a log. One that has the name already is put
    /// aside, with a name that begins as `temp`.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Permission`].
    pub(super) fn place(mut self, name: &Path, temp: &Path) -> Result<Placed> {
        let mut placed = Placed {
            name: name.to_path_buf(),
            old: None,
            is_new: false,
        };
        if fs::symlink_metadata(name).is_ok() {
            let old = crate::paths::beside(temp, "-log-replaced");
            rename(name, &old)?;
            placed.old = Some(old);
        }
        if self.exists {
            if let Err(e) = rename(&self.path, name) {
                placed.undo();
                return Err(e);
            }
            self.live = false;
            placed.is_new = true;
        }
        Ok(placed)
    }
}

impl Drop for RestoredLog {
    fn drop(&mut self) {
        if self.live {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A log that has its name, while its database has not.
#[must_use]
pub(super) struct Placed {
    name: PathBuf,
    /// The log that had the name before.
    old: Option<PathBuf>,
    is_new: bool,
}

impl Placed {
    /// The database at `db` has its name, too. Whoever can open it can open the log.
    pub(super) fn keep(self, db: &Path) {
        if self.is_new
            && let Ok(meta) = fs::metadata(db)
        {
            let mode = meta.permissions().mode() & 0o666;
            let mode = Permissions::from_mode(mode | (mode & 0o444) >> 2);
            let _ = fs::set_permissions(&self.name, mode);
        }
        if let Some(old) = self.old {
            let _ = fs::remove_dir_all(old);
        }
    }

    /// The database did not get its name: the log that had the name before gets it again.
    pub(super) fn undo(self) {
        if self.is_new {
            let _ = fs::remove_dir_all(&self.name);
        }
        if let Some(old) = self.old {
            let _ = fs::rename(old, &self.name);
        }
    }
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|e| Error::from_std(to, "give the log its name", &e))
}
