//! Chroma directories: what of their log (the table `embeddings_queue`) can go, and taking it out.
//! This module is there with the feature `chroma`.
//!
//! A Chroma directory is a `chroma.sqlite3` and, for each persisted vector segment, a folder named
//! by its id with the files of an HNSW index. Every write of an application goes into the queue
//! first, as a row with the next `seq_id`; the segments of its collection (one for metadata, one
//! for vectors) take it from there. How far a segment came is its *position*.
//!
//! **What is read below a position?** Nothing: a segment that starts asks for rows *above* its
//! position, in every version. The row at the position is taken already; it stays nevertheless, as
//! Chroma's own purge (`seq_id < position`) leaves it, for a reason: `seq_id` is a plain rowid, so
//! an emptied queue would number from 1 again, and the next writes would lie below every position
//! and be lost.
//!
//! **Where positions are** (the metadata segment applies rows in the transaction that stores its
//! position; the vector segment keeps them in memory and writes its index only after so many rows,
//! `sync_threshold`, usually 1000):
//!
//! | | metadata segment | vector segment |
//! |---|---|---|
//! | up to 0.5.5 | `max_seq_id`, 8 bytes, big-endian | `max_seq_id` in `index_metadata.pickle` |
//! | 0.5.6 to 0.6 | the same | `max_seq_id`, 8 bytes, big-endian; without a row there, the pickle |
//! | 1.0 and later | `max_seq_id`, INTEGER | `max_seq_id`, INTEGER; without a row there, the pickle |
//!
//! # The rules
//!
//! 1. Of a collection only rows below the smallest position of its segments go. A segment without a
//!    position holds everything back, and so does one whose index is missing or damaged, of a kind
//!    that is not known, or with a position beyond the end of the queue.
//! 2. A position in `max_seq_id` does not count by itself for a vector segment: its index must be
//!    there. (Chroma writes index, pickle and row one after the other and syncs only the row; and
//!    where the pickle is gone Chroma 1.x builds the index again from the queue.)
//! 3. **A row whose record should be in the index or in the metadata, going by the queue, and is
//!    not, stays**, whatever the positions say: it is the only copy. (Two processes that write to
//!    one directory lose records like this; so did faults of Chroma's.)
//! 4. Rows of a topic whose collection is gone go if no segment names that collection any more: a
//!    topic contains the collection's random id, and nothing reads a topic but the segments of its
//!    collection. Topics of another form are left alone.
//! 5. The row with the largest `seq_id` stays in any case.
//! 6. `automatically_purge` is set to true only where nothing looked wrong: Chroma's own purge
//!    knows only the positions, not rules 2 and 3. Schemas before 0.5.6 have no place for it.
//! 7. Migrations, tables or columns that are not known: an error, and nothing is changed.
//!
//! # While Chroma runs
//!
//! A running Chroma has a vector index in memory that is ahead of its files. That does no harm to a
//! purge: what is on the disk is a lower bound of what it has taken, it never reads below that
//! again, and it only ever moves it up. Positions, queue and schema are read within the transaction
//! that deletes, so no write comes in between; an index file that is written meanwhile is read as
//! damaged (it holds back) or with its old, smaller position. What does harm is to *replace* the
//! database file under a process that has it open without a lock, which is what a vacuum does: it
//! would go on writing to the old one. So [`users()`] tells which processes have anything of the
//! directory open.

mod dir;
mod hold;
mod index;
pub mod pickle;
mod plan;
mod prune;
mod scan;
mod schema;
mod segments;
mod setting;
mod sql;
mod users;
mod vacuum;

pub use dir::{ChromaDir, recognise};
pub use hold::Hold;
pub use plan::{CollectionPlan, GonePlan, PrunePlan, SegmentPlan, plan};
pub use prune::{Pruned, prune};
pub use schema::{Schema, is_chroma};
pub use setting::{AutoPurge, PurgeChange};
pub use users::users;
pub use vacuum::ChromaVacuum;
