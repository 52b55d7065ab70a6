//! What the writer remembers between steps of space reclamation.

mod begun;
mod commit_quota;
mod frame;
mod limit;
mod recoding;

pub(crate) use begun::{Begun, MOST, ahead};
pub(crate) use commit_quota::{Due, Pace, Share};
pub(crate) use frame::Frame;
pub(crate) use limit::{is_at_rest, targets};
pub(crate) use recoding::{Recoding, Run, decode};

use crate::by_fold::ByFold;
use crate::space::Space;
use std::collections::BTreeMap;

/// What the writer remembers between steps. All of it can be lost at any time: the page map decides
/// what is moved, and the accounting what is free.
#[derive(Default)]
pub(crate) struct Reclaiming {
    /// Units that cannot be emptied, with their live bytes at that time.
    stuck: BTreeMap<u64, u32>,
    /// Units that are not worth emptying, with their live bytes: their dead bytes are part of live
    /// runs.
    dense: BTreeMap<u64, u32>,
    /// Units without a live frame, with their live bytes: the next fold moves the rest.
    left: BTreeMap<u64, u32>,
    /// The records that this fold moves for them.
    later: ByFold,
    /// Units that are being emptied, or will be next.
    begun: Vec<Begun>,
    /// Bytes moved since the last commit that was not a reclaiming one.
    spent: u64,
    /// The bytes of these that were moved to empty units, and what was dead before.
    emptied: Emptied,
    /// The share that commits must reclaim.
    share: Share,
}

/// What emptying has cost since it last won something, and what was dead in the file then.
///
/// That n units become n - 1 is only an estimate. If records are about as long as a unit, the new
/// units can have as many unused bytes as were dead in the old ones. So the result is also
/// measured.
#[derive(Debug, Clone, Copy, Default)]
struct Emptied {
    moved: u64,
    dead_before: Option<u64>,
}

impl Emptied {
    /// Notes that emptying begins or continues while `dead` bytes are dead. A win that paid is
    /// settled: it is no credit for later.
    fn goes_on(&mut self, dead: u64, targets: u64) {
        let before = *self.dead_before.get_or_insert(dead);
        if dead < before && self.moved <= (before - dead) * targets {
            *self = Emptied {
                moved: 0,
                dead_before: Some(dead),
            };
        }
    }

    fn moves(&mut self, bytes: u64) {
        self.moved += bytes;
    }

    /// Whether emptying has won one byte for each `targets` bytes moved beyond `allowance`. `dead`:
    /// the bytes that are dead now.
    fn pays(&self, dead: u64, targets: u64, allowance: u64) -> bool {
        let before = self.dead_before.unwrap_or(dead);
        self.moved <= allowance + before.saturating_sub(dead) * targets
    }
}

impl Reclaiming {
    /// Notes that so many bytes were moved, to empty units or to shorten the file.
    pub(crate) fn moved(&mut self, bytes: u64, emptying: bool) {
        self.spent += bytes;
        if emptying {
            self.emptied.moves(bytes);
        }
    }

    /// Bytes moved since the last commit that was not a reclaiming one.
    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    /// Notes that emptying begins or continues while `dead` bytes are dead.
    pub(crate) fn empties(&mut self, dead: u64, targets: u64) {
        self.emptied.goes_on(dead, targets);
    }

    /// Whether emptying pays: see [`Emptied::pays`].
    pub(crate) fn pays(&self, dead: u64, targets: u64, allowance: u64) -> bool {
        self.emptied.pays(dead, targets, allowance)
    }

    /// The share that commits must reclaim.
    pub(crate) fn share(&mut self) -> &mut Share {
        &mut self.share
    }

    /// The next fold moves these too.
    pub(crate) fn fold_later(&mut self, by_fold: &ByFold) {
        self.later.add(by_fold);
    }

    /// Units that are being emptied, or will be next.
    pub(crate) fn begun(&self) -> &[Begun] {
        &self.begun
    }

    /// Takes these units to work on them. [`Reclaiming::put_begun`] returns the unfinished ones.
    pub(crate) fn take_begun(&mut self) -> Vec<Begun> {
        std::mem::take(&mut self.begun)
    }

    /// See [`Reclaiming::take_begun`].
    pub(crate) fn put_begun(&mut self, begun: Vec<Begun>) {
        self.begun = begun;
    }

    /// Drops the units that were begun, except these.
    pub(crate) fn keep_begun(&mut self, units: &[u64]) {
        self.begun.retain(|begun| units.contains(&begun.unit));
    }

    pub(crate) fn is_stuck(&self, unit: u64, live: u32) -> bool {
        live > 0 && self.stuck.get(&unit) == Some(&live)
    }

    pub(crate) fn note_stuck(&mut self, unit: u64, live: u32) {
        self.stuck.insert(unit, live);
    }

    pub(crate) fn is_dense(&self, unit: u64, live: u32) -> bool {
        self.dense.get(&unit) == Some(&live)
    }

    pub(crate) fn note_dense(&mut self, unit: u64, live: u32) {
        self.dense.insert(unit, live);
    }

    /// Whether the next fold empties the unit.
    pub(crate) fn is_left(&self, unit: u64, live: u32) -> bool {
        live > 0 && self.left.get(&unit) == Some(&live)
    }

    pub(crate) fn note_left(&mut self, unit: u64, live: u32) {
        self.left.insert(unit, live);
    }

    /// Units that were begun to win their dead bytes, and not to shorten the file.
    pub(crate) fn begun_units(&self) -> impl Iterator<Item = u64> {
        let to_win = |begun: &&Begun| begun.below == u64::MAX;
        self.begun.iter().filter(to_win).map(|begun| begun.unit)
    }

    pub(crate) fn is_begun(&self, unit: u64) -> bool {
        self.begun_units().any(|begun| begun == unit)
    }

    /// The number of units that the next fold empties.
    pub(crate) fn left_units(&self, space: &Space) -> u64 {
        let waits = |(unit, live): &(&u64, &u32)| **live > 0 && space.live(**unit) == **live;
        self.left.iter().filter(waits).count() as u64
    }

    /// Notes a commit that stored so many bytes of frames.
    pub(crate) fn committed(&mut self, reclaim: bool, folded: bool, frame_bytes: u64) {
        if folded {
            self.left.clear();
            self.later = ByFold::default();
        }
        if !reclaim {
            self.spent = 0;
            self.emptied = Emptied::default();
            self.share.stored(frame_bytes);
        }
    }

    /// What a fold that is made now should move.
    pub(crate) fn for_fold(&self) -> &ByFold {
        &self.later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emptying_pays_while_it_wins_and_an_early_win_is_no_credit() {
        let mut emptied = Emptied::default();
        assert!(emptied.pays(1000, 3, 50));
        emptied.goes_on(1000, 3);
        emptied.moves(60);
        assert!(!emptied.pays(1000, 3, 50), "nothing won");
        assert!(!emptied.pays(1100, 3, 50), "more is dead than before");
        assert!(emptied.pays(996, 3, 50));
        // 20 bytes pay for 60 moved; what was won beyond that is not kept.
        emptied.goes_on(500, 3);
        assert!(emptied.pays(500, 3, 0));
        emptied.moves(60);
        assert!(!emptied.pays(500, 3, 50));
        assert!(!emptied.pays(481, 3, 0) && emptied.pays(480, 3, 0));
    }
}
