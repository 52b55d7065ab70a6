//! The SQL functions of a member of a stream ([`crate::member`]): joining, leaving, changes of the
//! schema, and what they demand of a database.

mod catching_up;
mod chosen;
mod demands;
pub(crate) mod functions;
mod joining;
mod leaving;
mod options;
mod reach;
mod reached;
mod schema;
mod trimming;
pub(crate) mod wait;
mod words;
