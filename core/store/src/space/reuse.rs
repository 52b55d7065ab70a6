//! Which units can be reused, and which have to wait for a slot (rule S9).
//!
//! Invariant: a *reusable* unit was free already in the commit that a durable slot names, and
//! nothing was written to it since. So neither recovery nor a reader of the newest commit needs its
//! contents. For a unit that *waits*, the newest commit that freed or wrote it is known. A durable
//! slot that names this commit or a later one makes it reusable. Reusable units at the end of the
//! file become part of the open end, which then begins lower.

use super::Space;
use crate::format::{LOCK_UNIT, UNIT_LEN};
use std::collections::{BTreeMap, BTreeSet};

/// See the module's documentation.
#[derive(Debug, Default, Clone)]
pub(crate) struct Reuse {
    reusable: BTreeSet<u64>,
    /// Units that wait, and the newest commit that freed or wrote them. For a unit that was freed,
    /// written and freed again only the last commit counts. An older one would make it reusable too
    /// early.
    freed: BTreeMap<u64, u64>,
}

impl Reuse {
    /// Notes that the unit has no live bytes from `commit` on.
    pub(super) fn free(&mut self, unit: u64, commit: u64) {
        self.freed.insert(unit, commit);
    }

    /// Forgets the units of these ranges, which another process wrote, and all from `units` on, the
    /// length of the file. Their live bytes are not known here.
    pub(crate) fn pass(&mut self, pieces: &[(u64, u64)], units: u64) {
        for unit in units_of(pieces, units) {
            self.reusable.remove(&unit);
            self.freed.remove(&unit);
        }
        self.cut(units);
    }

    /// Forgets these units.
    pub(super) fn forget(&mut self, units: std::ops::Range<u64>) {
        let reusable: Vec<u64> = self.reusable.range(units.clone()).copied().collect();
        for unit in reusable {
            self.reusable.remove(&unit);
        }
        let freed: Vec<u64> = self.freed.range(units).map(|(unit, _)| *unit).collect();
        for unit in freed {
            self.freed.remove(&unit);
        }
    }

    /// Forgets all units from `unit` on.
    fn cut(&mut self, unit: u64) {
        self.reusable.split_off(&unit);
        self.freed.split_off(&unit);
    }
}

/// The units below `units` that these ranges touch. The ranges come from a file, so those beyond
/// its end must cost nothing.
fn units_of(pieces: &[(u64, u64)], units: u64) -> impl Iterator<Item = u64> {
    pieces.iter().flat_map(move |(start, end)| {
        let last = end.saturating_sub(1).max(*start) / UNIT_LEN;
        start / UNIT_LEN..(last + 1).min(units)
    })
}

impl Space {
    /// Makes all known units without live bytes before `tail`, the end of what was written, wait as
    /// if `commit` had freed them.
    pub(crate) fn note_free(&mut self, commit: u64, tail: u64) {
        let end = self.units().max(tail.div_ceil(UNIT_LEN));
        self.bear(end);
        let freed = (self.known_below(end))
            .filter(|(unit, live)| *live == 0 && *unit != LOCK_UNIT)
            .map(|(unit, _)| (unit, commit));
        self.reuse.freed = freed.collect();
    }

    /// Makes extents that were taken and not used wait as if `commit` had freed them.
    pub(crate) fn give_back_extents(&mut self, extents: &[(u64, u64)], commit: u64) {
        for (start, end) in extents {
            for unit in start.div_ceil(UNIT_LEN)..end / UNIT_LEN {
                if self.live(unit) == 0 {
                    self.reuse.free(unit, commit);
                }
            }
        }
    }

