//! Runs SQL and dot commands: splits text into statements, binds parameters, prints results.
//!
//! [`session`] runs what [`script`] reads from a text, or [`prompt`] from a terminal.

mod dot;
pub(crate) mod failure;
mod format;
mod interrupt;
mod literal;
pub(crate) mod open;
mod output;
mod params;
pub(crate) mod prompt;
pub(crate) mod script;
pub(crate) mod session;
mod split;
