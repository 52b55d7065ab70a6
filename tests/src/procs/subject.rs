//! The tested system: Densite, or plain SQLite as the control.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;

use densite_sqlite::Api;
use rusqlite::{Connection, OpenFlags};

/// One of the two ways to open a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// SQLite's own VFS.
    Plain,
    /// The VFS "densite".
    Densite,
}

/// Files are read, written and created; no mutex per connection beyond SQLite's own.
pub const READ_WRITE: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_CREATE);
/// Files are only read.
pub const READ_ONLY: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY;

impl Subject {
    /// Opens a database for reading and writing, and creates it if it is missing.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn open(self, path: &Path) -> rusqlite::Result<Connection> {
        self.open_with(path, READ_WRITE)
    }

    /// Opens a database.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn open_with(self, path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
        match self {
            Subject::Plain => Connection::open_with_flags(path, flags),
            Subject::Densite => {
                api();
                Connection::open_with_flags_and_vfs(path, flags, "densite")
            }
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Plain => "plain",
            Subject::Densite => "densite",
        })
    }
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "plain" => Ok(Subject::Plain),
            "densite" => Ok(Subject::Densite),
            _ => Err(format!("there is no subject {s}")),
        }
    }
}

/// The SQLite that is linked into this process, with the VFS "densite" and Densite's functions.
///
/// # Panics
/// If it cannot be registered.
pub fn api() -> Api {
    static API: OnceLock<Api> = OnceLock::new();
    *API.get_or_init(|| {
        let api = densite_linked::api().expect("the API table of the linked SQLite");
        densite_vfs::register(api, densite_vfs::NAME, None, false).expect("register the VFS");
        densite_linked::for_every_connection(densite_tools::create_functions)
            .expect("register the functions");
        // SAFETY: the entry point is part of this program.
        unsafe { api.auto_extension(densite_vfs::densite_init) }.expect("register the functions");
        api
    })
}

/// The extended code of an error of SQLite; -1 for any other error.
pub fn code(e: &rusqlite::Error) -> i32 {
    match e {
        rusqlite::Error::SqliteFailure(e, _) => e.extended_code,
        _ => -1,
    }
}

/// The primary code of an error of SQLite.
pub fn primary(e: &rusqlite::Error) -> i32 {
    code(e) & 0xff
}
