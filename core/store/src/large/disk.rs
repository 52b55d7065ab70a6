//! A file of many terabytes that takes a few megabytes of memory. Its original contents are
//! computed when they are read, and only later writes are kept.
//!
//! From 2 GiB on it has areas of records of equal length: a frame for each page, the nodes of the
//! map, the chunks and indexes of the space table. Then follows a root trailer. Some slots of an
//! area can be without a record (see [`Pattern`]).

use crate::format::entry::{Entry, NodeRef, Root};
use crate::format::header::Header;
use crate::format::record::{Kind, RECORD_LEN, Record, raw_check};
use crate::format::slot::{SLOT_LEN, Slot};
use crate::format::space_table::{CHUNK_UNITS, Table};
use crate::format::space_table::{FANOUT, Part, chunks_of};
use crate::format::tip::Tip;
use crate::format::trailer::{HEAD_LEN, Learned, OPEN_END, RootSection, Trailer};
use crate::format::{DATA_OFF, FORMAT_VERSION, LOCK_UNIT, SLOT_COPY, SLOT_OFF, TIP_OFF, UNIT_LEN};
use crate::map::node::{INNER_FANOUT, LEAF_FANOUT, Node};
use crate::space::CHUNK_RAW;
use crate::space::chunk_tree::encode_index;
use densite_disk::{File, Result, SyncKind};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub(super) const PAGE: usize = 65536;
const SALT: u64 = 0x5A17;
/// The commit that wrote everything.
const COMMIT: u64 = 5;
const BASE: u64 = 2 << 30;
const BLOCK: u64 = 4096;

/// Which slots of an area have a record: the first `of` of each `each`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern {
    pub(super) of: u64,
    pub(super) each: u64,
}

impl Pattern {
    const ALL: Pattern = Pattern { of: 1, each: 1 };

    pub(super) fn has(self, slot: u64) -> bool {
        slot % self.each < self.of
    }

    /// The number of records in the first `slots`.
    fn before(self, slots: u64) -> u64 {
        slots / self.each * self.of + (slots % self.each).min(self.of)
    }

