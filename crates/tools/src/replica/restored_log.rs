//! The log of a database that is being restored: a directory that removes itself unless the database
//! gets its name.

use crate::error::{Error, Result};
use crate::log::Beside;
use crate::paths::beside;
use densite_disk::{Dir, RealDir};
use densite_sqlite::Api;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

/// What the name of a log adds to that of its database.
pub(super) const LOG: &str = "-log";
/// The same for the log that a database had before a restore.
const ASIDE: &str = "-log-before-restore";
/// A file in a log whose database has no name yet. The first writer of a log removes files whose
/// names begin so.
const MARK: &str = "new-restore";

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
        match status.first <= applied.position.seq + 1 && applied.position.end() <= status.last {
            true => Ok(status.last - applied.position.seq),
            false => Err(format!(
                "the restored log has the rows {} to {}, and the database has applied {} of them",
                status.first, status.last, applied.position.seq
            )),
        }
    }

    /// Prepares the names for a database at `db`. A log that it has now is put aside. If there is
    /// none, and none of the database, this one gets its name.
    ///
    /// A process can be killed between any two changes of names. So an old database never gets a new
    /// log, which lacks rows: it has its own, or none, which every use of ingest reports.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Permission`].
    pub(super) fn prepare(mut self, db: &Path) -> Result<Placing> {
        let mut placing = Placing {
            name: beside(db, LOG),
            aside: beside(db, ASIDE),
            has_old: false,
            is_placed: false,
            log: None,
        };
        if fs::symlink_metadata(&placing.name).is_ok() {
            rename(&placing.name, &placing.aside)?;
            placing.has_old = true;
        }
        if self.exists && fs::symlink_metadata(db).is_err() {
            let marked = fs::write(self.path.join(MARK), "");
            marked.map_err(|e| Error::from_std(&self.path, "write in it", &e))?;
            rename(&self.path, &placing.name)?;
            self.live = false;
            placing.is_placed = true;
        } else if self.exists {
            placing.log = Some(self);
        }
        Ok(placing)
    }
}

/// Returns an error if a restore was interrupted that had put the log of `db` aside. Removes the log
/// of one that was interrupted before its database had a name.
///
/// # Errors
/// [`Error::Setting`] that says what to do.
pub(super) fn clear_interrupted(db: &Path) -> Result<()> {
    let (name, aside) = (beside(db, LOG), beside(db, ASIDE));
    if fs::symlink_metadata(&aside).is_ok() {
        return Err(Error::Setting(format!(
            "{}: an interrupted restore left the log that {} had before; if the database is the old one, rename it to {}, otherwise remove it",
            aside.display(),
            db.display(),
            name.display()
        )));
    }
    if fs::symlink_metadata(db).is_err() && name.join(MARK).is_file() {
        let removed = fs::remove_dir_all(&name);
        removed.map_err(|e| Error::from_std(&name, "remove it", &e))?;
    }
    Ok(())
}

impl Drop for RestoredLog {
    fn drop(&mut self) {
        if self.live {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A restored log whose database gets its name.
#[must_use]
pub(super) struct Placing {
    name: PathBuf,
    /// Where the log is that the database had before.
    aside: PathBuf,
    has_old: bool,
    /// The restored log has its name already.
    is_placed: bool,
    /// The restored log, if it gets its name after the database.
    log: Option<RestoredLog>,
}

impl Placing {
    /// The database at `db` has its name. Whoever can open it can open the log.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Permission`].
    pub(super) fn finish(self, db: &Path) -> Result<()> {
        if let Some(mut log) = self.log {
            rename(&log.path, &self.name)?;
            log.live = false;
        } else if self.is_placed {
            let _ = fs::remove_file(self.name.join(MARK));
        }
        if let Ok(meta) = fs::metadata(db) {
            give(&self.name, &meta);
        }
        if self.has_old {
            let _ = fs::remove_dir_all(self.aside);
        }
        Ok(())
    }

    /// The database did not get its name: the log that it had before gets its name again.
    pub(super) fn undo(self) {
        if self.is_placed {
            let _ = fs::remove_dir_all(&self.name);
        }
        if self.has_old {
            let _ = fs::rename(&self.aside, &self.name);
        }
    }
}

/// Gives a log the owner, group and mode of its database, as far as this user can.
fn give(log: &Path, like: &Metadata) {
    let mode = like.permissions().mode() & 0o666;
    let own = |path: &Path, mode: u32| {
        let _ = chown(path, Some(like.uid()), Some(like.gid()));
        let _ = fs::set_permissions(path, Permissions::from_mode(mode));
    };
    for entry in fs::read_dir(log).into_iter().flatten().flatten() {
        own(&entry.path(), mode | 0o600);
    }
    own(log, mode | 0o700 | (mode & 0o444) >> 2);
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|e| Error::from_std(to, "give the log its name", &e))
}
