//! What lies where in a database file: its bytes by use, in parts of equal length.
//!
//! A page of a plain file belongs to one object. In a compressed file, frames are assigned to the
//! objects of their pages. The live bytes of a unit that no frame accounts for are the store's own:
//! page map, models, dictionaries, trailers. So the bytes of all uses add up to the file, whatever
//! its entries claim.

use crate::trees::Owners;
use std::collections::BTreeMap;

/// The largest number of parts.
const PARTS: u64 = 1200;

/// What bytes of a file are used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SpaceUse {
    /// Pages of an object, by its index in [`Objects::all`](crate::Objects::all).
    Object(usize),
    /// Page map, models, dictionaries and headers of a compressed file.
    Store,
    /// Replaced content among live content, in a compressed file.
    Dead,
    /// Parts of a compressed file that hold nothing. Free pages of a plain file are an object.
    Free,
}

/// The uses of a file's bytes, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layout {
    /// The uses in each part with their bytes, most bytes first. The bytes of a part add up to its
    /// length.
    pub parts: Vec<Vec<(SpaceUse, u64)>>,
    /// Length of a part in bytes. The last part can be shorter.
    pub part_bytes: u64,
}

impl Layout {
    fn new(parts: impl Iterator<Item = BTreeMap<SpaceUse, u64>>, part_bytes: u64) -> Layout {
        let ordered = |part: BTreeMap<SpaceUse, u64>| {
            let mut uses: Vec<(SpaceUse, u64)> = part.into_iter().filter(|(_, n)| *n > 0).collect();
            uses.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
            uses
        };
        Layout {
            parts: parts.map(ordered).collect(),
            part_bytes,
        }
    }
}

/// The layout of a plain file. `place` maps an owner to its index in the list of objects; 0 owns
/// the pages without an owner.
pub(crate) fn of_pages(
    owners: &Owners,
    count: u32,
    page_bytes: u64,
    place: impl Fn(u32) -> usize,
) -> Layout {
    let all = u64::from(count);
    let part_pages = all.div_ceil(PARTS).max(1);
    let mut parts = vec![BTreeMap::new(); index(all.div_ceil(part_pages))];
    for (page, owner) in owners.owned() {
        if let Some(part) = parts.get_mut(index(u64::from(page - 1) / part_pages)) {
            *part.entry(SpaceUse::Object(place(owner))).or_default() += page_bytes;
        }
    }
    for (part, i) in parts.iter_mut().zip(0u64..) {
        let bytes = part_pages.min(all - i * part_pages) * page_bytes;
        let owned: u64 = part.values().sum();
        *part.entry(SpaceUse::Object(place(0))).or_default() += bytes.saturating_sub(owned);
    }
    Layout::new(parts.into_iter(), part_pages * page_bytes)
}

/// The layout of a compressed file, as its frames are listed.
pub(crate) struct StoredLayout {
    /// Bytes of frames in each part, by owner.
    parts: Vec<BTreeMap<u32, u64>>,
    part_units: u64,
    /// Live bytes of each unit.
    units: Vec<u32>,
    unit_bytes: u64,
    file_bytes: u64,
}

impl StoredLayout {
    pub(crate) fn new(units: Vec<u32>, unit_bytes: u64, file_bytes: u64) -> StoredLayout {
        let unit_bytes = unit_bytes.max(1);
        let all = file_bytes.div_ceil(unit_bytes);
        let part_units = all.div_ceil(PARTS).max(1);
        StoredLayout {
            parts: vec![BTreeMap::new(); index(all.div_ceil(part_units))],
            part_units,
            units,
            unit_bytes,
            file_bytes,
        }
    }

    fn part_bytes(&self) -> u64 {
        self.part_units * self.unit_bytes
    }

    /// Adds bytes of a frame.
    pub(crate) fn add(&mut self, owner: u32, offset: u64, bytes: u64) {
        let each = self.part_bytes();
        let (mut at, end) = (offset, offset.saturating_add(bytes));
        while at < end {
            let number = at / each;
            let Some(part) = self.parts.get_mut(index(number)) else {
                return;
            };
            let until = end.min((number + 1) * each);
            *part.entry(owner).or_default() += until - at;
            at = until;
        }
    }

    /// The layout. `place` is as in [`of_pages`].
    pub(crate) fn layout(&self, place: impl Fn(u32) -> usize) -> Layout {
        let each = self.part_bytes();
        let parts = self.parts.iter().zip(0u64..).map(|(frames, i)| {
            let part_bytes = each.min(self.file_bytes.saturating_sub(i * each));
            let (mut live, mut free) = (0, 0);
            for unit in i * self.part_units..(i + 1) * self.part_units {
                let start = unit * self.unit_bytes;
                let bytes = self.unit_bytes.min(self.file_bytes.saturating_sub(start));
                match self.units.get(index(unit)).copied().unwrap_or(0) {
                    0 => free += bytes,
                    n => live += u64::from(n).min(bytes),
                }
            }
            let mut part = BTreeMap::new();
            let mut left = part_bytes;
            for (owner, bytes) in frames {
                let bytes = (*bytes).min(left);
                left -= bytes;
                *part.entry(SpaceUse::Object(place(*owner))).or_default() += bytes;
            }
            let framed = part_bytes - left;
            for (known, bytes) in [
                (SpaceUse::Store, live.saturating_sub(framed)),
                (SpaceUse::Free, free),
                (SpaceUse::Dead, u64::MAX),
            ] {
                let bytes = bytes.min(left);
                left -= bytes;
                part.insert(known, bytes);
            }
            part
        });
        Layout::new(parts, each)
    }
}

fn index(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_plain_file_add_up() {
        let mut owners = Owners::new(5);
        for (page, owner) in [(1, 1), (2, 2), (4, 2)] {
            assert!(owners.give(page, owner));
        }
        let layout = of_pages(&owners, 5, 512, |owner| 10 + owner as usize);
        assert_eq!(layout.part_bytes, 512);
        let uses: Vec<SpaceUse> = layout.parts.iter().map(|part| part[0].0).collect();
        assert_eq!(uses, [11, 12, 10, 12, 10].map(SpaceUse::Object));
    }

    #[test]
    fn bytes_of_a_compressed_file_add_up_whatever_its_entries_claim() {
        let mut stored = StoredLayout::new(vec![100, 0, 60], 100, 250);
        stored.add(1, 10, 70);
        // Over the end of a part, and over that of the file.
        stored.add(2, 90, 10_000_000);
        stored.add(3, u64::MAX - 3, u64::MAX);
        let layout = stored.layout(|owner| owner as usize);
        assert_eq!(layout.parts.len(), 3);
        let sums: Vec<u64> = layout
            .parts
            .iter()
            .map(|part| part.iter().map(|(_, n)| n).sum())
            .collect();
        assert_eq!(sums, [100, 100, 50]);
        assert_eq!(
            layout.parts[0],
            [
                (SpaceUse::Object(1), 70),
                (SpaceUse::Store, 20),
                (SpaceUse::Object(2), 10)
            ]
        );
        let mut stored = StoredLayout::new(vec![40, 0], 100, 300);
        stored.add(1, 0, 30);
        let layout = stored.layout(|owner| owner as usize);
        let expected = [
            (SpaceUse::Dead, 60),
            (SpaceUse::Object(1), 30),
            (SpaceUse::Store, 10),
        ];
        assert_eq!(layout.parts[0], expected);
        assert_eq!(
            layout.parts[1..],
            [[(SpaceUse::Free, 100)], [(SpaceUse::Free, 100)]]
        );
    }
}
