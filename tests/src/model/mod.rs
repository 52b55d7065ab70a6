//! The model test: plain SQLite and Densite side by side.
//!
//! Every step is chosen by a seed, done on both sides through the same SQLite, and must
//! give the same rows, the same error with the same words, the same counters. Every so many
//! steps all content is compared: each row of each table with its row id, the schema, the
//! number of pages and of free pages, and SQLite's integrity check has to be content.
//!
//! A run is about one page size and goes through all journal modes, with one or two
//! connections. It fails unless each kind of operation (`kind.rs`) succeeded often enough.
//!
//! Known and left out: without a journal (`journal_mode=OFF`) SQLite leaves a statement that
//! fails, and a ROLLBACK, undefined; so in this mode only such steps are taken that succeed.

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
