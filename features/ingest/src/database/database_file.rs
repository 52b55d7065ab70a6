//! The file of a connection's main database.

use crate::error::refused;
use crate::storage::StorageBackend;
use densite_disk::ErrorKind;
use densite_sqlite::{Code, Connection, Error, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// See [`crate::FileInfo::identity`].
pub(crate) type Identity = (u64, u64);

/// The file of a main database.
#[derive(Clone)]
pub struct DatabaseFile {
    /// Its path.
    pub path: String,
    pub(crate) identity: Identity,
    /// Its storage backend.
    pub storage: Arc<dyn StorageBackend>,
    /// The connection cannot write to it.
    pub(crate) reads_only: bool,
}

/// Checks that the connection's file still has the database's name. The log belongs to a path, and
/// rows are applied to the file that has it. A connection with another file must not acknowledge
/// rows or give up rows that only the log has. It also must not wait for rows that it can never
/// see.
///
/// One `stat`. A later change of the file is not detected, as in SQLite, which also checks before
/// it writes.
pub(crate) fn still_has_its_name(connection: &Connection) -> Result<()> {
    match connection.has_moved(c"main") {
        false => Ok(()),
        true => Err(Error::new(
            Code::READONLY_DBMOVED,
            "the database's file was replaced, moved or removed, and this connection has the old one open; what was acknowledged is in the log: open the database again",
        )),
    }
}

impl DatabaseFile {
    /// The file of this connection's main database, on this storage backend.
    pub fn of(connection: &Connection, storage: &Arc<dyn StorageBackend>) -> Result<DatabaseFile> {
        let path = connection.filename(c"main").ok_or_else(|| {
            refused("the name of the database's file is not UTF-8, so its log cannot be named after it; rename it")
        })?;
        if path.is_empty() {
            return Err(refused(
                "a database in memory or a temporary one has no log; open a database file",
            ));
        }
        // Otherwise the path would lead to another file.
        still_has_its_name(connection)?;
        let found = storage.file_info(&path).map_err(|e| {
            let text = format!("{path}: the database's file cannot be found: {e}");
            match e.kind {
                ErrorKind::NotFound | ErrorKind::Permission => refused(text),
                _ => Error::new(e.op.into(), text),
            }
        })?;
        if found.names > 1 {
            return Err(refused(format!(
                "{path}: the file has {} names (hard links), and the log belongs to one of them; remove the others, or copy the file",
                found.names
            )));
        }
        Ok(DatabaseFile {
            identity: found.identity,
            path,
            storage: storage.clone(),
            reads_only: connection.is_readonly(c"main") == Some(true),
        })
    }

    /// The directory of its log.
    pub fn log_dir(&self) -> PathBuf {
        PathBuf::from(format!("{}-log", self.path))
    }
}
