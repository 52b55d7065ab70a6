//! What a plan says.

use crate::chroma::hold::Hold;
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
    /// Rows that go.
    pub rows: u64,
    /// What they hold in bytes, estimated.
    pub bytes: u64,
    /// Every collection, by tenant, database and name.
    pub collections: Vec<CollectionPlan>,
    /// Rows of collections that are gone.
    pub gone: GonePlan,
    /// Rows under topics of a form that Chroma does not make; they stay.
    pub foreign_rows: u64,
    /// What `automatically_purge` is.
    pub automatically_purge: AutoPurge,
    /// What becomes of it.
    pub change: PurgeChange,
}

/// Of one collection.
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
    /// The smallest `seq_id` of them.
    pub first_row: Option<i64>,
    /// The largest.
    pub last_row: Option<i64>,
    /// Its segments. Without rows in the queue their indexes are not looked at.
    pub segments: Vec<SegmentPlan>,
    /// The smallest position of its segments, if all have one and nothing holds its rows back.
    pub position: Option<i64>,
    /// What holds its rows back as a whole.
    pub hold: Option<Hold>,
    /// Rows that go.
    pub rows: u64,
    /// What they hold in bytes, estimated.
    pub bytes: u64,
    /// Rows below the position that stay, for they are the only copy of a record.
    pub only_copies: u64,
}

/// Of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentPlan {
    /// Its id.
    pub id: String,
    /// `VECTOR` or `METADATA`.
    pub scope: String,
    /// Its position.
    pub position: Option<i64>,
    /// Why it has none, or none that counts.
    pub hold: Option<Hold>,
}

/// Of collections that are gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GonePlan {
    /// How many there are.
    pub collections: u64,
    /// Their rows in the queue.
    pub queue_rows: u64,
    /// Rows that go.
    pub rows: u64,
    /// What they hold in bytes, estimated.
    pub bytes: u64,
}

impl CollectionPlan {
    /// The segment that holds the most rows back: the first without a position, or the one with the
    /// smallest.
    pub fn slowest(&self) -> Option<&SegmentPlan> {
        self.segments
            .iter()
            .min_by_key(|s| (s.hold.is_none(), s.position))
    }

    /// Whether nothing looked wrong.
    pub(super) fn is_sound(&self) -> bool {
        let holds = self.segments.iter().filter_map(|s| s.hold.as_ref());
        self.only_copies == 0 && holds.chain(&self.hold).all(Hold::is_normal)
    }
}
