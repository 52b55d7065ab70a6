//! What the writer remembers between steps of space reclamation, and the share of it that a commit
//! does: in proportion to what it stored itself.

mod begun;
mod frame;
mod recoding;

pub(crate) use begun::{Begun, MOST, ahead};
pub(crate) use frame::Frame;
pub(crate) use recoding::{Recoding, Run, decode};

use crate::by_fold::ByFold;
use crate::space::Space;
use std::collections::BTreeMap;
use std::time::Duration;

/// Moving less is not worth a commit: its trailer takes 300 bytes.
const STEP: u64 = 2 << 10;
/// Whether something is due is checked after so many bytes were stored, and this part of the file:
/// the check reads the figures of every unit.
const ASK: u64 = 64 << 10;
const ASK_PART: u64 = 512;
/// How long a commit moves, and how much longer for each KiB that it stored: about half of the time
/// to encode and store it. The time doubles if the debt is the file's length, and so on, at most up
/// to [`TIME_MOST`]. If the clock always stopped the move, the limit could not be kept.
const TIME: Duration = Duration::from_micros(200);
const TIME_OF_KIB: Duration = Duration::from_micros(20);
const TIME_MOST: Duration = Duration::from_millis(4);
/// A commit that stored at least this is not small. It moves its own share, whatever the clock
/// says,
const LARGE: u64 = 64 << 10;
/// up to this limit: a few milliseconds.
const LEAST_MOST: u64 = 2 << 20;

/// Bytes left to the pool are moved by the first commit that finds them encoded, up to this limit.
const PUT_OFF_MOST: u64 = 64 << 10;

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

/// What commits of this process must still move. In bytes.
///
/// In the long run each byte stored makes one dead byte. With a limit of p per cent, at most (100 -
/// p) / p bytes are moved to win one ([`targets`]). So if every commit moves so many bytes for each
/// byte that it stored, the limit is kept once it is reached. A large transaction that the clock
/// stopped leaves a debt. Later commits pay it, [`STEP`] bytes each: a small transaction does not
/// pay for a large one.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// Frames stored since the last share was taken.
    fresh: u64,
    /// The same, since the last check whether something is due.
    unasked: u64,
    /// More was due than the last step did.
    due: bool,
    /// Bytes to be moved.
    debt: u64,
    /// The part of it that was left to a later step while the pool was encoding it.
    put_off: u64,
}

/// How a step works while others write.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// The clock is not checked before so many bytes were moved.
    pub(crate) least: u64,
    /// What has to be encoded again can be left to the pool and to a later step.
    pub(crate) patient: bool,
}

/// What a commit has to move.
pub(crate) struct Due {
    /// The most bytes.
    pub(crate) bytes: u64,
    /// A small commit moves at least as much as it stored, whatever the clock says. So on a machine
    /// that is too busy for more, half of the file stays live. A large commit moves its own share,
    /// so the limit is kept on a busy machine too.
    pub(crate) pace: Pace,
    pub(crate) time: Duration,
}

impl Share {
    fn stored(&mut self, bytes: u64) {
        self.fresh += bytes;
    }

    /// What a commit has to move now; `None` if nothing.
    pub(crate) fn take(&mut self, file: u64, limit: u64) -> Option<Due> {
        let stored = std::mem::take(&mut self.fresh);
        self.unasked += stored;
        if !self.due {
            if self.unasked < ASK.max(file / ASK_PART) {
                return None;
            }
            // The check costs time anyway, so a step is made too.
            self.debt = STEP;
        }
        self.unasked = 0;
        let own = stored.saturating_mul(targets(limit));
        let time = time(stored, self.debt, file);
        self.debt = self.debt.saturating_add(own);
        if self.due && self.debt < STEP {
            return None;
        }
        let small = stored < LARGE;
        let bytes = own.max(STEP) + std::mem::take(&mut self.put_off);
        Some(Due {
            bytes: self.debt.min(bytes).max(1),
            pace: Pace {
                least: match small {
                    true => stored,
                    false => own.min(LEAST_MOST),
                },
                patient: small,
            },
            time,
        })
    }

