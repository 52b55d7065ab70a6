//! Names of the files beside a database: its journal, WAL, shared memory, and temporary copies.

use crate::error::{Error, Result, parent_of};
use densite_sqlite::{Companions, SHM};
use std::ffi::{OsStr, OsString};
use std::iter::once;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The text between the name of a database and the random part in the name of an unfinished copy.
pub(crate) const TEMP_MARK: &str = "-densite-tmp-";

/// What the name of a log adds to that of its database.
pub(crate) const LOG: &str = "-log";

/// Endings of the files that SQLite can leave beside a database of either form.
pub(crate) const COMPANIONS: [&str; 5] = Companions::ALL;

/// The path as text. SQLite requires UTF-8.
pub(crate) fn utf8(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        Error::Setting(format!(
            "{}: SQLite needs file names in UTF-8; rename it first",
            path.display()
        ))
    })
}

/// The name that SQLite gives to a file beside the database: its name with `suffix` appended.
pub(crate) fn beside(db: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(db.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns an error if the destination exists, or if the journal, the WAL or the log of an earlier
/// database is beside it. SQLite and ingest would take that file for the new database's own.
pub(crate) fn must_be_free(dst: &Path) -> Result<()> {
    is_no_companion(dst)?;
    let beside = (COMPANIONS.iter().copied().chain(once(LOG))).map(|end| beside(dst, end));
    for path in once(dst.to_path_buf()).chain(beside) {
        match std::fs::symlink_metadata(&path) {
            Ok(_) => return Err(Error::Exists { path }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::from_std(&path, "look at it", &e)),
        }
    }
    let dir = parent_of(dst);
    match std::fs::metadata(&dir) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(Error::Io {
            path: dst.to_path_buf(),
            doing: "create".into(),
            message: format!("{} is not a directory", dir.display()),
        }),
        Err(e) => Err(Error::from_std(&dir, "look at it", &e)),
    }
}

/// Returns an error if SQLite uses the name for a file beside an existing database, which it would
/// remove.
pub(crate) fn is_no_companion(dst: &Path) -> Result<()> {
    for suffix in COMPANIONS {
        let db = dst.as_os_str().as_bytes().strip_suffix(suffix.as_bytes());
        let db = db.map(|db| Path::new(OsStr::from_bytes(db)));
        if let Some(db) = db.filter(|db| db.is_file()) {
            return Err(Error::Setting(format!(
                "{}: SQLite uses this name for a file beside {}; choose another name",
                dst.display(),
                db.display()
            )));
        }
    }
    Ok(())
}

/// The files and the directory of a log that belong to a database and exist, itself first: a copy
/// needs all of them, except the shared memory.
pub(crate) fn belonging(db: &Path, companions: Companions) -> Vec<PathBuf> {
    let Companions { journal, wal } = companions;
    let ends = ["", journal, wal, SHM, "-log"];
    let all = ends.into_iter().map(|end| beside(db, end));
    all.filter(|path| path.exists()).collect()
}

/// Length of a file in bytes; 0 if it does not exist.
pub(crate) fn len_or_zero(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |m| m.len())
}

/// Copies that interrupted runs (a kill, a power cut) left beside a database. They are only
/// reported, because a copy can belong to a run that still works.
pub(crate) fn leftovers(db: &Path) -> Vec<PathBuf> {
    let Some(name) = db.file_name() else {
        return Vec::new();
    };
    let mut prefix = name.to_os_string();
    prefix.push(TEMP_MARK);
    let prefix = prefix.to_string_lossy().into_owned();
    let Ok(entries) = std::fs::read_dir(parent_of(db)) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().starts_with(&prefix))
        .map(|e| e.path())
        .collect();
    found.sort();
    found
}
