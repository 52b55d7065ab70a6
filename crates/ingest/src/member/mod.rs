//! A database as a member of a stream: rows of many machines, applied in one order by each.
//!
//! A member acknowledges rows from its own log, as every database does. One process of it, the one
//! that applies, has two more threads. The [`forwarder`] appends the rows of the log to the stream,
//! under the member's name there, its *origin*. [`Incoming`] reads the stream, and the worker
//! applies what comes: rows of all members, its own among them (`crates/ingest/src/apply/stream_order.rs`).
//! The position in `densite_applied` moves in the same transaction: the place in the stream, and
//! how far the own log was applied. So readers see table and own waiting rows as one, as without a
//! stream, and the log is pruned as without one.
//!
//! docs/decisions/cluster.md has the reasons.

mod acknowledged;
mod control;
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
mod troubles;
mod unreadable;

pub(crate) use control::{Control, What};
pub(crate) use incoming::{Came, Incoming, Item};
#[cfg(feature = "fuzz")]
pub(crate) use message::HEADER_LEN;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use message::LastTransaction;
pub(crate) use message::{Body, Digests, Joined, Message, NO_LOG, ROW_BITS};
pub(crate) use origins::Origins;
pub(crate) use running::Running;
pub(crate) use tables::{Membership, stop};
pub(crate) use troubles::described;

/// The name of the table in the log whose rows change the schema: they have one column, `sql`.
pub(crate) const SCHEMA: &str = "";
