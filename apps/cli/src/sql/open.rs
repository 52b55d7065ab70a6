//! Opens the database of a verb that runs SQL, and names it in messages.

use super::failure::{At, failure};
use crate::failure::Failure;
use crate::sqlite;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};
use serde_json::json;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// How long a statement waits for another connection's lock.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// A missing database is an error.
    Existing,
    /// The same; the error names the option that creates it.
    ExistingUnlessAsked,
    /// A missing database is created.
    Create,
    /// Nothing can be changed.
    ReadOnly,
}

/// Opens the database. Problems with the path are reported in our words, because SQLite only says
/// that it cannot open the file.
pub(crate) fn open(db: &str, access: Access) -> Result<Connection, Failure> {
    let uri = db.starts_with("file:");
    let is_remote = densite_vfs::is_url(db) || densite_vfs::is_replica(db);
    let is_file = !uri && db != ":memory:" && !is_remote;
    if is_file {
        let path = Path::new(db);
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => {
                return Err(densite_tools::Error::IsDirectory {
                    path: path.to_path_buf(),
                }
                .into());
            }
            Ok(_) => {}
            Err(_) => {
                let dir = densite_tools::parent_of(path);
                if !dir.is_dir() {
                    return Err(densite_tools::Error::NotFound { path: dir }.into());
                }
                if access != Access::Create {
                    let or = match access {
                        Access::ExistingUnlessAsked => {
                            ", or give --create to create a new database"
                        }
                        _ => "",
                    };
                    return Err(Failure::Other(
                        "not_found",
                        1,
                        format!("{db}: there is no such file; check the path{or}"),
                        json!({ "path": db }),
                    ));
                }
            }
        }
    }
    // ATTACH takes over these flags: with CREATE it makes a missing database, as in the sqlite3
    // shell. The name of a database that must exist says so itself.
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI
        | match access {
            Access::Existing | Access::ExistingUnlessAsked | Access::Create => {
                OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
            }
            Access::ReadOnly => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
    let name = match (access, uri) {
        (Access::Existing | Access::ExistingUnlessAsked, true) => existing(&with_our_vfs(db)),
        (Access::Existing | Access::ExistingUnlessAsked, false) if is_file => existing(&uri_of(db)),
        (_, true) => with_our_vfs(db),
        (_, false) => db.to_owned(),
    };
    let ready = Connection::open_with_flags_and_vfs(&name, flags, sqlite::VFS).and_then(|c| {
        c.busy_timeout(BUSY_TIMEOUT)?;
        // SQLite's own default; the linked library was built with another one.
        c.pragma_update(None, "foreign_keys", false)?;
        Ok(c)
    });
    ready.map_err(|e| {
        // Only now: in the place of a replica there can be others below it.
        let place = Some(Path::new(db)).filter(|_| densite_vfs::is_replica(db));
        let below = place.and_then(Failure::of_replicas);
        below.unwrap_or_else(|| failure(&shown_name(db), At::Database, &without_name(e, &name, db)))
    })
}

/// An error of opening with the database's name as the user gave it, without secrets. `name` is the
/// one that SQLite was given.
fn without_name(e: rusqlite::Error, name: &str, db: &str) -> rusqlite::Error {
    let shown = shown_name(db);
    match e {
        rusqlite::Error::SqliteFailure(code, Some(said)) => {
            let said = said.replace(name, &shown).replace(db, &shown);
            rusqlite::Error::SqliteFailure(code, Some(said))
        }
        other => other,
    }
}

/// A database's name for messages. A URL can have secrets, which are left out.
pub(crate) fn shown_name(db: &str) -> String {
    let path = db.strip_prefix("file:").unwrap_or(db);
    match densite_vfs::is_url(path) {
        // In a URI the URL's own query is escaped.
        true => {
            let escaped = path.find("%3F").or_else(|| path.find("%3f"));
            densite_vfs::shown_url(path.get(..escaped.unwrap_or(path.len())).unwrap_or(path))
        }
        false => db.to_owned(),
    }
}

/// The URI with our VFS added. If it names a VFS itself, unknown parameters are an error.
fn with_our_vfs(uri: &str) -> String {
    with_parameter(uri, "vfs", sqlite::VFS)
}

/// The URI of a database that must exist, unless it says itself how it is opened.
fn existing(uri: &str) -> String {
    with_parameter(uri, "mode", "rw")
}