    /// The pattern for groups of `n` slots that have a record if one of their slots has.
    fn grouped(self, n: u64) -> Pattern {
        if self.each <= n || self.each - self.of < n {
            return Pattern::ALL;
        }
        assert!(
            self.each.is_multiple_of(n) && self.of <= n,
            "{self:?} by {n}"
        );
        Pattern {
            of: 1,
            each: self.each / n,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum What {
    Frames,
    Nodes(u32),
    Chunks,
    Indexes(u32),
}

#[derive(Debug, Clone, Copy)]
struct Area {
    what: What,
    start: u64,
    slots: u64,
    len: u64,
    pattern: Pattern,
}

impl Area {
    fn end(&self) -> u64 {
        self.start + self.slots * self.len
    }

    /// Bytes of its records before `off`.
    fn before(&self, off: u64) -> u64 {
        let off = off.clamp(self.start, self.end()) - self.start;
        let (slot, rest) = (off / self.len, off % self.len);
        let part = if slot < self.slots && self.pattern.has(slot) {
            rest
        } else {
            0
        };
        self.pattern.before(slot) * self.len + part
    }
}

#[derive(Default)]
pub(super) struct Counted {
    pub(super) read: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) reads: AtomicU64,
}

impl Counted {
    /// Bytes read and written, and calls that read, since the last call of this function.
    pub(super) fn take(&self) -> (u64, u64, u64) {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        (take(&self.read), take(&self.written), take(&self.reads))
    }
}

#[derive(Clone)]
pub(super) struct Vast(Arc<Inner>);

struct Inner {
    pages: u64,
    areas: Vec<Area>,
    trailer: (u64, Vec<u8>),
    preamble: Vec<u8>,
    written: Mutex<Written>,
    counted: Counted,
}

struct Written {
    len: u64,
    blocks: HashMap<u64, Box<[u8]>>,
}

fn payload_len(what: What) -> u64 {
    match what {
        What::Frames => PAGE as u64,
        What::Nodes(level) => Node::raw_len(level) as u64,
        What::Chunks => CHUNK_RAW as u64,
        What::Indexes(_) => 8192,
    }
}

/// The contents of a page.
pub(super) fn page_bytes(page: u64) -> Vec<u8> {
    page.to_le_bytes().repeat(PAGE / 8)
}

impl Vast {
    /// A database of so many pages, with frames according to `pattern`.
    pub(super) fn new(pages: u64, pattern: Pattern) -> Vast {
        let mut areas: Vec<Area> = Vec::new();
        let mut push = |what: What, slots: u64, pattern: Pattern| {
            let start = areas.last().map_or(BASE, Area::end);
            let len = payload_len(what) + RECORD_LEN as u64;
            areas.push(Area {
                what,
                start,
                slots,
                len,
                pattern,
            });
            start + slots * len
        };
        push(What::Frames, pages, pattern);
        let (mut level, mut span) = (0, LEAF_FANOUT as u64);
        let mut end;
        loop {
            end = push(
                What::Nodes(level),
                pages.div_ceil(span),
                pattern.grouped(span),
            );
            if span >= pages {
                break;
            }
            level += 1;
            span *= INNER_FANOUT as u64;
        }
        // The table accounts for itself: it grows until it is long enough.
        let mut chunks = 1;
        let indexes = |chunks: u64, level: u32| chunks.div_ceil((FANOUT as u64).pow(level));
        let table_level = |chunks: u64| {
            (0..3)
                .find(|l| indexes(chunks, *l) <= FANOUT as u64)
                .expect("a level")
        };
        loop {
            let own = chunks * (CHUNK_RAW + RECORD_LEN) as u64;
            let above = (1..=table_level(chunks))
                .map(|l| indexes(chunks, l))
                .sum::<u64>();
            // Room for the trailer, and less than a chunk in addition.
            let all = end + own + above * 8222 + (1 << 20);
            let needed = all.div_ceil(UNIT_LEN * CHUNK_UNITS as u64);
            if needed <= chunks {
                break;
            }
            chunks = needed;
        }
        push(What::Chunks, chunks, Pattern::ALL);
        let space_level = table_level(chunks);
        for level in 1..=space_level {
            push(What::Indexes(level), indexes(chunks, level), Pattern::ALL);
        }
        let off = areas.last().map_or(BASE, Area::end);
        let mut inner = Inner {
            pages,
            areas,
            trailer: (off, Vec::new()),
            preamble: Vec::new(),
            written: Mutex::new(Written {
                len: 0,
                blocks: HashMap::new(),
            }),
            counted: Counted::default(),
        };
        inner.end_with(off, (level, space_level), chunks);
        Vast(Arc::new(inner))
    }

    pub(super) fn counted(&self) -> &Counted {
        &self.0.counted
    }

    /// How many levels of indexes the accounting has.
    pub(super) fn levels(&self) -> usize {
        let indexes = |area: &&Area| matches!(area.what, What::Indexes(_));
        self.0.areas.iter().filter(indexes).count()
    }

    /// Bytes of memory for what was written.
    pub(super) fn kept(&self) -> u64 {
        self.0.written.lock().expect("not poisoned").blocks.len() as u64 * BLOCK
    }
}

impl Inner {
    /// Makes the trailer at `off` and the preamble.
    fn end_with(&mut self, off: u64, (level, space_level): (u32, u32), chunks: u64) {
        let parts = chunks.div_ceil((FANOUT as u64).pow(space_level));
        let mut head = [0; HEAD_LEN];
        head.copy_from_slice(&page_bytes(1)[..HEAD_LEN]);
        let mut trailer = Trailer {
            commit: COMMIT,
            epoch: 1,
            page_size: PAGE as u32,
            logical_len: self.pages * PAGE as u64,
            next_off: 0,
            room_end: OPEN_END,
            tail_off: 0,
            prev: Tip {
                commit: COMMIT - 1,
                ..Tip::default()
            },
            head,
            learned: Learned::default(),
            root: Some(RootSection {
                map: Root {
                    node: self.place(|w| matches!(w, What::Nodes(l) if *l == level), 0),
                    level,
                },
                next_dict: 1,
                space: Table {
                    units: 0,
                    level: space_level,
                    parts: (0..parts).map(|n| self.part(space_level, n)).collect(),
                    moved: Vec::new(),
                },
            }),
            pieces: vec![(BASE, BASE + 1)],
            dicts: Vec::new(),
            deltas: Vec::new(),
        };
        let len = (RECORD_LEN + trailer.encode().len() + 16) as u64;
        trailer.next_off = off + len;
        trailer.tail_off = off + len;
        let units = (off + len).div_ceil(UNIT_LEN);
        assert_eq!(u64::from(chunks_of(units)), chunks);
        trailer.root.as_mut().expect("just made").space.units = units;
        let mut payload = trailer.encode();
        payload.extend_from_slice(&[7; 16]);
        let mut record = Vec::new();
        Record::plain(Kind::Trailer, 0, COMMIT).put(&payload, SALT, off, &mut record);
        let tip = Tip {
            commit: COMMIT,
            off,
            len: len as u32,
            hash: [7; 16],
        };
        self.trailer = (off, record);
        self.written.get_mut().expect("not poisoned").len = off + len;
        let mut pre = vec![0; DATA_OFF as usize];
        let mut put = |off: u64, bytes: &[u8]| {
            pre[off as usize..off as usize + bytes.len()].copy_from_slice(bytes);
        };
        let header = Header {
            version: FORMAT_VERSION,
            salt: SALT,
        };
        put(0, &header.encode());
        for (block, seq) in [(0, 3), (1, 4)] {
            let slot = Slot {
                version: FORMAT_VERSION,
                seq,
                salt: SALT,
                tip,
                flags: 0,
            }
            .encode();
            assert_eq!(slot.len(), SLOT_LEN);
            put(SLOT_OFF[block], &slot);
            put(SLOT_OFF[block] + SLOT_COPY, &slot);
        }
        put(TIP_OFF, &tip.encode(SALT));
        self.preamble = pre;
    }

    fn area(&self, is: impl Fn(&What) -> bool) -> &Area {
        let found = self.areas.iter().find(|area| is(&area.what));
        found.expect("an area")
    }

    fn place(&self, is: impl Fn(&What) -> bool, slot: u64) -> NodeRef {
        let area = self.area(is);
        if slot >= area.slots || !area.pattern.has(slot) {
            return NodeRef::default();
        }
        NodeRef {
            off: area.start + slot * area.len,
            version: COMMIT,
            len: area.len as u32,
        }
    }

    /// Live bytes before `off`, as the stored table counts them.
    fn live_before(&self, off: u64) -> u64 {
        self.areas.iter().map(|area| area.before(off)).sum()
    }

    fn live(&self, unit: u64) -> u64 {
        self.live_before((unit + 1) * UNIT_LEN) - self.live_before(unit * UNIT_LEN)
    }

    fn part(&self, level: u32, number: u64) -> Part {
        let units = CHUNK_UNITS as u64 * (FANOUT as u64).pow(level);
        let (first, end) = (number * units, (number + 1) * units);
        let live = self.live_before(end * UNIT_LEN) - self.live_before(first * UNIT_LEN);
        let all = self.areas.last().map_or(0, Area::end).div_ceil(UNIT_LEN);
        let end = end.min(all);
        let free = if level == 0 && live + UNIT_LEN > (end.max(first) - first) * UNIT_LEN {
            0
        } else if live == 0 {
            end.saturating_sub(first)
        } else if level == 0 {
            (first..end).filter(|unit| self.live(*unit) == 0).count() as u64
        } else {
            // A hint: of adjacent dead frames, each but one empties a unit.
            let dead = (end.saturating_sub(first) * UNIT_LEN).saturating_sub(live) / UNIT_LEN;
            let Pattern { of, each } = self.area(|w| matches!(w, What::Frames)).pattern;
            let empty = end.saturating_sub(first) / each * (each - of).saturating_sub(1);
            dead.min(empty)
        };
        let is = |w: &What| match w {
            What::Chunks => level == 0,
            What::Indexes(l) => *l == level,
            _ => false,
        };
        let place = match number < self.area(is).slots {
            true => self.place(is, number),
            false => return Part::default(),
        };
        Part {
            place,
            free: free as u32,
            live,
        }
    }

    /// The record in a slot of an area.
    fn record(&self, area: &Area, slot: u64) -> Vec<u8> {
        let plain = |kind, number: u64| Record::plain(kind, number as u32, COMMIT);
        let (record, payload) = match area.what {
            What::Frames => {
                let payload = page_bytes(slot + 1);
                let record = Record {
                    page_log2: 16,
                    ..plain(Kind::Frame, slot + 1)
                };
                (record, payload)
            }
            What::Nodes(level) => {
                let below = match level {
                    0 => 1,
                    level => LEAF_FANOUT as u64 * (INNER_FANOUT as u64).pow(level - 1),
                };
                let node = if level == 0 {
                    let entry = |i: u64| {
                        let place = self
                            .place(|w| matches!(w, What::Frames), slot * LEAF_FANOUT as u64 + i);
                        Entry {
                            off: place.off,
                            version: place.version,
                            len: place.len,
                            ..Entry::NONE
                        }
                    };
                    Node::Leaf((0..LEAF_FANOUT as u64).map(entry).collect())
                } else {
                    let child = |i: u64| {
                        let is = |w: &What| matches!(w, What::Nodes(l) if *l + 1 == level);
                        self.place(is, slot * INNER_FANOUT as u64 + i)
                    };
                    Node::Inner((0..INNER_FANOUT as u64).map(child).collect())
                };
                let covers = below
                    * if level == 0 {
                        LEAF_FANOUT
                    } else {
                        INNER_FANOUT
                    } as u64;
                let record = Record {
                    page_log2: level as u8,
                    ..plain(Kind::Node, slot * covers)
                };
                (record, node.encode())
            }
            What::Chunks => {
                let first = slot * CHUNK_UNITS as u64;
                let units = first..first + CHUNK_UNITS as u64;
                let payload = match self.part(0, slot).live {
                    0 => vec![0; CHUNK_RAW],
                    _ => units
                        .flat_map(|unit| (self.live(unit) as u32).to_le_bytes())
                        .collect(),
                };
                (plain(Kind::Space, slot), payload)
            }
            What::Indexes(level) => {
                let first = slot * FANOUT as u64;
                let parts: Vec<Part> = (first..first + FANOUT as u64)
                    .map(|number| self.part(level - 1, number))
                    .collect();
                let record = Record {
                    page_log2: level as u8,
                    ..plain(Kind::Space, slot)
                };
                (record, encode_index(&parts))
            }
        };
        let record = Record {
            raw_check: match record.kind {
                Kind::Space => 0,
                _ => raw_check(&payload),
            },
            ..record
        };
        let mut bytes = Vec::new();
        record.put(&payload, SALT, area.start + slot * area.len, &mut bytes);
        assert_eq!(bytes.len() as u64, area.len);
        bytes
    }

    /// The contents before anything was written.
    fn original(&self, buf: &mut [u8], off: u64) {
        buf.fill(0);
        let end = off + buf.len() as u64;
        let mut put = |at: u64, bytes: &[u8]| {
            let (from, to) = (at.max(off), (at + bytes.len() as u64).min(end));
            if from < to {
                buf[(from - off) as usize..(to - off) as usize]
                    .copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
            }
        };
        put(0, &self.preamble);
        put(self.trailer.0, &self.trailer.1);
        for area in self.areas.iter().filter(|a| a.start < end && off < a.end()) {
            let first = off.max(area.start).saturating_sub(area.start) / area.len;
            let last = (end.min(area.end()) - 1 - area.start) / area.len;
            for slot in (first..=last).filter(|slot| area.pattern.has(*slot)) {
                put(area.start + slot * area.len, &self.record(area, slot));
            }
        }
    }
}

impl File for Vast {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let written = self.0.written.lock().expect("not poisoned");
        let n = written.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let buf = &mut buf[..n];
        self.0.counted.read.fetch_add(n as u64, Ordering::Relaxed);
        self.0.counted.reads.fetch_add(1, Ordering::Relaxed);
        let end = offset + n as u64;
        let blocks = offset / BLOCK..end.div_ceil(BLOCK);
        if blocks.clone().any(|b| !written.blocks.contains_key(&b)) {
            self.0.original(buf, offset);
        }
        for block in blocks {
            if let Some(bytes) = written.blocks.get(&block) {
                let (from, to) = ((block * BLOCK).max(offset), ((block + 1) * BLOCK).min(end));
                buf[(from - offset) as usize..(to - offset) as usize].copy_from_slice(
                    &bytes[(from - block * BLOCK) as usize..(to - block * BLOCK) as usize],
                );
            }
        }
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        let mut written = self.0.written.lock().expect("not poisoned");
        let end = offset + buf.len() as u64;
        let lock = LOCK_UNIT * UNIT_LEN;
        assert!(
            end <= lock || offset >= lock + UNIT_LEN,
            "the unit that SQLite locks"
        );
        self.0
            .counted
            .written
            .fetch_add(buf.len() as u64, Ordering::Relaxed);
        written.len = written.len.max(end);
        for block in offset / BLOCK..end.div_ceil(BLOCK) {
            let bytes = written.blocks.entry(block).or_insert_with(|| {
                let mut bytes = vec![0; BLOCK as usize];
                self.0.original(&mut bytes, block * BLOCK);
                bytes.into()
            });
            let (from, to) = ((block * BLOCK).max(offset), ((block + 1) * BLOCK).min(end));
            bytes[(from - block * BLOCK) as usize..(to - block * BLOCK) as usize]
                .copy_from_slice(&buf[(from - offset) as usize..(to - offset) as usize]);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut written = self.0.written.lock().expect("not poisoned");
        written.blocks.retain(|block, _| block * BLOCK < len);
        written.len = len;
        Ok(())
    }

    fn sync(&self, _: SyncKind) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.0.written.lock().expect("not poisoned").len)
    }
}
