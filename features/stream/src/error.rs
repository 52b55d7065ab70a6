//! Errors of a stream, one variant for each way in which a caller can react.

use crate::identity::Identity;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The last message of the origin is another one than the caller expects. The stream did not
    /// take the message: read [`Stream::last_of`](crate::Stream::last_of).
    #[error(
        "the last message of {origin} in the stream has sequence {found}, not {expected}: it was appended before, or another program uses this name; give each member a name of its own"
    )]
    Conflict {
        /// The origin.
        origin: String,
        /// The sequence that the caller expected; 0: no message.
        expected: u64,
        /// The sequence in the stream; 0: no message.
        found: u64,
    },
    /// The stream cannot be reached or did not answer in time: try again. After an append, the
    /// message can be in the stream: read [`Stream::last_of`](crate::Stream::last_of).
    #[error("{0}")]
    TryAgain(String),
    /// Messages that the caller needs are no longer in the stream: restore the database from a copy
    /// that is newer, and continue from its position.
    #[error(
        "the stream begins at {first}: message {wanted} was removed; restore this database from a newer copy of a member, and join again"
    )]
    Lost {
        /// The first sequence that the caller needs.
        wanted: u64,
        /// The next sequence that the stream has.
        first: u64,
    },
    /// The stream does not have the message that the caller read last. It lost messages that it had
    /// acknowledged, or an older copy of it was put back.
    #[error(
        "the stream no longer has message {sequence} as it was read: its last one is {last}; the server lost acknowledged messages; each origin sends its lost rows again by itself; then densite_join(address, '{{\"after_loss\": true}}') lets this member go on"
    )]
    Diverged {
        /// The sequence of the message.
        sequence: u64,
        /// The last sequence of the stream.
        last: u64,
    },
    /// The stream was removed, and perhaps made again, since it was opened.
    #[error(
        "the stream was removed or made again: its identity was {expected}, {}; bring the old stream back, or make this database independent (densite_leave) and join the new one", shown(*found)
    )]
    IdentityChanged {
        /// The identity when it was opened.
        expected: Identity,
        /// The identity now; `None`: there is no such stream.
        found: Option<Identity>,
    },
    /// The stream refuses the request, and will do so again: the text says what to change.
    #[error("{0}")]
    Refused(String),
    /// The message is too large for the stream, which did not take it.
    #[error(
        "a message of {bytes} bytes is too large for the stream: {max} fit; let the server take larger ones (max_payload), and the stream too (max_msg_size)"
    )]
    TooLarge {
        /// Its size, bytes.
        bytes: usize,
        /// The largest size, bytes.
        max: usize,
    },
    /// The process was forked after it opened the stream: open it again in the child.
    #[error("the stream was opened before a fork; open it again in this process")]
    Forked,
}

fn shown(found: Option<Identity>) -> String {
    found.map_or("now there is none".to_owned(), |id| {
        format!("now it is {id}")
    })
}
