//! The tables that Densite has in a database: their names, and how they are made (docs/FORMAT.md).
//! All others belong to the application, or to SQLite.

use crate::error::refused;
use densite_sqlite::{Connection, Result};

/// The tables of ingest and of members.
pub(crate) const INGEST: [&str; 11] = [
    "densite_applied",
    "densite_clustered",
    "densite_rejects",
    "densite_ingest_tables",
    "densite_member",
    "densite_origins",
    "densite_digests",
    "densite_member_ids",
    "densite_skipped",
    "densite_member_tables",
    "densite_joining",
];

/// The tables of recorded changes ([`crate::changes`]).
const CHANGES: [&str; 2] = ["densite_changed", "densite_change_subscribers"];

/// Makes the tables that say how far the log is applied.
pub(crate) const APPLIED: &str = r#"
CREATE TABLE IF NOT EXISTS main.densite_applied(id INTEGER PRIMARY KEY CHECK (id = 1), log BLOB NOT NULL, seq INTEGER NOT NULL, clustered INTEGER NOT NULL DEFAULT 0, clustered_last INTEGER NOT NULL DEFAULT 0, clustered_done INTEGER NOT NULL DEFAULT 0, paused TEXT NOT NULL DEFAULT '', applied_at INTEGER NOT NULL DEFAULT 0, applied_rate REAL NOT NULL DEFAULT 0, stream BLOB, stream_message INTEGER NOT NULL DEFAULT 0, stream_mark INTEGER NOT NULL DEFAULT 0, stream_row INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS main.densite_clustered(id INTEGER PRIMARY KEY, basis TEXT NOT NULL, permutation BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS main.densite_rejects(seq INTEGER PRIMARY KEY, "table" TEXT NOT NULL, "row" TEXT NOT NULL, error TEXT NOT NULL, at TEXT NOT NULL, op TEXT NOT NULL DEFAULT 'insert', on_conflict TEXT NOT NULL DEFAULT 'abort');
"#;

/// The ingest tables of every connection (`features/ingest/src/functions/persistent_tables.rs`). It
/// is made with the first setting.
pub(crate) const PERSISTENT: &str = "CREATE TABLE IF NOT EXISTS main.densite_ingest_tables(\"table\" TEXT PRIMARY KEY COLLATE NOCASE, options TEXT NOT NULL) WITHOUT ROWID";

/// Makes the tables of a member of a stream.
pub const MEMBER: &str = "
CREATE TABLE IF NOT EXISTS main.densite_member(id INTEGER PRIMARY KEY CHECK (id = 1), address TEXT NOT NULL, access TEXT NOT NULL, origin TEXT NOT NULL, begun INTEGER NOT NULL, home INTEGER NOT NULL, stopped TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS main.densite_origins(origin TEXT PRIMARY KEY, number INTEGER NOT NULL UNIQUE, log BLOB NOT NULL, seq INTEGER NOT NULL, has_left INTEGER NOT NULL DEFAULT 0, applied INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS main.densite_digests(message INTEGER NOT NULL, origin TEXT NOT NULL, tables TEXT NOT NULL, PRIMARY KEY(message, origin)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS main.densite_member_ids(\"table\" TEXT PRIMARY KEY COLLATE NOCASE, last INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS main.densite_skipped(message INTEGER PRIMARY KEY, origin TEXT NOT NULL, reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS main.densite_member_tables(\"table\" TEXT PRIMARY KEY COLLATE NOCASE) WITHOUT ROWID;
";

/// Whether a table is SQLite's or Densite's own.
pub fn is_own(table: &str) -> bool {
    let name = table.to_ascii_lowercase();
    name.starts_with("sqlite_") || is_densites(&name)
}

/// The tables of the application in the main database: ordinary ones.
///
/// # Errors
/// SQLite's.
pub fn tables_of(connection: &Connection) -> Result<Vec<String>> {
    let mut tables = Vec::new();
    let mut statement = connection.prepare(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' ORDER BY name",
    )?;
    while statement.step()? {
        let name = statement.column(0).as_str().unwrap_or_default();
        if !is_own(name) {
            tables.push(name.to_owned());
        }
    }
    Ok(tables)
}

/// Refuses tables that belong to SQLite or to Densite, which an application must not write.
pub(crate) fn refuse_foreign(table: &str) -> Result<()> {
    let name = table.to_ascii_lowercase();
    let owner = match name.as_str() {
        _ if name.starts_with("sqlite_") => "SQLite",
        name if is_densites(name) => "Densite",
        _ => return Ok(()),
    };
    Err(refused(format!(
        "{name} is {owner}'s own; ingest needs a table of the application"
    )))
}

fn is_densites(name: &str) -> bool {
    INGEST.contains(&name) || CHANGES.contains(&name)
}
