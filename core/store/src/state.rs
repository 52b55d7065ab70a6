//! What is known about the newest commit: enough to find every page.

use crate::error::{Damage, Error, Result};
use crate::format::DATA_OFF;
use crate::format::entry::{Entry, Root};
use crate::format::tip::{TIP_LEN, Tip};
use crate::format::trailer::{DictInfo, HEAD_LEN, Learned, OPEN_END, RootSection, Trailer};
use crate::map::tree;
use densite_sqlite_format::header::{ROLLBACK_MODE, VERSIONS};
use std::collections::HashMap;

/// A commit, as a process knows it. Everything here follows from the trailers between the last root
/// trailer and the tip.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// The commit.
    tip: Tip,
    /// The tip block at the last read, valid or not. While it stays the same, nothing was
    /// published.
    tip_raw: [u8; TIP_LEN],
    /// The highest commit number ever seen, including commits lost in a power cut.
    highest: u64,
    logical_len: u64,
    /// 0 before the first write.
    page_size: u32,
    head: [u8; HEAD_LEN],
    learned: Learned,
    root: Root,
    /// Entries of commits since the last root trailer. [`Entry::NONE`]: the page has no frame any
    /// more.
    overlay: HashMap<u32, Entry>,
    /// The root section of the last root trailer.
    section: RootSection,
    /// Places of the trailers since the last root trailer, including that one.
    trailers: Vec<(u64, u32)>,
    /// Whether the first of them is a root trailer. There is none before the first fold.
    root_trailer: bool,
    dicts: Vec<DictInfo>,
    /// How many of `dicts` the last root trailer listed.
    root_dicts: usize,
    next_off: u64,
    room_end: u64,
    tail_off: u64,
}

impl State {
    /// The empty store.
    pub(crate) fn empty(salt: u64) -> State {
        State {
            tip: Tip {
                hash: first_hash(salt),
                ..Tip::default()
            },
            tip_raw: [0; TIP_LEN],
            highest: 0,
            logical_len: 0,
            page_size: 0,
            head: [0; HEAD_LEN],
            learned: Learned::default(),
            root: Root::default(),
            overlay: HashMap::new(),
            section: RootSection {
                next_dict: 1,
                ..RootSection::default()
            },
            trailers: Vec::new(),
            root_trailer: false,
            dicts: Vec::new(),
            root_dicts: 0,
            next_off: DATA_OFF,
            room_end: OPEN_END,
            tail_off: DATA_OFF,
        }
    }

    /// Advances to the commit of `trailer`, whose place is `tip`.
    pub(crate) fn apply(&mut self, tip: Tip, trailer: &Trailer) {
        if let Some(section) = &trailer.root {
            self.root = section.map;
            self.section = section.clone();
            self.overlay.clear();
            self.trailers.clear();
            self.root_trailer = true;
            self.dicts = trailer.dicts.clone();
            self.root_dicts = self.dicts.len();
        } else {
            self.overlay.extend(trailer.deltas.iter().copied());
            self.dicts.extend_from_slice(&trailer.dicts);
        }
        self.trailers.push((tip.off, tip.len));
        self.tip = tip;
        self.highest = self.highest.max(tip.commit);
        self.logical_len = trailer.logical_len;
        self.page_size = trailer.page_size;
        self.head = trailer.head;
        self.learned = trailer.learned;
        self.next_off = trailer.next_off;
        self.room_end = trailer.room_end;
        self.tail_off = trailer.tail_off;
    }

    /// Begins again with the empty store. Commit numbers continue.
    pub(crate) fn restart(&mut self, salt: u64) {
        let highest = self.highest;
        *self = State::empty(salt);
        self.highest = highest;
    }

    /// The tip block was read or written, and its commit is applied.
    pub(crate) fn note_tip_block(&mut self, raw: [u8; TIP_LEN]) {
        self.tip_raw = raw;
    }

    /// A commit of this number was once published, even if it is lost.
    pub(crate) fn note_commit_number(&mut self, commit: u64) {
        self.highest = self.highest.max(commit);
    }

    /// The commit.
    pub(crate) fn tip(&self) -> Tip {
        self.tip
    }

    /// The tip block at the last read, valid or not.
    pub(crate) fn tip_raw(&self) -> [u8; TIP_LEN] {
        self.tip_raw
    }

