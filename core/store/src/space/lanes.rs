//! Appends to two extents in turn: one for what SQLite writes, the other for records that space
//! reclamation moves (docs/decisions/space-reclamation.md, Choosing units; Rosenblum and
//! Ousterhout, "The Design and Implementation of a Log-Structured File System", 1992, section 3).
//!
//! Invariant: the extent *aside* was taken from the reusable units and not written since, and units
//! that overlap it are not reusable. Nothing on disk names it: to other processes and after a crash
//! it is free. So it is released as soon as another process has made a commit.

use super::Space;
use super::reuse::units_in;

/// The kind of records that are appended.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// What SQLite writes.
    #[default]
    New,
    /// What space reclamation moves.
    Moved,
}

/// See the module's documentation.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lanes {
    /// The lane of the extent that is being appended to.
    pub(crate) lane: Lane,
    /// The next place in the other extent, and its end.
    pub(crate) aside: Option<(u64, u64)>,
}

impl Space {
    pub(crate) fn lanes(&self) -> Lanes {
        self.lanes
    }

    /// Sets the lanes after a commit that changed the lane.
    pub(crate) fn turn(&mut self, lanes: Lanes) {
        self.lanes = lanes;
    }

    /// Frees the extent aside from `commit` on. The next commit then appends where the newest one
    /// ends, whatever its lane.
    pub(crate) fn forget_lanes(&mut self, commit: u64) {
        if let Some(aside) = std::mem::take(&mut self.lanes).aside {
            self.give_back_extents(&[aside], commit);
        }
    }

    /// Whether the unit belongs to the extent aside.
    pub(crate) fn is_aside(&self, unit: u64) -> bool {
        self.lanes
            .aside
            .is_some_and(|extent| units_in(extent).contains(&unit))
    }

    /// Bytes of the extent aside.
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
    fn units_of_the_extent_aside_are_not_reusable() {
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
