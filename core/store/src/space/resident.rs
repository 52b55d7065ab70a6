//! The chunks of the space table that are in memory.
//!
//! Small files have all of theirs. For a large file they are those that the file's end, new writes
//! and emptied units need. A fold loads chunks that have changed, and a survey loads those with
//! units worth reusing or emptying. Free units of a chunk that is loaded later wait as if the
//! newest commit had freed them. So a chunk can be dropped at any time between commits, and that
//! costs only time.

use super::chunk_tree::Source;
use super::{CHUNK_RAW, Space, chunk_of, units_of_chunk};
use crate::bytes::Put;
use crate::error::Result;
use crate::format::space_table::{CHUNK_UNITS, Part, Table, chunks_of};
use crate::format::{DATA_OFF, LOCK_UNIT, UNIT_LEN};
use std::collections::{BTreeMap, BTreeSet};

/// A table of so many chunks, 16 GiB of the file, is loaded as a whole.
const WHOLE: u32 = 256;
/// Chunks in memory before some are dropped: 4 MiB of live bytes, and what is known about their
/// units.
const MOST: usize = 1024;
/// The most chunks that are made at once for a part of the file that no table accounts for.
const MOST_BORN: u32 = 4096;
/// The number of units changed by the table's own records that a fold leaves to a later one.
const CARRY: usize = 64;
/// The most of them in a trailer.
const MOST_MOVED: usize = 16 << 10;

/// Live bytes of the units of a chunk.
#[derive(Debug)]
pub(super) struct Chunk {
    live: Box<[u32]>,
    /// Units without live bytes.
    free: u32,
    /// The same, as stored.
    stored_free: u32,
}

impl Default for Chunk {
    fn default() -> Chunk {
        Chunk::of(vec![0; CHUNK_UNITS], 0)
    }
}

impl Chunk {
    pub(super) fn of(mut live: Vec<u32>, stored_free: u32) -> Chunk {
        live.resize(CHUNK_UNITS, 0);
        Chunk {
            free: live.iter().filter(|b| **b == 0).count() as u32,
            live: live.into(),
            stored_free,
        }
    }

    pub(super) fn live(&self, unit: u64) -> u32 {
        let at = (unit % CHUNK_UNITS as u64) as usize;
        self.live.get(at).copied().unwrap_or(0)
    }

    /// Changes the live bytes of a unit, which are never less than 0. Returns by how much.
    pub(super) fn change(&mut self, unit: u64, by: i64) -> i64 {
        let at = (unit % CHUNK_UNITS as u64) as usize;
        let Some(live) = self.live.get_mut(at) else {
            return 0;
        };
        let before = *live;
        let now = i64::from(before).saturating_add(by);
        *live = now.clamp(0, i64::from(u32::MAX)) as u32;
        self.free += u32::from(*live == 0);
        self.free -= u32::from(before == 0);
        i64::from(*live) - i64::from(before)
    }
}

/// What makes a chunk worth loading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worth {
    /// Units that can be reused.
    Free,
    /// Dead bytes, in units to be emptied.
    Dead,
}

impl Worth {
    fn of(self, part: &Part, chunks: u32) -> u64 {
        let free = u64::from(part.free) * UNIT_LEN;
        match self {
            Worth::Free => free,
            Worth::Dead => {
                let all = u64::from(chunks) * CHUNK_UNITS as u64 * UNIT_LEN;
                all.saturating_sub(free).saturating_sub(part.live)
            }
        }
    }
}

impl Space {
    /// The accounting of a stored table, of which nothing is in memory yet.
    pub(crate) fn open(table: &Table) -> Space {
        let mut space = Space {
            table: table.clone(),
            stored: table.chunks(),
            units: table.units,
            unlisted: table.parts.iter().map(|p| i64::from(p.free)).sum(),
            total: table.parts.iter().map(|p| p.live as i64).sum(),
            ..Space::default()
        };
        for (unit, by) in &table.moved {
            let (unit, by) = (u64::from(*unit), i64::from(*by));
            space.units = space.units.max(unit + 1);
            space.moved.insert(unit as u32, by);
            // The changes of stored chunks are applied when they are loaded.
            if chunk_of(unit) >= space.stored {
                space.change(unit, by);
            } else {
                space.total += by;
            }
        }
        space
    }

