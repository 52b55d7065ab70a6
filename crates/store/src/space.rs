//! Space accounting: live bytes per unit, and which units may be written again.
//!
//! The file is counted in units of 64 KiB. A unit's live bytes are those of everything the newest commit reaches there:
//! frames that the map names, map nodes, dictionaries, space chunks, the trailers since the last root trailer, the preamble.
//! A page of a run of n pages counts a n-th of each unit's share of the run, rounded up: so a unit is free only when
//! no page of a run that touches it is live, and adding and removing are exact opposites.
//!
//! A unit is *free* when it has no live bytes, and *reusable* only once a durable slot names a commit in which it was free
//! already and nothing was written to it since (rule 9): recovery may start from that slot and must find everything
//! between it and the tip. Until such a slot is durable, units wait (see `reuse`).
//!
//! Chunks of the table are stored at each fold (payload: 1024 u32, codec zstd where smaller). They do not count
//! themselves nor trailers nor the preamble: who loads them adds those, whose places stand in the root trailer.

use crate::bytes::Put;
use crate::codec::{self, CodecId};
use crate::error::{Damage, Error, Result};
use crate::format::record::{Kind, Record};
use crate::format::{DATA_OFF, LOCK_UNIT, UNIT_LEN};
use crate::map::{Entry, NodeRef};
use densite_disk::{Fields, File};
use std::collections::HashMap;

mod age;
mod lanes;
mod reuse;

pub(crate) use lanes::{Lane, Lanes};
pub(crate) use reuse::Reuse;

/// Units of one stored chunk of the table.
pub(crate) const CHUNK_UNITS: usize = 1024;
/// Bytes of an undecoded chunk.
pub(crate) const CHUNK_RAW: usize = CHUNK_UNITS * 4;

/// The accounting of one commit, kept by whoever may write.
#[derive(Debug, Default, Clone)]
pub(crate) struct Space {
    live: Vec<u32>,
    /// Pages whose newest frame uses a dictionary, by its id.
    pub(crate) dict_uses: HashMap<u32, i64>,
    reuse: Reuse,
    lanes: Lanes,
    ages: age::Ages,
    /// Something was removed that had not been added: the table on disk was wrong.
    pub(crate) inexact: bool,
}

impl Space {
    /// The table as stored; units beyond it have no live bytes.
    pub(crate) fn from_table(live: Vec<u32>) -> Space {
        Space {
            live,
            ..Space::default()
        }
    }

    pub(crate) fn units(&self) -> u64 {
        self.live.len() as u64
    }

    pub(crate) fn live(&self, unit: u64) -> u32 {
        self.live.get(unit as usize).copied().unwrap_or(0)
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live.iter().map(|b| u64::from(*b)).sum()
    }

    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn free_units(&self) -> u64 {
        self.live.iter().filter(|b| **b == 0).count() as u64
    }

    /// A range that became live.
    pub(crate) fn add(&mut self, off: u64, len: u64) {
        self.each_unit(off, len, 1, |live, bytes| {
            *live = live.saturating_add(bytes);
            true
        });
    }

    /// A range that is live no more, from this commit on.
    pub(crate) fn sub(&mut self, off: u64, len: u64, commit: u64) {
        self.sub_share(off, len, 1, commit);
    }

