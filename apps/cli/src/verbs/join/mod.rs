//! `densite join DB ADDRESS`: through the SQL function, as an application would do it.

mod stay;

use crate::args::{Common, JoinArgs};
use crate::failure::{Failure, Outcome};
use crate::shown::{self, shown};
use crate::sql::failure::{At, failure, other};
use crate::sql::open::{Access, open};
use crate::{out, sqlite};
use rusqlite::{Connection, OptionalExtension as _};
use serde_json::{Map, Value, json};
use std::path::Path;

pub(crate) fn run(common: Common, args: &JoinArgs) -> Outcome {
    let is_address = |name: &str| name.starts_with("nats://") || name.starts_with("tls://");
    if is_address(&args.db.to_string_lossy()) && !is_address(&args.address) {
        // An address can have a password, so it is not shown.
        let text = "the address of a stream is in the place of the database; name the database first: densite join DB ADDRESS";
        return Err(Failure::Other("usage", 2, text.to_owned(), json!({})));
    }
    sqlite::api()?;
    let database = Database::open(&args.db)?;
    let settings = settings(args)?;
    if args.stay {
        return stay::run(common, args, database, &settings);
    }
    let origin = database.join(args, &settings)?;
    database.close()?;
    let object = json!({
        "verb": "join",
        "path": args.db.to_string_lossy(),
        "origin": origin,
    });
    let text = format!("{} joined as {}\n", shown::path(&args.db), shown(&origin));
    let text = if common.quiet { "" } else { &text };
    let done = format!("{}: the database joined the stream", args.db.display());
    out::report(common, &object, text, &done);
    Ok(0)
}

/// What the user says of the server, as `densite_member.access` has it without its defaults. Paths
/// are absolute: other processes read the files, too.
fn settings(args: &JoinArgs) -> Result<Map<String, Value>, Failure> {
    let mut settings = Map::new();
    for (name, path) in [
        ("credentials", &args.credentials),
        ("ca_file", &args.ca_file),
        ("client_certificate", &args.client_certificate),
        ("client_key", &args.client_key),
    ] {
        if let Some(path) = path {
            settings.insert(name.to_owned(), json!(absolute(path)?));
        }
    }
    if !args.monitor.is_empty() {
        settings.insert("monitor".to_owned(), json!(args.monitor));
    }
    if let Some(replicas) = args.replicas {
        settings.insert("replicas".to_owned(), json!(replicas));
    }
    if args.trust_server {
        settings.insert("trust_server".to_owned(), json!(true));
    }
    Ok(settings)
}

/// An absolute path as text.
fn absolute(path: &Path) -> Result<String, Failure> {
    let absolute = std::path::absolute(path).ok();
    let text = absolute.and_then(|path| path.into_os_string().into_string().ok());
    text.ok_or_else(|| {
        let shown = path.display();
        other(format!(
            "{shown:?}: the path is empty or is not UTF-8; rename the file"
        ))
    })
}

/// The row of `densite_member`.
struct Known {
    address: String,
    /// What the user said of the server, without defaults.
    settings: Map<String, Value>,
    origin: String,
    /// Why it applies no more messages; empty while it does.
    stopped: String,
}

/// The connection of `join` and `leave`.
pub(super) struct Database {
    name: String,
    db: Connection,
}

impl Database {
    pub(super) fn open(path: &Path) -> Result<Database, Failure> {
        if !path.exists() {
            let path = path.to_path_buf();
            return Err(densite_tools::Error::NotFound { path }.into());
        }
        let name = path.to_string_lossy().into_owned();
        let db = open(&name, Access::Existing)?;
        Ok(Database { name, db })
    }

    /// An error, in which the database is named as the user did.
    fn failed(&self, error: rusqlite::Error) -> Failure {
        let full = format!("{}: ", self.db.path().unwrap_or_default());
        let error = match error {
            rusqlite::Error::SqliteFailure(code, Some(said)) => {
                let said = said.strip_prefix(&full).unwrap_or(&said).to_owned();
                rusqlite::Error::SqliteFailure(code, Some(said))
            }
            other => other,
        };
        failure(&self.name, At::Database, &error)
    }

    /// What a function returns.
    pub(super) fn value_from<T: rusqlite::types::FromSql>(
        &self,
        sql: &str,
        values: &[&dyn rusqlite::ToSql],
    ) -> Result<T, Failure> {
        let value = self.db.query_row(sql, values, |row| row.get(0));
        value.map_err(|e| self.failed(e))
    }

    /// Joins, and returns the name of the member.
    fn join(&self, args: &JoinArgs, settings: &Map<String, Value>) -> Result<String, Failure> {
        let mut all = settings.clone();
        if let Some(origin) = &args.origin {
            all.insert("origin".to_owned(), json!(origin));
        }
        for (name, given) in [
            ("moved", args.moved),
            ("discard", args.discard),
            ("after_loss", args.after_loss),
            ("right", args.right),
        ] {
            if given {
                all.insert(name.to_owned(), json!(true));
            }
        }
        let all = Value::Object(all).to_string();
        self.value_from("SELECT densite_join(?1, ?2)", &[&args.address, &all])
    }

    /// What the database says of its membership; `None` if it is no member.
    fn known(&self) -> Result<Option<Known>, Failure> {
        let is_known = "SELECT 1 FROM main.sqlite_schema WHERE name = 'densite_member'";
        let is_known = self.db.query_row(is_known, [], |_| Ok(())).optional();
        if is_known.map_err(|e| self.failed(e))?.is_none() {
            return Ok(None);
        }
        let sql = "SELECT address, access, origin, stopped FROM main.densite_member";
        let known = self.db.query_row(sql, [], |row| {
            let access: String = row.get(1)?;
            let mut settings: Map<String, Value> =
                serde_json::from_str(&access).unwrap_or_default();
            settings.retain(|_, value| {
                let is_default = value.is_null() || *value == json!([]) || *value == json!(false);
                !is_default
            });
            Ok(Known {
                address: row.get(0)?,
                settings,
                origin: row.get(2)?,
                stopped: row.get(3)?,
            })
        });
        known.optional().map_err(|e| self.failed(e))
    }

    pub(super) fn close(self) -> Result<(), Failure> {
        let closed = self.db.close();
        closed.map_err(|(_, e)| failure(&self.name, At::Database, &e))
    }
}
