//! Shipping from within a program: `densite_replicate`, `densite_replicate_wait` and
//! `densite_replica_status`.
//!
//! One thread of the process ships a database file for all connections of the process. It ends with
//! the last of them: its close waits, for a limited time, until what is new was sent. The thread
//! has connections of its own and holds no mutex while SQLite or the bucket is called. A forked
//! child has no such thread, and its registry is empty.

mod databases;
mod follower;
mod functions;
mod replicate_options;
mod shipping;
mod status;
mod wait;

pub(crate) use functions::create_functions;
