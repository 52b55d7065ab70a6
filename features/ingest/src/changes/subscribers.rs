//! Subscribers of changes: positions in the table `densite_change_subscribers`.
//!
//! The position of a subscriber that was dropped is NULL. The row with the empty name keeps the last
//! number when there is no subscriber, and has the limit of bytes in `max_bytes`.

use super::queue::{self, has_tables, last, make_tables};
use crate::error::refused;
use densite_sqlite::{Connection, Result, Value, ValueRef};

/// The bytes that are stored behind the position `?1`. Changes that were stored together count
/// until the last of them is acknowledged.
const BYTES_AFTER: &str = "SELECT ifnull((SELECT total FROM main.densite_changed ORDER BY seq DESC LIMIT 1) - (SELECT total - length(changes) FROM main.densite_changed WHERE seq > ?1 ORDER BY seq LIMIT 1), 0)";

fn bytes_after(connection: &Connection, position: i64) -> Result<i64> {
    let row = connection.query_row(BYTES_AFTER, &[Value::Integer(position)])?;
    Ok(match row.as_deref() {
        Some([Value::Integer(bytes)]) => *bytes,
        _ => 0,
    })
}

/// A subscriber of changes.
pub(crate) struct Subscriber {
    pub(crate) name: String,
    /// `None` if it was dropped.
    pub(crate) lag: Option<Lag>,
}

/// What a subscriber has not acknowledged.
pub(crate) struct Lag {
    /// The last change that it has acknowledged.
    pub(crate) position: i64,
    pub(crate) changes: i64,
    pub(crate) bytes: i64,
}

/// All subscribers, by name.
///
/// # Errors
/// SQLite's.
pub(crate) fn all(connection: &Connection) -> Result<Vec<Subscriber>> {
    if !has_tables(connection)? {
        return Ok(Vec::new());
    }
    let last = last(connection)?;
    let mut found = Vec::new();
    let sql = "SELECT name, seq FROM main.densite_change_subscribers WHERE name > '' ORDER BY name";
    let mut rows = connection.prepare(sql)?;
    while rows.step()? {
        let lag = match rows.column(1) {
            ValueRef::Integer(position) => Some(Lag {
                position,
                changes: last - position,
                bytes: bytes_after(connection, position)?,
            }),
            _ => None,
        };
        let name = rows.column(0).as_str().unwrap_or_default().to_owned();
        found.push(Subscriber { name, lag });
    }
    Ok(found)
}

/// Adds a subscriber at a position. If there is one of this name, it keeps its own, unless it was
/// dropped.
pub(super) fn subscribe(connection: &Connection, name: &str, from_start: bool) -> Result<i64> {
    make_tables(connection)?;
    if let Some(Some(position)) = known_position(connection, name)? {
        return Ok(position);
    }
    let first = "SELECT min(seq) FROM main.densite_change_subscribers WHERE name > ''";
    let position = match (from_start, connection.query_i64(first)?) {
        // Changes up to there can have been removed.
        (true, Some(first)) => first,
        _ => last(connection)?,
    };
    let insert =
        "INSERT OR REPLACE INTO main.densite_change_subscribers(name, seq) VALUES (?1, ?2)";
    connection.query_row(insert, &[Value::from(name), Value::Integer(position)])?;
    Ok(position)
}

/// The position of a subscriber; `Some(None)` if it was dropped, `None` if there is no such one.
fn known_position(connection: &Connection, name: &str) -> Result<Option<Option<i64>>> {
    let known = "SELECT seq FROM main.densite_change_subscribers WHERE name = ?1 AND name > ''";
    let row = connection.query_row(known, &[Value::from(name)])?;
    Ok(row.map(|row| match row.as_slice() {
        [Value::Integer(seq)] => Some(*seq),
        _ => None,
    }))
}

