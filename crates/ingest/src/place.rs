//! Which file a connection's main database is.

use crate::error::refused;
use densite_sqlite::{Connection, Result};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Device and inode.
pub(crate) type Identity = (u64, u64);

/// The file of a main database.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) path: String,
    pub(crate) identity: Identity,
}

impl Place {
    /// Of this connection's main database. The file is never opened: closing a descriptor would drop SQLite's locks.
    pub(crate) fn of(connection: &Connection) -> Result<Place> {
        let path = connection.filename(c"main").unwrap_or_default();
        if path.is_empty() {
            return Err(refused(
                "a database in memory or a temporary one has no log; open a database file",
            ));
        }
        let meta = std::fs::metadata(&path)
            .map_err(|e| refused(format!("{path}: the database's file cannot be found: {e}")))?;
        if meta.nlink() > 1 {
            return Err(refused(format!(
                "{path}: the file has {} names (hard links), and the log belongs to one of them; remove the others, or copy the file",
                meta.nlink()
            )));
        }
        Ok(Place {
            identity: (meta.dev(), meta.ino()),
            path,
        })
    }

    /// The directory of its log.
    pub(crate) fn log_dir(&self) -> PathBuf {
        PathBuf::from(format!("{}-log", self.path))
    }
}