    /// Notes that a slot that names `commit` is durable. Units that were free then become reusable,
    /// unless they overlap `current`, the extent that is being appended to, or the extent aside.
    pub(crate) fn slot_durable(&mut self, commit: u64, current: (u64, u64)) {
        let current = units_in(current);
        let mut later = BTreeMap::new();
        for (unit, freed_at) in std::mem::take(&mut self.reuse.freed) {
            if self.live(unit) != 0 || unit == LOCK_UNIT || unit == 0 {
                continue;
            }
            if freed_at <= commit && !current.contains(&unit) && !self.is_aside(unit) {
                self.reuse.reusable.insert(unit);
            } else {
                later.insert(unit, freed_at);
            }
        }
        self.reuse.freed = later;
    }

    /// Notes that this commit wrote these ranges. Their units without live bytes wait like those it
    /// freed, because recovery reads them.
    pub(crate) fn written(&mut self, pieces: &[(u64, u64)], commit: u64) {
        self.ages.written(pieces, commit);
        for unit in units_of(pieces, u64::MAX) {
            // Another process may have taken a unit that this one also knew as reusable.
            self.reuse.reusable.remove(&unit);
            if self.live(unit) == 0 {
                self.reuse.free(unit, commit);
            }
        }
    }

    /// Makes units of `extent` wait, in which appending continues: another process may have taken
    /// it, and it must not be taken twice.
    pub(crate) fn hold(&mut self, extent: (u64, u64), commit: u64) {
        let units = units_in(extent);
        let held: Vec<u64> = self.reuse.reusable.range(units).copied().collect();
        for unit in held {
            self.reuse.reusable.remove(&unit);
            self.reuse.free(unit, commit);
        }
    }

    /// Takes a run of adjacent reusable units: at least `min_len` bytes, at most `max_units` units,
    /// ending at `below` or before.
    pub(crate) fn take_run(
        &mut self,
        min_len: u64,
        max_units: u64,
        below: u64,
    ) -> Option<(u64, u64)> {
        let mut run: Option<(u64, u64)> = None;
        for unit in self.reuse.reusable.range(..below / UNIT_LEN) {
            let (start, end) = match run {
                Some((s, e)) if e == *unit && e - s < max_units => (s, e + 1),
                Some((s, e)) if (e - s) * UNIT_LEN >= min_len => {
                    run = Some((s, e));
                    break;
                }
                _ => (*unit, *unit + 1),
            };
            run = Some((start, end));
        }
        let (start, end) = run.filter(|(s, e)| (e - s) * UNIT_LEN >= min_len)?;
        for unit in start..end {
            self.reuse.reusable.remove(&unit);
        }
        Some((start * UNIT_LEN, end * UNIT_LEN))
    }

    /// Where the open end begins after the reusable units at the end of the file are cut off.
    pub(crate) fn end_after_cut(&self, tail: u64) -> u64 {
        let mut end = tail;
        while let Some(unit) = end.checked_sub(1).map(|last| last / UNIT_LEN)
            && (self.reuse.reusable.contains(&unit) || unit == LOCK_UNIT)
        {
            end = unit * UNIT_LEN;
        }
        // The unit that SQLite locks is cut off only together with units before or after it.
        if end == LOCK_UNIT * UNIT_LEN && end + UNIT_LEN == tail {
            tail
        } else {
            end
        }
    }

    /// Ends the file at `end` and forgets the units after it, which have no live bytes.
    pub(crate) fn cut(&mut self, end: u64) {
        let units = end.div_ceil(UNIT_LEN);
        self.cut_table(units);
        self.reuse.cut(units);
        self.ages.cut(units);
    }

    /// Whether the unit can be written now.
    pub(crate) fn is_reusable(&self, unit: u64) -> bool {
        self.reuse.reusable.contains(&unit)
    }

    /// How many units before `end` can be written now.
    pub(crate) fn reusable_below(&self, end: u64) -> u64 {
        self.reuse.reusable.range(..end / UNIT_LEN).count() as u64
    }

    /// How many known units can be written, now or after a slot.
    pub(crate) fn known_free(&self) -> usize {
        self.reuse.reusable.len() + self.reuse.freed.len()
    }

