//! The compressed page store: pages in, pages out, one atomic commit.
//!
//! See `docs/FORMAT.md` for the bytes and `ARCHITECTURE.md` for the life of a read and of a write.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod again;
mod append;
mod attempt;
mod by_fold;
mod bytes;
pub mod cache;
mod chain;
pub mod codec;
mod commit_id;
mod connection;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod decoders;
mod encode;
mod error;
mod format;
mod frame;
mod frame_scan;
mod handle;
mod heat;
#[cfg(test)]
mod large;
mod lineage;
mod map;
mod open_file;
mod options;
mod pages;
pub mod pool;
mod preencoded;
mod publish;
mod reader;
mod reclaim;
mod reclaim_state;
mod recover;
mod relearn;
mod relearn_state;
mod report;
mod shared;
mod sources;
mod space;
mod state;
mod stored_frames;
mod transaction;
mod writer;

pub use commit_id::{CommitId, Written, joined};
pub use connection::SyncFailed;
pub use densite_typed::{ColumnDescription, PageContext, Subject, scrub};
pub use error::{Damage, Error, Result};
pub use format::{FORMAT_VERSION, MAGIC};
pub use frame_scan::{Scan, holds_pages};
pub use handle::{Handle, PREAMBLE_LEN, preamble};
pub use options::{CodecChoice, DecodedCache, Options, Readahead, Tuning};
pub use preencoded::PreEncoded;
pub use reader::LockLevel;
pub use reclaim::{ReclaimBudget, ReclaimNext, ReclaimStep, Reclaimed};
pub use recover::{Kind, probe};
pub use relearn::{RelearnStep, RelearnWhen};
pub use report::{CheckReport, FrameInfo, SpaceFigures, Stats};
