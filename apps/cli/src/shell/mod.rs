//! `densite sql`: statements and dot commands from a text or a terminal.
//!
//! [`session`] runs what [`script`] reads from a text, or [`prompt`] from a terminal.

mod dot;
pub(crate) mod prompt;
pub(crate) mod script;
pub(crate) mod session;
