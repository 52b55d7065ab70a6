//! Reading the log in SQL: `densite_log(subscriber, max_rows)`.

use crate::error::refused;
use crate::log::database_log::DatabaseLog;
use crate::rows::json_row::object;
use crate::rows::unit::op_name;
use crate::schema::affinity::from_log;
use crate::schema::policy::OnConflict;
use crate::vtab::session::Session;
use densite_log::{Op, Record, Seq, keep_whole_transactions};
use densite_sqlite::{Connection, Result, Value, create_table_function};
use std::sync::Arc;

/// The number of rows if the caller gives none.
const ROWS: i64 = 1000;

/// One row of the log.
pub struct Entry {
    /// Its number.
    pub seq: Seq,
    /// Name of its table.
    pub table: String,
    /// The operation: `insert`, `update` or `delete`.
    pub op: &'static str,
    /// The columns of the key as a JSON object.
    pub key: String,
    /// The columns as a JSON object: all of an insert, those that an update sets; `None` for a
    /// delete.
    pub row: Option<String>,
    /// Whether it is the last row of its transaction.
    pub ends_transaction: bool,
    /// What an insert does if the key exists, or the expressions that an update sets; else `None`.
    pub on_conflict: Option<String>,
}

/// The rows of a record that were not read before.
pub fn entries(record: &Record) -> impl Iterator<Item = Entry> + '_ {
    let table = &record.table;
    let op = op_name(record.op);
    let policy = OnConflict::of_note(table.note()).map(|policy| policy.text());
    let has_policy = match record.op {
        Op::Insert => true,
        Op::Update => table.note() != OnConflict::Abort.note(),
        Op::Delete => false,
    };
    let policy = policy.filter(|_| has_policy);
    (record.skip..record.rows.len()).map(move |i| {
        let columns = || {
            let names = table.columns().iter().map(String::as_str);
            names.zip(record.rows.row(i).map(from_log))
        };
        Entry {
            seq: record.first + i as u64,
            table: table.name().to_owned(),
            op,
            key: object(columns().take(table.key_columns())),
            row: (record.op != Op::Delete).then(|| object(columns())),
            ends_transaction: record.ends_transaction && i + 1 == record.rows.len(),
            on_conflict: policy.clone(),
        }
    })
}

/// Adds `densite_log` to a connection.
pub(crate) fn create(connection: &Connection, session: &Arc<Session>) -> Result<()> {
    let session = Arc::clone(session);
    let columns = [
        "seq",
        "\"table\"",
        "op",
        "key",
        "row",
        "ends_transaction",
        "on_conflict",
    ];
    create_table_function(
        connection,
        "densite_log",
        &columns,
        &["subscriber", "max_rows"],
        move |connection, arguments| {
            let (Some(Some(Value::Text(name))), limit) = (arguments.first(), arguments.get(1))
            else {
                return Err(refused(
                    "densite_log wants a subscriber's name, as in densite_log('indexer', 100); densite_subscribe('indexer') adds one",
                ));
            };
            let limit = match limit {
                None | Some(None) => ROWS,
                Some(Some(Value::Integer(n))) if *n >= 0 => *n,
                Some(Some(other)) => {
                    return Err(refused(format!(
                        "densite_log: {} is no number of rows",
                        other.as_ref().shown()
                    )));
                }
            };
            let database_log = session.existing_log(connection)?;
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            read(&database_log, name, limit).map_err(|e| database_log.failed(e))
        },
    )
}

/// The next rows for a subscriber.
fn read(
    database_log: &DatabaseLog,
    name: &str,
    limit: usize,
) -> densite_log::Result<Vec<Vec<Value>>> {
    let position = || database_log.log().position_of(name);
    let mut from = position()?;
    loop {
        match read_after(database_log, from, limit) {
            // Another process acknowledged for this subscriber, and the rows behind the position
            // were pruned before the reader held them.
            Err(densite_log::Error::Pruned { wanted, first }) => {
                let now = position()?;
                if now <= from {
                    return Err(densite_log::Error::Pruned { wanted, first });
                }
                from = now;
            }
            done => return done,
        }
    }
}

/// The rows behind a position. Whole transactions in front of a place that cannot be read are
/// returned first. The next call then gets the error.
fn read_after(
    database_log: &DatabaseLog,
    position: Seq,
    limit: usize,
) -> densite_log::Result<Vec<Vec<Value>>> {
    let log = database_log.log();
    // Without new rows no search is needed, however often the subscriber asks.
    if log.last()? <= position {
        log.is_in_place()?;
        return Ok(Vec::new());
    }
    let (mut records, mut left) = (Vec::new(), limit);
    let mut reader = database_log.log().read_after(position)?;
    while left > 0 {
        match reader.next() {
            Ok(Some(record)) => {
                left = left.saturating_sub(record.rows.len() - record.skip);
                records.push(record);
            }
            Ok(None) => break,
            Err(e) => {
                keep_whole_transactions(&mut records);
                if records.is_empty() {
                    return Err(e);
                }
                break;
            }
        }
    }
    let rows = records.iter().flat_map(entries).take(limit).map(|entry| {
        vec![
            Value::Integer(entry.seq as i64),
            Value::Text(entry.table),
            Value::Text(entry.op.to_owned()),
            Value::Text(entry.key),
            entry.row.map_or(Value::Null, Value::Text),
            Value::Integer(i64::from(entry.ends_transaction)),
            entry.on_conflict.map_or(Value::Null, Value::Text),
        ]
    });
    Ok(rows.collect())
}
