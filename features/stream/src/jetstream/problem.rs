//! Errors of the client and the server, as those of a stream.

use crate::Error;
use async_nats::jetstream::Error as ServerError;
use async_nats::jetstream::ErrorCode;
use std::error::Error as StdError;

/// What the server said, if it said anything: the error itself or one of its sources.
fn server_error<'a>(e: &'a (dyn StdError + 'static)) -> Option<&'a ServerError> {
    let mut next = Some(e);
    while let Some(e) = next {
        if let Some(found) = e.downcast_ref() {
            return Some(found);
        }
        next = e.source();
    }
    None
}

/// Whether the server has no such stream.
pub(super) fn is_missing(e: &(dyn StdError + 'static)) -> bool {
    server_error(e).is_some_and(|e| e.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// Whether the origin's last message is another one than expected. A cluster has a second code for
/// this, while an earlier message of the origin is on its way.
pub(super) fn is_wrong_sequence(e: &(dyn StdError + 'static)) -> bool {
    server_error(e).is_some_and(|e| {
        [
            ErrorCode::STREAM_WRONG_LAST_SEQUENCE,
            ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT,
        ]
        .contains(&e.error_code())
    })
}

/// The error for a request. `asked` says for what: "the stream could not be read".
pub(super) fn judged(asked: &str, e: &(dyn StdError + 'static)) -> Error {
    let Some(server) = server_error(e) else {
        return Error::TryAgain(format!("{asked}: {}", chain(e)));
    };
    let text = format!("{asked}: {server}");
    match server.error_code() {
        ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
            Error::Refused(format!(
                "{text}; enable JetStream on the server (nats-server -js) and for this user"
            ))
        }
        // Codes of HTTP: 5xx is a state of the server, 4xx a fault of the request.
        _ if server.code() >= 500 => Error::TryAgain(text),
        _ => Error::Refused(text),
    }
}

/// An error with its sources, each once.
pub(super) fn chain(e: &(dyn StdError + 'static)) -> String {
    let mut text = e.to_string();
    let mut next = e.source();
    while let Some(e) = next {
        let more = e.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = e.source();
    }
    text
}
