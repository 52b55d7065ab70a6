//! The stream of a member, for a function of SQL.

use crate::member::running::Running;
use crate::member::tables::{Membership, of_stream};
use densite_ingest::parts::Session;
use densite_sqlite::{Connection, Result};
use densite_stream::Stream;
use std::sync::Arc;

/// The stream, and the member at work if this process applies.
type Reached = (Arc<dyn Stream>, Option<Arc<Running>>);

/// The stream, and the member at work if this process applies. Otherwise the stream is opened.
///
/// # Errors
/// The stream's; an error while this member stands still.
pub(super) fn reach(
    member: &Membership,
    session: &Session,
    connection: &Connection,
) -> Result<Reached> {
    let log = session.existing_log(connection)?;
    if let Some(reason) = member.stands_still(log.open()) {
        return Err(reason);
    }
    let running = log
        .worker()
        .known()
        .and_then(|worker| Running::at_work(&worker));
    let stream = match &running {
        Some(running) => running.stream(),
        None => member.address()?.find(&member.settings.access()?),
    };
    Ok((stream.map_err(of_stream)?, running))
}
