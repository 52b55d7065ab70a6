//! The stored changes and their subscribers: the tables `densite_changed` and
//! `densite_change_subscribers` (docs/FORMAT.md, What tables became).
//!
//! Changes are numbered from 1 in the order of the commits. Invariant: a number is never used again.
//! The last one is the greatest number in either table: changes are removed only once every
//! subscriber has passed them, and the row with the empty name keeps the last number when there is
//! no subscriber.

use crate::error::refused;
use densite_log::{EncodedBatch, PieceBatch, pack_piece, unpack_piece};
use densite_sqlite::{Code, Connection, Error, OwnedStatement, Result, Value, ValueRef};
use std::sync::Arc;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS main.densite_changed(seq INTEGER PRIMARY KEY, ends_transaction INTEGER NOT NULL, changes BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS main.densite_change_subscribers(name TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO main.densite_change_subscribers VALUES ('', 0);
";

/// The bytes of batches that share a row of `densite_changed`.
const PIECE_BYTES: usize = 1 << 20;

/// Makes missing tables, within the connection's transaction if there is one.
pub(super) fn make_tables(connection: &Connection) -> Result<()> {
    match has_tables(connection)? {
        true => Ok(()),
        false => connection.exec(TABLES),
    }
}

/// Makes all changes or none, in a transaction of its own or within the connection's.
pub(super) fn atomically<T>(
    connection: &Connection,
    body: impl FnOnce() -> Result<T>,
) -> Result<T> {
    // The write lock comes first: a transaction that has read could not wait for it.
    let [begin, end, undo] = match connection.is_autocommit() {
        true => ["BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"],
        false => [
            "SAVEPOINT densite_changes",
            "RELEASE densite_changes",
            "ROLLBACK TO densite_changes; RELEASE densite_changes",
        ],
    };
    connection.exec(begin)?;
    let done = body().and_then(|value| connection.exec(end).map(|()| value));
    // After some errors, SQLite has rolled all back by itself.
    if done.is_err() && !connection.is_autocommit() {
        connection.exec(undo).ok();
    }
    done
}

/// Whether changes can be stored.
pub(super) fn has_tables(connection: &Connection) -> Result<bool> {
    let known = "SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name IN ('densite_changed', 'densite_change_subscribers')";
    Ok(connection.query_i64(known)? == Some(2))
}

const LAST: &str = "SELECT max((SELECT ifnull(max(seq), 0) FROM main.densite_changed), (SELECT ifnull(max(seq), 0) FROM main.densite_change_subscribers))";

/// The number of the last change; 0 if there was none.
fn last(connection: &Connection) -> Result<i64> {
    Ok(connection.query_i64(LAST)?.unwrap_or(0))
}

/// The statements of each transaction that can change a recorded table. Compiling them would take
/// longer than a small transaction.
#[derive(Default)]
pub(super) struct Queue {
    schema_version: Option<OwnedStatement>,
    attached: Option<OwnedStatement>,
    subscribers: Option<OwnedStatement>,
    last: Option<OwnedStatement>,
    insert: Option<OwnedStatement>,
}

/// The first column of the first row, if it is an integer.
fn number(
    statement: &mut Option<OwnedStatement>,
    connection: &Connection,
    sql: &str,
) -> Result<Option<i64>> {
    let statement = match statement {
        Some(statement) => statement,
        none => none.insert(OwnedStatement::prepare(connection, sql)?),
    };
    let found = statement.step().map(|found| match found {
        true => statement.column(0).as_i64(),
        false => None,
    });
    statement.reset();
    found
}

impl Queue {
    pub(super) fn schema_version(&mut self, connection: &Connection) -> Result<Option<i64>> {
        let sql = "PRAGMA main.schema_version";
        number(&mut self.schema_version, connection, sql)
    }

    /// Whether the connection has attached databases.
    pub(super) fn has_attached(&mut self, connection: &Connection) -> Result<bool> {
        let sql = "SELECT 1 FROM pragma_database_list WHERE seq > 1";
        Ok(number(&mut self.attached, connection, sql)?.is_some())
    }

    /// Whether changes must be stored.
    pub(super) fn has_subscribers(&mut self, connection: &Connection) -> Result<bool> {
        let sql = "SELECT 1 FROM main.densite_change_subscribers WHERE name > '' LIMIT 1";
        Ok(number(&mut self.subscribers, connection, sql)?.is_some())
    }

    /// The number of the last change; 0 if there was none.
    pub(super) fn last(&mut self, connection: &Connection) -> Result<i64> {
        Ok(number(&mut self.last, connection, LAST)?.unwrap_or(0))
    }

    /// Stores the changes of a transaction, behind the number of the last one.
    pub(super) fn append(
        &mut self,
        connection: &Connection,
        last: i64,
        batches: &[Arc<EncodedBatch>],
    ) -> Result<()> {
        let mut seq = last;
        let row = connection.last_insert_rowid();
        let insert = match &mut self.insert {
            Some(insert) => insert,
            none => {
                let sql = "INSERT INTO main.densite_changed VALUES (?1, ?2, ?3)";
                none.insert(OwnedStatement::prepare(connection, sql)?)
            }
        };
        let mut rest = batches;
        while !rest.is_empty() {
            let mut bytes = 0;
            let is_within = |batch: &&Arc<EncodedBatch>| {
                bytes += batch.bytes();
                bytes <= PIECE_BYTES
            };
            let count = rest.iter().take_while(is_within).count().max(1);
            let (piece, others) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            rest = others;
            seq += piece.iter().map(|batch| batch.len() as i64).sum::<i64>();
            let packed = pack_piece(piece).map_err(|e| refused(e.to_string()))?;
            insert.bind(1, ValueRef::Integer(seq))?;
            insert.bind(2, ValueRef::Integer(i64::from(rest.is_empty())))?;
            insert.bind(3, ValueRef::Blob(&packed))?;
            let inserted = insert.step();
            insert.reset();
            inserted?;
        }
        connection.set_last_insert_rowid(row);
        Ok(())
    }
}

/// Removes what the current transaction has stored behind this number. Returns the number.
pub(super) fn remove_after(connection: &Connection, seq: i64) -> Result<i64> {
    let delete = "DELETE FROM main.densite_changed WHERE seq > ?1";
    connection.query_row(delete, &[Value::Integer(seq)])?;
    Ok(seq)
}

/// Adds a subscriber at a position. If there is one of this name, it keeps its own.
pub(super) fn subscribe(connection: &Connection, name: &str, from_start: bool) -> Result<i64> {
    make_tables(connection)?;
    if let Some(position) = known_position(connection, name)? {
        return Ok(position);
    }
    let first = "SELECT min(seq) FROM main.densite_change_subscribers WHERE name > ''";
    let position = match (from_start, connection.query_i64(first)?) {
        // Changes up to there can have been removed.
        (true, Some(first)) => first,
        _ => last(connection)?,
    };
    let insert = "INSERT INTO main.densite_change_subscribers VALUES (?1, ?2)";
    connection.query_row(insert, &[Value::from(name), Value::Integer(position)])?;
    Ok(position)
}

fn known_position(connection: &Connection, name: &str) -> Result<Option<i64>> {
    let known = "SELECT seq FROM main.densite_change_subscribers WHERE name = ?1 AND name > ''";
    let row = connection.query_row(known, &[Value::from(name)])?;
    Ok(match row.as_deref() {
        Some([Value::Integer(seq)]) => Some(*seq),
        _ => None,
    })
}

/// The position of a subscriber.
///
/// # Errors
/// If there is no such subscriber.
pub(super) fn position(connection: &Connection, name: &str) -> Result<i64> {
    let known = match has_tables(connection)? {
        true => known_position(connection, name)?,
        false => None,
    };
    known.ok_or_else(|| {
        refused(format!(
            "there is no subscriber {name:?} of changes; densite_changes_subscribe('{}') adds it",
            name.replace('\'', "''")
        ))
    })
}

/// The subscriber has done everything up to this change. Removes changes that all subscribers have
/// done.
pub(super) fn acknowledge(connection: &Connection, name: &str, seq: i64) -> Result<i64> {
    let (now, last) = (position(connection, name)?, last(connection)?);
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

/// Removes a subscriber.
pub(super) fn unsubscribe(connection: &Connection, name: &str) -> Result<()> {
    position(connection, name)?;
    let last = Value::Integer(last(connection)?);
    let keep = "UPDATE main.densite_change_subscribers SET seq = ?1 WHERE name = ''";
    connection.query_row(keep, &[last])?;
    let delete = "DELETE FROM main.densite_change_subscribers WHERE name = ?1";
    connection.query_row(delete, &[Value::from(name)])?;
    prune(connection)
}

fn prune(connection: &Connection) -> Result<()> {
    // Without subscribers, nothing is needed.
    connection.exec("DELETE FROM main.densite_changed WHERE seq <= ifnull((SELECT min(seq) FROM main.densite_change_subscribers WHERE name > ''), 9223372036854775807)")
}

/// Changes that were stored together.
pub(super) struct Piece {
    /// The number of the first one.
    pub(super) first: i64,
    /// Whether a transaction ends with the last one.
    pub(super) ends_transaction: bool,
    pub(super) batches: Vec<PieceBatch>,
}

/// Calls `take` for each piece with changes behind a position, until it returns false.
pub(super) fn read_after(
    connection: &Connection,
    position: i64,
    mut take: impl FnMut(Piece) -> bool,
) -> Result<()> {
    let mut rows = connection.prepare(
        "SELECT seq, ends_transaction, changes FROM main.densite_changed WHERE seq > ?1 ORDER BY seq",
    )?;
    rows.bind(1, &Value::Integer(position))?;
    while rows.step()? {
        let seq = rows.column(0).as_i64().unwrap_or(0);
        let packed = rows.column(2).as_bytes().unwrap_or_default();
        let batches = unpack_piece(packed).map_err(|e| refused(e.to_string()))?;
        let batches = batches.ok_or_else(|| {
            Error::new(
                Code::CORRUPT,
                format!("densite_changed: the changes up to {seq} cannot be read: only Densite may change this table; make the copies again and call densite_changes_unsubscribe"),
            )
        })?;
        let count: usize = batches.iter().map(|batch| batch.rows.len()).sum();
        let piece = Piece {
            first: seq - count as i64 + 1,
            ends_transaction: rows.column(1).as_i64() == Some(1),
            batches,
        };
        if !take(piece) {
            break;
        }
    }
    Ok(())
}
