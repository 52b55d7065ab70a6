//! `densite_leave([settings])`: a member becomes an independent database.

use super::catching_up::apply_all;
use super::reach::reach;
use super::wait;
use crate::member::guards;
use crate::member::message::Body;
use crate::member::retained;
use crate::member::sent;
use crate::member::tables::{Membership, home, of_stream};
use densite_disk::wait::Deadline;
use densite_ingest::DatabaseLog;
use densite_ingest::parts::{self, ConnectionSpec, DatabaseFile, Session, refused};
use densite_log::{LogId, Seq};
use densite_sqlite::{Connection, Result, Value, ValueRef};
use densite_stream::Name;
use serde::Deserialize;
use std::time::Duration;

/// How long leaving waits until the stream has the rows of the log.
const SENDING: Duration = Duration::from_secs(10);

/// The argument of `densite_leave`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Leaving {
    /// Leave also if the stream cannot be told.
    force: bool,
    /// Another member, whose database is gone: it has left, and this one stays.
    member: Option<String>,
}

/// Makes a member an independent database: rows of its log that it has not applied from the stream
/// are applied from the log. Returns the name that it had.
///
/// # Errors
/// SQLite's, the stream's; an error if the database is no member or has rejects.
pub(crate) fn leave(
    session: &Session,
    connection: &Connection,
    given: &[ValueRef<'_>],
) -> Result<Value> {
    let options: Leaving = match given {
        [] => Leaving::default(),
        [json] => serde_json::from_str(json.as_str().unwrap_or_default())
            .map_err(|e| refused(format!("densite_leave: the settings are not valid: {e}")))?,
        _ => return Err(refused("densite_leave wants nothing, or settings as JSON")),
    };
    if !connection.is_autocommit() {
        return Err(refused(
            "densite_leave: this connection has a transaction open; end it first",
        ));
    }
    let member = Membership::read(connection)?
        .ok_or_else(|| refused("densite_leave: this database is no member of a stream"))?;
    if let Some(gone) = &options.member {
        return declare_gone(session, connection, &member, gone);
    }
    let rejects = parts::rejects(connection)?;
    if rejects > 0 {
        return Err(refused(format!(
            "densite_rejects has {rejects} rows with numbers of the stream: insert what is needed again, delete them, and leave then"
        )));
    }
    let log = DatabaseLog::of(connection)?;
    let stands_still = log
        .as_ref()
        .is_none_or(|log| member.stands_still(log.open()).is_some());
    if let (Some(log), false) = (&log, options.force || stands_still) {
        all_sent(log, connection)?;
    }
    let file = DatabaseFile::of(connection, session.storage())?;
    let own = ConnectionSpec::of(connection, &file.path).open_patient(connection)?;
    own.exec("PRAGMA main.synchronous = FULL; BEGIN IMMEDIATE")?;
    guards::remove(&own)?;
    own.exec(
        "UPDATE main.densite_applied SET stream = NULL, stream_message = 0, stream_mark = 0, stream_row = 0; \
         DROP TABLE main.densite_member; DROP TABLE main.densite_origins; DROP TABLE main.densite_digests; DROP TABLE main.densite_member_ids; DROP TABLE main.densite_skipped; DROP TABLE main.densite_member_tables",
    )?;
    let is_home = home(file.storage.as_ref(), &file.log_dir()) == Some(member.home);
    if is_home {
        let told = tell(&own, &member);
        if told.is_err() && !options.force {
            own.exec("ROLLBACK")?;
            return Err(told.err().unwrap_or_else(|| refused("the stream")));
        }
    }
    own.exec("COMMIT")?;
    if let Ok(Some(log)) = DatabaseLog::of(connection) {
        let set = log
            .log()
            .set_config(|config| config.max_transaction_bytes = 0);
        set.map_err(|e| log.failed(e))?;
        match log.log().unsubscribe(retained::NAME) {
            Err(densite_log::Error::NoSubscriber(_)) => {}
            done => done.map_err(|e| log.failed(e))?,
        }
        log.log().ring();
    }
    Ok(Value::from(member.origin.as_str()))
}

/// Waits until the stream has all rows of the log.
///
/// # Errors
/// An error if it has not after some seconds: the other members would never get these rows.
fn all_sent(log: &DatabaseLog, connection: &Connection) -> Result<()> {
    let last = log.log().last().map_err(|e| log.failed(e))?;
    let sent = wait::wait(
        log.open(),
        log.worker(),
        connection,
        last,
        Deadline::after(SENDING),
    )?;
    if sent >= last {
        return Ok(());
    }
    Err(refused(format!(
        "the stream does not have the last {} rows of this member yet, and the other members would never get them: try again when its server is reachable, or leave with --force",
        last - sent
    )))
}

fn tell(own: &Connection, member: &Membership) -> Result<()> {
    let stream = member.address()?.find(&member.settings.access()?);
    let stream = stream.map_err(of_stream)?;
    let log = parts::log_of(own)?;
    let said = sent::say(&*stream, &member.origin, log, None, &Body::Left);
    said.map(drop).map_err(of_stream)
}

/// Tells the stream that another member has left.
fn declare_gone(
    session: &Session,
    connection: &Connection,
    member: &Membership,
    gone: &str,
) -> Result<Value> {
    if gone == member.origin.as_str() {
        return Err(refused(format!(
            "densite_leave: {gone} is this member itself: leave without naming it"
        )));
    }
    let (stream, _) = reach(member, session, connection)?;
    let mut known = applied(connection, gone)?;
    if known.is_none() {
        // A member is known when the message with which it joined is applied: just after this one
        // has joined, there are none.
        apply_all(session, connection, &*stream)
            .map_err(|e| refused(format!("densite_leave: {}", e.message)))?;
        known = applied(connection, gone)?;
    }
    let Some((log, seq)) = known else {
        let members = "SELECT group_concat(origin, ', ') FROM (SELECT origin FROM main.densite_origins WHERE has_left = 0 ORDER BY number)";
        return Err(refused(format!(
            "densite_leave: the stream has no member {gone}; its members are {}",
            connection.query_string(members)?.unwrap_or_default()
        )));
    };
    let name: Name = gone.parse().map_err(of_stream)?;
    sent::say(&*stream, &name, log, Some(seq), &Body::Left).map_err(of_stream)?;
    Ok(Value::from(gone))
}

/// The log of a member that has not left, and its last applied row.
fn applied(connection: &Connection, origin: &str) -> Result<Option<(LogId, Seq)>> {
    let sql = "SELECT log, seq FROM main.densite_origins WHERE origin = ?1 AND has_left = 0";
    let row = connection.query_row(sql, &[Value::from(origin)])?;
    Ok(match row.as_deref() {
        Some([Value::Blob(log), Value::Integer(seq)]) => {
            let log = LogId(log.as_slice().try_into().unwrap_or_default());
            Some((log, u64::try_from(*seq).unwrap_or(0)))
        }
        _ => None,
    })
}
