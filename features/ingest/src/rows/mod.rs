//! Rows in memory: those of a transaction that is not committed, references to rows of the log, and
//! rows as JSON.

pub(crate) mod json_row;
pub(crate) mod pending;
pub(crate) mod savepoints;
pub(crate) mod unit;