    /// How many units wait for a slot, outside of the extent aside and of `current`, the extent
    /// that is being appended to.
    pub(crate) fn waiting_units(&self, current: (u64, u64)) -> u64 {
        let current = units_in(current);
        let waits = |unit: &&u64| {
            self.live(**unit) == 0
                && **unit != 0
                && !current.contains(*unit)
                && !self.is_aside(**unit)
        };
        self.reuse.freed.keys().filter(waits).count() as u64
    }

    /// Whether units wait for a commit later than this one.
    pub(crate) fn waits_beyond(&self, commit: u64) -> bool {
        self.reuse.freed.values().any(|freed| *freed > commit)
    }

    /// What is known about free units, to be kept without this accounting.
    pub(crate) fn into_reuse(mut self) -> Reuse {
        let mut reuse = std::mem::take(&mut self.reuse);
        // It may still list a unit that was freed and written again.
        reuse.freed.retain(|unit, _| self.live(*unit) == 0);
        reuse
    }

    /// Takes over what was known before the accounting was loaded again; call `note_free` first. A
    /// unit that is free now, was known to be free then, and was not written since, was free all
    /// the time.
    pub(crate) fn adopt(&mut self, known: &Reuse) {
        for unit in &known.reusable {
            if self.reuse.freed.remove(unit).is_some() {
                self.reuse.reusable.insert(*unit);
            }
        }
        for (unit, commit) in &known.freed {
            if let Some(freed) = self.reuse.freed.get_mut(unit) {
                *freed = (*freed).min(*commit);
            }
        }
    }
}

