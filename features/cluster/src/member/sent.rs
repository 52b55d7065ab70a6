//! What an origin has in the stream, and messages that another thread or member than its forwarder
//! appends under its name.

use super::message::{Body, LastTransaction, Message, NO_LOG};
use super::unreadable::Unreadable;
use densite_log::{LogId, Seq};
use densite_stream::{Error, Name, Result, Stream};

/// Most attempts to append a message while others of the same origin come.
const ATTEMPTS: u32 = 20;
/// The end of an origin in the stream.
pub(crate) struct Last {
    /// The sequence of the last message under its name, which the stream expects; 0: there is none.
    pub(crate) sequence: u64,
    /// Its last message, and the sequence of it. Foreign messages can follow.
    pub(crate) message: Option<(u64, Message)>,
}

impl Last {
    /// Of this origin. Messages under its name that no member wrote are passed over, one request
    /// for each message of the stream behind its own last one. A last message that names no log
    /// gets that of the one before, if the stream still has it.
    ///
    /// # Errors
    /// The stream's; [`Error::Refused`] if its last message cannot be read.
    pub(crate) fn of(stream: &dyn Stream, origin: &Name) -> Result<Last> {
        let Some(last) = stream.last_of(origin)? else {
            return Ok(Last {
                sequence: 0,
                message: None,
            });
        };
        let sequence = last.sequence;
        let mut found = Some(last);
        let mut at = sequence;
        let mut first = None;
        let mut unnamed: Option<(u64, Message)> = None;
        loop {
            if let Some(message) = found.filter(|message| message.origin == *origin) {
                match Message::decode(&message.bytes) {
                    Ok(decoded) if decoded.log == NO_LOG => {
                        unnamed.get_or_insert((at, decoded));
                    }
                    Ok(decoded) => {
                        let log = decoded.log;
                        let (at, last) = unnamed.unwrap_or((at, decoded));
                        let message = Some((at, Message { log, ..last }));
                        return Ok(Last { sequence, message });
                    }
                    Err(Unreadable::Foreign(_)) => {}
                    Err(why) => {
                        return Err(Error::Refused(format!(
                            "message {at} of {origin} in the stream is not valid: {why}"
                        )));
                    }
                }
            }
            at -= 1;
            let first = match first {
                Some(first) => first,
                None => *first.insert(stream.extent()?.first),
            };
            if at < first {
                let message = unnamed;
                return Ok(Last { sequence, message });
            }
            found = stream.message(at)?;
        }
    }
}

/// Appends a message without rows under the name of an origin that has this log. `known` is the
/// last row of one that has no message. Returns `None` without `known` if it has no message.
///
/// # Errors
/// The stream's; an error if its forwarder is faster all the time.
pub(crate) fn say(
    stream: &dyn Stream,
    origin: &Name,
    log: LogId,
    known: Option<Seq>,
    body: &Body,
) -> Result<Option<u64>> {
    for _ in 0..ATTEMPTS {
        let last = Last::of(stream, origin)?;
        let place = last
            .message
            .map(|(_, message)| (message.log, message.to, message.last));
        let known = known.map(|to| (log, to, LastTransaction::default()));
        let Some((named, to, last_transaction)) = place.or(known) else {
            return Ok(None);
        };
        let log = if named == NO_LOG { log } else { named };
        let message = Message {
            log,
            from: to,
            to,
            last: last_transaction,
            body: body.clone(),
        };
        let bytes = message
            .encode()
            .map_err(|e| Error::Refused(e.to_string()))?;
        match stream.append(origin, last.sequence, &bytes) {
            Err(Error::Conflict { .. }) => {}
            done => return done.map(Some),
        }
    }
    Err(Error::TryAgain(format!(
        "the stream takes other messages of {origin} all the time: try again"
    )))
}

/// The first message of the stream that a member wrote, and its sequence; `None` if there is none.
/// One request for each message before it.
///
/// # Errors
/// The stream's; [`Error::Lost`] if the first message of the stream was removed.
pub(crate) fn first_of_members(stream: &dyn Stream) -> Result<Option<(u64, Message)>> {
    let extent = stream.extent()?;
    if extent.first > 1 {
        return Err(Error::Lost {
            wanted: 1,
            first: extent.first,
        });
    }
    for sequence in 1..=extent.last {
        let Some(message) = stream.message(sequence)? else {
            continue;
        };
        match Message::decode(&message.bytes) {
            Ok(decoded) => return Ok(Some((sequence, decoded))),
            Err(Unreadable::Foreign(_)) => {}
            Err(why) => {
                return Err(Error::Refused(format!(
                    "message {sequence} of {} in the stream is not valid: {why}",
                    message.origin
                )));
            }
        }
    }
    Ok(None)
}
