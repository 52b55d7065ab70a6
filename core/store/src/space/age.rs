//! Notes when units were written, and when bytes in them last died, to choose among units that are
//! dead to about the same part.
//!
//! In a queue, records that are written at one time die at one time, the oldest first. Moving
//! records that are about to die is wasted, and records that die at different times leave holes in
//! one unit. A unit in which bytes have just died is about to lose more: pages that every commit
//! writes again, or the next rows of a queue. If pages change at random, neither figure means
//! anything.

use super::{Space, chunk_of};
use crate::format::UNIT_LEN;
use crate::format::space_table::{CHUNK_UNITS, chunks_of};
use std::collections::HashMap;

/// A unit counts as settled so many commits after its last change.
const SETTLED: u32 = 16;

/// The known changes of units while this accounting is kept; they are lost with it. Numbers are the
/// low halves of commit numbers, or 0 if not known.
#[derive(Debug, Default, Clone)]
pub(super) struct Ages {
    units: HashMap<u32, Box<[Unit]>>,
    newest: u32,
}

#[derive(Debug, Default, Clone, Copy)]
struct Unit {
    /// The last commit that wrote here.
    written: u32,
    /// The last commit with which bytes here died.
    freed: u32,
}

impl Ages {
    fn unit(&mut self, unit: u64) -> Option<&mut Unit> {
        let chunk = self.units.entry(chunk_of(unit));
        let chunk = chunk.or_insert_with(|| vec![Unit::default(); CHUNK_UNITS].into());
        chunk.get_mut((unit % CHUNK_UNITS as u64) as usize)
    }

    /// Notes that this commit wrote these ranges.
    pub(super) fn written(&mut self, pieces: &[(u64, u64)], commit: u64) {
        self.newest = commit as u32;
        for (start, end) in pieces {
            for at in start / UNIT_LEN..end.div_ceil(UNIT_LEN) {
                if let Some(unit) = self.unit(at) {
                    unit.written = commit as u32;
                }
            }
        }
    }

    /// Notes that bytes in the unit died with this commit.
    pub(super) fn freed(&mut self, unit: u64, commit: u64) {
        if let Some(unit) = self.unit(unit) {
            unit.freed = commit as u32;
        }
    }

    fn known(&self, unit: u64) -> Option<&Unit> {
        let chunk = self.units.get(&chunk_of(unit))?;
        chunk.get((unit % CHUNK_UNITS as u64) as usize)
    }

    /// Forgets all chunks except these.
    pub(super) fn keep(&mut self, is_kept: impl Fn(u32) -> bool) {
        self.units.retain(|chunk, _| is_kept(*chunk));
    }

    pub(super) fn forget(&mut self, chunk: u32) {
        self.units.remove(&chunk);
    }

    pub(super) fn cut(&mut self, units: u64) {
        let chunks = chunks_of(units);
        self.units.retain(|chunk, _| *chunk < chunks);
        let end = u64::from(chunks) * CHUNK_UNITS as u64;
        if let Some(last) = chunks.checked_sub(1).and_then(|c| self.units.get_mut(&c)) {
            let kept = CHUNK_UNITS - (end - units) as usize;
            last.iter_mut()
                .skip(kept)
                .for_each(|unit| *unit = Unit::default());
        }
    }

    fn since(&self, commit: u32) -> u32 {
        match commit {
            0 => u32::MAX,
            commit => self.newest.wrapping_sub(commit),
        }
    }
}

impl Space {
    /// How many commits ago the unit was last written; large if that is not known.
    pub(crate) fn age(&self, unit: u64) -> u32 {
        let known = self.ages.known(unit);
        known.map_or(u32::MAX, |unit| self.ages.since(unit.written))
    }

    /// Whether nothing was written to the unit and nothing died in it for a while.
    pub(crate) fn is_stable(&self, unit: u64) -> bool {
        let settled = |commit: u32| self.ages.since(commit) >= SETTLED;
        let known = self.ages.known(unit);
        known.is_none_or(|unit| settled(unit.written) && settled(unit.freed))
    }
}