/// The position of a subscriber.
///
/// # Errors
/// If there is no such subscriber, or if it was dropped.
pub(super) fn position(connection: &Connection, name: &str) -> Result<i64> {
    let known = match has_tables(connection)? {
        true => known_position(connection, name)?,
        false => None,
    };
    let quoted = name.replace('\'', "''");
    match known {
        Some(Some(position)) => Ok(position),
        Some(None) => Err(refused(format!(
            "the subscriber {name:?} of changes was dropped: more was kept for it than changes_max_retained_bytes allows, and changes that it has not acknowledged are gone; make its copy again, and call densite_changes_subscribe('{quoted}') in the same transaction"
        ))),
        None => Err(refused(format!(
            "there is no subscriber {name:?} of changes; densite_changes_subscribe('{quoted}') adds it"
        ))),
    }
}

/// The subscriber has done everything up to this change. Removes changes that all subscribers have
/// done.
///
/// # Errors
/// If the change does not exist or is not committed: `committed` is the last one that is, if not all
/// are.
pub(super) fn acknowledge(
    connection: &Connection,
    name: &str,
    seq: i64,
    committed: Option<i64>,
) -> Result<i64> {
    let (now, last) = (position(connection, name)?, last(connection)?);
    let last = committed.unwrap_or(last);
    if seq > last {
        return Err(refused(format!(
            "densite_changes_ack: change {seq} does not exist; the last one is {last}"
        )));
    }
    if seq <= now {
        return Ok(now);
    }
    let update = "UPDATE main.densite_change_subscribers SET seq = max(seq, ?2) WHERE name = ?1";
    connection.query_row(update, &[Value::from(name), Value::Integer(seq)])?;
    prune(connection)?;
    Ok(seq)
}

/// Removes a subscriber, also one that was dropped.
pub(super) fn unsubscribe(connection: &Connection, name: &str) -> Result<()> {
    if !has_tables(connection)? || known_position(connection, name)?.is_none() {
        position(connection, name)?;
    }
    keep_last(connection)?;
    let delete = "DELETE FROM main.densite_change_subscribers WHERE name = ?1";
    connection.query_row(delete, &[Value::from(name)])?;
    prune(connection)
}

/// Notes the last number, so that it is not used again if no subscriber stays.
fn keep_last(connection: &Connection) -> Result<()> {
    let keep = format!(
        "UPDATE main.densite_change_subscribers SET seq = ({}) WHERE name = ''",
        queue::LAST
    );
    connection.exec(&keep)
}

fn prune(connection: &Connection) -> Result<()> {
    // Without subscribers, nothing is needed.
    connection.exec("DELETE FROM main.densite_changed WHERE seq <= ifnull((SELECT min(seq) FROM main.densite_change_subscribers WHERE name > ''), 9223372036854775807)")
}

/// The most bytes that are kept for a subscriber; 0: no limit.
pub(super) fn max_bytes(connection: &Connection) -> Result<i64> {
    if !has_tables(connection)? {
        return Ok(0);
    }
    let max = "SELECT max_bytes FROM main.densite_change_subscribers WHERE name = ''";
    Ok(connection.query_i64(max)?.unwrap_or(0))
}

/// Sets the most bytes, and drops subscribers that have more.
pub(super) fn set_max_bytes(connection: &Connection, bytes: i64) -> Result<()> {
    make_tables(connection)?;
    let set = "UPDATE main.densite_change_subscribers SET max_bytes = ?1 WHERE name = ''";
    connection.query_row(set, &[Value::Integer(bytes)])?;
    drop_slow(connection, bytes)
}

/// Drops subscribers for which more bytes are kept, within the connection's transaction.
pub(super) fn drop_slow(connection: &Connection, max_bytes: i64) -> Result<()> {
    if max_bytes == 0 {
        return Ok(());
    }
    let slow = all(connection)?.into_iter();
    let is_slow = |s: &Subscriber| s.lag.as_ref().is_some_and(|lag| lag.bytes > max_bytes);
    let slow: Vec<Subscriber> = slow.filter(is_slow).collect();
    if slow.is_empty() {
        return Ok(());
    }
    keep_last(connection)?;
    let drop = "UPDATE main.densite_change_subscribers SET seq = NULL WHERE name = ?1";
    for subscriber in slow {
        connection.query_row(drop, &[Value::from(subscriber.name)])?;
    }
    prune(connection)
}
