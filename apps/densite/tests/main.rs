//! The integration tests of this crate, in one program, so that they are linked once.

mod bulk;
mod files;
mod foreign_keys;
mod keys;
mod log;
mod open;
mod order;
mod progress;
#[cfg(feature = "remote")]
mod remote;
mod replicate;
