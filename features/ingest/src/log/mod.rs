//! The log of a database, which all connections of a process share ([`database_log`]): that the
//! database names it, the wait for space in it, ids of new rows, and waiting for its worker.

pub(crate) mod backpressure;
pub(crate) mod database_log;
pub(crate) mod ids;
pub(crate) mod registration;
pub(crate) mod wait_applied;
