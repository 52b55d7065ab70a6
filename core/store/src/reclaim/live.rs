//! Finds the live records of a unit, by their form, at every byte that can be the first of one.
//!
//! Only the page map decides: a frame is live if the entry of its page names exactly this place.
//! The accounting, which knows the live bytes of the unit, shows whether everything was found. A
//! record with a damaged header cannot be found. It stays in place, and so does one whose checksum
//! does not match. A dead record that is unchanged is skipped as a whole: no byte of it was written
//! since, so no live record begins there.

use crate::by_fold::ByFold;
use crate::error::{Damage, Error, Result};
use crate::format::UNIT_LEN;
use crate::format::record::{Kind, RECORD_LEN, Record};
use crate::format::space_table::first_chunk;
use crate::map::node::Node;
use crate::map::tree;
use crate::reclaim_state::Frame;
use crate::shared::Shared;
use crate::space::counted_in;
use crate::state::State;
use densite_disk::File;
use std::collections::BTreeMap;

/// The live records of a unit, as far as they were found.
#[derive(Default)]
pub(super) struct Found {
    /// Frames by their places, including those that only reach into the unit.
    pub(super) frames: BTreeMap<u64, Frame>,
    /// Map nodes, dictionaries, chunks of the space table.
    pub(super) by_fold: ByFold,
    /// Bytes in the unit of these and of trailers.
    pub(super) by_fold_bytes: u64,
    /// There is a trailer in the unit.
    pub(super) trailers: bool,
    pub(super) damage: Vec<Damage>,
    /// Bytes in the unit of all live records, as the accounting counts them.
    counted: u64,
    /// Bytes that the frames will take elsewhere. This counts a whole run if most of its pages are
    /// live, because it is then moved as a whole.
    pub(super) taken: u64,
}

impl Found {
    fn count_by_fold(&mut self, bytes: u64) {
        self.counted += bytes;
        self.by_fold_bytes += bytes;
    }

