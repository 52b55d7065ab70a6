//! The log of a database that is being restored: a directory that removes itself unless the database
//! gets its name.

use crate::error::{Error, Result, parent_of};
use crate::log::Beside;
use crate::target::{LOG, beside, leftovers};
use crate::temp::RESUMABLE;
use densite_disk::{Anchor, Dir, RealDir};
use densite_sqlite::Api;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

/// The same for the log that a database had before a restore.
const ASIDE: &str = "-log-before-restore";
/// A file in a log whose database has no name yet. The first writer of a log removes files whose
/// names begin so.
const MARK: &str = "new-restore";
/// What the mark says of the restored database.
const HAS_LOG: &str = "log";
const HAS_NONE: &str = "none";

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

    /// Prepares the names for a database at `db`, whose file has the name `temp` now. A log that it
    /// has now is put aside. If there is no database yet, the restored log gets its name.
    ///
    /// A process can be killed between any two changes of names. The rename of the database decides:
    /// before it, the next run goes back ([`clear_interrupted`]), after it the next run finishes. So
    /// an old database never gets a new log, which lacks rows.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Permission`]. Then all names are as before.
    pub(super) fn prepare(mut self, db: &Path) -> Result<Placing> {
        let (name, aside) = (beside(db, LOG), beside(db, ASIDE));
        let has_old = fs::symlink_metadata(&name).is_ok();
        if fs::symlink_metadata(db).is_err() {
            if self.exists {
                self.mark()?;
                rename(&self.path, &name)?;
                self.live = false;
            }
            let is_placed = self.exists;
            let log = None;
            return Ok(Placing {
                name,
                aside,
                has_old,
                is_placed,
                log,
            });
        }
        if has_old || self.exists {
            self.mark()?;
        }
        if has_old {
            rename(&name, &aside)?;
        }
        let placing = Placing {
            name,
            aside,
            has_old,
            is_placed: false,
            log: Some(self),
        };
        // The old log is aside, durably, before the database changes.
        match sync_parent(db) {
            Ok(()) => Ok(placing),
            Err(e) => Err(placing.undo(&e).err().unwrap_or(e)),
        }
    }

    /// Marks the directory as the log of the database whose name it continues.
    fn mark(&self) -> Result<()> {
        let what = if self.exists { HAS_LOG } else { HAS_NONE };
        let path = self.path.join(MARK);
        let marked = fs::File::create(&path).and_then(|mut file| {
            file.write_all(what.as_bytes())?;
            file.sync_all()
        });
        marked.map_err(|e| Error::from_std(&path, "write it", &e))
    }

    /// Removes the directory.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn discard(mut self) -> Result<()> {
        self.live = false;
        remove_dir(&self.path)
    }
}

/// Ends what an interrupted restore of `db` began: if the database already had its new file, its log
/// gets its name; otherwise the log that it had before gets its name again. Removes the log of a
/// restore that was interrupted before its database had a name.
///
/// # Errors
/// [`Error::Io`]; [`Error::Setting`] that says what to do if it is unknown which one happened.
pub(super) fn clear_interrupted(api: Api, db: &Path) -> Result<()> {
    let (name, aside) = (beside(db, LOG), beside(db, ASIDE));
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    if !is_there(db) {
        if name.join(MARK).is_file() {
            remove_dir(&name)?;
        }
        return Ok(());
    }
    let mut is_undone = false;
    for path in leftovers(db) {
        let Some(file) = marked_for(&path) else {
            continue;
        };
        if !is_there(&file) {
            let exists = fs::read_to_string(path.join(MARK)).is_ok_and(|what| what == HAS_LOG);
            let log = RestoredLog {
                dir: RealDir::new(&path),
                path,
                exists,
                live: false,
            };
            let has_old = is_there(&aside) || is_there(&name);
            if is_there(&name) && !is_there(&aside) {
                // A power cut has kept the rename of the database, and not the one before it.
                rename(&name, &aside)?;
            }
            return Placing {
                name,
                aside,
                has_old,
                is_placed: false,
                log: Some(log),
            }
            .finish(db);
        }
        // The rename of the database did not happen.
        if is_there(&aside) && !is_there(&name) {
            rename(&aside, &name)?;
        }
        remove_file(&path.join(MARK))?;
        is_undone = true;
    }
    if is_there(&aside) && name.join(MARK).is_file() {
        remove_dir(&aside)?;
        return remove_file(&name.join(MARK));
    }
    // Whoever opened the new log removed its mark.
    if is_there(&aside) && !is_undone && names(api, db) {
        return remove_dir(&aside);
    }
    match is_there(&aside) {
        true => Err(Error::Setting(format!(
            "{}: an interrupted restore left the log that {} had before; if the database is the old one, rename it to {}, otherwise remove it",
            aside.display(),
            db.display(),
            name.display()
        ))),
        false => Ok(()),
    }
}

