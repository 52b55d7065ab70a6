//! What a database promises as a member of a stream.

mod common;
mod members;
