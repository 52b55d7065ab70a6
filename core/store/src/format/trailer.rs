//! Trailers: the records that end commits.
//!
//! ```text
//! offset  size  field
//!      0     8  commit       this commit's number; larger than any before
//!      8     8  epoch        random, new for each writer and after each failure: records of an
//!                            earlier tail never continue this chain (rule S8)
//!     16     4  flags        1: root trailer, has the root section
//!     20     4  page_size    bytes of a page; 0 while nothing was ever written
//!     24     8  logical_len  bytes of the database
//!     32     8  next_off     where the next record goes
//!     40     8  room_end     end of the extent it lies in; all ones: the open end of the file
//!     48     8  tail_off     where the open end begins: after everything that is in use
//!     56    40  prev         the trailer before (fields of a tip, without checksum)
//!     96   100  head         the first 100 bytes of page 1
//!    196    20  learned      what the models know of the database: see [`Learned`]
//!    216     4  pieces       count of 16-byte pieces (start, end): where this commit wrote
//!    220     4  dicts        count of 34-byte dictionary records (those new in this commit; in a
//!                            root trailer all)
//!    224     4  deltas       count of 32-byte deltas: page number (0: reserved) and entry; none in
//!                            a root trailer
//!    228     .  the root section, pieces, dictionaries, deltas
//!      .    16  hash         chain hash: over the previous hash, the checksums of all records of
//!                            this commit, and the bytes above
//! ```
//!
//! Root section: map root (20 bytes: offset, version, length), level (4), next dictionary id (4),
//! units accounted (8), count of parts of the space table (4), their level (4), count of units that
//! storing it changed (4). For each part then follow its place (20), its number of free units (4)
//! and its live bytes (8). For each such unit follow its number (4) and the change, zigzag coded
//! (4).
//!
//! A commit is valid if and only if its trailer's record is valid, `prev` names the trailer that
//! the chain has reached, and the hash follows from the records between the two. The trailers from
//! this one back along `prev` to the first root trailer have everything that is needed to read.

use super::entry::{Entry, NodeRef, Root};
use super::space_table::{FANOUT, PART_LEN, Part, Table};
use super::tip::Tip;
use super::{DATA_OFF, MAX_COMMIT, MAX_DICT, MAX_OFF, MAX_PAGE, UNIT_LEN};
use crate::bytes::Put;
use densite_disk::Fields;

/// Flag: there is a root section.
const ROOT: u32 = 1;
/// The value of `room_end` for the open end of the file.
pub(crate) const OPEN_END: u64 = u64::MAX;
/// The first bytes of page 1 that are kept in the trailer.
pub(crate) const HEAD_LEN: usize = 100;

/// A dictionary or model: where it is, and how many pages use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DictInfo {
    pub(crate) id: u32,
    pub(crate) family: u16,
    pub(crate) place: NodeRef,
    /// Pages whose newest frame needs it. Valid only in a root trailer.
    pub(crate) uses: u64,
}

/// What the models and dictionaries know of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Learned {
    /// Pages of the database when pages were last drawn evenly from it; 0: never.
    pub(crate) pages: u32,
    /// The first dictionary that was trained on those. If a family has one from here on, its older
    /// ones are superseded.
    pub(crate) first: u32,
    /// The first page that may still have a frame of a superseded one; 0: there is none.
    pub(crate) next: u32,
    /// Pages of the database when this was last begun.
    pub(crate) tried: u32,
    /// About how many pages have raw frames because they were hot (`heat`). Those that a process
    /// does not know of were left by another one.
    pub(crate) hot: u32,
}

impl Learned {
    fn put(self, out: &mut Vec<u8>) {
        out.put_u32(self.pages);
        out.put_u32(self.first);
        out.put_u32(self.next);
        out.put_u32(self.tried);
        out.put_u32(self.hot);
    }

    fn take(f: &mut Fields<'_>) -> Option<Learned> {
        Some(Learned {
            pages: f.u32()?,
            first: f.u32()?,
            next: f.u32()?,
            tried: f.u32()?,
            hot: f.u32()?,
        })
    }
}

/// The root section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RootSection {
    pub(crate) map: Root,
    pub(crate) next_dict: u32,
    pub(crate) space: Table,
}

impl RootSection {
    /// Counts of its parts and moved units.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.space.parts.len(), self.space.moved.len())
    }
}

