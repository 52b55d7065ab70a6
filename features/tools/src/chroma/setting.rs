//! The setting `automatically_purge`: whether Chroma itself purges after each write. Chroma keeps
//! it as JSON in `embeddings_queue_config` since 0.5.6.

use super::schema::Schema;
use super::sql::{Sql, text};
use crate::error::{Error, Result};
use densite_sqlite::Value;

/// The id and the text of the row that Chroma writes. The order of the names does not matter to
/// Chroma.
const ROW: i64 = 1;
const JSON: &str =
    r#"{"automatically_purge": true, "_type": "EmbeddingsQueueConfigurationInternal"}"#;

/// The value of the setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoPurge {
    /// On.
    On,
    /// Off. Chroma creates the setting with this value if the queue already has rows.
    Off,
    /// There is no row yet.
    Unset,
    /// The schema does not have the setting (before 0.5.6).
    NoPlace,
}

/// What a prune does to the setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeChange {
    /// Nothing: it is on already, or the schema does not have it.
    None,
    /// Sets it to true.
    TurnOn,
    /// Leaves it off. Something looks wrong, so Chroma's own purge would delete rows that must
    /// stay.
    LeftOff,
}

/// Reads the setting.
pub(super) fn read(sql: &Sql<'_>, schema: Schema) -> Result<AutoPurge> {
    if !schema.has_config() {
        return Ok(AutoPurge::NoPlace);
    }
    // Chroma reads the first row, whatever its id.
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

/// Sets it to true and keeps all other fields.
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
        "{}: embeddings_queue_config holds no known setting of Chroma 0.5 to 1.5; open the directory with Chroma to see what it says; nothing was changed",
        sql.path().display()
    ))
}