    pub(crate) fn add_entry(&mut self, e: &Entry) {
        if e.is_none() {
            return;
        }
        self.each_unit(e.off, u64::from(e.len), 1 << e.run_log2, |live, bytes| {
            *live = live.saturating_add(bytes);
            true
        });
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

    fn sub_share(&mut self, off: u64, len: u64, share: u64, commit: u64) {
        // What lies behind the last unit was never added; the table does not grow for it.
        let mut exact = off + len <= self.units() * UNIT_LEN;
        let len = len.min((self.units() * UNIT_LEN).saturating_sub(off));
        self.each_unit(off, len, share, |live, bytes| {
            exact &= *live >= bytes;
            *live = live.saturating_sub(bytes);
            true
        });
        self.inexact |= !exact;
        for unit in off / UNIT_LEN..=(off + len.max(1) - 1) / UNIT_LEN {
            // What a file says may lie anywhere.
            if unit < self.units() {
                self.ages.freed(unit, commit);
            }
            if self.live(unit) == 0 {
                self.reuse.free(unit, commit);
            }
        }
    }

    fn each_unit(
        &mut self,
        off: u64,
        len: u64,
        share: u64,
        mut f: impl FnMut(&mut u32, u32) -> bool,
    ) {
        let (mut at, end) = (off, off + len);
        while at < end {
            let unit = at / UNIT_LEN;
            let stop = end.min((unit + 1) * UNIT_LEN);
            let bytes = share_of(stop - at, share);
            if self.live.len() <= unit as usize {
                self.live.resize(unit as usize + 1, 0);
            }
            if let Some(live) = self.live.get_mut(unit as usize) {
                f(live, bytes);
            }
            at = stop;
        }
    }

    /// Counts what lies outside every record: the preamble, and the unit that must stay empty.
    pub(crate) fn add_fixed(&mut self) {
        self.add(0, DATA_OFF);
        if self.units() > LOCK_UNIT {
            self.add(LOCK_UNIT * UNIT_LEN, UNIT_LEN);
        }
    }

    /// Takes back what [`Space::add_fixed`] counted.
    pub(crate) fn sub_fixed(&mut self) {
        self.sub(0, DATA_OFF, 0);
        if self.units() > LOCK_UNIT {
            self.sub(LOCK_UNIT * UNIT_LEN, UNIT_LEN, 0);
        }
    }

    /// A chunk of the table, undecoded.
    pub(crate) fn chunk(&self, index: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(CHUNK_RAW);
        for i in 0..CHUNK_UNITS {
            out.put_u32(self.live(((index * CHUNK_UNITS) + i) as u64));
        }
        out
    }

    /// Units without live bytes in a chunk.
    pub(crate) fn chunk_free(&self, index: usize) -> u32 {
        let first = index * CHUNK_UNITS;
        let end = (first + CHUNK_UNITS).min(self.live.len());
        self.live
            .get(first..end)
            .map_or(0, |c| c.iter().filter(|b| **b == 0).count() as u32)
    }

    /// Where two accountings differ: (unit, bytes here, bytes there).
    pub(crate) fn differences(&self, other: &Space) -> Vec<(u64, u32, u32)> {
        (0..self.units().max(other.units()))
            .map(|u| (u, self.live(u), other.live(u)))
            .filter(|(_, a, b)| a != b)
            .collect()
    }
}

/// What one of `share` pages counts of `bytes` of its run.
fn share_of(bytes: u64, share: u64) -> u32 {
    bytes.div_ceil(share) as u32
}

/// What `users` of the `share` pages of the record at `off` count in a unit.
pub(crate) fn counted_in(unit: u64, off: u64, len: u64, share: u64, users: u64) -> u64 {
    let start = off.max(unit * UNIT_LEN);
    let end = (off + len).min((unit + 1) * UNIT_LEN);
    u64::from(share_of(end.saturating_sub(start), share)) * users
}

/// The units of one stored chunk.
pub(crate) fn decode_chunk(raw: &[u8]) -> Option<Vec<u32>> {
    if raw.len() != CHUNK_RAW {
        return None;
    }
    let mut f = Fields::new(raw);
    (0..CHUNK_UNITS).map(|_| f.u32()).collect()
}

/// Reads a stored chunk.
///
/// # Errors
/// I/O; [`Error::Corrupt`].
pub(crate) fn load_chunk(
    file: &dyn File,
    salt: u64,
    place: NodeRef,
    index: u32,
) -> Result<Vec<u32>> {
    let damage = |problem: &str| {
        Error::Corrupt(Damage {
            what: format!("space chunk {index}"),
            offset: place.off,
            page: None,
            problem: problem.to_owned(),
        })
    };
    let mut bytes = vec![0; place.len as usize];
    let n = file.read_at(&mut bytes, place.off)?;
    let record = bytes
        .get(..n)
        .and_then(|b| Record::open(b, salt, place.off));
    let (record, _, payload) = record.ok_or_else(|| damage("checksum mismatch"))?;
    if record.kind != Kind::Space || record.number != index {
        return Err(damage("another record lies there"));
    }
    let mut raw = vec![0; CHUNK_RAW];
    codec::decode(CodecId(record.codec), payload, None, &mut raw).map_err(|e| damage(&e))?;
    decode_chunk(&raw).ok_or_else(|| damage("its length is wrong"))
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

    /// A map that somebody made up names places far behind the file.
    #[test]
    fn what_lies_nowhere_takes_no_memory() {
        let mut s = Space::default();
        s.sub(1 << 47, 40, 1);
        assert!(s.inexact);
        assert_eq!((s.units(), s.age(1 << 31)), (0, u32::MAX));
    }
}
