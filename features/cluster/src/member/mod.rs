//! A member of a stream: what the database says of it, the messages that members send each other,
//! and its threads while this process applies ([`Running`]).
//!
//! The [`forwarder`] appends the rows of the log to the stream, under the member's name there, its
//! *origin*. [`Incoming`] reads the messages of all members.

mod acknowledged;
pub(crate) mod digest;
mod forwarder;
pub(crate) mod guards;
mod incoming;
pub(crate) mod largest;
mod link;
pub(crate) mod message;
pub(crate) mod needed;
mod origins;
mod outbox;
pub(crate) mod own_log;
pub(crate) mod retained;
pub(crate) mod running;
pub(crate) mod sent;
mod shared;
pub(crate) mod skipped;
pub(crate) mod tables;
pub(crate) mod troubles;
mod unreadable;

pub(crate) use incoming::{Came, Incoming, Item};
#[cfg(feature = "fuzz")]
pub(crate) use message::HEADER_LEN;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use message::LastTransaction;
pub(crate) use message::{Body, Digests, Joined, Message, NO_LOG, ROW_BITS};
pub(crate) use origins::Origins;
pub(crate) use running::Running;
pub(crate) use tables::{Membership, of_stream, stop};

/// The name of the table in the log whose rows change the schema: they have one column, `sql`.
pub(crate) const SCHEMA: &str = "";
