//! What is a Chroma directory, by its names.

use crate::error::{Error, Result};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The database in a Chroma directory.
pub(super) const DATABASE: &str = "chroma.sqlite3";

/// A directory that looks like Chroma's. What its database holds is not looked at yet: see
/// [`super::is_chroma`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChromaDir {
    dir: PathBuf,
    named_database: bool,
}

impl ChromaDir {
    /// The directory: the folders of the segments lie in it.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its database, by the name that Chroma uses. It may be a symbolic link: the folders are
    /// beside the name, not beside what it points to.
    pub fn database(&self) -> PathBuf {
        self.dir.join(DATABASE)
    }

    /// Whether the database was named rather than the directory. If it turns out not to be Chroma's
    /// it is a database like any other then.
    pub fn named_database(&self) -> bool {
        self.named_database
    }
}

/// Whether `path` is a directory with a `chroma.sqlite3` in it, or such a file itself; the two mean
/// the same.
///
/// Other databases in the directory do not matter, and a database of another name is never
/// Chroma's: a copy that was put aside has no index files beside it.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Permission`]; [`Error::NotADatabase`] when the `chroma.sqlite3` in
/// the directory is no file or is empty.
pub fn recognise(path: &Path) -> Result<Option<ChromaDir>> {
    let failed = |path: &Path, e| Error::from_std(path, "look at it", &e);
    let meta = std::fs::metadata(path).map_err(|e| failed(path, e))?;
    if !meta.is_dir() {
        let named = path.file_name().is_some_and(|name| name == DATABASE);
        return Ok((named && meta.is_file()).then(|| ChromaDir {
            dir: crate::error::parent_of(path),
            named_database: true,
        }));
    }
    let found = ChromaDir {
        dir: path.to_path_buf(),
        named_database: false,
    };
    let database = found.database();
    match std::fs::metadata(&database) {
        Ok(meta) if meta.is_file() && meta.len() > 0 => Ok(Some(found)),
        Ok(meta) => Err(Error::NotADatabase {
            empty: meta.is_file(),
            path: database,
        }),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed(&database, e)),
    }
}
