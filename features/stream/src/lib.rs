//! One total order of messages that many machines append to and read.
//!
//! A [`Stream`] belongs to one database. Each member of the database appends under its own name, its
//! *origin*, and all members read the same messages in the same order. With the feature `nats`,
//! `JetStream` keeps a stream on a NATS server. docs/decisions/streams.md has the reasons.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
mod error;
mod identity;
#[cfg(feature = "nats")]
mod jetstream;
mod message;
mod name;
mod stream;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;

pub use address::{Access, Address, without_password};
pub use error::{Error, Result};
pub use identity::Identity;
#[cfg(feature = "nats")]
pub use jetstream::{JetStream, JetStreamOptions};
pub use message::{Durability, Extent, Message, Position, Seen, SyncInterval, Take};
pub use name::Name;
pub use stream::Stream;
