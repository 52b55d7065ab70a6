//! Names of the files around a database: its journal, WAL and shared memory, and our temporary copies.

use crate::error::{Error, Result, parent_of};
use densite_disk::Rights;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What stands between a database's name and the random part in the name of an unfinished copy.
pub(crate) const TEMP_MARK: &str = "-densite-tmp-";

/// The file that SQLite names by appending `suffix` to the database's name.
pub(crate) fn beside(db: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(db.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

/// The file itself, after symbolic links, with what can be told without opening it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// As the caller gave it, for messages.
    pub(crate) given: PathBuf,
    /// Absolute, without symbolic links: what is opened and replaced.
    pub(crate) path: PathBuf,
    /// Length in bytes.
    pub(crate) len: u64,
    /// Names (hard links) it has.
    pub(crate) links: u64,
    /// Which file it is, as long as one is kept: device and number.
    pub(crate) inode: (u64, u64),
    /// Who may use it.
    pub(crate) rights: Rights,
}

/// Resolves a database that must exist and be an ordinary file.
pub(crate) fn resolve(given: &Path) -> Result<Target> {
    let path = std::fs::canonicalize(given).map_err(|e| Error::from_std(given, "reach it", &e))?;
    // No link is left in it, unless somebody put one there just now.
    let meta =
        std::fs::symlink_metadata(&path).map_err(|e| Error::from_std(given, "look at it", &e))?;
    if meta.is_dir() {
        return Err(Error::IsDirectory {
            path: given.to_path_buf(),
        });
    }
    if !meta.is_file() {
        return Err(Error::NotADatabase {
            path: given.to_path_buf(),
            empty: false,
        });
    }
    Ok(Target {
        given: given.to_path_buf(),
        path,
        len: meta.len(),
        links: meta.nlink(),
        inode: (meta.dev(), meta.ino()),
        rights: Rights::of_meta(&meta),
    })
}

/// Refuses a destination that exists, or beside which a journal or WAL of an earlier database waits:
/// SQLite would take that one for the new file's own and roll it into it.
pub(crate) fn must_be_free(dst: &Path) -> Result<()> {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let path = if suffix.is_empty() {
            dst.to_path_buf()
        } else {
            beside(dst, suffix)
        };
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

/// Length of a file in bytes; 0 when there is none.
pub(crate) fn len_or_zero(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |m| m.len())
}

/// Copies that interrupted runs (a kill, a power cut) left beside a database: only ever reported, for
/// one could belong to a run that is still going.
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
