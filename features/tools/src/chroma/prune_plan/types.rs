//! The types of a plan.

use crate::chroma::hold::Hold;
use crate::chroma::leftovers::Leftover;
use crate::chroma::schema::Schema;
use crate::chroma::setting::{AutoPurge, PurgeChange};
use std::path::PathBuf;

/// What a prune would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunePlan {
    /// The directory.
    pub dir: PathBuf,
    /// The schema's version.
    pub schema: Schema,
    /// Rows in the queue.
    pub queue_rows: u64,
    /// Rows that will be deleted.
    pub rows: u64,
    /// Their size in bytes, estimated.
    pub bytes: u64,
    /// All collections, ordered by tenant, database and name.
    pub collections: Vec<CollectionPlan>,
    /// Rows of deleted collections.
    pub gone: GonePlan,
    /// Rows in topics of a form that Chroma does not create. They stay.
    pub foreign_rows: u64,
    /// Folders of indexes that no collection has. A vacuum removes them.
    pub leftovers: Vec<Leftover>,
    /// The current value of `automatically_purge`.
    pub automatically_purge: AutoPurge,
    /// How the prune changes that setting.
    pub change: PurgeChange,
}

/// The plan for one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionPlan {
    /// Its tenant; `None` if its database is not listed.
    pub tenant: Option<String>,
    /// Its database.
    pub database: Option<String>,
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// Its rows in the queue.
    pub queue_rows: u64,
    /// The smallest `seq_id` of its rows.
    pub first_row: Option<i64>,
    /// The largest `seq_id` of its rows.
    pub last_row: Option<i64>,
    /// Its segments. If the collection has no rows in the queue, their indexes are not read.
    pub segments: Vec<SegmentPlan>,
    /// The smallest position of its segments; `None` if a segment has no position or a hold exists.
    pub position: Option<i64>,
    /// Why the collection as a whole keeps its rows, if it does.
    pub hold: Option<Hold>,
    /// Rows that will be deleted.
    pub rows: u64,
    /// Their size in bytes, estimated.
    pub bytes: u64,
    /// Rows below the position that stay because they are the only copy of a record.
    pub only_copies: u64,
}

/// The state of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentPlan {
    /// Its id.
    pub id: String,
    /// `VECTOR` or `METADATA`.
    pub scope: String,
    /// Its position.
    pub position: Option<i64>,
    /// Why it has no position, or a position that cannot be used.
    pub hold: Option<Hold>,
}

/// The plan for deleted collections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GonePlan {
    /// Number of collections.
    pub collections: u64,
    /// Their rows in the queue.
    pub queue_rows: u64,
    /// Rows that will be deleted.
    pub rows: u64,
    /// Their size in bytes, estimated.
    pub bytes: u64,
}

impl CollectionPlan {
    /// The segment that keeps the most rows: the first one without a position, or the one with the
    /// smallest position.
    pub fn slowest(&self) -> Option<&SegmentPlan> {
        self.segments
            .iter()
            .min_by_key(|s| (s.hold.is_none(), s.position))
    }

    /// Whether nothing looks wrong.
    pub(super) fn is_sound(&self) -> bool {
        let holds = self.segments.iter().filter_map(|s| s.hold.as_ref());
        self.only_copies == 0 && holds.chain(&self.hold).all(Hold::is_normal)
    }
}
