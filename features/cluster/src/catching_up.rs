//! Knowing all members.
//!
//! A member is known when the message with which it joined is applied.

use crate::member::tables::of_stream;
use densite_disk::wait::Retry;
use densite_ingest::Position;
use densite_ingest::parts::{Session, refused};
use densite_sqlite::{Connection, Result};
use densite_stream::Stream;
use std::time::Duration;

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the messages that the stream has now are applied.
///
/// # Errors
/// An error if they are not after some seconds.
pub(super) fn apply_all(
    session: &Session,
    connection: &Connection,
    stream: &dyn Stream,
) -> Result<()> {
    let log = session.existing_log(connection)?;
    let last = stream.extent().map_err(of_stream)?.last;
    let retry = Retry::within(PATIENCE);
    loop {
        log.worker().applying(connection)?;
        let place = Position::read(connection)?.and_then(|position| position.stream);
        let message = place.map_or(0, |place| place.message);
        if message >= last {
            return Ok(());
        }
        if !retry.again() {
            return Err(refused(format!(
                "this database has applied the messages of the stream up to {message} of {last}, so it does not know all members yet: try again later"
            )));
        }
        connection.check_interrupt()?;
    }
}
