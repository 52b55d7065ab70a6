//! Opens databases through the SQLite in this program: plainly, or through the loadable extension.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};

use crate::result::{About as _, Failure, Result};

/// How a database is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Vfs {
    /// The VFS of the system
    Plain,
    /// The VFS of Densite
    Densite,
}

impl Vfs {
    /// `path` as a URI that opens through this VFS, independently of the connection's default.
    pub(crate) fn uri(self, path: &Path) -> Result<String> {
        let path = path.to_str().ok_or_else(|| {
            Failure(format!(
                "{} is not valid UTF-8: choose another name",
                path.display()
            ))
        })?;
        let path = path
            .replace('%', "%25")
            .replace('?', "%3f")
            .replace('#', "%23");
        Ok(match self {
            Vfs::Plain => format!("file:{path}?vfs=unix"),
            Vfs::Densite => format!("file:{path}?vfs=densite"),
        })
    }

    /// Opens `path` through this VFS with SQLite's default settings. The extension must be loaded.
    pub(crate) fn open(self, path: &Path) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let con = Connection::open_with_flags(self.uri(path)?, flags).about("open", path)?;
        // This build of SQLite enforces foreign keys by default; SQLite itself does not.
        con.execute_batch("PRAGMA foreign_keys=OFF")?;
        Ok(con)
    }
}

/// Sets the journal mode.
///
/// # Errors
/// SQLite's, and if the mode is another one afterwards.
pub(crate) fn set_journal_mode(con: &Connection, mode: &str) -> Result<()> {
    let got: String = con.query_row(&format!("PRAGMA journal_mode={mode}"), [], |r| r.get(0))?;
    if got == mode {
        Ok(())
    } else {
        Err(Failure(format!(
            "the journal mode is {got}, not {mode} as asked for"
        )))
    }
}

/// A program or library that was built into the same folder as this program.
pub(crate) fn sibling(name: &str, build: &str) -> Result<PathBuf> {
    let me = std::env::current_exe().about("find", Path::new("this program"))?;
    let path = me.with_file_name(name);
    if path.is_file() {
        Ok(path)
    } else {
        Err(Failure(format!(
            "{} is missing: `{build}` builds it",
            path.display()
        )))
    }
}

/// Loads the extension that was built with this program. It serves all later connections of this
/// process.
pub(crate) fn load_extension() -> Result<()> {
    load(&extension()?)
}

/// The path of that extension.
pub(crate) fn extension() -> Result<PathBuf> {
    sibling("libdensite.so", "make ext")
}

/// Loads a library that registers a VFS for all later connections of this process.
pub(crate) fn load(path: &Path) -> Result<()> {
    let con = Connection::open_in_memory()?;
    // SAFETY: no other SQL runs on this connection while loading is enabled, and the library is
    // Densite's own, built with this program, or one that the demo was told to load.
    unsafe {
        con.load_extension_enable()?;
        con.load_extension(path, None::<&str>).about("load", path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_in_names_are_escaped() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("a ?b#c%20d.db");
        Vfs::Plain
            .open(&path)
            .expect("it opens")
            .execute_batch("CREATE TABLE t(a)")
            .expect("it writes");
        assert!(path.is_file());
    }
}