    /// Loads the chunks that are always in memory: all of a small table; of a large one those with
    /// the preamble, with the unit that stays empty, and at the end.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn load_first(&mut self, src: Source<'_>, commit: u64) -> Result<()> {
        if self.stored <= WHOLE {
            for chunk in 0..self.stored {
                self.load(src, chunk, commit)?;
            }
            return Ok(());
        }
        for chunk in [0, chunk_of(LOCK_UNIT), self.stored - 2, self.stored - 1] {
            self.load(src, chunk, commit)?;
        }
        Ok(())
    }

    /// Loads all chunks.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn load_all(&mut self, src: Source<'_>, commit: u64) -> Result<()> {
        for chunk in 0..self.stored {
            self.load(src, chunk, commit)?;
        }
        Ok(())
    }

    /// The units that differ between this accounting and one that is completely in memory, at most
    /// `most`: (unit, bytes here, bytes there). Loads all chunks, a few at a time.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn differences(
        &mut self,
        other: &Space,
        src: Source<'_>,
        most: usize,
    ) -> Result<Vec<(u64, u32, u32)>> {
        let mut found = Vec::new();
        for chunk in 0..chunks_of(self.units.max(other.units)) {
            let loaded = self.load(src, chunk, 0)?;
            if self.chunks.contains_key(&chunk) || other.chunks.contains_key(&chunk) {
                let both = |unit| (unit, self.live(unit), other.live(unit));
                let differ = units_of_chunk(chunk).map(both).filter(|(_, a, b)| a != b);
                found.extend(differ.take(most - found.len()));
            }
            if loaded {
                self.give_up_one(chunk);
            }
        }
        Ok(found)
    }

    /// Loads the stored chunks at the end of the file.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn load_end(&mut self, src: Source<'_>, commit: u64) -> Result<()> {
        for chunk in self.stored.saturating_sub(2)..self.stored {
            self.load(src, chunk, commit)?;
        }
        Ok(())
    }

    /// Loads a chunk, if it is stored and not in memory. Its free units wait as if `commit` had
    /// freed them. Returns whether it was loaded.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn load(&mut self, src: Source<'_>, chunk: u32, commit: u64) -> Result<bool> {
        if chunk >= self.stored || self.chunks.contains_key(&chunk) {
            return Ok(false);
        }
        let part = src.part(&self.table, 0, chunk)?;
        let mut loaded = Chunk::of(src.chunk(part.place, chunk)?, part.free);
        self.unlisted -= i64::from(part.free);
        let units = units_of_chunk(chunk);
        let range = units.start as u32..=(units.end - 1) as u32;
        let mut changes: BTreeMap<u32, i64> = (self.moved.range(range.clone()))
            .map(|(unit, by)| (*unit, *by))
            .collect();
        for (unit, by) in take_range(&mut self.pending, range) {
            *changes.entry(unit).or_default() += by;
        }
        for (unit, by) in changes {
            let changed = loaded.change(u64::from(unit), by);
            self.total += changed - by;
            self.inexact |= changed != by;
        }
        for unit in units.start..units.end.min(self.units) {
            if loaded.live(unit) == 0 && unit != LOCK_UNIT {
                self.reuse.free(unit, commit);
            }
        }
        self.chunks.insert(chunk, loaded);
        Ok(true)
    }

    /// Makes chunks in memory for all units before `end` that no stored chunk accounts for.
    pub(super) fn bear(&mut self, end: u64) {
        let last = chunks_of(end).min(self.stored.saturating_add(MOST_BORN));
        for chunk in self.stored..last {
            self.chunks.entry(chunk).or_default();
        }
    }

    /// Whether all of the table is in memory.
    fn is_whole(&self) -> bool {
        self.chunks.range(..self.stored).count() >= self.stored as usize
    }

    /// Loads at most `most` chunks that are worth it, except for those that a survey has loaded
    /// since the last fold. Reads at most `looks` indexes. Returns how many chunks it found.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn survey(
        &mut self,
        src: Source<'_>,
        worth: Worth,
        (most, looks): (usize, usize),
        commit: u64,
    ) -> Result<usize> {
        if self.is_whole() {
            return Ok(0);
        }
        let skip = |chunk: u32| {
            chunk >= self.stored
                || self.chunks.contains_key(&chunk)
                || self.surveyed.contains(&chunk)
        };
        let score = |part: &Part, chunks: u32| worth.of(part, chunks);
        let found = src.best(&self.table, &score, &skip, most, looks)?;
        for chunk in &found {
            self.surveyed.insert(*chunk);
            self.load(src, *chunk, commit)?;
        }
        Ok(found.len())
    }

    /// Drops chunks if there are many, first those with the most live bytes. Keeps those that
    /// differ from the stored ones, those at the file's end, and those around `current`, the extent
    /// that is being appended to. Call it only between commits: what a pending one has taken must
    /// stay known.
    pub(crate) fn give_up(&mut self, current: (u64, u64)) {
        if self.chunks.len() <= MOST || self.stored <= WHOLE {
            return;
        }
        let near = |chunk: u32, extent: (u64, u64)| {
            let unit = |off: u64| chunk_of(off / UNIT_LEN);
            (unit(extent.0)..=unit(extent.1.saturating_sub(1))).contains(&chunk)
        };
        let aside = self.lanes.aside.unwrap_or((0, 1));
        let mut away: Vec<(u64, u32)> = (self.chunks.iter())
            .filter(|(chunk, _)| {
                **chunk + 2 < self.stored
                    && **chunk != chunk_of(0)
                    && **chunk != chunk_of(LOCK_UNIT)
                    && !self.dirty.contains(chunk)
                    && !near(**chunk, current)
                    && !near(**chunk, aside)
            })
            .map(|(number, chunk)| (chunk.live.iter().map(|b| u64::from(*b)).sum(), *number))
            .collect();
        away.sort_unstable();
        let most = self.chunks.len() - MOST / 2;
        for (_, chunk) in away.into_iter().rev().take(most) {
            self.give_up_one(chunk);
        }
    }

    fn give_up_one(&mut self, chunk: u32) {
        if let Some(known) = self.chunks.remove(&chunk) {
            self.unlisted += i64::from(known.stored_free);
            self.reuse.forget(units_of_chunk(chunk));
            self.ages.forget(chunk);
        }
    }

    /// Free units in chunks that are not in memory.
    pub(crate) fn unlisted_free(&self) -> u64 {
        u64::try_from(self.unlisted).unwrap_or(0)
    }

    /// Free units before the unit `end`.
    pub(crate) fn free_below(&self, end: u64) -> u64 {
        let mut free = self.unlisted_free();
        let mut born = 0;
        for (number, chunk) in &self.chunks {
            let units = units_of_chunk(*number);
            born += u64::from(*number >= self.stored && units.start < end)
                * (units.end.min(end).saturating_sub(units.start));
            free += if units.end <= end {
                u64::from(chunk.free)
            } else {
                (units.start..end)
                    .filter(|unit| chunk.live(*unit) == 0)
                    .count() as u64
            };
        }
        // Units that no chunk accounts for are free.
        let accounted = u64::from(self.stored) * CHUNK_UNITS as u64;
        free + end.saturating_sub(accounted + born)
    }

    /// The known units before the unit `end`, ascending, and their live bytes.
    pub(crate) fn known_below(&self, end: u64) -> impl Iterator<Item = (u64, u32)> {
        self.chunks.iter().flat_map(move |(number, chunk)| {
            units_of_chunk(*number)
                .zip(chunk.live.iter().copied())
                .take_while(move |(unit, _)| *unit < end)
        })
    }

    /// The chunks that a fold stores: those that have changed, those that are not stored, and
    /// `besides`. If storing the table has changed many units, their chunks too.
    pub(crate) fn due(&self, besides: &BTreeSet<u32>) -> BTreeSet<u32> {
        let chunks = chunks_of(self.units);
        let mut due: BTreeSet<u32> = self.dirty.union(besides).copied().collect();
        due.extend(self.stored..chunks);
        if self.moved.len() > CARRY {
            due.extend(self.moved_chunks());
        }
        due.retain(|chunk| *chunk < chunks);
        due
    }

    /// The chunks of units that storing the table has changed.
    pub(crate) fn moved_chunks(&self) -> BTreeSet<u32> {
        let chunks = self.moved.keys().map(|unit| chunk_of(u64::from(*unit)));
        chunks.collect()
    }

    /// Whether storing the table has changed more units than a trailer should list.
    pub(crate) fn moved_much(&self) -> bool {
        self.moved.len() > MOST_MOVED
    }

    /// Whether more chunks can stay in memory.
    pub(crate) fn has_room(&self) -> bool {
        self.chunks.len() < MOST
    }

    /// Chunks in memory.
    #[cfg(test)]
    pub(crate) fn resident(&self) -> usize {
        self.chunks.len()
    }

    pub(crate) fn is_resident(&self, chunk: u32) -> bool {
        self.chunks.contains_key(&chunk)
    }

    /// A chunk of the table as it is stored, decoded, and its part without a place.
    pub(crate) fn chunk(&self, number: u32) -> (Vec<u8>, Part) {
        let mut raw = Vec::with_capacity(CHUNK_RAW);
        let mut part = Part::default();
        for unit in units_of_chunk(number) {
            let live = match unit {
                0 => self.live(0).saturating_sub(DATA_OFF as u32),
                LOCK_UNIT => 0,
                unit => self.live(unit),
            };
            raw.put_u32(live);
            part.live += u64::from(live);
            part.free += u32::from(unit < self.units && self.live(unit) == 0);
        }
        (raw, part)
    }

    /// Notes that a chunk was stored in its present state. With `keep` it stays in memory.
    pub(crate) fn was_stored(&mut self, number: u32, part: &Part, keep: bool) {
        self.dirty.remove(&number);
        let units = units_of_chunk(number);
        take_range(&mut self.moved, units.start as u32..=(units.end - 1) as u32);
        match self.chunks.get_mut(&number) {
            Some(chunk) => chunk.stored_free = part.free,
            None => self.unlisted += i64::from(part.free),
        }
        if !keep {
            self.give_up_one(number);
        }
    }

    /// Notes the table that the stored chunks and indexes make up.
    pub(crate) fn stored_as(&mut self, table: &Table) {
        self.table = table.clone();
        self.stored = table.chunks();
        self.surveyed.clear();
        let chunks = &self.chunks;
        self.ages.keep(|chunk| chunks.contains_key(&chunk));
    }

    /// The units changed by storing the table, as a root trailer lists them.
    pub(crate) fn moved_list(&self) -> Vec<(u32, i32)> {
        let entry = |(unit, by): (&u32, &i64)| {
            let most = i64::from(i32::MAX);
            (*unit, (*by).clamp(-most, most) as i32)
        };
        self.moved.iter().map(entry).collect()
    }

    /// Ends the table before this unit. There are no live bytes after it.
    pub(super) fn cut_table(&mut self, units: u64) {
        if units >= self.units {
            return;
        }
        let chunks = chunks_of(units);
        for unit in units..units_of_chunk(chunks).start.min(self.units) {
            let live = self.live(unit);
            if self.is_known(unit) && live > 0 {
                self.change(unit, -i64::from(live));
            }
        }
        for chunk in self.chunks.split_off(&chunks).into_values() {
            self.total -= chunk.live.iter().map(|b| i64::from(*b)).sum::<i64>();
        }
        if let Some(last) = chunks.checked_sub(1) {
            self.dirty.insert(last);
        }
        self.dirty.split_off(&chunks);
        let behind = units_of_chunk(chunks).start as u32;
        self.pending.split_off(&behind);
        self.moved.split_off(&behind);
        self.stored = self.stored.min(chunks);
        self.units = units;
    }
}

/// Removes a range from a map and returns it.
fn take_range(
    map: &mut BTreeMap<u32, i64>,
    range: std::ops::RangeInclusive<u32>,
) -> Vec<(u32, i64)> {
    let taken: Vec<(u32, i64)> = map.range(range).map(|(unit, by)| (*unit, *by)).collect();
    for (unit, _) in &taken {
        map.remove(unit);
    }
    taken
}
