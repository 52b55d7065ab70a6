//! The compressed page store: pages in, pages out, one atomic commit.
//!
//! See `docs/FORMAT.md` for the bytes and `ARCHITECTURE.md` for the life of a read and of a write.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod account;
mod append;
mod attempt;
mod batches;
mod begin;
mod bytes;
pub mod cache;
mod chain;
mod check;
pub mod codec;
mod durable;
mod encode;
mod error;
mod format;
mod frames;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod handle;
#[cfg(test)]
mod large;
mod lineage;
mod map;
mod moving;
mod options;
mod pending;
pub mod pool;
mod preencoded;
mod publish;
mod read;
mod readahead;
mod reclaim;
mod recover;
mod rewrite;
mod shared;
mod space;
mod state;
mod stats;
mod train;
mod write;

pub use check::CheckReport;
pub use densite_typed::{ColumnDescription, PageContext, Subject, scrub};
pub use error::{Damage, Error, Result};
pub use format::FORMAT_VERSION;
pub use frames::FrameInfo;
pub use handle::{Handle, LockLevel};
pub use options::{CodecChoice, Options, Readahead, Tuning};
pub use preencoded::PreEncoded;
pub use reclaim::{ReclaimBudget, ReclaimNext, ReclaimStep, Reclaimed, SpaceFigures, SyncFailed};
pub use recover::{Kind, probe};
pub use stats::Stats;
