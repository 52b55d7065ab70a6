//! The durable log of a database: batches of rows that are acknowledged once they are synced, and
//! read in one total order.
//!
//! Threads and processes append transactions through a [`Log`], one opened directory of segments;
//! one thread at a time writes and syncs for all. [`Reader`]s follow it from any row on. Named
//! positions of subscribers ([`Log::subscribe`]) keep rows that they have not acknowledged;
//! [`Log::prune`] removes the others. docs/FORMAT.md has the bytes, docs/decisions/log.md the
//! reasons.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod apply_request;
mod batch;
mod blocking_lock;
mod check_report;
mod decisions;
mod encoded;
mod end_word;
mod error;
mod files;
mod fork_safe_lock;
mod format;
mod free_segment;
mod group;
mod identity;
mod ids;
mod image;
mod lock;
mod log;
mod measure;
mod named;
mod next_segment;
mod op;
mod open_dir;
mod options;
mod patience;
mod piece;
mod prune;
mod reader;
mod record_pack;
mod records;
mod recover;
mod recycle;
mod rows;
mod salvage;
mod scan;
mod seal_segment;
mod shared;
mod state;
mod subscribers;
mod table;
mod tail;
mod takeover;
mod times;
mod visibility;
mod wakeups;
mod writer;

pub use apply_request::ApplyRequest;
pub use batch::{Appended, Batch, Txn, TxnId};
pub use check_report::{CheckReport, Problem, check};
pub use encoded::EncodedBatch;
pub use error::{Error, Result};
pub use files::LogDir;
pub use format::LOG_FORMAT_VERSION;
pub use identity::id_in;
pub use ids::{LogId, Seq};
pub use image::{Hold, Image, News, Part, RestoredLog, Span};
pub use log::{Lead, Log, Status};
pub use op::Op;
pub use options::Options;
pub use patience::{Patience, Waiting, usual};
pub use piece::{PieceBatch, pack_piece, unpack_piece};
pub use prune::Pruned;
pub use reader::{Next, Reader, Record, keep_whole_transactions};
pub use record_pack::{pack_records, unpack_records};
pub use rows::{Rows, Value};
pub use salvage::{Lost, Salvage, Salvaged};
pub use state::Config;
pub use subscribers::{Begin, Subscriber};
pub use table::Table;
pub use wakeups::Rings;
