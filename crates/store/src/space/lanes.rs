//! Two extents are appended to in turn: one takes what SQLite writes, the other what giving space back carries elsewhere meanwhile.
//!
//! Much of what SQLite writes is written again soon: the leaf that is being filled, the pages above it, page 1. What was moved has
//! outlived that. Side by side in one unit the first would leave holes that the second has to be moved out of again. Log-structured file systems keep them
//! apart for the same reason (Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File System", 1992, section 3).
//!
//! Invariant: what is *aside* was taken from among the reusable units and not written since; units that overlap it are not reusable. Nothing on disk tells
//! of it: to others and after a crash it is a free part of the file. So it is forgotten as soon as anybody else has made a commit.

use super::Space;
use super::reuse::units_in;

/// What is appended.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// What SQLite writes.
    #[default]
    New,
    /// What was there before, in another place.
    Moved,
}

/// See the module's documentation.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lanes {
    /// What the extent that is being appended to is for.
    pub(crate) lane: Lane,
    /// Where the other one goes on, and its end.
    pub(crate) aside: Option<(u64, u64)>,
}

impl Space {
    pub(crate) fn lanes(&self) -> Lanes {
        self.lanes
    }

    /// A commit took turns.
    pub(crate) fn turn(&mut self, lanes: Lanes) {
        self.lanes = lanes;
    }

    /// What was aside is free from `commit` on; the next commit goes on where the newest one ends, whatever it is.
    pub(crate) fn forget_lanes(&mut self, commit: u64) {
        if let Some(aside) = std::mem::take(&mut self.lanes).aside {
            self.give_back_extents(&[aside], commit);
        }
    }

    /// Whether the unit is kept for what will be appended to an extent that is aside.
    pub(crate) fn is_aside(&self, unit: u64) -> bool {
        self.lanes
            .aside
            .is_some_and(|extent| units_in(extent).contains(&unit))
    }

    /// Bytes that are aside.
    pub(crate) fn aside_bytes(&self) -> u64 {
        let aside = self.lanes.aside;
        aside.map_or(0, |(start, end)| end.saturating_sub(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::UNIT_LEN;

    #[test]
    fn what_is_aside_is_not_reusable() {
        let mut s = Space::default();
        s.add(0, UNIT_LEN * 4);
        s.turn(Lanes {
            lane: Lane::Moved,
            aside: Some((UNIT_LEN + 100, UNIT_LEN * 3)),
        });
        s.sub(UNIT_LEN, UNIT_LEN * 3, 7);
        s.slot_durable(7, (0, 1));
        let reusable = |s: &Space| (0..4).map(|u| s.is_reusable(u)).collect::<Vec<_>>();
        assert_eq!(reusable(&s), [false, false, false, true]);
        assert_eq!(s.waiting_units((0, 1)), 0);
        s.forget_lanes(8);
        s.slot_durable(7, (0, 1));
        assert_eq!(reusable(&s), [false, true, false, true]);
        s.slot_durable(8, (0, 1));
        assert_eq!(reusable(&s), [false, true, true, true]);
    }
}
