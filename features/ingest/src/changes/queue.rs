//! The stored changes: the tables `densite_changed` and `densite_change_subscribers` (docs/FORMAT.md,
//! What tables became). [`mod@super::subscribers`] has the positions in the second one.
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
CREATE TABLE IF NOT EXISTS main.densite_changed(seq INTEGER PRIMARY KEY, ends_transaction INTEGER NOT NULL, total INTEGER NOT NULL, changes BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS main.densite_change_subscribers(name TEXT PRIMARY KEY, seq INTEGER, max_bytes INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
INSERT OR IGNORE INTO main.densite_change_subscribers(name, seq) VALUES ('', 0);
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

pub(super) const LAST: &str = "SELECT max((SELECT ifnull(max(seq), 0) FROM main.densite_changed), (SELECT ifnull(max(seq), 0) FROM main.densite_change_subscribers))";

/// The number of the last change; 0 if there was none.
pub(super) fn last(connection: &Connection) -> Result<i64> {
    Ok(connection.query_i64(LAST)?.unwrap_or(0))
}

/// What a transaction needs to know of the queue. It holds for the whole transaction, because the
/// transaction has the write lock.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Status {
    /// The number of the last change; 0 if there was none.
    pub(super) last: i64,
    /// `total` of the last stored changes; 0 if there are none.
    total: i64,
    /// Changes must be stored.
    pub(super) has_subscribers: bool,
    /// The most bytes that are kept for a subscriber; 0: no limit.
    pub(super) max_bytes: i64,
}

const SUBSCRIBERS: &str = "SELECT name > '', seq, max_bytes FROM main.densite_change_subscribers";
const NEWEST: &str = "SELECT seq, total FROM main.densite_changed ORDER BY seq DESC LIMIT 1";
const INSERT: &str = "INSERT INTO main.densite_changed VALUES (?1, ?2, ?3, ?4)";

/// The statements of each transaction that can change a recorded table. Compiling them would take
/// longer than a small transaction.
///
/// SQLite compiles a statement again if the schema has changed since. So they also say whether what
/// is known of the schema still holds, at no cost.
#[derive(Default)]
pub(super) struct Queue {
    subscribers: Option<OwnedStatement>,
    newest: Option<OwnedStatement>,
    insert: Option<OwnedStatement>,
    attached: Option<OwnedStatement>,
    /// The schema is the one of the last [`Queue::knows_schema`].
    is_schema_known: bool,
}

/// The statement, which is compiled if it is missing.
fn compiled<'a>(
    statement: &'a mut Option<OwnedStatement>,
    connection: &Connection,
    sql: &str,
) -> Result<&'a mut OwnedStatement> {
    match statement {
        Some(statement) => Ok(statement),
        none => Ok(none.insert(OwnedStatement::prepare(connection, sql)?)),
    }
}

/// Calls `take` for each row.
fn each(statement: &mut OwnedStatement, mut take: impl FnMut(&OwnedStatement)) -> Result<()> {
    let done = loop {
        match statement.step() {
            Ok(true) => take(statement),
            Ok(false) => break Ok(()),
            Err(e) => break Err(e),
        }
    };
    statement.reset();
    done
}

impl Queue {
    /// Reads the status at the beginning of a transaction; `None` if the tables are missing.
    pub(super) fn status(&mut self, connection: &Connection) -> Result<Option<Status>> {
        let read = self.read_status(connection);
        if !matches!(read, Ok(Some(_))) {
            // The next transaction does not rely on statements of tables that may be missing.
            *self = Queue::default();
        }
        read
    }

    fn read_status(&mut self, connection: &Connection) -> Result<Option<Status>> {
        if self.insert.is_none() && !has_tables(connection)? {
            return Ok(None);
        }
        compiled(&mut self.insert, connection, INSERT)?;
        let mut status = Status::default();
        match self.read(connection, &mut status) {
            Ok(()) => Ok(Some(status)),
            Err(_) if !has_tables(connection)? => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn read(&mut self, connection: &Connection, status: &mut Status) -> Result<()> {
        let rows = compiled(&mut self.subscribers, connection, SUBSCRIBERS)?;
        let read = each(rows, |row| {
            let position = row.column(1).as_i64();
            status.last = status.last.max(position.unwrap_or(0));
            status.has_subscribers |= row.column(0).as_i64() == Some(1) && position.is_some();
            let max = row.column(2).as_i64().unwrap_or(0);
            status.max_bytes = status.max_bytes.max(max);
        });
        self.is_schema_known &= !rows.take_prepared_again();
        read?;
        if !status.has_subscribers {
            return Ok(());
        }
        let newest = compiled(&mut self.newest, connection, NEWEST)?;
        each(newest, |row| {
            status.last = status.last.max(row.column(0).as_i64().unwrap_or(0));
            status.total = row.column(1).as_i64().unwrap_or(0);
        })
    }

    /// Whether the schema has not changed since [`Queue::knows_schema`].
    pub(super) fn is_schema_known(&self) -> bool {
        self.is_schema_known
    }

    /// The caller has read the schema.
    pub(super) fn knows_schema(&mut self) {
        self.is_schema_known = true;
    }

    /// Whether the connection has attached databases.
    pub(super) fn has_attached(&mut self, connection: &Connection) -> Result<bool> {
        let sql = "SELECT 1 FROM pragma_database_list WHERE seq > 1";
        let statement = compiled(&mut self.attached, connection, sql)?;
        let found = statement.step();
        statement.reset();
        found
    }

    /// Stores the changes of a transaction, behind those before it. Returns the bytes up to the last
    /// ones, as `total` counts them.
    pub(super) fn append(
        &mut self,
        connection: &Connection,
        before: Status,
        batches: &[Arc<EncodedBatch>],
    ) -> Result<i64> {
        let (mut seq, mut total) = (before.last, before.total);
        let row = connection.last_insert_rowid();
        let insert = compiled(&mut self.insert, connection, INSERT)?;
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
            total += packed.len() as i64;
            insert.bind(1, ValueRef::Integer(seq))?;
            insert.bind(2, ValueRef::Integer(i64::from(rest.is_empty())))?;
            insert.bind(3, ValueRef::Integer(total))?;
            insert.bind(4, ValueRef::Blob(&packed))?;
            let inserted = insert.step();
            insert.reset();
            self.is_schema_known &= !insert.take_prepared_again();
            inserted?;
        }
        connection.set_last_insert_rowid(row);
        Ok(total)
    }
}

/// The stored bytes up to `total`.
///
/// # Errors
/// SQLite's.
pub(super) fn retained(connection: &Connection, total: i64) -> Result<i64> {
    let first = "SELECT total - length(changes) FROM main.densite_changed ORDER BY seq LIMIT 1";
    Ok(total - connection.query_i64(first)?.unwrap_or(total))
}

/// Removes what the current transaction has stored behind this number.
pub(super) fn remove_after(connection: &Connection, seq: i64) -> Result<()> {
    let delete = "DELETE FROM main.densite_changed WHERE seq > ?1";
    connection.query_row(delete, &[Value::Integer(seq)])?;
    Ok(())
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
                Code::CORRUPT.explained(),
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
