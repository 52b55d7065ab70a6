//! One total order of messages that many machines append to and read.
//!
//! A [`Stream`] belongs to one database. Each member of the database appends under its own name, its
//! *origin*, and all members read the same messages in the same order. [`Directory`] keeps a stream
//! in a local directory, without a server. With the feature `nats`, `JetStream` keeps it on a NATS
//! server. docs/FORMAT.md has the bytes of a directory, docs/decisions/streams.md the reasons.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod bytes;
mod directory;
mod error;
mod identity;
#[cfg(feature = "nats")]
mod jetstream;
mod message;
mod name;
mod stream;

pub use address::{Access, Address, without_password};
pub use directory::Directory;
pub use error::{Error, Result};
pub use identity::Identity;
#[cfg(feature = "nats")]
pub use jetstream::{JetStream, JetStreamOptions};
pub use message::{Durability, Extent, Message, Position, Seen, SyncInterval, Take};
pub use name::Name;
pub use stream::Stream;
