//! The contract of streams, on each implementation.

mod contract;
mod directory;
#[cfg(feature = "nats")]
mod jetstream;
mod members;
