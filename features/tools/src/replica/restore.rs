//! Restores a database from a replica, and proves it.

use super::bucket::Place;
use super::restored_log::{RestoredLog, clear_interrupted, remove_file};
use crate::check::{Checked, check};
use crate::db::{Access, Through};
use crate::error::{Error, Result};
use crate::form::form;
use crate::holders::{holders, openers};
use crate::progress::Progress;
use crate::target::{self, COMPANIONS, LOG, beside, is_no_companion};
use crate::temp::{Temp, identity_of};
use densite_replica::{At, Error as Wrong, Restore, Restored};
use densite_sqlite::{Api, ffi};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The permission bits of a restored file, before the umask.
const MODE: u32 = 0o666;

/// The name of a restore that is not continued.
const WHOLE: &str = "whole";

/// What is restored, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreOptions {
    /// The restore point.
    pub at: At,
    /// Replace an existing database.
    pub replaces: bool,
    /// Restore the database alone: its log is damaged, or its rows are to be given up.
    pub without_log: bool,
    /// Restore a database whose b-trees were damaged when it was shipped.
    pub keeps_damage: bool,
}

impl RestoreOptions {
    /// A restore point, to a new file, with the log.
    #[must_use]
    pub fn new(at: At) -> RestoreOptions {
        RestoreOptions {
            at,
            replaces: false,
            without_log: false,
            keeps_damage: false,
        }
    }
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The replica, without secrets.
    pub source: PathBuf,
    /// The restored file; `None` if it was only verified.
    pub destination: Option<PathBuf>,
    /// The restore point, and what reading it took.
    pub restored: Restored,
    /// Pages that were verified.
    pub pages: u64,
    /// Whether it has the log of the database (`densite_ingest`).
    pub has_log: bool,
    /// Whether the database names a log that was not there when it was shipped.
    pub lacks_log: bool,
    /// Rows that wait in the log, if it has one.
    pub rows_waiting: u64,
    /// What is wrong with it, or was not verified, and what to do. It was so when it was shipped.
    pub warnings: Vec<String>,
    /// How long it took.
    pub elapsed: Duration,
}

/// Restores a database to `dst`, and checks it before it gets this name. An existing file is
/// replaced only if `replaces`. An interrupted restore of a large database is continued by the next
/// one to the same name: what was read is beside `dst`.
///
/// # Errors
/// [`Error::Exists`]; [`Error::Remote`], [`Error::Damaged`] for the replica; [`Error::NoSpace`].
/// After any error `dst` is unchanged, unless the error says that it is restored: then the next
/// restore to `dst` completes it.
pub fn restore(
    api: Api,
    url: &Path,
    options: RestoreOptions,
    dst: &Path,
    progress: &mut dyn Progress,
) -> Result<RestoreReport> {
    let replaces = options.replaces;
    is_no_companion(dst)?;
    Temp::finish_interrupted(dst)?;
    clear_interrupted(api, dst)?;
    match std::fs::symlink_metadata(dst) {
        Ok(_) if replaces => must_be_unused(api, dst)?,
        Ok(_) => {
            return Err(Error::Exists {
                path: dst.to_path_buf(),
            });
        }
        Err(_) => {}
    }
    // SQLite and ingest would take these for the restored file's own. A log is replaced with its
    // database.
    let log = (!replaces).then(|| beside(dst, LOG));
    let left = COMPANIONS.iter().map(|end| beside(dst, end)).chain(log);
    if let Some(path) = left.into_iter().find(|path| path.exists()) {
        return Err(Error::Exists { path });
    }
    let (mut temp, log, mut report) = restore_beside(api, url, options, (dst, true), progress)?;
    if replaces {
        temp.take_rights_of(dst);
    }
    // A program can have opened it while the copy was written.
    if replaces && std::fs::symlink_metadata(dst).is_ok() {
        must_be_unused(api, dst)?;
    }
    let identity = temp.identity();
    let placing = log.prepare(dst)?;
    let renamed = match replaces {
        true => temp.rename_over(dst),
        false => temp.rename_to(dst),
    };
    match renamed {
        Ok(()) => placing.finish(dst)?,
        // The rename itself succeeded.
        Err(e) if identity_of(dst) == Some(identity) => {
            placing.finish(dst)?;
            return Err(Error::Io {
                path: dst.to_path_buf(),
                doing: "make durable".into(),
                message: format!("it is restored, but a power cut can undo this ({e})"),
            });
        }
        Err(e) => {
            let undone = placing.undo(&e);
            if undone.is_err() {
                // It shows the next run that the database is the old one.
                temp.leave();
            }
            return Err(undone.err().unwrap_or(e));
        }
    }
    report.destination = Some(dst.to_path_buf());
    Ok(report)
}

