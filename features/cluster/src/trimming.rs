//! `densite_trim_stream([keep])`: removing messages that all members have applied.
//!
//! A member says how far it is when it joins and whenever members compare their tables. So nothing
//! is removed that a member may still need, unless it has left or was declared gone. One that joins
//! from an older copy in this very moment is not known yet: it says that messages were removed, and
//! joins again from a newer copy.

use super::catching_up::apply_all;
use super::reach::reach;
use crate::member::Membership;
use crate::member::sent::Last;
use crate::member::tables::of_stream;
use densite_ingest::Position;
use densite_ingest::parts::{Session, StreamPlace, refused};
use densite_sqlite::{Connection, Result, Value, ValueRef};
use densite_stream::{Error, Name, Position as StreamPosition, Stream};

/// See the module. Returns the first message that the stream has then.
///
/// # Errors
/// SQLite's, the stream's; an error if the database is no member or stands still.
pub(super) fn trim(
    session: &Session,
    connection: &Connection,
    given: &[ValueRef<'_>],
) -> Result<Value> {
    let keep = match given {
        [] => Some(0),
        [keep] => keep.as_i64().and_then(|keep| u64::try_from(keep).ok()),
        _ => None,
    };
    let keep = keep.ok_or_else(|| {
        refused("densite_trim_stream wants nothing, or how many messages to keep, as in densite_trim_stream(10000)")
    })?;
    let member = Membership::read(connection)?
        .ok_or_else(|| refused("densite_trim_stream: this database is no member of a stream"))?;
    let place = place_in_stream(connection)?;
    let (stream, _) = reach(&member, session, connection)?;
    if stream.identity().0 != place.identity {
        return Err(refused(
            "the stream was removed or made again: nothing is trimmed",
        ));
    }
    // A member that joined from an older copy needs more than those that are known here.
    apply_all(session, connection, &*stream)
        .map_err(|e| refused(format!("densite_trim_stream: {}", e.message)))?;
    let place = place_in_stream(connection)?;
    let done = below(&*stream, &member, connection, place, keep)?;
    Ok(Value::Integer(done.cast_signed()))
}

fn place_in_stream(connection: &Connection) -> Result<StreamPlace> {
    let place = Position::read(connection)?.and_then(|position| position.stream);
    place.ok_or_else(|| refused("the database has no place in its stream"))
}

fn below(
    stream: &dyn Stream,
    member: &Membership,
    connection: &Connection,
    place: StreamPlace,
    keep: u64,
) -> Result<u64> {
    has_place(stream, place).map_err(of_stream)?;
    let extent = stream.extent().map_err(of_stream)?;
    // The message of a member's place stays: it shows that the stream has lost nothing.
    let mut first = place.message.min((extent.last + 1).saturating_sub(keep));
    let members = members(connection)?;
    for (name, applied) in &members {
        if *name != member.origin {
            first = first.min(*applied);
        }
        let last = Last::of(stream, name).map_err(of_stream)?;
        if let Some((at, _)) = last.message {
            first = first.min(at);
        }
    }
    if first <= extent.first {
        return Ok(extent.first);
    }
    let names: Vec<Name> = members.into_iter().map(|(name, _)| name).collect();
    stream.trim(first, &names).map_err(of_stream)?;
    Ok(stream.extent().map_err(of_stream)?.first)
}

/// Whether the stream has what this member has applied.
pub(super) fn has_place(stream: &dyn Stream, place: StreamPlace) -> densite_stream::Result<()> {
    let at = StreamPosition {
        sequence: place.message,
        mark: place.mark,
    };
    let found = stream.message(at.sequence)?;
    match at == StreamPosition::START || found.is_some_and(|found| found.position() == at) {
        true => Ok(()),
        false => Err(Error::Diverged {
            sequence: at.sequence,
            last: stream.extent()?.last,
        }),
    }
}

/// The members that have not left, and up to which message each has said that it has applied them.
fn members(connection: &Connection) -> Result<Vec<(Name, u64)>> {
    let mut members = Vec::new();
    let mut statement = connection
        .prepare("SELECT origin, applied FROM main.densite_origins WHERE has_left = 0")?;
    while statement.step()? {
        let name = statement.column(0).as_str().unwrap_or_default();
        let applied = statement.column(1).as_i64().unwrap_or(0);
        let name = name.parse().map_err(of_stream)?;
        members.push((name, u64::try_from(applied).unwrap_or(0)));
    }
    Ok(members)
}