pub(super) fn units_in(extent: (u64, u64)) -> std::ops::RangeInclusive<u64> {
    extent.0 / UNIT_LEN..=extent.1.saturating_sub(1) / UNIT_LEN
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANYWHERE: u64 = u64::MAX;

    #[test]
    fn reuse_waits_for_a_durable_slot() {
        let mut s = Space::default();
        s.add(UNIT_LEN * 3, UNIT_LEN * 2);
        s.sub(UNIT_LEN * 3, UNIT_LEN, 7);
        assert_eq!(s.take_run(100, 8, ANYWHERE), None);
        s.slot_durable(6, (0, 1));
        assert_eq!(
            s.take_run(100, 8, ANYWHERE),
            None,
            "the slot names an earlier commit"
        );
        s.slot_durable(7, (UNIT_LEN * 3 + 5, UNIT_LEN * 4));
        assert_eq!(
            s.take_run(100, 8, ANYWHERE),
            None,
            "it is being appended to"
        );
        s.slot_durable(7, (0, 1));
        assert_eq!(
            s.take_run(UNIT_LEN + 1, 8, ANYWHERE),
            None,
            "it is too small"
        );
        assert_eq!(s.take_run(100, 8, UNIT_LEN * 3), None, "it is not below");
        let unit = (UNIT_LEN * 3, UNIT_LEN * 4);
        assert_eq!(s.take_run(UNIT_LEN, 8, ANYWHERE), Some(unit));
        assert_eq!(s.take_run(100, 8, ANYWHERE), None);
    }

    #[test]
    fn the_end_is_cut_where_it_is_reusable() {
        let mut s = Space::default();
        s.add(0, UNIT_LEN * 6);
        s.sub(UNIT_LEN * 3, UNIT_LEN * 3, 7);
        let tail = UNIT_LEN * 5 + 9;
        assert_eq!(s.end_after_cut(tail), tail, "no slot is durable");
        s.slot_durable(7, (UNIT_LEN * 3, UNIT_LEN * 3 + 1));
        assert_eq!(
            s.end_after_cut(tail),
            UNIT_LEN * 4,
            "one is being appended to"
        );
        s.cut(UNIT_LEN * 4);
        assert_eq!((s.units(), s.reusable_below(ANYWHERE)), (4, 0));
    }

    #[test]
    fn knowledge_of_free_units_outlives_the_accounting() {
        let mut old = Space::default();
        old.add(0, UNIT_LEN * 8);
        old.sub(UNIT_LEN * 2, UNIT_LEN * 4, 5);
        old.slot_durable(5, (0, 1));
        // One was freed, written again, and is freed by a commit that this process does not follow.
        old.sub(UNIT_LEN, UNIT_LEN, 6);
        old.add(UNIT_LEN, 9);
        let mut known = old.into_reuse();
        // Another process wrote to one of them, and those bytes are dead again.
        known.pass(&[(UNIT_LEN * 3 + 7, UNIT_LEN * 3 + 8)], 8);
        let mut new = Space::from_table(&[9, 0, 0, 0, 9, 0, 0, 9]);
        new.note_free(8, 0);
        new.adopt(&known);
        assert_eq!(
            (2..7).map(|u| new.is_reusable(u)).collect::<Vec<_>>(),
            [true, false, false, true, false]
        );
        new.slot_durable(7, (0, 1));
        assert!([1, 3, 6].iter().all(|u| !new.is_reusable(*u)));
        new.slot_durable(8, (0, 1));
        assert!([1, 3, 6].iter().all(|u| new.is_reusable(*u)));
    }

    /// Units that are free and can be written now.
    fn free(live: &[u32]) -> Space {
        let mut s = Space::from_table(live);
        s.note_free(1, 0);
        s.slot_durable(1, (0, 1));
        s
    }

    fn reusable(s: &Space) -> Vec<u64> {
        (0..s.units()).filter(|u| s.is_reusable(*u)).collect()
    }

    #[test]
    fn a_unit_that_was_written_again_while_it_waited_is_not_free() {
        let mut s = Space::default();
        s.add(0, UNIT_LEN * 4);
        s.sub(UNIT_LEN, UNIT_LEN * 2, 5);
        s.add(UNIT_LEN * 2 + 9, 1);
        s.slot_durable(5, (0, 1));
        assert_eq!(reusable(&s), [1]);
        // It waits for the commit that frees it again.
        s.sub(UNIT_LEN * 2 + 9, 1, 7);
        s.slot_durable(6, (0, 1));
        assert_eq!(reusable(&s), [1]);
        s.slot_durable(7, (0, 1));
        assert_eq!(reusable(&s), [1, 2]);
    }

    /// The first has the preamble, the other the bytes that SQLite locks, whatever a table says
    /// about them.
    #[test]
    fn the_preamble_and_the_unit_that_sqlite_locks_are_never_reused() {
        let mut s = Space::default();
        s.add(0, UNIT_LEN * 2);
        s.add(LOCK_UNIT * UNIT_LEN, UNIT_LEN * 2);
        s.sub(0, UNIT_LEN * 2, 5);
        s.sub(LOCK_UNIT * UNIT_LEN, UNIT_LEN * 2, 5);
        s.slot_durable(5, (UNIT_LEN * 9, UNIT_LEN * 9 + 1));
        assert_eq!(reusable(&s), [1, LOCK_UNIT + 1]);
    }

    #[test]
    fn units_that_a_commit_wrote_and_left_dead_wait_for_it() {
        let mut s = free(&[9, 0, 0, 0, 0, 9]);
        assert_eq!(reusable(&s), [1, 2, 3, 4]);
        // Two units, up to the last byte of the second one.
        s.add(UNIT_LEN + 5, 1);
        s.written(&[(UNIT_LEN + 5, UNIT_LEN * 3)], 7);
        assert_eq!(reusable(&s), [3, 4]);
        s.slot_durable(6, (0, 1));
        assert_eq!(reusable(&s), [3, 4], "recovery reads it");
        s.slot_durable(7, (0, 1));
        assert_eq!(reusable(&s), [2, 3, 4], "the first one has live bytes");
    }

    #[test]
    fn forgotten_units_are_neither_reusable_nor_waiting() {
        let mut s = free(&[9, 0, 0, 0, 0, 9]);
        s.reuse.free(5, 3);
        s.reuse.free(6, 3);
        assert_eq!(s.known_free(), 6);
        s.reuse.forget(2..6);
        assert_eq!(s.known_free(), 2);
        assert_eq!(reusable(&s), [1]);
        assert_eq!(s.reuse.freed.keys().copied().collect::<Vec<_>>(), [6]);
    }

    /// A file in which only these units can be written.
    fn only(units: &[u64]) -> Space {
        let mut live = vec![9; 40];
        units.iter().for_each(|unit| live[*unit as usize] = 0);
        free(&live)
    }

    /// The units that can be written, the least bytes, the most units, and the resulting run.
    type Case<'a> = (&'a [u64], u64, u64, Option<(u64, u64)>);

    /// The first run that is long enough, with as many units as allowed.
    #[test]
    fn a_run_is_the_first_that_is_long_enough() {
        const TWO: u64 = UNIT_LEN + 1;
        let cases: [Case<'_>; 12] = [
            (&[1, 2, 3, 5, 7, 8], 1, 8, Some((1, 4))),
            (&[10, 11, 12, 15], 1, 8, Some((10, 13))),
            (&[1, 2, 3], 1, 2, Some((1, 3))),
            (&[10, 11, 12, 13], 1, 3, Some((10, 13))),
            (&[10, 11, 12], 1, 1, Some((10, 11))),
            (&[1, 3, 4, 6, 7], TWO, 8, Some((3, 5))),
            (&[10, 12, 13, 20], TWO, 8, Some((12, 14))),
            (&[10, 12, 13], 2 * UNIT_LEN, 8, Some((12, 14))),
            (
                &[10, 12, 13, 15, 16, 17],
                2 * UNIT_LEN + 1,
                8,
                Some((15, 18)),
            ),
            (&[1, 3, 5], TWO, 8, None),
            (&[10, 12, 14], TWO, 8, None),
            (&[], 1, 8, None),
        ];
        for (units, min_len, max_units, run) in cases {
            let mut s = only(units);
            let want = run.map(|(start, end)| (start * UNIT_LEN, end * UNIT_LEN));
            let what = format!("{units:?}, {min_len} bytes, {max_units} units");
            assert_eq!(s.take_run(min_len, max_units, ANYWHERE), want, "{what}");
            let taken = run.map_or(0..0, |(start, end)| start..end);
            let left: Vec<u64> = units
                .iter()
                .copied()
                .filter(|u| !taken.contains(u))
                .collect();
            assert_eq!(reusable(&s), left, "{what}: it is not taken twice");
        }
    }

    #[test]
    fn a_run_ends_below_its_limit() {
        for (below, run) in [(11, None), (12, Some((10, 12))), (13, Some((10, 13)))] {
            let mut s = only(&[10, 11, 12]);
            let want = run.map(|(start, end)| (start * UNIT_LEN, end * UNIT_LEN));
            assert_eq!(
                s.take_run(UNIT_LEN + 1, 8, below * UNIT_LEN + 9),
                want,
                "{below}"
            );
        }
    }

    /// That unit is never reusable, and cutting off only it is not worthwhile: the next cut would
    /// find it at the end again.
    #[test]
    fn the_unit_that_sqlite_locks_is_cut_off_only_with_adjacent_units() {
        let before = LOCK_UNIT - 1;
        for (free_units, units, want) in [
            (vec![], LOCK_UNIT + 1, LOCK_UNIT + 1),
            (vec![LOCK_UNIT + 1], LOCK_UNIT + 2, LOCK_UNIT),
            (vec![before], LOCK_UNIT + 1, before),
            (vec![before, LOCK_UNIT + 1], LOCK_UNIT + 2, before),
            (vec![before - 1], before, before - 1),
        ] {
            let mut live = vec![9; units as usize];
            if let Some(locked) = live.get_mut(LOCK_UNIT as usize) {
                *locked = 0;
            }
            free_units.iter().for_each(|unit| live[*unit as usize] = 0);
            let s = free(&live);
            let what = format!("{free_units:?} of {units}");
            assert_eq!(s.end_after_cut(units * UNIT_LEN), want * UNIT_LEN, "{what}");
        }
    }
}
