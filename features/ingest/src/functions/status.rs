//! The figures of ingest for operators: `densite_ingest_status()` has one row with a column for
//! each figure, `densite_subscribers()` a row for each subscriber. `densite log status` has them
//! under the same names.
//!
//! Both read only, and start no worker. A figure of the database is as the connection sees it: in a
//! transaction as of its first read. Figures of the log are of now.

use crate::changes;
use crate::database::paused;
use crate::database::position::{self, Position, number};
use crate::database::rate::Rate;
use crate::log::database_log::DatabaseLog;
use crate::vtab::session::Session;
use densite_log as log;
use densite_sqlite::{Connection, Result, Value, create_table_function};
use std::sync::Arc;

/// Adds the functions to a connection.
pub(crate) fn create(connection: &Connection, session: &Arc<Session>) -> Result<()> {
    let own = Arc::clone(session);
    let columns = [
        "last",
        "applied",
        "unapplied_rows",
        "unapplied_bytes",
        "oldest_unapplied_seconds",
        "applied_per_second",
        "rejects",
        "applying",
        "paused",
    ];
    create_table_function(
        connection,
        "densite_ingest_status",
        &columns,
        &[],
        move |connection, _| match own.database_log(connection)? {
            Some(database_log) => status(connection, &database_log),
            None => Ok(Vec::new()),
        },
    )?;
    let own = Arc::clone(session);
    let columns = [
        "name",
        "feed",
        "position",
        "rows_behind",
        "bytes_behind",
        "dropped",
    ];
    create_table_function(
        connection,
        "densite_subscribers",
        &columns,
        &[],
        move |connection, _| {
            let mut found = match own.database_log(connection)? {
                Some(database_log) => subscribers(&database_log)?,
                None => Vec::new(),
            };
            found.extend(subscribers_of_changes(connection)?);
            Ok(found)
        },
    )
}

/// The row of figures; none if the database no longer names a log.
fn status(connection: &Connection, database_log: &DatabaseLog) -> Result<Vec<Vec<Value>>> {
    let failed = |e| database_log.failed(e);
    let log = database_log.log();
    log.is_in_place().map_err(failed)?;
    // Before the log's end, so that this is not behind it.
    let Some(position) = Position::read(connection)? else {
        return Ok(Vec::new());
    };
    let (found, expected) = (database_log.open().id(), position.id);
    if found != expected {
        return Err(failed(log::Error::OtherLog { found, expected }));
    }
    let rate = Rate::read(connection)?;
    let rejects = position::rejects(connection)?;
    let paused = serde_json::json!(paused::tables(connection)?).to_string();
    let last = log.last().map_err(failed)?;
    let unapplied = position.unapplied(last);
    let waited = match unapplied {
        0 => None,
        _ => log.time_waited(position.seq).map_err(failed)?,
    };
    Ok(vec![vec![
        number(last),
        number(position.seq),
        number(unapplied),
        number(log.bytes_after(position.seq).map_err(failed)?),
        waited.map_or(Value::Null, |time| Value::Real(time.as_secs_f64())),
        Value::Real(rate.now()),
        number(rejects),
        Value::Integer(i64::from(log.is_led().map_err(failed)?)),
        Value::Text(paused),
    ]])
}

/// The row of a subscriber; without a lag (position, rows, bytes) it was dropped.
fn subscriber(name: String, feed: &str, lag: Option<[Value; 3]>) -> Vec<Value> {
    let is_dropped = lag.is_none();
    let [position, rows, bytes] = lag.unwrap_or([Value::Null, Value::Null, Value::Null]);
    let dropped = Value::Integer(i64::from(is_dropped));
    vec![
        Value::Text(name),
        Value::from(feed),
        position,
        rows,
        bytes,
        dropped,
    ]
}

fn subscribers(database_log: &DatabaseLog) -> Result<Vec<Vec<Value>>> {
    let failed = |e| database_log.failed(e);
    let log = database_log.log();
    log.is_in_place().map_err(failed)?;
    let kept = log.subscribers().map_err(failed)?.into_iter().map(|s| {
        let lag = [s.position, s.rows_behind, s.bytes_behind].map(number);
        subscriber(s.name, "log", Some(lag))
    });
    let dropped = log.dropped_subscribers().map_err(failed)?.into_iter();
    let dropped = dropped.map(|name| subscriber(name, "log", None));
    Ok(kept.chain(dropped).collect())
}

fn subscribers_of_changes(connection: &Connection) -> Result<Vec<Vec<Value>>> {
    let all = changes::subscribers(connection)?.into_iter();
    let row = |s: changes::Subscriber| {
        let lag = (s.lag).map(|lag| [lag.position, lag.changes, lag.bytes].map(Value::Integer));
        subscriber(s.name, "changes", lag)
    };
    Ok(all.map(row).collect())
}
