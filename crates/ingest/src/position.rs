//! What the database says of its log: the tables `densite_applied` and `densite_rejects`.
//!
//! ```sql
//! CREATE TABLE densite_applied(id INTEGER PRIMARY KEY CHECK (id = 1), log BLOB NOT NULL, seq INTEGER NOT NULL);
//! CREATE TABLE densite_rejects(seq INTEGER PRIMARY KEY, "table" TEXT NOT NULL, "row" TEXT NOT NULL, error TEXT NOT NULL, at TEXT NOT NULL);
//! ```
//!
//! `densite_applied` has one row: the log's id, 16 bytes, and the number of the last row that was applied. That row changes in the transaction that applies rows.

use densite_log::{LogId, Seq};
use densite_sqlite::{Connection, Result, Value, ValueRef};

const TABLES: &str = r#"
CREATE TABLE IF NOT EXISTS main.densite_applied(id INTEGER PRIMARY KEY CHECK (id = 1), log BLOB NOT NULL, seq INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS main.densite_rejects(seq INTEGER PRIMARY KEY, "table" TEXT NOT NULL, "row" TEXT NOT NULL, error TEXT NOT NULL, at TEXT NOT NULL);
"#;

/// The log that a database names, and how far it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The log's id.
    pub id: LogId,
    /// The last row whose effect the database has, in this connection's present snapshot.
    pub seq: Seq,
}

impl Position {
    /// What the main database says; `None` if it has no log.
    ///
    /// # Errors
    /// SQLite's.
    pub fn read(connection: &Connection) -> Result<Option<Position>> {
        let known =
            "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'densite_applied'";
        if connection.query_i64(known)?.is_none() {
            return Ok(None);
        }
        let mut statement = connection.prepare("SELECT log, seq FROM main.densite_applied")?;
        if !statement.step()? {
            return Ok(None);
        }
        let id = statement
            .column(0)
            .as_bytes()
            .and_then(|b| b.try_into().ok());
        let seq = match statement.column(1) {
            ValueRef::Integer(seq) => u64::try_from(seq).ok(),
            _ => None,
        };
        match (id, seq) {
            (Some(id), Some(seq)) => Ok(Some(Position { id: LogId(id), seq })),
            _ => Err(crate::error::refused(
                "the table densite_applied does not say what it should: it is Densite's own and not to be changed; restore the database",
            )),
        }
    }

    /// Makes the tables and names the log, unless another connection was first: then that one's log counts. In the connection's transaction, if there is one.
    pub(crate) fn create(connection: &Connection, id: LogId) -> Result<()> {
        connection.exec(TABLES)?;
        let mut insert = connection.prepare(
            "INSERT OR IGNORE INTO main.densite_applied(id, log, seq) VALUES (1, ?1, 0)",
        )?;
        insert.bind(1, &Value::Blob(id.0.to_vec()))?;
        insert.step()?;
        Ok(())
    }
}
