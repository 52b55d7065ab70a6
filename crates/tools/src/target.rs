//! The database file that a verb works on.

use crate::error::{Error, Result};
use densite_disk::Rights;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file itself, after symbolic links, with its properties that are known without opening it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The path as the caller gave it, for messages.
    pub(crate) given: PathBuf,
    /// The absolute path without symbolic links, which is opened and replaced.
    pub(crate) path: PathBuf,
    /// Length in bytes.
    pub(crate) len: u64,
    /// Number of its names (hard links).
    pub(crate) links: u64,
    /// The identity of the file while it exists: device and inode.
    pub(crate) inode: (u64, u64),
    /// Its owner, group and mode.
    pub(crate) rights: Rights,
}

/// Resolves the path of a database, which must be an existing regular file.
pub(crate) fn resolve(given: &Path) -> Result<Target> {
    if let Some(url) = given.to_str().filter(|given| densite_vfs::is_url(given)) {
        return Err(Error::Setting(format!(
            "{}: only densite sql reads URLs; download the file first",
            densite_vfs::shown_url(url)
        )));
    }
    let path = std::fs::canonicalize(given).map_err(|e| Error::from_std(given, "reach it", &e))?;
    // No symbolic link remains in it, unless another process created one just now.
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

/// Returns an error if the path now leads to another file. A process that waited for the lock of
/// another vacuum or conversion has the old file.
pub(crate) fn still_there(target: &Target) -> Result<()> {
    let now = std::fs::symlink_metadata(&target.path);
    match now.is_ok_and(|now| (now.dev(), now.ino()) == target.inode) {
        true => Ok(()),
        false => Err(replaced_meanwhile(target)),
    }
}

/// The error for a file that was replaced while a verb worked on it.
pub(crate) fn replaced_meanwhile(target: &Target) -> Error {
    Error::Io {
        path: target.given.clone(),
        doing: "replace".into(),
        message: "it was replaced or renamed meanwhile; try again".into(),
    }
}
