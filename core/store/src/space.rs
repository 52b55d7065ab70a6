//! Space accounting: live bytes per unit of 64 KiB, and which units can be reused
//! (docs/decisions/space-units.md).
//!
//! Live bytes are those of everything that the newest commit reaches. A page of a run of n pages
//! counts an n-th of each unit's share of the run, rounded up. So a unit is free only if no page of
//! a run that touches it is live, and removing is the exact opposite of adding. The stored table
//! (`table`) counts neither trailers nor the preamble, which are added after loading. For a unit of
//! a chunk that is not in memory (`resident`), only changes are known, and it counts as full.

use crate::format::entry::Entry;
use crate::format::space_table::{CHUNK_UNITS, Table};
use crate::format::{DATA_OFF, LOCK_UNIT, UNIT_LEN};
use std::collections::{BTreeMap, BTreeSet, HashMap};

mod age;
pub(crate) mod chunk_tree;
mod lanes;
mod resident;
mod reuse;

pub(crate) use lanes::{Lane, Lanes};
use resident::Chunk;
pub(crate) use resident::Worth;
pub(crate) use reuse::Reuse;

/// Bytes of a decoded chunk.
pub(crate) const CHUNK_RAW: usize = CHUNK_UNITS * 4;

/// The live bytes assumed for a unit whose chunk is not in memory, so that it is neither reused nor
/// emptied.
const UNKNOWN: u32 = UNIT_LEN as u32;

/// The accounting of one commit, which only writers use.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// The table as the last fold stored it.
    table: Table,
    /// The stored table is valid before this chunk. From here on the file was cut off since.
    stored: u32,
    /// Units that are accounted for now.
    units: u64,
    chunks: BTreeMap<u32, Chunk>,
    /// By unit: changes to chunks that are not in memory.
    pending: BTreeMap<u32, i64>,
    /// By unit: changes by storing the table itself, which no stored chunk has. Chunks in memory
    /// include them.
    moved: BTreeMap<u32, i64>,
    /// Chunks that differ from the stored ones by more than `moved`.
    dirty: BTreeSet<u32>,
    /// Chunks that a survey has loaded since the last fold.
    surveyed: BTreeSet<u32>,
    /// All live bytes.
    total: i64,
    /// Free units in chunks that are not in memory.
    unlisted: i64,
    /// Pages whose newest frame uses a dictionary, by its id.
    pub(crate) dict_uses: HashMap<u32, i64>,
    reuse: Reuse,
    lanes: Lanes,
    ages: age::Ages,
    /// Something was removed that had not been added: the stored table was wrong.
    pub(crate) inexact: bool,
}

/// The chunk of a unit.
fn chunk_of(unit: u64) -> u32 {
    u32::try_from(unit / CHUNK_UNITS as u64).unwrap_or(u32::MAX)
}

/// The units of a chunk.
fn units_of_chunk(chunk: u32) -> std::ops::Range<u64> {
    let first = u64::from(chunk) * CHUNK_UNITS as u64;
    first..first + CHUNK_UNITS as u64
}

