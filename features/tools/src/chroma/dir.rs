//! Recognises a Chroma directory by its file names.

use crate::error::{Error, Result};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The database in a Chroma directory.
pub(super) const DATABASE: &str = "chroma.sqlite3";

/// A directory whose names look like Chroma's. Its database has not been read yet: see
/// [`super::is_chroma`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChromaDir {
    dir: PathBuf,
    named_database: bool,
}

impl ChromaDir {
    /// The directory. It contains the folders of the segments.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of its database, by the name that Chroma uses. It can be a symbolic link: the
    /// folders are beside the link, not beside its target.
    pub fn database(&self) -> PathBuf {
        self.dir.join(DATABASE)
    }

    /// Whether the caller named the database instead of the directory. If the database turns out
    /// not to be Chroma's, it is then treated as an ordinary database.
    pub fn named_database(&self) -> bool {
        self.named_database
    }
}

/// Returns the directory if `path` is a directory that contains a `chroma.sqlite3`, or is such a
/// file itself. Both mean the same. `None` for any other path.
///
/// Other databases in the directory do not matter. A database of another name is never Chroma's: a
/// copy in another place has no index files beside it.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Permission`]; [`Error::NotADatabase`] if the `chroma.sqlite3` in
/// the directory is not a file or is empty.
pub fn recognise(path: &Path) -> Result<Option<ChromaDir>> {
    if path.to_str().is_some_and(densite_vfs::is_url) {
        return Ok(None);
    }
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
