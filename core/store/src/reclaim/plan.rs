//! Plans the next step: the units to empty, or what has to happen before
//! (docs/decisions/space-reclamation.md, Choosing units).
//!
//! *Emptying* moves the live records of mostly dead units to one place, so that the units become
//! free. The units with the fewest live bytes are taken. It moves at most `targets` bytes for each
//! byte that it wins, which is also measured (`reclaim_state::Emptied`). *Shortening* moves the
//! live records at the end of the file into free units before it, at most one byte for each byte
//! that is cut off. If emptying wins nothing, shortening still removes free units.

use crate::format::{LOCK_UNIT, UNIT_LEN};
use crate::reclaim_state::{Reclaiming, is_at_rest, targets};
use crate::space::{Lane, Space};

/// The approximate length of a map node in bytes, to estimate a fold.
const NODE_BYTES: u64 = 2 << 10;

/// The most bytes that are moved between two other commits, in addition to twice the live bytes. If
/// the limit is not reached by then, it cannot be.
const SPENT_MIN: u64 = 8 << 20;
/// So many bytes may be moved to empty units before they must have won anything.
const EMPTIED_MIN: u64 = 2 << 20;

/// Units whose live bytes differ by less are treated as equal; the younger one is then emptied
/// (`space::age`).
const BAND: u32 = 8 << 10;
/// A unit in which bytes died recently is treated as if so many bands more were live in it.
const SOON: u32 = 2;

/// So many bytes may wait for a slot, however small the file is.
const WAITING_MIN: u64 = 4 << 20;
/// So many bytes may wait for a fold.
const LEFT_MIN: u64 = 512 << 10;

/// The figures for a plan. Sizes are in bytes.
pub(super) struct Ground<'a> {
    pub(super) space: &'a Space,
    pub(super) reclaiming: &'a Reclaiming,
    /// Where the open end begins.
    pub(super) tail: u64,
    /// Length of the file.
    pub(super) file: u64,
    /// The reserve after the end.
    pub(super) reserve: u64,
    /// The extent that is being appended to: the place of the next record, and the end of the
    /// extent. Both are the same at the open end.
    pub(super) current: (u64, u64),
    /// The most nodes that a fold would write, without those of moved pages.
    pub(super) fold_nodes: u64,
    /// Leaves of the map.
    pub(super) leaves: u64,
    /// Bytes that can be moved.
    pub(super) budget: u64,
    /// Per cent of the file that can be dead or free.
    pub(super) limit: u64,
}

/// A plan.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing.
    Done,
    /// A durable slot, so that what was freed can be used.
    Slot,
    /// To cut off the end.
    Cut,
    /// A fold, which empties units without live frames.
    Fold,
    /// To empty these units (ascending), into places before `below`.
    Empty { units: Vec<u64>, below: u64 },
}