    /// The value; `None` after damage, which is noted.
    fn unless_damaged<T>(&mut self, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(Error::Corrupt(damage)) => {
                self.damage.push(damage);
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}

/// Where to search.
pub(super) struct Look<'a> {
    pub(super) shared: &'a Shared,
    pub(super) file: &'a dyn File,
    pub(super) state: &'a State,
}

impl Look<'_> {
    /// The live records of `unit`, which has `live` bytes. `None` if not all of them were found.
    ///
    /// # Errors
    /// I/O.
    pub(super) fn unit(&self, unit: u64, live: u32) -> Result<Option<Found>> {
        // A record can begin before the unit and reach into it. Frames of one page and map nodes
        // are at most the first length, and runs of 64 pages at most the second.
        let page = self.state.page_size() as usize;
        for back in [page.max(Node::raw_len(0)), page << 6] {
            let found = self.unit_from(unit, (back + RECORD_LEN) as u64)?;
            if found.counted == u64::from(live) || !found.damage.is_empty() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn unit_from(&self, unit: u64, back: u64) -> Result<Found> {
        let (start, end) = (unit * UNIT_LEN, (unit + 1) * UNIT_LEN);
        let mut found = Found::default();
        self.listed(unit, &mut found)?;
        let from = start.saturating_sub(back);
        let mut bytes = vec![0; (end - from) as usize + RECORD_LEN];
        let n = self.file.read_at(&mut bytes, from)?;
        bytes.truncate(n);
        let mut at = 0;
        while from + (at as u64) < end {
            let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= RECORD_LEN) else {
                break;
            };
            let len = self.record_at(unit, from + at as u64, rest, &mut found)?;
            at += len.max(1);
        }
        Ok(found)
    }

    /// Adds records whose places are listed in the state: trailers and dictionaries.
    fn listed(&self, unit: u64, found: &mut Found) -> Result<()> {
        let here = |off: u64, len: u32| counted_in(unit, off, u64::from(len), 1, 1);
        for (off, len) in self.state.trailers() {
            found.trailers |= here(*off, *len) > 0;
            found.count_by_fold(here(*off, *len));
        }
        for dict in self.state.dicts() {
            let place = dict.place;
            if here(place.off, place.len) == 0 {
                continue;
            }
            found.count_by_fold(here(place.off, place.len));
            let added = found.by_fold.add_dict(dict, self.file, self.shared.salt);
            found.unless_damaged(added)?;
        }
        Ok(())
    }

    /// Adds the record that seems to begin at `off`, if it is live. Returns its length if it is
    /// live or whole, otherwise 0.
    fn record_at(&self, unit: u64, off: u64, bytes: &[u8], found: &mut Found) -> Result<usize> {
        // This runs at every byte of dead records, so the check that excludes the most comes first.
        let page_log2 = self.state.page_size().trailing_zeros() as u8;
        if !Record::may_begin(bytes, page_log2) {
            return Ok(0);
        }
        let Some((record, _)) = Record::parse(bytes) else {
            return Ok(0);
        };
        // Nearly all bytes that look like a header are not one, and most of those have a number
        // that no commit has had.
        if record.version > self.state.tip().commit {
            return Ok(0);
        }
        let lives = match record.kind {
            Kind::Frame => self.frame_at(unit, off, record, bytes, found)?,
            Kind::Node => self.node_at(unit, off, record, found)?,
            Kind::Space => self.space_at(unit, off, record, found)?,
            _ => 0,
        };
        let whole = || Record::open(bytes, self.shared.salt, off).is_some();
        Ok(match lives {
            0 if whole() => record.total_len() as usize,
            len => len,
        })
    }

    fn frame_at(
        &self,
        unit: u64,
        off: u64,
        record: Record,
        bytes: &[u8],
        found: &mut Found,
    ) -> Result<usize> {
        let run = 1u32 << record.run_log2;
        let last = record.number.checked_add(run - 1);
        if record.number == 0 || last.is_none_or(|p| u64::from(p) > self.state.pages() + 64) {
            return Ok(0);
        }
        let mut pages = Vec::new();
        for (page, slot) in (record.number..).zip(0..).take(run as usize) {
            let entry = self.shared.lookup(self.file, self.state, page);
            let Some(entry) = found.unless_damaged(entry)? else {
                return Ok(0);
            };
            if !entry.is_none() && entry.off == off && entry.slot == slot {
                pages.push((page, entry));
            }
        }
        let Some((page, entry)) = pages.first().copied() else {
            return Ok(0);
        };
        let share = 1 << entry.run_log2;
        let counted = counted_in(unit, off, u64::from(entry.len), share, pages.len() as u64);
        found.counted += counted;
        let len = entry.len as usize;
        if off + len as u64 <= unit * UNIT_LEN {
            return Ok(len);
        }
        let mut longer = Vec::new();
        let stored = match bytes.get(..len) {
            Some(stored) => stored,
            None => {
                longer.resize(len, 0);
                let n = self.file.read_at(&mut longer, off)?;
                longer.get(..n).unwrap_or_default()
            }
        };
        let opened = Record::open(stored, self.shared.salt, off).filter(|(r, _, _)| {
            r.version == entry.version
                && r.total_len() == entry.len
                && r.run_log2 == entry.run_log2
                && r.codec == entry.codec
                && r.model == entry.model
        });
        if let Some((record, _, payload)) = opened {
            let frame = Frame {
                record,
                payload: payload.to_vec(),
                pages,
            };
            found.taken += if frame.is_loose() {
                counted
            } else {
                counted_in(unit, off, u64::from(entry.len), 1, 1)
            };
            found.frames.insert(off, frame);
        } else {
            found.damage.push(Damage {
                what: "frame".to_owned(),
                offset: off,
                page: Some(page),
                problem: "checksum mismatch".to_owned(),
            });
        }
        Ok(len)
    }

    fn space_at(&self, unit: u64, off: u64, record: Record, found: &mut Found) -> Result<usize> {
        let (level, number) = (u32::from(record.page_log2), record.number);
        let src = self.shared.table_source(self.file);
        let part = src.part(&self.state.section().space, level, number);
        let place = match found.unless_damaged(part)? {
            Some(part) if part.place.off == off => part.place,
            _ => return Ok(0),
        };
        let here = counted_in(unit, off, u64::from(place.len), 1, 1);
        if here > 0 {
            let chunk = first_chunk(level, number);
            // A chunk that cannot be read cannot be written again, so its damage is reported.
            if level == 0
                && let Err(Error::Corrupt(damage)) = src.chunk(place, number)
            {
                found.damage.push(damage);
            }
            found.by_fold.chunks.insert(chunk);
        }
        found.count_by_fold(here);
        Ok(place.len as usize)
    }

    fn node_at(&self, unit: u64, off: u64, record: Record, found: &mut Found) -> Result<usize> {
        let (level, first) = (u32::from(record.page_log2), u64::from(record.number));
        let src = self.shared.source(self.file);
        let node = tree::find_node(src, self.state.root(), level, first);
        // The damage can be on the path to the node.
        let (place, leaf) = match found.unless_damaged(node)?.flatten() {
            Some((place, leaf)) if place.off == off => (place, leaf),
            _ => return Ok(0),
        };
        let here = counted_in(unit, off, u64::from(place.len), 1, 1);
        if here > 0 {
            found.by_fold.leaves.insert(leaf);
        }
        found.count_by_fold(here);
        Ok(place.len as usize)
    }
}
