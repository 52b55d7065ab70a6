//! The integration tests of this crate, in one program: it is linked once.

mod bulk;
mod files;
mod log;
mod open;
mod order;