/// Whether a database names the log beside it.
fn names(api: Api, db: &Path) -> bool {
    let log = Beside::find(db).ok().flatten();
    let applied = log.and_then(|log| log.applied(api));
    applied.is_some_and(|applied| applied.is_same)
}

/// The name that the file of a database has or had while it is restored, if `path` is a marked log
/// of it.
fn marked_for(path: &Path) -> Option<PathBuf> {
    let name = path.to_str()?.strip_suffix(LOG)?;
    (name.contains(RESUMABLE) && path.join(MARK).is_file()).then(|| PathBuf::from(name))
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
    /// The restored log, which is placed after the database.
    log: Option<RestoredLog>,
}

impl Placing {
    /// The database at `db` has its name. Whoever can open it can open the log.
    ///
    /// # Errors
    /// [`Error::Io`], which says that the database is restored. The next restore to `db` finishes.
    pub(super) fn finish(mut self, db: &Path) -> Result<()> {
        let done = self.finish_names(db);
        done.map_err(|e| Error::Io {
            path: db.to_path_buf(),
            doing: "finish restoring".into(),
            message: match self.is_placed {
                true => format!(
                    "the database and its log are restored, but what it had before could not be removed ({e}); run the same restore again"
                ),
                false => format!(
                    "the file of the database is restored, but its log is not in its place yet ({e}); run the same restore again"
                ),
            },
        })
    }

    fn finish_names(&mut self, db: &Path) -> Result<()> {
        let mut emptied = None;
        if let Some(log) = &mut self.log {
            // The next run needs it.
            log.live = false;
            match log.exists {
                true => {
                    rename(&log.path, &self.name)?;
                    self.is_placed = true;
                }
                false => emptied = Some(log.path.clone()),
            }
        }
        if let Ok(meta) = fs::metadata(db) {
            give(&self.name, &meta);
        }
        if self.has_old {
            sync_parent(db)?;
            remove_dir(&self.aside)?;
        }
        // The mark last: without it, the next run would not know that the old log is to be removed.
        match emptied {
            Some(path) => remove_dir(&path),
            None if self.is_placed => remove_file(&self.name.join(MARK)),
            None => Ok(()),
        }
    }

    /// The database did not get its name because of `why`: the log that it had before gets its name
    /// again. The caller keeps the restored file until then.
    ///
    /// # Errors
    /// [`Error::Io`], which has `why`. The next restore to the same name goes on with this.
    pub(super) fn undo(mut self, why: &Error) -> Result<()> {
        let done = self.undo_names();
        done.map_err(|e| {
            if let Some(log) = &mut self.log {
                log.live = false;
            }
            Error::Io {
                path: self.name.clone(),
                doing: "put back".into(),
                message: format!("{e}, after: {why}; run the same restore again"),
            }
        })
    }

    fn undo_names(&self) -> Result<()> {
        if self.is_placed {
            return remove_dir(&self.name);
        }
        if self.has_old {
            rename(&self.aside, &self.name)?;
        }
        match &self.log {
            Some(log) => remove_file(&log.path.join(MARK)),
            None => Ok(()),
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

/// Removes a directory, which can be missing.
fn remove_dir(path: &Path) -> Result<()> {
    ignoring_missing(path, fs::remove_dir_all(path))
}

/// Removes a file, which can be missing.
pub(super) fn remove_file(path: &Path) -> Result<()> {
    ignoring_missing(path, fs::remove_file(path))
}

fn ignoring_missing(path: &Path, done: std::io::Result<()>) -> Result<()> {
    match done {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::from_std(path, "remove it", &e)),
        _ => Ok(()),
    }
}

/// Makes the names beside `db` durable.
fn sync_parent(db: &Path) -> Result<()> {
    let dir = parent_of(db);
    let synced = Anchor::open(&dir).and_then(|dir| dir.sync());
    synced.map_err(|e| Error::from_disk(&dir, "sync", &e))
}
