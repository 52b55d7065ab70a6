//! The model test: plain SQLite and Densite side by side.
//!
//! A seed chooses every step. Both sides execute it through the same SQLite, and must return the
//! same rows, the same error with the same message, and the same counters. After a number of steps
//! the whole content is compared, and SQLite's integrity check must be ok. A run fails unless each
//! kind of operation (`kind.rs`) succeeded often enough. Without a journal (`journal_mode=OFF`),
//! only steps that succeed are chosen: the result of a failing statement and of ROLLBACK is
//! undefined.

mod act;
mod blobs;
mod catalog;
mod copies;
mod dice;
mod digest;
mod host;
mod kind;
mod needs;
mod outcome;
mod plan;
mod reopen;
mod run;
mod side;
mod step;
mod write;

pub use host::{folder, register};
pub use run::{Config, Report, run};
