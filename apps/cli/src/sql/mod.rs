//! Runs SQL and dot commands: splits text into statements, binds parameters, prints results.
//!
//! [`session`] runs what [`script`] reads from a text, or [`prompt`] from a terminal.

mod dot;
pub(crate) mod failure;
pub(crate) mod format;
pub(crate) mod interrupt;
mod literal;
pub(crate) mod open;
pub(crate) mod output;
pub(crate) mod params;
pub(crate) mod pipe;
pub(crate) mod prompt;
pub(crate) mod script;
pub(crate) mod session;
mod split;
