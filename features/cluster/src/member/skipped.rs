//! Messages of the stream that no member wrote: the table `densite_skipped`. All members skip them,
//! so they are at the same places everywhere.

use densite_sqlite::{Connection, Result, Value};

/// How many are listed.
const LISTED: u32 = 1000;

/// Notes a message, within the connection's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn note(
    connection: &Connection,
    message: u64,
    origin: &str,
    reason: &str,
) -> Result<()> {
    let sql =
        "INSERT OR REPLACE INTO main.densite_skipped(message, origin, reason) VALUES (?1, ?2, ?3)";
    let values = [
        Value::Integer(message.cast_signed()),
        Value::from(origin),
        Value::from(reason),
    ];
    connection.query_row(sql, &values)?;
    let old = format!(
        "DELETE FROM main.densite_skipped WHERE message <= (SELECT message FROM main.densite_skipped ORDER BY 1 DESC LIMIT 1 OFFSET {LISTED})"
    );
    connection.exec(&old)
}

/// How many are listed.
///
/// # Errors
/// SQLite's.
pub(crate) fn count(connection: &Connection) -> Result<i64> {
    let count = connection.query_i64("SELECT count(*) FROM main.densite_skipped")?;
    Ok(count.unwrap_or(0))
}