impl Space {
    /// An accounting that is completely in memory and was never stored.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn from_table(live: &[u32]) -> Space {
        let mut space = Space {
            units: live.len() as u64,
            ..Space::default()
        };
        for (chunk, live) in (0..).zip(live.chunks(CHUNK_UNITS)) {
            let chunk_live = Chunk::of(live.to_vec(), 0);
            space.total += live.iter().map(|b| i64::from(*b)).sum::<i64>();
            space.chunks.insert(chunk, chunk_live);
        }
        space
    }

    pub(crate) fn units(&self) -> u64 {
        self.units
    }

    /// Live bytes of a unit. If they are not known, it counts as full.
    pub(crate) fn live(&self, unit: u64) -> u32 {
        let chunk = chunk_of(unit);
        match self.chunks.get(&chunk) {
            Some(chunk) => chunk.live(unit),
            None if chunk < self.stored => UNKNOWN,
            None => 0,
        }
    }

    /// Whether the live bytes of the unit are known.
    pub(crate) fn is_known(&self, unit: u64) -> bool {
        let chunk = chunk_of(unit);
        chunk >= self.stored || self.chunks.contains_key(&chunk)
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        u64::try_from(self.total).unwrap_or(0)
    }

    /// Adds a range that became live.
    pub(crate) fn add(&mut self, off: u64, len: u64) {
        self.add_share(off, len, 1);
    }

    /// Removes a range that is not live any more, from this commit on.
    pub(crate) fn sub(&mut self, off: u64, len: u64, commit: u64) {
        self.sub_share(off, len, 1, commit);
    }

    pub(crate) fn add_entry(&mut self, e: &Entry) {
        if e.is_none() {
            return;
        }
        self.add_share(e.off, u64::from(e.len), 1 << e.run_log2);
        if e.model != 0 {
            *self.dict_uses.entry(e.model).or_default() += 1;
        }
    }

    pub(crate) fn sub_entry(&mut self, e: &Entry, commit: u64) {
        if e.is_none() {
            return;
        }
        self.sub_share(e.off, u64::from(e.len), 1 << e.run_log2, commit);
        if e.model != 0 {
            *self.dict_uses.entry(e.model).or_default() -= 1;
        }
    }

    fn add_share(&mut self, off: u64, len: u64, share: u64) {
        for (unit, bytes) in shares(off, len, share) {
            self.units = self.units.max(unit + 1);
            self.dirty.insert(chunk_of(unit));
            self.change(unit, i64::from(bytes));
        }
    }

    fn sub_share(&mut self, off: u64, len: u64, share: u64, commit: u64) {
        // Nothing beyond the last unit was ever added, and the table does not grow for it.
        self.inexact |= off + len > self.units * UNIT_LEN;
        let len = len.min((self.units * UNIT_LEN).saturating_sub(off));
        for (unit, bytes) in shares(off, len, share) {
            self.dirty.insert(chunk_of(unit));
            self.change(unit, -i64::from(bytes));
            self.note_less(unit, commit);
        }
    }

    /// Notes that bytes in the unit died.
    fn note_less(&mut self, unit: u64, commit: u64) {
        if self.is_known(unit) {
            self.ages.freed(unit, commit);
            if self.live(unit) == 0 {
                self.reuse.free(unit, commit);
            }
        }
    }

    /// Changes the live bytes of a unit.
    fn change(&mut self, unit: u64, by: i64) {
        let number = chunk_of(unit);
        if number >= self.stored {
            self.chunks.entry(number).or_default();
        }
        let Some(chunk) = self.chunks.get_mut(&number) else {
            let pending = self.pending.entry(unit as u32).or_default();
            *pending += by;
            if *pending == 0 {
                self.pending.remove(&(unit as u32));
            }
            self.total += by;
            return;
        };
        let changed = chunk.change(unit, by);
        self.total += changed;
        self.inexact |= changed != by;
    }

    /// Notes that a record of the table itself was written (`by` is 1), or is no longer named (-1).
    pub(crate) fn moved(&mut self, off: u64, len: u64, by: i64, commit: u64) {
        for (unit, bytes) in shares(off, len, 1) {
            self.units = self.units.max(unit + 1);
            let bytes = by * i64::from(bytes);
            let moved = self.moved.entry(unit as u32).or_default();
            *moved += bytes;
            if *moved == 0 {
                self.moved.remove(&(unit as u32));
            }
            if self.is_known(unit) {
                self.change(unit, bytes);
            } else {
                self.total += bytes;
            }
            if by < 0 {
                self.note_less(unit, commit);
            }
        }
    }

    /// Adds what is not in a record: the preamble, and the unit that must stay empty. Their chunks
    /// are in memory from then on.
    pub(crate) fn add_fixed(&mut self) {
        self.units = self.units.max(1);
        self.change(0, DATA_OFF as i64);
        if self.units > LOCK_UNIT {
            self.change(LOCK_UNIT, UNIT_LEN as i64);
        }
    }
}

/// The units of a range, each with the bytes that one of the `share` pages of a run counts there.
fn shares(off: u64, len: u64, share: u64) -> impl Iterator<Item = (u64, u32)> {
    let end = off + len;
    let mut at = off;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let unit = at / UNIT_LEN;
            let stop = end.min((unit + 1) * UNIT_LEN);
            let bytes = share_of(stop - at, share);
            at = stop;
            (unit, bytes)
        })
    })
}

/// What one of `share` pages counts for `bytes` of its run.
fn share_of(bytes: u64, share: u64) -> u32 {
    bytes.div_ceil(share) as u32
}

/// What `users` of the `share` pages of the record at `off` count in a unit.
pub(crate) fn counted_in(unit: u64, off: u64, len: u64, share: u64, users: u64) -> u64 {
    let start = off.max(unit * UNIT_LEN);
    let end = (off + len).min((unit + 1) * UNIT_LEN);
    u64::from(share_of(end.saturating_sub(start), share)) * users
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn adding_and_removing_are_opposites(list in proptest::collection::vec((0u64..900_000, 36u32..70_000, 0u8..4), 1..50)) {
            let mut s = Space::default();
            let entries: Vec<Entry> = list.iter().map(|&(off, len, run_log2)| Entry { off: off + 1, len, run_log2, version: 1, ..Entry::NONE }).collect();
            for e in &entries { s.add_entry(e); }
            for e in entries.iter().rev() { s.sub_entry(e, 1); }
            prop_assert_eq!(s.live_bytes(), 0);
            prop_assert!(!s.inexact);
        }
    }

    /// A forged map can name places far beyond the end of the file.
    #[test]
    fn removing_a_range_beyond_the_end_takes_no_memory() {
        let mut s = Space::default();
        s.sub(1 << 47, 40, 1);
        assert!(s.inexact);
        assert_eq!((s.units(), s.age(1 << 31)), (0, u32::MAX));
    }
}