/// Checks that there is a replica with this restore point, and that the database at `dst` can be
/// replaced, before anything is restored.
///
/// # Errors
/// As [`restore()`].
pub fn can_replace(api: Api, url: &Path, at: At, dst: &Path) -> Result<()> {
    is_no_companion(dst)?;
    let place = Place::of_replica(url)?;
    let found = Restore::find(place.bucket(), at);
    found.map_err(|e| place.unread(url, &e))?;
    must_be_unused(api, dst)
}

/// Refuses to replace what is no database, and a database that a process uses at this moment, or has
/// open: that one would continue with the old file.
fn must_be_unused(api: Api, dst: &Path) -> Result<()> {
    let target = target::resolve(dst)?;
    if let Err(e @ (Error::NotADatabase { .. } | Error::OtherFormat { .. })) = form(api, &target) {
        return Err(e);
    }
    let mut by = holders(&target.path);
    if by.is_empty() {
        by = openers(target.inode);
    }
    let is_locked = || -> Result<bool> {
        let file = Through::Host.file(api, &target, Access::Write)?;
        let steps = [ffi::LOCK_SHARED, ffi::LOCK_RESERVED, ffi::LOCK_EXCLUSIVE];
        Ok(steps.into_iter().any(|level| file.lock(level).is_err()))
    };
    match !by.is_empty() || is_locked()? {
        true => Err(Error::Locked {
            path: dst.to_path_buf(),
            by,
        }),
        false => Ok(()),
    }
}

/// Restores a database to a temporary file, checks it, and removes it.
///
/// # Errors
/// As [`restore()`].
pub fn verify(
    api: Api,
    url: &Path,
    options: RestoreOptions,
    progress: &mut dyn Progress,
) -> Result<RestoreReport> {
    let wanted = std::env::temp_dir().join("densite-verify");
    let (temp, log, report) = restore_beside(api, url, options, (&wanted, false), progress)?;
    log.discard()?;
    temp.discard()?;
    Ok(report)
}

fn restore_beside(
    api: Api,
    url: &Path,
    options: RestoreOptions,
    (wanted, resumes): (&Path, bool),
    progress: &mut dyn Progress,
) -> Result<(Temp, RestoredLog, RestoreReport)> {
    let started = Instant::now();
    let place = Place::of_replica(url)?;
    let found = Restore::find(place.bucket(), options.at).map_err(|e| place.unread(url, &e))?;
    let found = match options.without_log {
        true => found.without_log(),
        false => found,
    };
    // A name that the next restore to the same path knows, so that it finds what a killed one left.
    let temp = match (found.name(), resumes) {
        (Some(name), true) => Temp::resume_own(wanted, MODE, &name)?,
        (None, true) => Temp::resume_own(wanted, MODE, WHOLE)?.emptied()?,
        (_, false) => {
            let number = densite_disk::random::random_u64();
            let number = number.map_err(|e| Error::from_disk(wanted, "name a copy of", &e))?;
            Temp::resume_own(wanted, MODE, &format!("{number:016x}"))?
        }
    };
    let resumes = resumes && found.name().is_some();
    let keeps_damage = options.keeps_damage;
    match restore_into(
        api,
        &place,
        (found, keeps_damage),
        (wanted, &temp),
        progress,
    ) {
        Ok((log, mut report)) => {
            report.elapsed = started.elapsed();
            Ok((temp, log, report))
        }
        Err(e) => {
            // What was read is of use for the next try, unless it is wrong.
            let is_of_use = !matches!(e, Error::Damaged { .. } | Error::Replica { .. });
            if resumes && is_of_use && temp.is_large() {
                temp.leave();
            }
            Err(e)
        }
    }
}

