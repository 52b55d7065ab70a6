//! `densite_leave([settings])`: a member becomes an independent database.

use super::guards;
use super::message::{Body, Message};
use super::retained;
use super::tables::{Membership, home, of_stream};
use crate::connection_spec::ConnectionSpec;
use crate::database_file::DatabaseFile;
use crate::database_log::DatabaseLog;
use crate::error::refused;
use crate::session::Session;
use densite_sqlite::{Connection, Result, Value, ValueRef};
use densite_stream::{Error as StreamError, Name, Stream};
use serde::Deserialize;

/// Most attempts to append a message while others of the same origin come.
const ATTEMPTS: u32 = 20;
/// The shortest time that the transaction waits for others, milliseconds.
pub(super) const BUSY_MS: i32 = 5000;

/// Tells the stream that an origin left.
///
/// # Errors
/// The stream's.
pub(super) fn say_left(stream: &dyn Stream, origin: &Name) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let last = stream.last_of(origin).map_err(of_stream)?;
        let Some(last) = last else {
            return Ok(());
        };
        let message = Message::decode(&last.bytes).map_err(refused)?;
        let left = Message {
            from: message.to,
            body: Body::Left,
            ..message
        };
        let left = left.encode().map_err(|e| refused(e.to_string()))?;
        match stream.append(origin, last.sequence, &left) {
            Err(StreamError::Conflict { .. }) => {}
            done => return done.map(drop).map_err(of_stream),
        }
    }
    Err(refused(format!(
        "the stream could not be told that {origin} left: it takes other messages of that name all the time"
    )))
}

/// The argument of `densite_leave`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Leaving {
    /// Leave also if the stream cannot be told.
    force: bool,
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
    let rejects = crate::position::rejects(connection)?;
    if rejects > 0 {
        return Err(refused(format!(
            "densite_rejects has {rejects} rows with numbers of the stream: insert what is needed again, delete them, and leave then"
        )));
    }
    let file = DatabaseFile::of(connection, session.storage())?;
    let own = ConnectionSpec::of(connection, &file.path).open()?;
    own.busy_timeout(BUSY_MS)?;
    own.exec("PRAGMA main.synchronous = FULL; BEGIN IMMEDIATE")?;
    guards::remove(&own)?;
    own.exec(
        "UPDATE main.densite_applied SET stream = NULL, stream_message = 0, stream_mark = 0, stream_row = 0; \
         DROP TABLE main.densite_member; DROP TABLE main.densite_origins; DROP TABLE main.densite_digests; DROP TABLE main.densite_member_ids",
    )?;
    let is_home = home(file.storage.as_ref(), &file.log_dir()) == Some(member.home);
    if is_home {
        let told = tell(&member);
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

fn tell(member: &Membership) -> Result<()> {
    let stream = member.address()?.find(&member.settings.access()?);
    say_left(&*stream.map_err(of_stream)?, &member.origin)
}
