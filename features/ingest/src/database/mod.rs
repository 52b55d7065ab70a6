//! A database beside its log: its file, what it says of the log, how far it is durable, other
//! connections to it, and what a process knows of it while the log is open ([`open_log`]).

pub(crate) mod connection_spec;
pub(crate) mod database_file;
pub(crate) mod durable;
pub(crate) mod open_log;
pub(crate) mod paused;
pub(crate) mod position;
pub(crate) mod rate;