/// Restores to a temporary file for `wanted`, and checks it.
fn restore_into(
    api: Api,
    place: &Place,
    (found, keeps_damage): (Restore<'_>, bool),
    (wanted, temp): (&Path, &Temp),
    progress: &mut dyn Progress,
) -> Result<(RestoredLog, RestoreReport)> {
    let file = temp.open()?;
    let mut log = RestoredLog::create(&beside(temp.path(), LOG))?;
    let mut total = None;
    let restored = found.write(&file, log.dir(), &mut |done, all| {
        match total {
            None => {
                progress.phase("restoring", all);
                progress.resumed(done);
            }
            Some(known) if known != all => progress.total(all),
            Some(_) => {}
        }
        total = Some(all);
        progress.done(done);
        !progress.cancelled()
    });
    let restored = restored.map_err(|e| match e {
        Wrong::Local(e) => Error::from_disk(temp.path(), "write", &e),
        Wrong::Stopped => Error::Interrupted {
            path: wanted.to_path_buf(),
        },
        e => place.failed(&e),
    })?;
    drop(file);
    let checked = check(api, temp.path(), progress);
    log.exists = restored.has_log;
    let names_log = crate::log::names_log(api, temp.path());
    let waiting = log.check(api, temp.path());
    // SQLite opens a database in WAL mode for reading with files beside it, and leaves them.
    for end in COMPANIONS {
        remove_file(&beside(temp.path(), end))?;
    }
    let checked = checked?;
    let is_as_shipped = checked.problems.is_empty() && checked.cut.is_none();
    if !is_as_shipped || !(checked.is_whole() || keeps_damage) {
        return Err(Error::Replica {
            path: place.shown().to_path_buf(),
            what: problem(&checked),
        });
    }
    let rows_waiting = waiting.map_err(|what| Error::Replica {
        path: place.shown().to_path_buf(),
        what: format!("{what}; restore an earlier moment, or the database --without-log"),
    })?;
    let report = RestoreReport {
        source: place.shown().to_path_buf(),
        destination: None,
        has_log: restored.has_log,
        lacks_log: names_log && !restored.has_log,
        rows_waiting,
        warnings: doubts(&checked),
        restored,
        pages: checked.pages,
        elapsed: Duration::ZERO,
    };
    Ok((log, report))
}

/// What a check found first.
fn problem(checked: &Checked) -> String {
    let stored = checked.problems.first().map(ToString::to_string);
    if let Some(found) = stored.or_else(|| checked.cut.clone()) {
        return format!("the restored database is damaged ({found}); restore an earlier moment");
    }
    let tree = checked.damaged_trees.first().cloned().unwrap_or_default();
    format!(
        "the database was damaged when it was shipped ({tree}); restore an earlier moment, or this one with --keep-damage"
    )
}

/// What is wrong with a database whose pages are as they were shipped, or was not verified, and what
/// to do.
pub(super) fn doubts(checked: &Checked) -> Vec<String> {
    let mut doubts = Vec::new();
    if !checked.damaged_trees.is_empty() {
        doubts.push(format!(
            "its b-trees are damaged ({}); densite decompress and .recover of the sqlite3 shell save what can be read",
            checked.damaged_trees.join("; ")
        ));
    } else if !checked.ok() {
        doubts.push(said(&checked.integrity_check, &checked.remedies()));
    }
    doubts.extend(not_verified(&checked.not_verified));
    doubts
}

/// What SQLite says of rows and indexes.
pub(super) fn said(lines: &[String], remedies: &[String]) -> String {
    let first = lines.first().map_or("", String::as_str);
    let more = match lines.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    format!(
        "SQLite's integrity check says: {}{more}; remedy: {}",
        first.replace('\n', " "),
        remedies.join("; ")
    )
}

/// The warning for tables that SQLite cannot check without their application.
fn not_verified(tables: &[String]) -> Option<String> {
    (!tables.is_empty()).then(|| {
        format!(
            "pages and b-trees are verified; rows and indexes of these tables are not, because they need their application ({}); run PRAGMA integrity_check there",
            tables.join("; ")
        )
    })
}