    /// The highest commit number ever seen, including commits lost in a power cut.
    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// The length of the database, bytes.
    pub(crate) fn logical_len(&self) -> u64 {
        self.logical_len
    }

    /// The page size, bytes; 0 before the first write.
    pub(crate) fn page_size(&self) -> u32 {
        self.page_size
    }

    /// The first bytes of page 1.
    pub(crate) fn head(&self) -> &[u8; HEAD_LEN] {
        &self.head
    }

    /// What the models and dictionaries know of the database.
    pub(crate) fn learned(&self) -> Learned {
        self.learned
    }

    /// The page map at the last root trailer.
    pub(crate) fn root(&self) -> Root {
        self.root
    }

    /// Entries of commits since the last root trailer.
    pub(crate) fn overlay(&self) -> &HashMap<u32, Entry> {
        &self.overlay
    }

    /// The root section of the last root trailer.
    pub(crate) fn section(&self) -> &RootSection {
        &self.section
    }

    /// Places of the trailers since the last root trailer, including that one.
    pub(crate) fn trailers(&self) -> &[(u64, u32)] {
        &self.trailers
    }

    /// The dictionaries of this commit.
    pub(crate) fn dicts(&self) -> &[DictInfo] {
        &self.dicts
    }

    /// The dictionaries that the last root trailer does not list.
    pub(crate) fn new_dicts(&self) -> &[DictInfo] {
        self.dicts.get(self.root_dicts..).unwrap_or_default()
    }

    /// The place of the next record.
    pub(crate) fn next_off(&self) -> u64 {
        self.next_off
    }

    /// The end of the extent of [`State::next_off`].
    pub(crate) fn room_end(&self) -> u64 {
        self.room_end
    }

    /// The end of all records.
    pub(crate) fn tail_off(&self) -> u64 {
        self.tail_off
    }

    /// The entry of a page (1 is the first).
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`].
    pub(crate) fn lookup(&self, source: tree::Source<'_>, page: u32) -> Result<Entry> {
        let entry = match self.overlay.get(&page) {
            Some(e) => *e,
            None if self.root.node.is_none() || page == 0 => return Ok(Entry::NONE),
            None => tree::lookup(source, self.root, u64::from(page) - 1)?,
        };
        if entry.is_none() || entry.fits(page, self.page_size as usize) {
            return Ok(entry);
        }
        let problem = "its entry is out of range".to_owned();
        Err(Error::Corrupt(Damage {
            what: "page map".to_owned(),
            offset: entry.off,
            page: Some(page),
            problem,
        }))
    }

    /// The number of pages; a partial last page counts as one.
    pub(crate) fn pages(&self) -> u64 {
        if self.page_size == 0 {
            0
        } else {
            self.logical_len.div_ceil(u64::from(self.page_size))
        }
    }

    /// Bytes of the trailers that must be read to open this commit.
    pub(crate) fn trailer_bytes(&self) -> u64 {
        self.trailers.iter().map(|t| u64::from(t.1)).sum()
    }

    /// Bytes of the trailers since the last root trailer, which a fold makes unnecessary.
    pub(crate) fn unfolded_bytes(&self) -> u64 {
        let root = self.trailers.first().filter(|_| self.root_trailer);
        self.trailer_bytes() - root.map_or(0, |t| u64::from(t.1))
    }

    pub(crate) fn next_dict(&self) -> u32 {
        let newest = self.dicts.iter().map(|d| d.id + 1).max().unwrap_or(1);
        self.section.next_dict.max(newest)
    }

    /// Whether the database is in a rollback mode: the versions in page 1.
    pub(crate) fn is_in_rollback_mode(&self) -> bool {
        self.head.get(VERSIONS) == Some(&ROLLBACK_MODE)
    }

    /// The extent that is being appended to.
    pub(crate) fn current_extent(&self) -> (u64, u64) {
        current_extent(self.next_off, self.room_end)
    }
}

/// The extent in which the next record goes to `next_off`.
pub(crate) fn current_extent(next_off: u64, room_end: u64) -> (u64, u64) {
    match room_end {
        OPEN_END => (next_off, next_off + 1),
        end => (next_off, end),
    }
}

/// The hash that the first commit's trailer names as the previous one.
pub(crate) fn first_hash(salt: u64) -> [u8; 16] {
    densite_disk::hash::xxh3_128_with_seed(b"Densite", salt).to_le_bytes()
}
