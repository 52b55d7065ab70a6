//! The SQL functions of subscribers of changes.

use super::queue::{self, Piece};
use super::recorder::Changes;
use super::{changes_wait, subscribers};
use crate::error::refused;
use crate::rows::json_row::object;
use crate::rows::unit::op_name;
use crate::schema::affinity::from_log;
use crate::storage::StorageBackend;
use crate::waiting::deadline::deadline;
use densite_log::{Op, PieceBatch};
use densite_sqlite::{
    Connection, Result, Value, ValueRef, create_function, create_table_function, ffi,
};
use std::sync::Arc;

/// The number of changes if the caller gives none.
const CHANGES: usize = 1000;

/// Adds the functions to a connection.
pub(super) fn create(
    connection: &Connection,
    changes: Arc<Changes>,
    storage: &Arc<dyn StorageBackend>,
) -> Result<()> {
    let flags = ffi::DIRECTONLY;
    let own = Arc::clone(&changes);
    create_function(
        connection,
        "densite_changes_subscribe",
        -1,
        flags,
        move |connection, given| subscribe(connection, &own, given),
    )?;
    let own = Arc::clone(&changes);
    create_function(
        connection,
        "densite_changes_ack",
        2,
        flags,
        move |connection, given| {
            let (Some(name), Some(seq)) = (name(given), given.get(1).and_then(|v| v.as_i64()))
            else {
                return Err(refused(
                    "densite_changes_ack wants a subscriber's name and the number of a change, as in densite_changes_ack('copy', 120)",
                ));
            };
            let committed = own.last_committed();
            let acknowledge = || subscribers::acknowledge(connection, name, seq, committed);
            queue::atomically(connection, acknowledge).map(Value::Integer)
        },
    )?;
    create_function(
        connection,
        "densite_changes_unsubscribe",
        1,
        flags,
        |connection, given| {
            let name = name(given).ok_or_else(|| {
            refused("densite_changes_unsubscribe wants a subscriber's name, as in densite_changes_unsubscribe('copy')")
        })?;
            queue::atomically(connection, || subscribers::unsubscribe(connection, name))
                .map(|()| Value::Null)
        },
    )?;
    let storage = Arc::clone(storage);
    create_function(
        connection,
        "densite_changes_wait",
        -1,
        flags,
        move |connection, given| {
            let until = deadline(given.get(1)).filter(|_| given.len() <= 2);
            let (Some(name), Some(until)) = (name(given), until) else {
                return Err(refused(
                    "densite_changes_wait wants a subscriber's name, and then for how many seconds it waits at most, as in densite_changes_wait('copy', 10)",
                ));
            };
            changes_wait::wait(connection, storage.as_ref(), name, until).map(Value::Integer)
        },
    )?;
    let columns = [
        "seq",
        "\"table\"",
        "op",
        "key",
        "old",
        "new",
        "ends_transaction",
    ];
    create_table_function(
        connection,
        "densite_changes",
        &columns,
        &["subscriber", "max_changes"],
        move |connection, arguments| self::changes(connection, &changes, arguments),
    )
}

fn name<'a>(given: &[ValueRef<'a>]) -> Option<&'a str> {
    let name = given.first().and_then(|v| v.as_str());
    name.filter(|name| !name.is_empty())
}

fn subscribe(connection: &Connection, recorder: &Changes, given: &[ValueRef<'_>]) -> Result<Value> {
    let from = match given {
        [_] => Some("now"),
        [_, from] => from.as_str(),
        _ => None,
    };
    let from_start = match from {
        Some("now") => Some(false),
        Some("start") => Some(true),
        _ => None,
    };
    let (Some(name), Some(from_start)) = (name(given), from_start) else {
        return Err(refused(
            "densite_changes_subscribe wants a name, and then 'start' or 'now' (the default), as in densite_changes_subscribe('copy')",
        ));
    };
    // Its changes before are not recorded, or are recorded for others and would come twice.
    if recorder.may_have_changed() {
        return Err(refused(
            "densite_changes_subscribe: this transaction has already written to a recorded table; subscribe at its beginning, or in another transaction",
        ));
    }
    let subscribed = || subscribers::subscribe(connection, name, from_start);
    queue::atomically(connection, subscribed).map(Value::Integer)
}

fn changes(
    connection: &Connection,
    recorder: &Changes,
    arguments: &[Option<Value>],
) -> Result<Vec<Vec<Value>>> {
    let (Some(Some(Value::Text(name))), limit) = (arguments.first(), arguments.get(1)) else {
        return Err(refused(
            "densite_changes wants a subscriber's name, as in densite_changes('copy', 100); densite_changes_subscribe('copy') adds one",
        ));
    };
    let limit = match limit {
        None | Some(None) => CHANGES,
        Some(Some(Value::Integer(n))) if *n >= 0 => usize::try_from(*n).unwrap_or(usize::MAX),
        Some(Some(other)) => {
            return Err(refused(format!(
                "densite_changes: {} is no number of changes",
                other.as_ref().shown()
            )));
        }
    };
    let position = subscribers::position(connection, name)?;
    let mut rows = Vec::new();
    let committed = recorder.last_committed().unwrap_or(i64::MAX);
    if limit > 0 {
        queue::read_after(connection, position, |piece| {
            if piece.first > committed {
                return false;
            }
            let behind = usize::try_from(position + 1 - piece.first).unwrap_or(0);
            let room = limit - rows.len();
            rows.extend(entries(&piece).skip(behind).take(room));
            rows.len() < limit
        })?;
    }
    Ok(rows)
}

fn entries(piece: &Piece) -> impl Iterator<Item = Vec<Value>> + '_ {
    let all = piece.batches.iter();
    let all = all.flat_map(|batch| (0..batch.rows.len()).map(move |row| (batch, row)));
    let count: usize = piece.batches.iter().map(|batch| batch.rows.len()).sum();
    all.enumerate().map(move |(i, (batch, row))| {
        let (key, old, new) = sides(batch, row);
        let ends = piece.ends_transaction && i + 1 == count;
        vec![
            Value::Integer(piece.first + i as i64),
            Value::from(batch.table.name()),
            Value::from(op_name(batch.op)),
            Value::Text(key),
            old.map_or(Value::Null, Value::Text),
            new.map_or(Value::Null, Value::Text),
            Value::Integer(i64::from(ends)),
        ]
    })
}

/// The key, the old row and the new row of a change. Without a primary key, the key is the row.
fn sides(batch: &PieceBatch, row: usize) -> (String, Option<String>, Option<String>) {
    let names = batch.table.columns();
    let width = match batch.op {
        Op::Update => names.len() / 2,
        Op::Insert | Op::Delete => names.len(),
    };
    let columns = |from: usize| {
        let names = names.iter().map(String::as_str);
        let values = names.zip(batch.rows.row(row).map(from_log));
        values.skip(from).take(width)
    };
    let keys = match batch.table.key_columns() {
        0 => width,
        keys => keys,
    };
    let key = object(columns(0).take(keys));
    let (old, new) = match batch.op {
        Op::Insert => (None, Some(0)),
        Op::Update => (Some(0), Some(width)),
        Op::Delete => (Some(0), None),
    };
    (
        key,
        old.map(|from| object(columns(from))),
        new.map(|from| object(columns(from))),
    )
}
