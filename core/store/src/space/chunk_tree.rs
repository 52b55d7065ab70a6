//! The stored space table: a tree of chunks, so that a commit writes only those that changed
//! (docs/decisions/large-files.md).
//!
//! A *chunk* has the live bytes of 1024 units. A *part* has the place of a chunk and its sums. 256
//! parts make an *index*, which a part of the next level names. The root trailer lists at most 256
//! parts of the highest level. Writing chunks and indexes changes the live bytes of other units.
//! These *moved* bytes are in the root trailer: in the chunks, each write would cause the next.

use super::CHUNK_RAW;
use crate::codec::{self, CodecId};
use crate::error::{Damage, Error, Result};
use crate::format::entry::NodeRef;
use crate::format::record::{Kind, Record};
use crate::format::space_table::{CHUNK_UNITS, FANOUT, PART_LEN, Part, Table, chunks_of, span};
use crate::options::CodecChoice;
use densite_disk::sync::Mutex;
use densite_disk::{Fields, File};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Bytes of a decoded index.
const INDEX_RAW: usize = FANOUT * PART_LEN;

/// Decoded indexes, by place and version.
#[derive(Default)]
pub(crate) struct Indexes(Mutex<Known>);

/// Indexes by place and version.
type Known = HashMap<(u64, u64), Arc<[Part]>>;

/// Indexes kept in memory, 8 KiB each.
const MOST_INDEXES: usize = 128;

impl Indexes {
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// The source to load chunks and indexes.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a dyn File,
    pub(crate) salt: u64,
    pub(crate) indexes: &'a Indexes,
}

impl Source<'_> {
    /// The decoded payload of the record at `place`.
    fn raw(&self, place: NodeRef, level: u32, number: u32) -> Result<Vec<u8>> {
        let damage = |problem: &str| {
            let what = match level {
                0 => format!("space chunk {number}"),
                _ => format!("space index {number}"),
            };
            Error::Corrupt(Damage {
                what,
                offset: place.off,
                page: None,
                problem: problem.to_owned(),
            })
        };
        let mut bytes = vec![0; place.len as usize];
        let n = self.file.read_at(&mut bytes, place.off)?;
        let record = bytes
            .get(..n)
            .and_then(|b| Record::open(b, self.salt, place.off));
        let (record, _, payload) = record.ok_or_else(|| damage("checksum mismatch"))?;
        if record.kind != Kind::Space
            || record.number != number
            || u32::from(record.page_log2) != level
        {
            return Err(damage("another record is there"));
        }
        let mut raw = vec![0; if level == 0 { CHUNK_RAW } else { INDEX_RAW }];
        codec::decode(CodecId(record.codec), payload, None, &mut raw).map_err(|e| damage(&e))?;
        Ok(raw)
    }

    /// The parts of an index; empty for a hole.
    fn index(&self, place: NodeRef, level: u32, number: u32) -> Result<Arc<[Part]>> {
        if place.is_none() {
            return Ok(Arc::new([]));
        }
        let key = (place.off, place.version);
        if let Some(known) = self.indexes.0.lock().get(&key) {
            return Ok(Arc::clone(known));
        }
        let raw = self.raw(place, level, number)?;
        let parts: Arc<[Part]> = decode_index(&raw)
            .ok_or_else(|| {
                Error::Corrupt(Damage {
                    what: format!("space index {number}"),
                    offset: place.off,
                    page: None,
                    problem: "a part is out of range".to_owned(),
                })
            })?
            .into();
        let mut known = self.indexes.0.lock();
        if known.len() >= MOST_INDEXES {
            known.clear();
        }
        known.insert(key, Arc::clone(&parts));
        Ok(parts)
    }

    /// The live bytes of a chunk's units, as stored.
    pub(crate) fn chunk(&self, place: NodeRef, number: u32) -> Result<Vec<u32>> {
        if place.is_none() {
            return Ok(vec![0; CHUNK_UNITS]);
        }
        let raw = self.raw(place, 0, number)?;
        Ok(decode_chunk(&raw).unwrap_or_default())
    }

    /// The part of `level` and `number`; the default part if the table has none.
    pub(crate) fn part(&self, table: &Table, level: u32, number: u32) -> Result<Part> {
        let mut at = table.level;
        let Some(up) = at.checked_sub(level) else {
            return Ok(Part::default());
        };
        let mut here = number / span(up);
        let mut part = table.parts.get(here as usize).copied().unwrap_or_default();
        while at > level {
            let parts = self.index(part.place, at, here)?;
            at -= 1;
            here = number / span(at - level);
            part = parts
                .get(here as usize % FANOUT)
                .copied()
                .unwrap_or_default();
        }
        Ok(part)
    }

    /// Calls `f` with the part of every chunk and index that has a place: (level, number, part).
    pub(crate) fn each(
        &self,
        table: &Table,
        f: &mut dyn FnMut(u32, u32, &Part) -> Result<()>,
    ) -> Result<()> {
        self.each_of(table.level, 0, &table.parts, f)
    }

    fn each_of(
        &self,
        level: u32,
        first: u32,
        parts: &[Part],
        f: &mut dyn FnMut(u32, u32, &Part) -> Result<()>,
    ) -> Result<()> {
        for (number, part) in (first..).zip(parts).filter(|(_, p)| !p.place.is_none()) {
            f(level, number, part)?;
            if level > 0 {
                let below = self.index(part.place, level, number)?;
                self.each_of(level - 1, number * FANOUT as u32, &below, f)?;
            }
        }
        Ok(())
    }

    /// The chunks with the highest `score`, the best ones first, at most `most` of them, except
    /// those that `skip` excludes. Reads at most `looks` indexes: those with the best mean first,
    /// and of equal ones those of the lower level. So the search always goes from an index to one
    /// of its parts that is no worse. As many looks as there are levels find a chunk that is no
    /// worse than the mean of the whole table, unless it is skipped.
    pub(crate) fn best(
        &self,
        table: &Table,
        score: &dyn Fn(&Part, u32) -> u64,
        skip: &dyn Fn(u32) -> bool,
        most: usize,
        looks: usize,
    ) -> Result<Vec<u32>> {
        let mut found = Vec::new();
        let mut heap = std::collections::BinaryHeap::new();
        let push =
            |heap: &mut std::collections::BinaryHeap<_>, level: u32, first: u32, parts: &[Part]| {
                let chunks = span(level);
                for (number, part) in (first..).zip(parts) {
                    let mean = score(part, chunks) / u64::from(chunks);
                    if mean > 0 && (level > 0 || !skip(number)) {
                        heap.push((
                            mean,
                            Reverse(level),
                            Reverse(number),
                            part.place.off,
                            part.place.version,
                            part.place.len,
                        ));
                    }
                }
            };
        push(&mut heap, table.level, 0, &table.parts);
        let mut looked = 0;
        while let Some((_, Reverse(level), Reverse(number), off, version, len)) = heap.pop() {
            if level == 0 {
                found.push(number);
                if found.len() >= most {
                    break;
                }
                continue;
            }
            if looked >= looks {
                continue;
            }
            looked += 1;
            let parts = self.index(NodeRef { off, version, len }, level, number)?;
            push(&mut heap, level - 1, number * FANOUT as u32, &parts);
        }
        Ok(found)
    }
}

