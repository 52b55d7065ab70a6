//! `densite_join(address [, settings])`.
//!
//! A database that is no member yet joins for the [`first`] time. A member joins [`again`] with
//! other settings, and a [`copy`] of one becomes another member.

mod again;
mod begun;
mod copy;
mod enter;
mod first;
mod member_name;
mod reaches;
mod stream_place;

use super::demands;
use super::join_options::{self, Options};
use crate::member::largest::largest_transaction;
use crate::member::tables::{Membership, Settings, of_stream};
use densite_disk::wait::pause;
use densite_ingest::DatabaseLog;
use densite_ingest::parts::{ConnectionSpec, DatabaseFile, LOOK_EVERY, Session, refused};
use densite_sqlite::{Connection, Result, Value, ValueRef};
use densite_stream::Stream;
use std::sync::Arc;

/// The only text argument at this place.
fn text<'a>(given: &[ValueRef<'a>], place: usize) -> Option<&'a str> {
    given.get(place).and_then(|value| value.as_str())
}

/// See the module. Returns the name of the member.
///
/// # Errors
/// What stands against joining; SQLite's, the log's, the stream's.
pub(crate) fn join(
    session: &Session,
    connection: &Connection,
    given: &[ValueRef<'_>],
) -> Result<Value> {
    let address = text(given, 0).filter(|_| given.len() <= 2).ok_or_else(|| {
        refused("densite_join wants the address of a stream, and settings as a JSON object if there are any, as in densite_join('nats://host:4222/STREAM')")
    })?;
    let (options, settings) = join_options::parsed(text(given, 1).unwrap_or("{}"))
        .map_err(|e| refused(format!("densite_join: the settings are not valid: {e}")))?;
    if !connection.is_autocommit() {
        return Err(refused(
            "densite_join: this connection has a transaction open; end it first",
        ));
    }
    let joining = Joining::of(session, connection, address, options, settings)?;
    let origin = match Membership::read(connection)? {
        None => joining.first(connection)?,
        Some(known) => joining.again(connection, known)?,
    };
    // The session keeps the log open, and so the member at work. A copy has a log of its own now.
    if let Some(log) = session.find_database_log(connection)? {
        log.worker().applying(connection)?.end_member();
        log.log().ring();
    }
    Ok(Value::from(origin.as_str()))
}

/// A database and a stream.
struct Joining<'a> {
    session: &'a Session,
    file: DatabaseFile,
    /// A connection to the database for the transaction.
    own: Connection,
    address: &'a str,
    options: Options,
    settings: Settings,
    stream: Arc<dyn Stream>,
}

impl<'a> Joining<'a> {
    fn of(
        session: &'a Session,
        connection: &Connection,
        address: &'a str,
        options: Options,
        settings: Settings,
    ) -> Result<Joining<'a>> {
        let file = DatabaseFile::of(connection, session.storage())?;
        let parsed = densite_stream::Address::parse(address).map_err(of_stream)?;
        let is_member = Membership::read(connection)?.is_some();
        let own = ConnectionSpec::of(connection, &file.path).open_patient(connection)?;
        let unmet = demands::unmet(&own, is_member)?;
        if !unmet.is_empty() {
            return Err(refused(format!(
                "{}: the database cannot join a stream: {}",
                file.path,
                unmet.join("; ")
            )));
        }
        let stream = parsed.open(&settings.access()?).map_err(of_stream)?;
        if !settings.trust_server {
            demands::trusted(stream.durability().map_err(of_stream)?)?;
        }
        Ok(Joining {
            session,
            file,
            own,
            address,
            options,
            settings,
            stream,
        })
    }

    /// Transactions of a member fit into one message.
    fn limit(&self, log: &DatabaseLog) -> Result<()> {
        let most = self.stream.max_payload().map_err(of_stream)?;
        let set = log.log().set_config(|config| {
            config.max_transaction_bytes = largest_transaction(most) as u64;
        });
        set.map_err(|e| log.failed(e))?;
        // Until then, other processes can append larger transactions.
        pause(2 * LOOK_EVERY);
        Ok(())
    }
}
