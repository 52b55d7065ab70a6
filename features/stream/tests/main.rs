//! The contract of streams, on each implementation.

mod contract;
mod directory;
mod directory_crash;
#[cfg(feature = "nats")]
mod jetstream;
mod members;