/// The URI with a parameter added, unless it has it.
fn with_parameter(uri: &str, key: &str, value: &str) -> String {
    let (uri, fragment) = match uri.split_once('#') {
        Some((uri, fragment)) => (uri, format!("#{fragment}")),
        None => (uri, String::new()),
    };
    let parameters = uri.split_once('?').map(|(_, parameters)| parameters);
    let mut keys = parameters.into_iter().flat_map(|p| p.split('&'));
    if keys.any(|p| p.split_once('=').is_some_and(|(known, _)| known == key)) {
        return format!("{uri}{fragment}");
    }
    let between = match parameters {
        Some(_) => '&',
        None => '?',
    };
    format!("{uri}{between}{key}={value}{fragment}")
}

/// The URI of a path.
fn uri_of(path: &str) -> String {
    let mut uri = "file:".to_owned();
    // What follows two slashes would be the name of a machine.
    if path.starts_with('/') {
        uri += "//";
    }
    for c in path.chars() {
        match c {
            '%' => uri += "%25",
            '?' => uri += "%3F",
            '#' => uri += "%23",
            c => uri.push(c),
        }
    }
    uri
}

/// The database of a verb. If the verb created it, dropping this removes it while it is empty,
/// unless it is kept.
pub(crate) struct Opened {
    /// `None` after closing.
    db: Option<Rc<Connection>>,
    is_new: bool,
}

impl Opened {
    pub(crate) fn new(db: &str, access: Access) -> Result<Opened, Failure> {
        let is_new = access == Access::Create && is_missing(db);
        let db = Some(Rc::new(open(db, access)?));
        Ok(Opened { db, is_new })
    }

    /// Whether the database was missing.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// The connection, to be dropped before [`Opened::keep`].
    pub(crate) fn get(&self) -> Result<Rc<Connection>, Failure> {
        let closed = || Failure::Other("sqlite", 1, "the database is closed".to_owned(), json!({}));
        self.db.clone().ok_or_else(closed)
    }

    /// The same, to be changed; only while it is the only one.
    pub(crate) fn get_mut(&mut self) -> Result<&mut Connection, Failure> {
        let closed = || Failure::Other("sqlite", 1, "the database is in use".to_owned(), json!({}));
        self.db.as_mut().and_then(Rc::get_mut).ok_or_else(closed)
    }

    /// Closes the database and keeps what it has.
    pub(crate) fn keep(mut self) -> rusqlite::Result<()> {
        match self.db.take().and_then(Rc::into_inner) {
            Some(db) => db.close().map_err(|(_, e)| e),
            None => Ok(()),
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(db) = self.db.take().filter(|_| self.is_new) {
            // If the file cannot be removed, it stays and is empty. The failure itself is more
            // useful to the user.
            remove(&db).ok();
        }
    }
}

/// Whether opening the database creates its file.
fn is_missing(db: &str) -> bool {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if db.starts_with("file:") {
        flags |= OpenFlags::SQLITE_OPEN_URI;
    }
    let opened = Connection::open_with_flags_and_vfs(db, flags, sqlite::VFS);
    opened.is_err_and(|e| e.sqlite_error_code() == Some(ErrorCode::CannotOpen))
}

/// Removes the file of an unused database, under a lock that keeps other connections from starting
/// to use it.
fn remove(db: &Connection) -> rusqlite::Result<()> {
    if !db.is_autocommit() {
        db.execute_batch("ROLLBACK")?;
    }
    // In an empty file, BEGIN EXCLUSIVE starts with a write, which fails on a full disk. In this
    // locking mode the connection keeps the lock that it took for the write.
    db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    let begun = db.execute_batch("BEGIN EXCLUSIVE");
    let no_room = |e: &rusqlite::Error| {
        let code = e.sqlite_extended_error_code();
        matches!(code, Some(ffi::SQLITE_FULL | ffi::SQLITE_IOERR_WRITE))
    };
    if let Err(e) = begun
        && !no_room(&e)
    {
        return Err(e);
    }
    let is_empty = db.query_row(
        "SELECT NOT EXISTS (SELECT 1 FROM main.sqlite_schema) AND user_version = 0 AND application_id = 0
         FROM pragma_user_version, pragma_application_id",
        [],
        |row| row.get(0),
    );
    if is_empty == Ok(true)
        && let Some(path) = db.path()
    {
        std::fs::remove_file(path).ok();
    }
    if !db.is_autocommit() {
        db.execute_batch("ROLLBACK")?;
    }
    Ok(())
}
