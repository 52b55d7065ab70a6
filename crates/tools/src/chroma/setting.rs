//! `automatically_purge`: whether Chroma itself purges after each write. Kept as JSON in
//! `embeddings_queue_config`, since 0.5.6.

use super::schema::Schema;
use super::sql::{Sql, text};
use crate::error::{Error, Result};
use densite_sqlite::Value;

/// The row that Chroma writes: number 1, with this text (the order of the names does not matter to
/// it).
const ROW: i64 = 1;
const JSON: &str =
    r#"{"automatically_purge": true, "_type": "EmbeddingsQueueConfigurationInternal"}"#;

/// What the setting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoPurge {
    /// On.
    On,
    /// Off: Chroma found a queue with rows in it when it made the setting.
    Off,
    /// Not written yet.
    Unset,
    /// The schema has no place for it (before 0.5.6).
    NoPlace,
}

/// What a prune does to the setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeChange {
    /// It is on already, or has no place.
    None,
    /// It becomes true.
    TurnOn,
    /// It stays as it is: something looked wrong, and Chroma's own purge would delete rows that are
    /// held back for it.
    LeftOff,
}

/// Reads it.
pub(super) fn read(sql: &Sql<'_>, schema: Schema) -> Result<AutoPurge> {
    if !schema.has_config() {
        return Ok(AutoPurge::NoPlace);
    }
    // Chroma reads the first row, whatever its number.
    let row = sql.check(sql.conn.query_row(
        "SELECT CASE
           WHEN NOT json_valid(config_json_str) OR json_type(config_json_str) <> 'object' THEN 'broken'
           ELSE ifnull(json_type(config_json_str, '$.automatically_purge'), 'none') END
         FROM embeddings_queue_config ORDER BY id LIMIT 1",
        &[],
    ))?;
    match row.as_deref() {
        None => Ok(AutoPurge::Unset),
        Some([Value::Text(kind)]) => match kind.as_str() {
            "true" => Ok(AutoPurge::On),
            "false" => Ok(AutoPurge::Off),
            "none" => Ok(AutoPurge::Unset),
            _ => Err(broken(sql)),
        },
        Some(_) => Err(broken(sql)),
    }
}

/// Makes it true; what else the setting says stays.
pub(super) fn turn_on(sql: &Sql<'_>) -> Result<()> {
    let changed = sql.run(
        "UPDATE embeddings_queue_config SET config_json_str = json_set(config_json_str, '$.automatically_purge', json('true'))
         WHERE id = (SELECT id FROM embeddings_queue_config ORDER BY id LIMIT 1)",
        &[],
    );
    if changed? == 0 {
        sql.run(
            "INSERT INTO embeddings_queue_config (id, config_json_str) VALUES (?, ?)",
            &[Value::Integer(ROW), text(JSON)],
        )?;
    }
    Ok(())
}

fn broken(sql: &Sql<'_>) -> Error {
    Error::Unsupported(format!(
        "{}: embeddings_queue_config holds no setting that is known of Chroma 0.5 to 1.5; open the directory with Chroma to see what it says; nothing was changed",
        sql.path().display()
    ))
}
