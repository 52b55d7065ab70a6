//! What a database says of its membership: the tables `densite_member`, `densite_origins` and
//! `densite_digests` (docs/FORMAT.md, What a member says of its stream).

use densite_ingest::StorageBackend;
use densite_ingest::parts::{self, OpenLog, refused};
use densite_log::Seq;
use densite_sqlite::{Connection, Error, Result, Value};
use densite_stream::{Access, Address, Extent, Name, without_password};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What the user said about the server, as `densite_member.access` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// A file of credentials.
    pub(crate) credentials: Option<PathBuf>,
    /// Certificates that are trusted beside the system's.
    pub(crate) ca_file: Option<PathBuf>,
    /// The client's certificate, and its key.
    pub(crate) client_certificate: Option<PathBuf>,
    pub(crate) client_key: Option<PathBuf>,
    /// The monitoring ports of all servers.
    pub(crate) monitor: Vec<String>,
    /// How many replicas a new stream has.
    pub(crate) replicas: Option<usize>,
    /// The user vouches that the servers lose nothing that they acknowledged.
    pub(crate) trust_server: bool,
}

impl Settings {
    /// As the stream wants them.
    ///
    /// # Errors
    /// An error if only one of certificate and key is given.
    pub(crate) fn access(&self) -> Result<Access> {
        let client = match (&self.client_certificate, &self.client_key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            _ => {
                return Err(refused(
                    "client_certificate and client_key belong together: give both",
                ));
            }
        };
        Ok(Access {
            credentials: self.credentials.clone(),
            ca_file: self.ca_file.clone(),
            client_certificate: client,
            monitors: self.monitor.clone(),
            replicas: self.replicas,
        })
    }
}

/// The row of `densite_member`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Membership {
    /// The stream's address, as the user gave it.
    pub(crate) address: String,
    pub(crate) settings: Settings,
    /// The name under which this member appends.
    pub(crate) origin: Name,
    /// Rows of the log up to this one are not for the stream: the table had them before.
    pub(crate) begun: Seq,
    /// Which log directory the origin belongs to: a copy of the database has another one.
    pub(crate) home: u64,
    /// Why this member applies no more messages; empty while it does.
    pub(crate) stopped: String,
}

impl Membership {
    /// Reads it from the main database; `None` if that is no member.
    ///
    /// # Errors
    /// SQLite's; an error if the row has invalid values.
    pub(crate) fn read(connection: &Connection) -> Result<Option<Membership>> {
        let known =
            "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'densite_member'";
        if connection.query_i64(known)?.is_none() {
            return Ok(None);
        }
        let sql = "SELECT address, access, origin, begun, home, stopped FROM main.densite_member";
        let Some(row) = connection.query_row(sql, &[])? else {
            return Ok(None);
        };
        let wrong = || {
            refused(
                "the table densite_member has invalid values: only Densite may change it; restore the database",
            )
        };
        match row.as_slice() {
            [
                Value::Text(address),
                Value::Text(access),
                Value::Text(origin),
                Value::Integer(begun),
                Value::Integer(home),
                Value::Text(stopped),
            ] => Ok(Some(Membership {
                address: address.clone(),
                settings: serde_json::from_str(access).map_err(|_| wrong())?,
                origin: origin.parse().map_err(|_| wrong())?,
                begun: u64::try_from(*begun).map_err(|_| wrong())?,
                home: home.cast_unsigned(),
                stopped: stopped.clone(),
            })),
            _ => Err(wrong()),
        }
    }

    /// Writes it, within the connection's transaction.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn write(&self, connection: &Connection) -> Result<()> {
        connection.exec(parts::MEMBER)?;
        let sql = "INSERT OR REPLACE INTO main.densite_member(id, address, access, origin, begun, home, stopped) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)";
        let values = [
            Value::Text(self.address.clone()),
            Value::Text(serde_json::json!(self.settings).to_string()),
            Value::from(self.origin.as_str()),
            Value::Integer(i64::try_from(self.begun).unwrap_or(i64::MAX)),
            Value::Integer(self.home.cast_signed()),
            Value::Text(self.stopped.clone()),
        ];
        connection.query_row(sql, &values).map(drop)
    }

    /// Which messages the stream has. Opens it for that.
    ///
    /// # Errors
    /// The stream's; an error about the address.
    pub(crate) fn extent(&self) -> Result<Extent> {
        let stream = self.address()?.find(&self.settings.access()?);
        stream.map_err(of_stream)?.extent().map_err(of_stream)
    }

    /// Why this member neither sends nor applies anything; `None` if it does.
    pub(crate) fn stands_still(&self, open: &OpenLog) -> Option<Error> {
        let stopped = (!self.stopped.is_empty())
            .then(|| format!("this member of the stream has stopped: {}", self.stopped));
        let reason = stopped.or_else(|| {
            (home(open.storage().as_ref(), open.dir()) != Some(self.home)).then(|| {
                format!(
                    "this database is a copy of {}, a member of the stream {}; `densite join` gives it a name of its own, `densite join --moved` says that the other one is gone, and `densite leave` makes it independent",
                    self.origin,
                    without_password(&self.address)
                )
            })
        });
        reason.map(refused)
    }

    /// Where the stream is.
    ///
    /// # Errors
    /// An error that says how an address looks.
    pub(crate) fn address(&self) -> Result<Address> {
        Address::parse(&self.address).map_err(of_stream)
    }
}

/// Which directory this is: a copy of it is another one, wherever it is.
pub(crate) fn home(storage: &dyn StorageBackend, log_dir: &Path) -> Option<u64> {
    let info = storage.file_info(&log_dir.to_string_lossy()).ok()?;
    Some(info.identity.1)
}

/// Notes why this member applies no more messages, within the connection's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn stop(connection: &Connection, reason: &str) -> Result<()> {
    let update = "UPDATE main.densite_member SET stopped = ?1";
    connection
        .query_row(update, &[Value::from(reason)])
        .map(drop)
}

/// An error of the stream as SQLite's.
pub(crate) fn of_stream(error: densite_stream::Error) -> Error {
    refused(error.to_string())
}