/// Receives records that an update appends, and those that it replaces.
pub(crate) trait Sink {
    /// Appends a record and returns its place.
    fn append(&mut self, record: Record, payload: &[u8]) -> Result<NodeRef>;
    /// A record that the table no longer names.
    fn drop_record(&mut self, place: NodeRef);
}

/// The record of a chunk or an index, ready to be appended.
pub(crate) fn encode(raw: &[u8], level: u32, number: u32, version: u64) -> (Record, Vec<u8>) {
    let mut payload = Vec::new();
    let coded = codec::encode(raw, 1, None, CodecChoice::Zstd, &mut payload);
    let record = Record {
        codec: coded.codec.0,
        page_log2: level as u8,
        ..Record::plain(Kind::Space, number, version)
    };
    (record, payload)
}

/// The table for so many units, with these parts of chunks in place of its own. Writes the indexes
/// above them again, and drops everything after the last chunk.
///
/// # Errors
/// Those of loading and appending; the old table is unchanged.
pub(crate) fn update(
    src: Source<'_>,
    old: &Table,
    units: u64,
    new: &BTreeMap<u32, Part>,
    version: u64,
    sink: &mut dyn Sink,
) -> Result<Table> {
    let chunks = chunks_of(units);
    let mut update = Update {
        src,
        new,
        touched: new.keys().copied().filter(|c| *c < chunks).collect(),
        chunks,
        version,
        unsaved: BTreeMap::new(),
        sink,
    };
    let (mut level, mut parts) = (old.level, old.parts.clone());
    if chunks < old.chunks() && chunks > 0 {
        update.touched.insert(chunks - 1);
    }
    while chunks as usize > FANOUT * span(level) as usize {
        // The list becomes the first index of another level.
        update.touched.insert(0);
        level += 1;
        update.unsaved.insert(level, std::mem::take(&mut parts));
        parts = vec![Part::default()];
    }
    update.list(level, 0, &mut parts)?;
    parts.truncate(chunks.div_ceil(span(level)) as usize);
    Ok(Table {
        units,
        level,
        parts,
        moved: Vec::new(),
    })
}

