//! The contract of streams, on each implementation.

mod contract;
mod crash;
mod directory;
#[cfg(feature = "nats")]
mod jetstream;
mod members;