impl Ground<'_> {
    /// Where the open end begins after reusable units at the end are cut off.
    fn end(&self) -> u64 {
        let end = self.space.end_after_cut(self.tail);
        // The unused end of the last extent is cut off too.
        if self.current.1 > self.current.0 && self.current.1 >= end {
            self.current.0
        } else {
            end
        }
    }

    /// Whether the unit has live bytes and no record is being written to it.
    pub(super) fn can_be_emptied(&self, unit: u64) -> bool {
        let stays =
            unit == LOCK_UNIT || unit == self.current.0 / UNIT_LEN || self.space.is_aside(unit);
        self.space.live(unit) > 0 && !stays
    }

    /// Whether the next fold empties the unit. At rest, units do not wait for a fold.
    fn is_left(&self, unit: u64) -> bool {
        !is_at_rest(self.limit) && self.reclaiming.is_left(unit, self.space.live(unit))
    }

    /// Live bytes before `end`, bytes there that are dead or free and do not wait, and how many of
    /// those are allowed.
    fn figures(&self, end: u64, waiting: u64) -> (u64, u64, u64) {
        let locked = end > LOCK_UNIT * UNIT_LEN && self.space.live(LOCK_UNIT) == 0;
        let live = self.space.live_bytes() + if locked { UNIT_LEN } else { 0 };
        // Units that wait for a slot will be reused soon.
        let idle = end.saturating_sub(live + waiting);
        (live, idle, end * self.limit / 100)
    }

    fn waiting(&self) -> u64 {
        self.space.waiting_units(self.current) * UNIT_LEN
    }

    /// The unused bytes before `end` of the extent that is being appended to.
    fn current_below(&self, end: u64) -> u64 {
        if self.current.0 < end {
            self.current.1 - self.current.0
        } else {
            0
        }
    }

    /// Free bytes before `end`. Free units that are not in memory are found when they are needed.
    fn room(&self, end: u64) -> u64 {
        let reusable = self.space.reusable_below(end) * UNIT_LEN;
        let unlisted = self.space.unlisted_free() * UNIT_LEN;
        reusable + unlisted + self.current_below(end) + self.space.aside_bytes()
    }

    /// Dead bytes: neither free nor waiting to be.
    pub(super) fn dead(&self) -> u64 {
        let end = self.end();
        let (_, idle, _) = self.figures(end, self.waiting());
        idle.saturating_sub(self.room(end))
    }

    /// By how many bytes the dead and free ones exceed the limit.
    pub(super) fn excess(&self) -> Option<u64> {
        let (_, idle, allowed) = self.figures(self.end(), self.waiting());
        idle.checked_sub(allowed + 1)
    }

    pub(super) fn plan(&self) -> Plan {
        let end = self.end();
        let waiting = self.waiting();
        let (live, idle, allowed) = self.figures(end, waiting);
        // Units that wait for a fold count as idle. So the limit includes them, and other units are
        // emptied instead.
        let left = self.reclaiming.left_units(self.space) * UNIT_LEN;
        if !is_at_rest(self.limit) && left >= (allowed / 8).max(LEFT_MIN) {
            return Plan::Fold;
        }
        // Bytes beyond the reserve can be cut off whatever else is due.
        let behind = self.file.saturating_sub(self.tail + self.reserve);
        // The end that a file claims may be wrong.
        let cut = self.tail.saturating_sub(end);
        let rest = if cut >= UNIT_LEN.min(self.tail / 64 + 1) || behind >= UNIT_LEN {
            Plan::Cut
        } else {
            Plan::Done
        };
        let slot = (waiting > 0).then_some(Plan::Slot);
        let Some(excess) = idle.checked_sub(allowed + 1) else {
            return slot.filter(|_| idle + waiting > allowed).unwrap_or(rest);
        };
        if self.reclaiming.spent() > 2 * live + SPENT_MIN {
            return rest;
        }
        let reusable = self.space.reusable_below(end) * UNIT_LEN;
        let dead = idle.saturating_sub(self.room(end));
        // A quarter of what is allowed is left for free units, to be reused.
        let wanted = dead.saturating_sub(allowed - allowed / 4 + self.coming());
        let pays = (self.reclaiming).pays(dead, targets(self.limit), EMPTIED_MIN);
        // While others write, moved records go to their own extent.
        let own = match self.space.lanes().lane {
            Lane::New if !is_at_rest(self.limit) => self.space.aside_bytes(),
            _ => self.current_below(end),
        };
        let shorten = || self.shorten(end, reusable + own, excess);
        if !pays {
            return shorten().or(slot).unwrap_or(rest);
        }
        if wanted == 0 {
            return shorten()
                .or(slot)
                .or_else(|| self.empty_units(end, excess))
                .unwrap_or(rest);
        }
        // Emptying continues without a slot, at the end of the file if necessary, but not for long.
        if waiting >= (allowed / 4).max(WAITING_MIN) {
            return Plan::Slot;
        }
        self.empty_units(end, wanted)
            .or_else(shorten)
            .or(slot)
            .unwrap_or(rest)
    }

    /// Dead bytes of units that are being emptied.
    fn coming(&self) -> u64 {
        let dead = |unit: u64| UNIT_LEN - u64::from(self.space.live(unit)).min(UNIT_LEN);
        self.reclaiming.begun_units().map(dead).sum()
    }

    /// Empties units at the end into `room`, until they shorten the file by `excess`.
    fn shorten(&self, end: u64, mut room: u64, excess: u64) -> Option<Plan> {
        let (mut units, mut cost, mut below) = (Vec::new(), 0, 0);
        let mut in_current = false;
        for unit in (1..end.div_ceil(UNIT_LEN)).rev() {
            let live = u64::from(self.space.live(unit));
            let known = self.space.is_known(unit);
            if !known || self.reclaiming.is_stuck(unit, live as u32) || self.space.is_aside(unit) {
                break;
            }
            if self.is_left(unit) {
                continue;
            }
            if self.space.is_reusable(unit) {
                room -= UNIT_LEN.min(room);
            }
            let reaches = self.current.1 > unit * UNIT_LEN;
            if reaches && !std::mem::replace(&mut in_current, true) {
                room = room.saturating_sub(self.current.1 - self.current.0);
            }
            cost += live;
            // In addition: the nodes of a fold, jumps and ends of extents, the trailer.
            let nodes = (self.fold_nodes + cost / 512).min(self.leaves) * NODE_BYTES;
            // All nodes of today are live, and a fold writes hardly more. With small pages, most
            // nodes are much shorter than this.
            let nodes = nodes.min(self.space.live_bytes());
            let besides = nodes + cost / 16 + UNIT_LEN / 8;
            let dear = cost > self.budget && !units.is_empty();
            let enough = end.saturating_sub((unit + 1) * UNIT_LEN) > excess;
            if cost + besides > room || dear || enough {
                break;
            }
            if live > 0 && unit != LOCK_UNIT {
                units.push(unit);
                below = unit * UNIT_LEN;
            }
        }
        units.reverse();
        (!units.is_empty()).then_some(Plan::Empty { units, below })
    }

    /// The units to begin while others are being emptied; none if those are enough to keep the
    /// limit.
    pub(super) fn next_units(&self) -> Vec<u64> {
        match self.plan() {
            Plan::Empty { units, below } if below == u64::MAX => units,
            _ => Vec::new(),
        }
    }

    /// Empties the units with the fewest live bytes, the younger ones first, as far as it pays and
    /// until it wins `wanted`.
    fn empty_units(&self, end: u64, wanted: u64) -> Option<Plan> {
        let targets = targets(self.limit);
        let mut partly: Vec<(u32, u64)> = (self.space.known_below(end / UNIT_LEN).skip(1))
            .map(|(unit, live)| (live, unit))
            .filter(|(live, unit)| {
                let full = u64::from(*live) >= UNIT_LEN;
                let known = self.reclaiming.is_stuck(*unit, *live)
                    || self.reclaiming.is_dense(*unit, *live)
                    || self.is_left(*unit)
                    || self.reclaiming.is_begun(*unit);
                !full && !known && self.can_be_emptied(*unit)
            })
            .collect();
        let most = 2048.min(partly.len());
        if let Some(last) = most.checked_sub(1) {
            partly.select_nth_unstable(last);
        }
        partly.truncate(most);
        partly.sort_unstable_by_key(|(live, unit)| {
            let soon = if self.space.is_stable(*unit) { 0 } else { SOON };
            (live / BAND + soon, self.space.age(*unit), *unit)
        });
        let (mut units, mut moved, mut won) = (Vec::new(), 0, 0);
        let mut count = 0;
        for (live, unit) in partly {
            let dead = UNIT_LEN - u64::from(live);
            if (won + dead) * (targets + 1) < (count + 1) * UNIT_LEN {
                continue;
            }
            count += 1;
            let enough = won >= wanted;
            won += dead;
            moved += u64::from(live);
            if units.is_empty() || (moved <= self.budget && !enough) {
                units.push(unit);
            } else if won >= UNIT_LEN {
                break;
            }
        }
        units.sort_unstable();
        (won >= UNIT_LEN).then_some(Plan::Empty {
            units,
            below: u64::MAX,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1024;

    /// The plan for a file whose units have these live bytes, in KiB. Some free units can be
    /// reusable or wait.
    fn due(live: &[u32], reusable: &[u64], waiting: &[u64], limit: u64) -> Plan {
        let live: Vec<u32> = live.iter().map(|k| k * 1024).collect();
        let mut space = Space::from_table(&live);
        for unit in reusable {
            space.give_back_extents(&[(unit * UNIT_LEN, (unit + 1) * UNIT_LEN)], 1);
        }
        space.slot_durable(1, (0, 1));
        for unit in waiting {
            space.give_back_extents(&[(unit * UNIT_LEN, (unit + 1) * UNIT_LEN)], 2);
        }
        let tail = live.len() as u64 * UNIT_LEN;
        let ground = Ground {
            space: &space,
            reclaiming: &Reclaiming::default(),
            tail,
            file: tail + 256 * K,
            reserve: 256 * K,
            current: (tail, tail),
            fold_nodes: 0,
            leaves: 1,
            budget: 256 * K,
            limit,
        };
        ground.plan()
    }

    #[test]
    fn units_are_emptied_only_as_far_as_it_pays() {
        assert_eq!(targets(25), 3);
        assert_eq!(targets(5), 38);
        let full = [64; 20];
        assert_eq!(due(&full, &[], &[], 5), Plan::Done);
        // The units with the fewest live bytes are moved, wherever they are, within the budget.
        let mut live = full;
        (live[3], live[9], live[10], live[15]) = (10, 4, 60, 2);
        let units = vec![3, 9, 15];
        let below = u64::MAX;
        assert_eq!(due(&live, &[], &[], 5), Plan::Empty { units, below });
        assert_eq!(due(&live, &[], &[], 25), Plan::Done, "within the limit");
        // A fifth of every unit is dead: at 25 % nothing is due; at rest it is.
        let live = [52; 20];
        assert_eq!(due(&live, &[], &[], 25), Plan::Done);
        let Plan::Empty { units, below } = due(&live, &[], &[], 5) else {
            panic!("nothing due");
        };
        assert_eq!((units.len(), below), (4, u64::MAX));
    }

    #[test]
    fn the_end_goes_into_free_units_and_is_cut_off() {
        let mut live = [64; 20];
        live[4..10].fill(0);
        let free: Vec<u64> = (4..10).collect();
        assert_eq!(due(&live, &[], &free, 5), Plan::Slot);
        let Plan::Empty { units, below } = due(&live, &free, &[], 5) else {
            panic!("nothing due");
        };
        assert_eq!(units, [16, 17, 18, 19]);
        assert_eq!(below, 16 * UNIT_LEN);
        // Free at the end: nothing has to be moved.
        let mut live = [64; 20];
        live[14..].fill(0);
        let free: Vec<u64> = (14..20).collect();
        assert_eq!(due(&live, &[], &free, 5), Plan::Slot);
        assert_eq!(due(&live, &free, &[], 5), Plan::Cut);
    }
}
