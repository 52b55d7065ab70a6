//! The SQL functions of a member.

use super::joining;
use super::leaving;
use super::reach::reach;
use super::schema_change;
use super::trimming;
use crate::member::message::Body;
use crate::member::sent;
use crate::member::skipped;
use crate::member::tables::of_stream;
use crate::member::{Membership, Running};
use densite_ingest::parts::{self, Session, refused};
use densite_ingest::{DatabaseLog, Position};
use densite_log::Seq;
use densite_sqlite::{Connection, Result, Value, create_function, create_table_function, ffi};
use densite_stream::without_password;
use std::sync::Arc;

/// Adds the functions to a connection.
pub(crate) fn create(connection: &Connection, session: &Arc<Session>) -> Result<()> {
    let flags = ffi::DIRECTONLY;
    let own = Arc::clone(session);
    create_function(connection, "densite_join", -1, flags, move |c, given| {
        joining::join(&own, c, given)
    })?;
    let own = Arc::clone(session);
    create_function(connection, "densite_leave", -1, flags, move |c, given| {
        leaving::leave(&own, c, given)
    })?;
    let own = Arc::clone(session);
    create_function(connection, "densite_schema", 1, flags, move |c, given| {
        schema_change::change(&own, c, given)
    })?;
    let own = Arc::clone(session);
    create_function(
        connection,
        "densite_trim_stream",
        -1,
        flags,
        move |c, given| trimming::trim(&own, c, given),
    )?;
    let own = Arc::clone(session);
    create_function(connection, "densite_compare", 0, flags, move |c, _| {
        compare(&own, c)
    })?;
    let own = Arc::clone(session);
    create_function(
        connection,
        "densite_stream_trouble",
        0,
        flags,
        move |c, _| {
            let log = own.database_log(c)?;
            let trouble = log.and_then(|log| log.worker().known()?.stream_trouble());
            Ok(trouble.map_or(Value::Null, Value::Text))
        },
    )?;
    let own = Arc::clone(session);
    let columns = [
        "address",
        "origin",
        "message",
        "last_message",
        "messages_behind",
        "rows_to_send",
        "members",
        "skipped_messages",
        "stopped",
        "trouble",
    ];
    create_table_function(
        connection,
        "densite_stream_status",
        &columns,
        &[],
        move |connection, _| status(&own, connection),
    )
}

fn number(n: u64) -> Value {
    Value::Integer(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Asks all members to compare their tables. Any process can send the question: the forwarder of
/// the one that applies finds it behind its own messages.
fn compare(session: &Session, connection: &Connection) -> Result<Value> {
    let member = Membership::read(connection)?
        .ok_or_else(|| refused("densite_compare: this database is no member of a stream"))?;
    match reach(&member, session, connection)? {
        (_, Some(running)) => running.send(Body::DigestsWanted),
        (stream, None) => {
            let log = parts::log_of(connection)?;
            let said = sent::say(&*stream, &member.origin, log, None, &Body::DigestsWanted);
            said.map_err(of_stream)?;
        }
    }
    Ok(Value::Integer(1))
}

/// The row of figures; none if the database is no member.
fn status(session: &Session, connection: &Connection) -> Result<Vec<Vec<Value>>> {
    let Some(member) = Membership::read(connection)? else {
        return Ok(Vec::new());
    };
    let Some(position) = Position::read(connection)? else {
        return Ok(Vec::new());
    };
    let place = position.stream;
    let (sent, trouble, last) = match session.database_log(connection) {
        Ok(Some(log)) => told(&log, &member),
        Ok(None) => (None, None, None),
        Err(e) => (None, Some(e.message), None),
    };
    let applied = place.map_or(0, |place| place.message);
    let members = "SELECT group_concat(origin, ' ') FROM (SELECT origin FROM main.densite_origins WHERE has_left = 0 ORDER BY number)";
    let members = connection.query_string(members)?.unwrap_or_default();
    let optional = |text: Option<String>| text.map_or(Value::Null, Value::Text);
    // A stream that lost messages: how far it will be is not known.
    let is_lost = last.is_some_and(|last| last < applied);
    let behind = last.filter(|_| !is_lost);
    let behind = behind.map_or(Value::Null, |last| number(last - applied));
    let trouble = trouble.or_else(|| {
        let last = last.filter(|_| is_lost)?;
        Some(format!(
            "the stream ends at message {last}: it lost messages that are applied here; see A stream that lost messages in docs/guides/cluster.md"
        ))
    });
    Ok(vec![vec![
        Value::Text(without_password(&member.address)),
        Value::from(member.origin.as_str()),
        number(applied),
        last.map_or(Value::Null, number),
        behind,
        sent.map_or(Value::Null, number),
        Value::Text(members),
        Value::Integer(skipped::count(connection)?),
        optional((!member.stopped.is_empty()).then(|| member.stopped.clone())),
        optional(trouble),
    ]])
}

/// Rows to send, the trouble, and the last message of the stream.
fn told(
    database_log: &DatabaseLog,
    member: &Membership,
) -> (Option<Seq>, Option<String>, Option<u64>) {
    let worker = database_log.worker().known();
    let running = worker.as_ref().and_then(|worker| Running::at_work(worker));
    let end = database_log.log().last().ok();
    let sent = running
        .as_ref()
        .and_then(|running| running.acknowledged().get());
    let rows = end.zip(sent).map(|(end, sent)| end.saturating_sub(sent));
    let extent = match &running {
        Some(running) => running.extent().map_err(|e| refused(e.to_string())),
        None => member.extent(),
    };
    let trouble = worker.and_then(|worker| worker.stream_trouble());
    match extent {
        Ok(extent) => (rows, trouble, Some(extent.last)),
        Err(e) => (rows, trouble.or(Some(e.message)), None),
    }
}
