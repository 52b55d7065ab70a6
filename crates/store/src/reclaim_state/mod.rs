//! What the writer remembers between steps of space reclamation.

mod begun;
mod frame;
mod limit;
mod recoding;
mod share;

pub(crate) use begun::{Begun, MOST, ahead};
pub(crate) use frame::Frame;
pub(crate) use limit::{is_at_rest, targets};
pub(crate) use recoding::{Recoding, Run, decode};
pub(crate) use share::{Due, Pace, Share};

use crate::by_fold::ByFold;
use crate::space::Space;
use std::collections::BTreeMap;

/// What the writer remembers between steps. All of it may be forgotten at any time: what is moved is decided by the map, what is free by the
/// accounting.
#[derive(Default)]
pub(crate) struct Reclaiming {
    /// Units that cannot be emptied, and how many bytes lived there when that was seen.
    stuck: BTreeMap<u64, u32>,
    /// Units that are not worth emptying: what seems dead there is part of runs that live. Bytes as before.
    dense: BTreeMap<u64, u32>,
    /// Units without a living frame: the rest goes with the next fold. Bytes as before.
    left: BTreeMap<u64, u32>,
    /// What that fold moves besides.
    later: ByFold,
    /// Units that are being emptied, or will be next.
    begun: Vec<Begun>,
    /// Bytes moved since the last commit that was none of these.
    spent: u64,
    /// Of these, the bytes moved to empty units, and what was dead before.
    emptied: Emptied,
    /// What commits owe.
    share: Share,
}

/// What emptying has cost since it last won something, and what was dead in the file then.
///
/// That n units become n - 1 is a forecast: where records are about as long as a unit, what is moved leaves as much unused at the
/// ends of the units it goes to as was dead in those it comes from. So what was won is measured as well.
#[derive(Debug, Clone, Copy, Default)]
struct Emptied {
    moved: u64,
    dead_before: Option<u64>,
}

impl Emptied {
    /// So much is dead, and emptying begins or goes on. What paid is paid: it is no credit for what comes.
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

    /// Whether it won a byte for each `targets` bytes that it moved beyond `allowance`, when `dead` bytes are dead now.
    fn pays(&self, dead: u64, targets: u64, allowance: u64) -> bool {
        let before = self.dead_before.unwrap_or(dead);
        self.moved <= allowance + before.saturating_sub(dead) * targets
    }
}

impl Reclaiming {
    /// So many bytes were moved; to empty units, or to shorten the file.
    pub(crate) fn moved(&mut self, bytes: u64, emptying: bool) {
        self.spent += bytes;
        if emptying {
            self.emptied.moves(bytes);
        }
    }

    /// Bytes moved since the last commit that was none of these.
    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    /// Emptying begins or goes on, and `dead` bytes are dead.
    pub(crate) fn empties(&mut self, dead: u64, targets: u64) {
        self.emptied.goes_on(dead, targets);
    }

    /// Whether emptying pays: see [`Emptied::pays`].
    pub(crate) fn pays(&self, dead: u64, targets: u64, allowance: u64) -> bool {
        self.emptied.pays(dead, targets, allowance)
    }

    /// What commits owe.
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

    /// The same, to be worked on: [`Reclaiming::put_begun`] brings back what is not finished.
    pub(crate) fn take_begun(&mut self) -> Vec<Begun> {
        std::mem::take(&mut self.begun)
    }

    /// See [`Reclaiming::take_begun`].
    pub(crate) fn put_begun(&mut self, begun: Vec<Begun>) {
        self.begun = begun;
    }

    /// Gives up the units that were begun, except these.
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

    /// Units that were begun, to win what is dead in them.
    pub(crate) fn begun_units(&self) -> impl Iterator<Item = u64> {
        let to_win = |begun: &&Begun| begun.below == u64::MAX;
        self.begun.iter().filter(to_win).map(|begun| begun.unit)
    }

    pub(crate) fn is_begun(&self, unit: u64) -> bool {
        self.begun_units().any(|begun| begun == unit)
    }

    /// Units that the next fold empties.
    pub(crate) fn left_units(&self, space: &Space) -> u64 {
        let waits = |(unit, live): &(&u64, &u32)| **live > 0 && space.live(**unit) == **live;
        self.left.iter().filter(waits).count() as u64
    }

    /// A commit was made, which stored so many bytes of frames.
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

    /// What a fold that is made now is to move.
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
        // 20 bytes pay for 60 moved; what was won besides is not kept.
        emptied.goes_on(500, 3);
        assert!(emptied.pays(500, 3, 0));
        emptied.moves(60);
        assert!(!emptied.pays(500, 3, 50));
        assert!(!emptied.pays(481, 3, 0) && emptied.pays(480, 3, 0));
    }
}
