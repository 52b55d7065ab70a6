//! The contract of a stream.

use crate::{Durability, Extent, Identity, Message, Name, Position, Result, Seen, Take};

/// One total order of the messages of a database. All calls block.
///
/// A message is in the stream once, and for good, as soon as [`Stream::append`] returns its
/// sequence. What that is worth when a machine loses its power is what [`Stream::durability`] says.
///
/// All calls return [`Error::TryAgain`](crate::Error::TryAgain) if the stream cannot be reached,
/// [`Error::IdentityChanged`](crate::Error::IdentityChanged) if it was removed, and
/// [`Error::Forked`](crate::Error::Forked) in a child of the process that opened it.
pub trait Stream: Send + Sync {
    /// Which stream this is, as it was opened. A caller that returns to a stream compares this with
    /// the identity that it noted.
    fn identity(&self) -> Identity;

    /// The largest message that the stream takes, bytes.
    ///
    /// # Errors
    /// As all calls.
    fn max_payload(&self) -> Result<usize>;

    /// Appends a message if the last message of this origin has the sequence `expected` (0: there
    /// is none), and returns its sequence once the stream has acknowledged it.
    ///
    /// So a message is appended once, however late the caller tries again. After
    /// [`Error::TryAgain`](crate::Error::TryAgain) the message can be in the stream, and it can also
    /// still arrive. The caller appends it again with the same `expected`. If that is a
    /// [`Conflict`](crate::Error::Conflict), [`Stream::last_of`] is this message, or that of an
    /// earlier attempt.
    ///
    /// # Errors
    /// [`Conflict`](crate::Error::Conflict) if the last message of the origin is another one,
    /// [`Lost`](crate::Error::Lost) if it was removed,
    /// [`TooLarge`](crate::Error::TooLarge), and as all calls.
    fn append(&self, origin: &Name, expected: u64, bytes: &[u8]) -> Result<u64>;

    /// The last message of an origin; `None` if the stream has none.
    ///
    /// # Errors
    /// As all calls.
    fn last_of(&self, origin: &Name) -> Result<Option<Message>>;

    /// The message with this sequence; `None` if the stream does not have it.
    ///
    /// # Errors
    /// As all calls.
    fn message(&self, sequence: u64) -> Result<Option<Message>>;

    /// The messages behind a position, in order and without gaps. Waits until there is one, and
    /// returns nothing if the time is over before.
    ///
    /// A read that continues where the last one ended is fast: use one reader at a time. While there
    /// are no messages, 75 seconds can pass until it notices that the stream was removed.
    ///
    /// # Errors
    /// [`Lost`](crate::Error::Lost) if the next message was removed,
    /// [`Diverged`](crate::Error::Diverged) if the stream does not have the message of the
    /// position, and as all calls.
    fn read_after(&self, after: Position, take: Take) -> Result<Vec<Message>>;

    /// What reading has shown of the stream so far. It asks the stream nothing.
    ///
    /// # Errors
    /// [`Forked`](crate::Error::Forked).
    fn seen(&self) -> Result<Seen>;

    /// Which messages the stream has.
    ///
    /// # Errors
    /// As all calls.
    fn extent(&self) -> Result<Extent>;

    /// What an acknowledgement is worth.
    ///
    /// # Errors
    /// As all calls.
    fn durability(&self) -> Result<Durability>;

    /// Removes all messages with a sequence below `first`. The last message of each of these origins
    /// has to stay, because the stream knows from it what it has of that origin. Of other origins,
    /// nothing has to stay: then the stream takes their first message again.
    ///
    /// # Errors
    /// [`Refused`](crate::Error::Refused) if the last message of one of them is below `first`,
    /// `first` is beyond the end, or the settings of the stream do not allow it; and as all calls.
    fn trim(&self, first: u64, origins: &[Name]) -> Result<()>;
}