struct Update<'a> {
    src: Source<'a>,
    new: &'a BTreeMap<u32, Part>,
    /// Chunks whose indexes are written again.
    touched: BTreeSet<u32>,
    chunks: u32,
    version: u64,
    /// By level, parts of its first index that the root trailer listed until now.
    unsaved: BTreeMap<u32, Vec<Part>>,
    sink: &'a mut dyn Sink,
}

impl Update<'_> {
    /// Updates a list of parts of `level`, from number `first` on.
    fn list(&mut self, level: u32, first: u32, parts: &mut Vec<Part>) -> Result<()> {
        let each = span(level);
        let kept = (self.chunks.div_ceil(each)).saturating_sub(first) as usize;
        for (number, part) in (first..).zip(parts.iter()).skip(kept) {
            self.drop_all(level, number, *part)?;
        }
        parts.truncate(kept);
        let last = u64::from(first) + FANOUT as u64;
        let numbers: BTreeSet<u32> = self
            .touched
            .range(first.saturating_mul(each)..)
            .map(|chunk| chunk / each)
            .take_while(|number| u64::from(*number) < last)
            .collect();
        for number in numbers {
            let at = (number - first) as usize;
            if parts.len() <= at {
                parts.resize(at + 1, Part::default());
            }
            let old = parts.get(at).copied().unwrap_or_default();
            let now = if level == 0 {
                match self.new.get(&number) {
                    Some(new) => {
                        self.forget(old.place);
                        *new
                    }
                    None => old,
                }
            } else {
                let unsaved = (number == 0).then(|| self.unsaved.remove(&level)).flatten();
                let mut below = match unsaved {
                    Some(parts) => parts,
                    None => self.src.index(old.place, level, number)?.to_vec(),
                };
                self.list(level - 1, number * FANOUT as u32, &mut below)?;
                self.forget(old.place);
                self.index(level, number, &below)?
            };
            if let Some(part) = parts.get_mut(at) {
                *part = now;
            }
        }
        Ok(())
    }

    fn forget(&mut self, place: NodeRef) {
        if !place.is_none() {
            self.sink.drop_record(place);
        }
    }

    /// Writes an index.
    fn index(&mut self, level: u32, number: u32, parts: &[Part]) -> Result<Part> {
        let sum = Part {
            place: NodeRef::default(),
            free: (parts.iter()).fold(0, |sum, p| sum.saturating_add(p.free)),
            live: (parts.iter()).fold(0, |sum, p| sum.saturating_add(p.live)),
        };
        if parts.iter().all(|p| *p == Part::default()) {
            return Ok(sum);
        }
        let (record, payload) = encode(&encode_index(parts), level, number, self.version);
        Ok(Part {
            place: self.sink.append(record, &payload)?,
            ..sum
        })
    }

    fn drop_all(&mut self, level: u32, number: u32, part: Part) -> Result<()> {
        if part.place.is_none() {
            return Ok(());
        }
        if level > 0 {
            let below = self.src.index(part.place, level, number)?;
            for (number, part) in (number * FANOUT as u32..).zip(below.iter()) {
                self.drop_all(level - 1, number, *part)?;
            }
        }
        self.forget(part.place);
        Ok(())
    }
}

pub(crate) fn encode_index(parts: &[Part]) -> Vec<u8> {
    let mut out = Vec::with_capacity(INDEX_RAW);
    parts.iter().for_each(|part| part.put(&mut out));
    out.resize(INDEX_RAW, 0);
    out
}

/// The parts of an index.
pub(crate) fn decode_index(raw: &[u8]) -> Option<Vec<Part>> {
    if raw.len() != INDEX_RAW {
        return None;
    }
    let mut f = Fields::new(raw);
    (0..FANOUT).map(|_| Part::take(&mut f)).collect()
}

/// The units of one stored chunk.
pub(crate) fn decode_chunk(raw: &[u8]) -> Option<Vec<u32>> {
    if raw.len() != CHUNK_RAW {
        return None;
    }
    let mut f = Fields::new(raw);
    (0..CHUNK_UNITS).map(|_| f.u32()).collect()
}
