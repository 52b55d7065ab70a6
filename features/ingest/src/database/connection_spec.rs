//! How to open another connection to the same database with the same settings.

use crate::changes;
use crate::schema::own_triggers::create_guard;
use crate::waiting::patience::lock_time;
use densite_sqlite::{Api, Connection, Error, Result, ffi};
use std::ffi::{CStr, CString};
use std::fmt::Write as _;

/// The settings for another connection.
#[derive(Debug, Clone)]
pub struct ConnectionSpec {
    api: Api,
    vfs: Option<CString>,
    uri: String,
    /// The original connection can only read.
    reads_only: bool,
}

impl ConnectionSpec {
    /// For the same file, which has this path, through the same SQLite and VFS, with the same
    /// settings.
    pub fn of(connection: &Connection, path: &str) -> ConnectionSpec {
        let mut uri = String::from("file:");
        encode(path, &mut uri);
        // These describe the original connection and not the database. Its access mode is read
        // below.
        let own = ["mode", "cache", "vfs", "modeof"];
        let parameters = connection.uri_parameters(c"main");
        let parameters = parameters
            .iter()
            .filter(|(k, _)| !own.contains(&k.as_str()));
        for (i, (key, value)) in parameters.enumerate() {
            uri.push(if i == 0 { '?' } else { '&' });
            encode(key, &mut uri);
            uri.push('=');
            encode(value, &mut uri);
        }
        let vfs = connection.registered_vfs(c"main");
        ConnectionSpec {
            api: connection.api(),
            vfs: vfs.and_then(|name| CString::new(name).ok()),
            uri,
            reads_only: connection.is_readonly(c"main") == Some(true),
        }
    }

    /// Whether the new connection is for reading only.
    pub(crate) fn reads_only(&self) -> bool {
        self.reads_only
    }

    /// Opens a connection for use by one thread.
    ///
    /// # Errors
    /// SQLite's.
    pub fn open(&self) -> Result<Connection> {
        self.open_through(self.vfs.as_deref())
    }

    /// As [`ConnectionSpec::open`]. It waits for locks as long as `caller`, but at least two seconds.
    ///
    /// # Errors
    /// SQLite's.
    pub fn open_patient(&self, caller: &Connection) -> Result<Connection> {
        let own = self.open()?;
        own.set_busy_timeout(lock_time(caller)?)?;
        Ok(own)
    }

    /// As [`ConnectionSpec::open`], for large transactions: several WAL frames are written as one.
    pub(crate) fn open_to_write(&self) -> Result<Connection> {
        let coalesced = densite_sqlite::coalesced_vfs(self.api, self.vfs.as_deref())?;
        self.open_through(coalesced.as_deref().or(self.vfs.as_deref()))
    }

    fn open_through(&self, vfs: Option<&CStr>) -> Result<Connection> {
        if !self.api.has_mutexes() {
            return Err(Error::new(
                densite_sqlite::Code::MISUSE,
                "this SQLite was built or configured without threads; ingest needs them",
            ));
        }
        let how = match self.reads_only {
            true => ffi::OPEN_READONLY,
            false => ffi::OPEN_READWRITE,
        };
        let flags = how | ffi::OPEN_URI | ffi::OPEN_NOMUTEX | ffi::OPEN_PRIVATECACHE;
        let connection = Connection::open(self.api, &self.uri, flags, vfs)?;
        if !self.reads_only {
            equip(&connection)?;
        }
        Ok(connection)
    }
}

/// Adds what each connection of Densite's own has: it records changes, and it may write the tables
/// of a member.
///
/// # Errors
/// SQLite's.
pub fn equip(connection: &Connection) -> Result<()> {
    changes::create_recorder(connection)?;
    create_guard(connection, true)
}

/// Escapes everything that could be URI syntax as `%XX`.
fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}
