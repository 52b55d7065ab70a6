//! Units that are emptied in parts, and how far ahead their records are found.
//!
//! The pool encodes runs again, which takes about 2 ms for a unit, longer than a commit. So units
//! are begun before their turn ([`ahead`]), and a step leaves the frames that the pool is encoding
//! to a later one, for a while ([`PATIENCE`]).

use super::frame::Frame;
use super::recoding::Recoding;
use crate::by_fold::ByFold;
use crate::format::record::RECORD_LEN;
use std::collections::BTreeMap;

/// At least so many bytes of records are found ahead.
const AHEAD: u64 = 32 << 10;
/// The most units begun at one time.
pub(crate) const MOST: usize = 8;
/// The bytes that steps can leave undone because of one unit. After that the pool is too busy, and
/// steps do not wait for it.
const PATIENCE: u64 = 32 << 10;

/// How many bytes to find in begun units, for a step that moves `budget` bytes: its own, and those
/// of the next.
pub(crate) fn ahead(budget: u64) -> u64 {
    budget.saturating_add(budget.max(AHEAD))
}

/// A unit that is emptied in parts.
pub(crate) struct Begun {
    pub(crate) unit: u64,
    /// Records are moved to places before this one.
    pub(crate) below: u64,
    /// Bytes that can still be left undone until the pool has encoded the frames.
    pub(crate) patience: u64,
    /// The frames that the pool encodes again.
    pub(crate) recoding: Recoding,
    /// Frames that were found there and have not been moved, by their places. Some may have died
    /// since.
    pub(crate) frames: BTreeMap<u64, Frame>,
    /// The other live records there, which a fold moves, and their bytes in the unit.
    pub(crate) by_fold: ByFold,
    pub(crate) by_fold_bytes: u64,
    /// The unit has trailers.
    pub(crate) trailers: bool,
}

impl Begun {
    pub(crate) fn new(
        unit: u64,
        below: u64,
        recoding: Recoding,
        frames: BTreeMap<u64, Frame>,
    ) -> Begun {
        Begun {
            unit,
            below,
            patience: PATIENCE,
            recoding,
            frames,
            by_fold: ByFold::default(),
            by_fold_bytes: 0,
            trailers: false,
        }
    }

    /// Bytes of the frames that are not moved yet.
    pub(crate) fn left(&self) -> u64 {
        let lens = self
            .frames
            .values()
            .map(|frame| frame.payload.len() + RECORD_LEN);
        lens.sum::<usize>() as u64
    }

    /// Whether steps no longer wait for the pool.
    pub(crate) fn is_overdue(&self) -> bool {
        self.patience == 0
    }

    /// Notes that a step left so many bytes undone. Returns whether this unit was a reason.
    pub(crate) fn waits(&mut self, undone: u64) -> bool {
        let waits = self.recoding.is_running();
        if waits {
            self.patience = self.patience.saturating_sub(undone);
        }
        waits
    }
}
