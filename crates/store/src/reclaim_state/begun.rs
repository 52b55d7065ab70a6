//! Units that are emptied in parts, and how far ahead of what is moved they are looked into.
//!
//! What has to be coded anew the pool codes, which takes some 2 ms for a unit: longer than a commit. So units are begun before it is their turn ([`ahead`]),
//! and a step leaves what the pool is still at to a later one, for a while ([`PATIENCE`]).

use super::frame::Frame;
use super::recoding::Recoding;
use crate::by_fold::ByFold;
use crate::format::record::RECORD_LEN;
use std::collections::BTreeMap;

/// So much of what is moved next is looked for ahead, at least.
const AHEAD: u64 = 32 << 10;
/// Units begun at one time.
pub(crate) const MOST: usize = 8;
/// Bytes that steps may have left undone for the sake of one unit. Then the pool is too busy, and is not waited for.
const PATIENCE: u64 = 32 << 10;

/// How many bytes are to be found in units that were begun, for a step that moves so many: what it moves itself, and what is moved next.
pub(crate) fn ahead(budget: u64) -> u64 {
    budget.saturating_add(budget.max(AHEAD))
}

/// A unit that is emptied in parts.
pub(crate) struct Begun {
    pub(crate) unit: u64,
    /// What is moved goes before this place.
    pub(crate) below: u64,
    /// Bytes that may still be left undone until the pool has coded what is here.
    pub(crate) patience: u64,
    /// Of these frames, those that are coded anew.
    pub(crate) recoding: Recoding,
    /// Frames that were found there and have not been moved, by their places. Some may have died since.
    pub(crate) frames: BTreeMap<u64, Frame>,
    /// What else lives there and goes with a fold, and its bytes in the unit.
    pub(crate) by_fold: ByFold,
    pub(crate) by_fold_bytes: u64,
    /// Trailers are among it.
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

    /// Bytes that were found and not moved.
    pub(crate) fn left(&self) -> u64 {
        let lens = self
            .frames
            .values()
            .map(|frame| frame.payload.len() + RECORD_LEN);
        lens.sum::<usize>() as u64
    }

    /// Whether the pool is waited for no longer.
    pub(crate) fn is_overdue(&self) -> bool {
        self.patience == 0
    }

    /// So many bytes were left undone. Returns whether that was for the sake of this unit.
    pub(crate) fn waits(&mut self, undone: u64) -> bool {
        let waits = self.recoding.is_running();
        if waits {
            self.patience = self.patience.saturating_sub(undone);
        }
        waits
    }
}
