//! What a scan reads beside the base table: unapplied rows of the log as sorted runs, and how far
//! the base table is.
//!
//! Nothing here depends on a connection's transaction or its log: a scan ([`crate::vtab`]) combines
//! them.

mod filter;
mod fold;
pub(crate) mod name;
mod overlay;
mod packed;
mod packed_values;
mod run;
#[cfg(test)]
mod tests;
pub(crate) mod transaction;
mod unapplied;
mod upsert;

pub(crate) use fold::Folder;
pub(crate) use name::Name;
pub(crate) use overlay::{Bounds, Overlay};
pub(crate) use packed::Item;
pub(crate) use run::{OWN, Row, Run, RunBuilder, push};
pub(crate) use transaction::Transaction;
pub(crate) use unapplied::{APPLIED_COLUMNS, Applied, Index, Key, RUN_ROWS, Snapshot, Unapplied};
pub(crate) use upsert::check as check_upsert;
