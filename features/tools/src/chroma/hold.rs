//! Reasons why rows of a collection are kept.

use std::fmt;

/// Why a segment, or a whole collection, keeps all its rows in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// The segment has not stored a position yet: the usual state of a collection with fewer rows
    /// than Chroma's sync_threshold.
    NoPosition,
    /// The persisted index holds no record. Chroma 1.x starts such a segment from the beginning.
    EmptyIndex,
    /// A position is stored, but the file of the index is missing.
    IndexMissing {
        /// The file.
        file: String,
    },
    /// A file of the index cannot be read or has unexpected content.
    IndexDamaged {
        /// The file.
        file: String,
        /// What is wrong, and at which byte.
        what: String,
    },
    /// The stored position is not a valid position.
    BadPosition {
        /// What it is.
        found: String,
    },
    /// The position is greater than the newest row. The queue was numbered from 1 again, and the
    /// segment never took the rows below the position.
    BeyondEnd {
        /// The position.
        position: i64,
        /// The largest `seq_id` of the queue.
        last: i64,
    },
    /// The type of the segment is unknown, or such segments keep nothing on disk.
    UnknownSegment {
        /// Its `type`.
        kind: String,
    },
    /// The collection has no segment of this scope (`VECTOR`, `METADATA`).
    MissingSegment {
        /// The scope.
        scope: &'static str,
    },
    /// Its rows are under several topics, which share one position. This happens when Chroma's
    /// settings `tenant_id` or `topic_namespace` are changed.
    SeveralTopics,
    /// A row has an unknown operation.
    UnknownOperation {
        /// The row's `seq_id`.
        row: i64,
    },
}

impl Hold {
    /// A stable name for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Hold::NoPosition => "no_position",
            Hold::EmptyIndex => "empty_index",
            Hold::IndexMissing { .. } => "index_missing",
            Hold::IndexDamaged { .. } => "index_damaged",
            Hold::BadPosition { .. } => "bad_position",
            Hold::BeyondEnd { .. } => "position_beyond_end",
            Hold::UnknownSegment { .. } => "unknown_segment",
            Hold::MissingSegment { .. } => "missing_segment",
            Hold::SeveralTopics => "several_topics",
            Hold::UnknownOperation { .. } => "unknown_operation",
        }
    }

    /// Whether this is a normal state. Then Chroma's own purge, which uses only the stored
    /// positions, does no harm.
    pub fn is_normal(&self) -> bool {
        matches!(self, Hold::NoPosition | Hold::EmptyIndex)
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hold::NoPosition => f.write_str("it has stored no position yet"),
            Hold::EmptyIndex => f.write_str("its index on the disk holds no record"),
            Hold::IndexMissing { file } => write!(f, "its index is missing: there is no {file}"),
            Hold::IndexDamaged { file, what } => {
                write!(f, "its index is damaged: {file}, {what}")
            }
            Hold::BadPosition { found } => write!(f, "its position is {found}"),
            Hold::BeyondEnd { position, last } => write!(
                f,
                "its position {position} lies beyond the newest row {last}"
            ),
            Hold::UnknownSegment { kind } => write!(f, "it is of the kind {kind}"),
            Hold::MissingSegment { scope } => write!(f, "there is no {scope} segment"),
            Hold::SeveralTopics => f.write_str("its rows lie under several topics"),
            Hold::UnknownOperation { row } => {
                write!(f, "row {row} has an operation that is not known")
            }
        }
    }
}