/// A decoded trailer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) commit: u64,
    pub(crate) epoch: u64,
    pub(crate) page_size: u32,
    pub(crate) logical_len: u64,
    pub(crate) next_off: u64,
    pub(crate) room_end: u64,
    pub(crate) tail_off: u64,
    pub(crate) prev: Tip,
    pub(crate) head: [u8; HEAD_LEN],
    pub(crate) learned: Learned,
    pub(crate) root: Option<RootSection>,
    pub(crate) pieces: Vec<(u64, u64)>,
    pub(crate) dicts: Vec<DictInfo>,
    pub(crate) deltas: Vec<(u32, Entry)>,
}

/// The length of the payload with these counts, in bytes. It is known before the contents, because
/// the trailer is part of its own `pieces` and its place must be chosen first.
pub(crate) fn payload_len(
    root: Option<(usize, usize)>,
    pieces: usize,
    dicts: usize,
    deltas: usize,
) -> usize {
    let root = root.map_or(0, |(parts, moved)| 48 + PART_LEN * parts + 8 * moved);
    228 + root + 16 * pieces + 34 * dicts + 32 * deltas + 16
}

impl Trailer {
    /// The payload without the hash.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512 + 32 * self.deltas.len());
        out.put_u64(self.commit);
        out.put_u64(self.epoch);
        out.put_u32(if self.root.is_some() { ROOT } else { 0 });
        out.put_u32(self.page_size);
        out.put_u64(self.logical_len);
        out.put_u64(self.next_off);
        out.put_u64(self.room_end);
        out.put_u64(self.tail_off);
        self.prev.put(&mut out);
        out.extend_from_slice(&self.head);
        self.learned.put(&mut out);
        out.put_u32(self.pieces.len() as u32);
        out.put_u32(self.dicts.len() as u32);
        out.put_u32(self.deltas.len() as u32);
        if let Some(r) = &self.root {
            r.map.node.put(&mut out);
            out.put_u32(r.map.level);
            out.put_u32(r.next_dict);
            out.put_u64(r.space.units);
            out.put_u32(r.space.parts.len() as u32);
            out.put_u32(r.space.level);
            out.put_u32(r.space.moved.len() as u32);
            r.space.parts.iter().for_each(|part| part.put(&mut out));
            for (unit, by) in &r.space.moved {
                out.put_u32(*unit);
                out.put_u32((by << 1 ^ by >> 31) as u32);
            }
        }
        for (a, b) in &self.pieces {
            out.put_u64(*a);
            out.put_u64(*b);
        }
        for d in &self.dicts {
            out.put_u32(d.id);
            d.place.put(&mut out);
            out.put_u16(d.family);
            out.put_u64(d.uses);
        }
        for (page, e) in &self.deltas {
            out.put_u32(*page);
            e.put(&mut out);
        }
        out
    }

    /// The trailer and its hash. `None` if a field is out of range, or bytes are missing or left
    /// over.
    pub(crate) fn decode(payload: &[u8]) -> Option<(Trailer, [u8; 16])> {
        let mut f = Fields::new(payload);
        let (commit, epoch, flags, page_size) = (f.u64()?, f.u64()?, f.u32()?, f.u32()?);
        let (logical_len, next_off, room_end, tail_off) = (f.u64()?, f.u64()?, f.u64()?, f.u64()?);
        let prev = Tip::take(&mut f)?;
        let head = f.array()?;
        let learned = Learned::take(&mut f)?;
        let (n_pieces, n_dicts, n_deltas) =
            (f.u32()? as usize, f.u32()? as usize, f.u32()? as usize);
        if page_size != 0 && !(page_size.is_power_of_two() && (512..=65536).contains(&page_size)) {
            return None;
        }
        let root = if flags & ROOT != 0 {
            let map = Root {
                node: NodeRef::take(&mut f)?,
                level: f.u32()?,
            };
            let (next_dict, units, parts) = (f.u32()?, f.u64()?, f.u32()? as usize);
            let (level, moved) = (f.u32()?, f.u32()? as usize);
            if map.level > 3 || parts > FANOUT || f.rest().len() < moved.checked_mul(8)? {
                return None;
            }
            let parts = (0..parts)
                .map(|_| Part::take(&mut f))
                .collect::<Option<_>>()?;
            let unzigzag = |v: u32| (v >> 1) as i32 ^ -((v & 1) as i32);
            let moved = (0..moved)
                .map(|_| Some((f.u32()?, unzigzag(f.u32()?))))
                .collect::<Option<_>>()?;
            let space = Table {
                units,
                level,
                parts,
                moved,
            };
            if !space.plausible() {
                return None;
            }
            Some(RootSection {
                map,
                next_dict,
                space,
            })
        } else {
            None
        };
        // Counts are compared with the number of bytes before anything is allocated.
        let want = n_pieces
            .checked_mul(16)?
            .checked_add(n_dicts.checked_mul(34)?)?
            .checked_add(n_deltas.checked_mul(32)?)?;
        if f.rest().len() != want.checked_add(16)? {
            return None;
        }
        let pieces = (0..n_pieces)
            .map(|_| Some((f.u64()?, f.u64()?)))
            .collect::<Option<_>>()?;
        let dict = |f: &mut Fields<'_>| {
            let (id, place, family, uses) = (f.u32()?, NodeRef::take(f)?, f.u16()?, f.u64()?);
            Some(DictInfo {
                id,
                family,
                place,
                uses,
            })
        };
        let dicts = (0..n_dicts).map(|_| dict(&mut f)).collect::<Option<_>>()?;
        let deltas = (0..n_deltas)
            .map(|_| Some((f.u32()?, Entry::take(&mut f)?)))
            .collect::<Option<_>>()?;
        let hash = f.array()?;
        let t = Trailer {
            commit,
            epoch,
            page_size,
            logical_len,
            next_off,
            room_end,
            tail_off,
            prev,
            head,
            learned,
            root,
            pieces,
            dicts,
            deltas,
        };
        t.plausible().then_some((t, hash))
    }

    /// Whether the fields are in range; a writer never makes others. Computing with lengths and
    /// places that pass cannot overflow.
    fn plausible(&self) -> bool {
        let place = |off: u64| (DATA_OFF..=MAX_OFF).contains(&off);
        let pieces = self
            .pieces
            .iter()
            .all(|(start, end)| place(*start) && place(*end) && start <= end);
        let dicts = self
            .dicts
            .iter()
            .all(|d| d.id < MAX_DICT && d.uses <= u64::from(u32::MAX));
        let root = (self.root.as_ref()).is_none_or(|r| {
            let end = r.space.units.max(self.tail_off.div_ceil(UNIT_LEN));
            let moved = r.space.moved.last();
            r.next_dict <= MAX_DICT && moved.is_none_or(|(unit, _)| u64::from(*unit) < end)
        });
        self.commit < MAX_COMMIT
            && self.logical_len <= u64::from(self.page_size) * u64::from(MAX_PAGE)
            && place(self.next_off)
            && place(self.tail_off)
            && (self.room_end == OPEN_END
                || (self.next_off <= self.room_end && place(self.room_end)))
            && self.learned.first <= MAX_DICT
            && pieces
            && dicts
            && root
            && self.deltas.iter().all(|(page, _)| *page != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_len_is_the_length_of_the_encoded_payload() {
        let mut t = Trailer {
            commit: 1,
            epoch: 2,
            page_size: 4096,
            logical_len: 8192,
            next_off: 1 << 20,
            room_end: OPEN_END,
            tail_off: 1 << 20,
            prev: Tip::default(),
            head: [1; HEAD_LEN],
            learned: Learned::default(),
            root: None,
            pieces: vec![(20_001, 20_002), (30_003, 30_004)],
            dicts: vec![DictInfo {
                id: 1,
                family: 13,
                place: NodeRef {
                    off: 50,
                    version: 1,
                    len: 90,
                },
                uses: 4,
            }],
            deltas: vec![
                (
                    1,
                    Entry {
                        off: 99,
                        version: 1,
                        len: 100,
                        ..Entry::NONE
                    }
                );
                3
            ],
        };
        for root in [
            None,
            Some(RootSection {
                space: Table {
                    parts: vec![Part::default(); 2],
                    moved: vec![(3, -5), (7, 9)],
                    ..Table::default()
                },
                ..RootSection::default()
            }),
        ] {
            t.root = root;
            let mut b = t.encode();
            b.extend_from_slice(&[7; 16]);
            assert_eq!(
                b.len(),
                payload_len(t.root.as_ref().map(RootSection::counts), 2, 1, 3)
            );
            assert_eq!(Trailer::decode(&b), Some((t.clone(), [7; 16])));
            for cut in 0..b.len() {
                assert_eq!(Trailer::decode(&b[..cut]), None);
            }
        }
    }
}
