//! Chroma directories: finds the rows of Chroma's log (the table `embeddings_queue`) that can be
//! deleted, and deletes them. The feature `chroma` enables this module.
//!
//! A Chroma directory contains a `chroma.sqlite3` and a folder for each persisted vector segment.
//! The folder has the segment's id as its name and holds the files of an HNSW index. Each write
//! goes into the queue first, as a row with the next `seq_id`. The segments of its collection (one
//! for metadata, one for vectors) take it from there. The *position* of a segment is the last
//! `seq_id` that it took.
//!
//! **Is a row below a position read again?** No. In every version, a segment that starts asks for
//! rows *above* its position. The segment has also taken the row at its position. That row stays
//! nevertheless, as it does after Chroma's own purge (`seq_id < position`), for this reason:
//! `seq_id` is a plain rowid, so an empty queue would number from 1 again. The next writes would
//! then be below every position and be lost.
//!
//! **Where positions are stored.** The metadata segment applies rows in the transaction that stores
//! its position. The vector segment keeps rows in memory and writes its index after
//! `sync_threshold` rows, usually 1000.
//!
//! | | metadata segment | vector segment |
//! |---|---|---|
//! | up to 0.5.5 | `max_seq_id`, 8 bytes, big-endian | `max_seq_id` in `index_metadata.pickle` |
//! | 0.5.6 to 0.6 | the same | `max_seq_id`, 8 bytes, big-endian; if it has no row, the pickle |
//! | 1.0 and later | `max_seq_id`, INTEGER | `max_seq_id`, INTEGER; if it has no row, the pickle |
//!
//! # The rules
//!
//! 1. In each collection, only rows below the smallest position of its segments are deleted. A
//!    segment keeps all rows if it has no position, if its index is missing or damaged, if its type
//!    is unknown, or if its position is beyond the end of the queue.
//! 2. For a vector segment, a position in `max_seq_id` counts only if its index is present. Chroma
//!    writes index, pickle and row one after the other and syncs only the row. If the pickle is
//!    gone, Chroma 1.x builds the index again from the queue.
//! 3. **A row stays if the queue says that its record should be in the index or in the metadata,
//!    and the record is not there.** This holds whatever the positions say, because the row is the
//!    only copy. (Two processes that write to one directory lose records like this; so did bugs of
//!    Chroma.)
//! 4. Rows of a topic whose collection is gone are deleted if no segment names that collection any
//!    more. A topic contains the random id of the collection, and only the segments of the
//!    collection read it. Topics of another form are not changed.
//! 5. The row with the largest `seq_id` always stays.
//! 6. `automatically_purge` is set to true only if nothing looks wrong: Chroma's own purge uses
//!    only the positions, not rules 2 and 3. Schemas before 0.5.6 do not have this setting.
//! 7. Unknown migrations, tables or columns are an error, and nothing is changed.
//!
//! # While Chroma runs
//!
//! A running Chroma has a vector index in memory that is ahead of its files. This does not harm a
//! prune: the state on disk is a lower bound of what the segment has taken, and the segment never
//! reads below it again. The position only grows. Positions, queue and schema are read in the
//! transaction that deletes, so no write comes in between. An index file that is written at that
//! time is read as damaged, which keeps the rows, or with its older, smaller position.
//!
//! *Replacing* the database file does harm if a process has it open without a lock, as it would
//! continue to write to the old file. A vacuum replaces the file. Therefore [`users()`] lists the
//! processes that have any file of the directory open.

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