    /// Notes that so much of what was due waits for the pool.
    pub(crate) fn put_off(&mut self, bytes: u64) {
        self.put_off = bytes.min(PUT_OFF_MOST);
    }

    pub(crate) fn paid(&mut self, moved: u64, due: bool) {
        self.debt = if due {
            self.debt.saturating_sub(moved)
        } else {
            0
        };
        self.due = due;
    }
}

/// How long a commit that stored so many bytes can move, if `debt` bytes are due in a file of this
/// length.
fn time(stored: u64, debt: u64, file: u64) -> Duration {
    let kib = u32::try_from(stored >> 10).unwrap_or(u32::MAX);
    let own = TIME.saturating_add(TIME_OF_KIB.saturating_mul(kib));
    let most = TIME_MOST.as_secs_f64() / TIME.as_secs_f64();
    let times = (1.0 + debt as f64 / file.max(1) as f64).min(most);
    own.min(TIME_MOST).mul_f64(times).min(TIME_MOST)
}

/// Whether this limit is for reclaiming while no connection writes.
pub(crate) fn is_at_rest(limit: u64) -> bool {
    limit < 10
}

/// How many units may be moved to win one.
pub(crate) fn targets(limit: u64) -> u64 {
    let all = (100 - limit) / limit;
    // At rest, waiting gains nothing, and the limit is for dead and free bytes together. Half of it
    // is left for the latter.
    if is_at_rest(limit) {
        2 * all
    } else {
        all.max(1)
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

    #[test]
    fn a_commit_moves_its_own_share_and_a_little_of_the_debt() {
        let mut share = Share::default();
        let bytes = |share: &mut Share| share.take(0, 25).map(|due| due.bytes);
        share.stored(ASK - 1);
        assert_eq!(bytes(&mut share), None, "not worth asking");
        share.stored(100);
        assert_eq!(bytes(&mut share), Some(STEP));
        share.paid(STEP, false);
        share.stored(5000);
        assert_eq!(bytes(&mut share), None, "nothing was due");
        // A large transaction of which the clock allowed only a part.
        share.stored(1 << 20);
        assert_eq!(bytes(&mut share), Some(3 << 20));
        share.paid(1 << 20, true);
        for _ in 0..100 {
            share.stored(100);
            assert_eq!(bytes(&mut share), Some(STEP));
            share.paid(STEP, true);
        }
        share.stored(10_000);
        assert_eq!(bytes(&mut share), Some(30_000));
        share.paid(30_000, false);
        assert_eq!(share.debt, 0);
    }

    #[test]
    fn the_clock_does_not_stop_the_share_of_a_large_commit() {
        let least = |stored: u64| {
            let mut share = Share {
                due: true,
                ..Share::default()
            };
            share.stored(stored);
            share.take(1 << 20, 25).map(|due| due.pace.least)
        };
        assert_eq!(least(10_000), Some(10_000));
        assert_eq!(least(LARGE), Some(3 * LARGE));
        assert_eq!(least(1 << 30), Some(LEAST_MOST));
    }

    #[test]
    fn small_debts_add_up() {
        let mut share = Share {
            due: true,
            ..Share::default()
        };
        let mut moved = 0;
        for _ in 0..1000 {
            share.stored(100);
            if let Some(Due { bytes, .. }) = share.take(0, 25) {
                assert!(bytes < STEP + 300);
                moved += bytes;
                share.paid(bytes, true);
            }
        }
        assert!((300_000 - STEP..=300_000).contains(&moved), "{moved}");
    }

    #[test]
    fn the_time_is_bounded() {
        assert_eq!(time(0, 0, 1 << 20), TIME);
        assert!(time(10 << 10, 0, 1 << 20) > TIME);
        assert_eq!(time(0, 1 << 20, 1 << 20), TIME * 2);
        assert_eq!(time(u64::MAX, 0, 1 << 20), TIME_MOST);
        assert_eq!(time(0, u64::MAX, 0), TIME_MOST);
    }
}
