//! Chroma directories: finds the rows of Chroma's log (the table `embeddings_queue`) that can be
//! deleted, and deletes them. The feature `chroma` enables this module. docs/decisions/chroma.md
//! has the rules, which are cited by number, and their reasons.
//!
//! The *position* of a segment is the last `seq_id` that it took from the queue. In each
//! collection, rows below the smallest position of its segments are deleted, unless the files show
//! that a record is missing. [`users()`] lists the processes that have a file of the directory
//! open.

mod chroma_vacuum;
mod dir;
mod hold;
mod index;
mod leftovers;
pub mod pickle;
mod prune;
mod prune_plan;
mod scan;
mod schema;
mod segments;
mod setting;
mod sql;
mod users;

pub use chroma_vacuum::ChromaVacuum;
pub use dir::{ChromaDir, recognise};
pub use hold::Hold;
pub use leftovers::Leftover;
pub use prune::{Pruned, prune};
pub use prune_plan::{CollectionPlan, GonePlan, PrunePlan, SegmentPlan, plan};
pub use schema::{Schema, is_chroma};
pub use setting::{AutoPurge, PurgeChange};
pub use users::users;
