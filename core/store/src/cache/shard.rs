//! One shard of the cache: entries, their queues, and the choice of the page to evict (S3-FIFO).
//!
//! A new page enters the *small* queue, a tenth of the budget. At its end, the page moves to the
//! *main* queue if it was used more than once since. Otherwise it is evicted, and its number joins
//! the *ghosts*. A ghost that is inserted again enters the main queue at once. At the end of the
//! main queue, a page starts over if it was used since, and is evicted otherwise. So a scan, which
//! uses each page once, passes only through the small queue.

use std::sync::Arc;

use super::arena::Arena;
use super::slab::{Slab, Slot};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// The overhead of an entry in bytes: its share of the tables and of the allocator.
const ENTRY_BYTES: usize = 112;

/// Uses are counted up to this number.
const WANTED_MAX: u8 = 3;

/// No entry.
const NONE: u32 = u32::MAX;

/// Spreads page numbers. They are not secret, and an attacker gains nothing by choosing them.
#[derive(Default)]
pub(super) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        let x = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = x ^ x >> 32;
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<PageHasher>>;

/// Which queue an entry is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Small,
    Main,
}

struct Entry {
    page: u32,
    version: u64,
    /// The next entry of the same page, of another version.
    other: u32,
    /// Towards the newer end of the queue.
    newer: u32,
    /// Towards the older end of the queue.
    older: u32,
    place: Place,
    /// How often the page was used since it entered the queue, up to [`WANTED_MAX`].
    wanted: u8,
    slot: Slot,
}

/// A queue through the entries: the oldest leaves first.
struct Queue {
    newest: u32,
    oldest: u32,
    bytes: usize,
}

impl Queue {
    const EMPTY: Queue = Queue {
        newest: NONE,
        oldest: NONE,
        bytes: 0,
    };
}

/// Page numbers recently evicted from the small queue.
#[derive(Default)]
struct Ghosts {
    order: VecDeque<(u32, u32)>,
    stamp_of: Map<u32, u32>,
    stamp: u32,
}

impl Ghosts {
    fn add(&mut self, page: u32, keep: usize) {
        self.stamp = self.stamp.wrapping_add(1);
        self.stamp_of.insert(page, self.stamp);
        self.order.push_back((page, self.stamp));
        while self.order.len() > keep {
            if let Some((page, stamp)) = self.order.pop_front()
                && self.stamp_of.get(&page) == Some(&stamp)
            {
                self.stamp_of.remove(&page);
            }
        }
    }

    fn take(&mut self, page: u32) -> bool {
        self.stamp_of.remove(&page).is_some()
    }
}

/// A shard of the cache.
///
/// Invariants: every entry is in exactly one queue and in the chain of its page, is the only one of
/// its page and version, and has its own slot. All pages have one length: a page of another length
/// removes all others, since a file has one page size at a time. `small.bytes + main.bytes` is what
/// all entries weigh, and is not above `budget` when a public function returns.
pub(super) struct Shard {
    first: Map<u32, u32>,
    entries: Vec<Entry>,
    /// Places in `entries` without an entry.
    vacant: Vec<u32>,
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
    budget: usize,
    slab: Slab,
    arena: Arc<Arena>,
}

impl Shard {
    /// An empty shard with memory from `arena`.
    pub(super) fn new(arena: &Arc<Arena>) -> Shard {
        Shard {
            first: Map::default(),
            entries: Vec::new(),
            vacant: Vec::new(),
            small: Queue::EMPTY,
            main: Queue::EMPTY,
            ghosts: Ghosts::default(),
            budget: 0,
            slab: Slab::new(0, arena),
            arena: Arc::clone(arena),
        }
    }

    /// The memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.small.bytes + self.main.bytes
    }

    /// How many pages it holds.
    pub(super) fn pages(&self) -> usize {
        self.entries.len() - self.vacant.len()
    }

    fn find(&self, page: u32, version: u64) -> Option<u32> {
        let mut at = *self.first.get(&page)?;
        while at != NONE {
            let entry = &self.entries[at as usize];
            if entry.version == version {
                return Some(at);
            }
            at = entry.other;
        }
        None
    }

    /// Whether the page is cached. Does not count as a use of it.
    pub(super) fn contains(&self, page: u32, version: u64) -> bool {
        self.find(page, version).is_some()
    }

    /// Copies a part of a page. Returns false if the page is not cached or is too short.
    pub(super) fn get(&mut self, page: u32, version: u64, out: &mut [u8], offset: usize) -> bool {
        let Some(at) = self.find(page, version) else {
            return false;
        };
        let entry = &mut self.entries[at as usize];
        let Some(part) = offset
            .checked_add(out.len())
            .and_then(|end| self.slab.get(entry.slot).get(offset..end))
        else {
            return false;
        };
        out.copy_from_slice(part);
        if entry.wanted < WANTED_MAX {
            entry.wanted += 1;
        }
        true
    }

    /// Inserts a copy of a page, and removes older versions of it. Does nothing if this version is
    /// cached.
    pub(super) fn insert(&mut self, page: u32, version: u64, bytes: &[u8]) {
        let weight = bytes.len() + ENTRY_BYTES;
        if weight > self.budget || self.find(page, version).is_some() {
            return;
        }
        if bytes.len() != self.slab.slot_len() {
            self.clear();
            self.slab = Slab::new(bytes.len(), &self.arena);
        }
        self.remove_older(page, version);
        self.shrink_to(self.budget - weight);
        let at = (self.vacant.pop()).unwrap_or(self.entries.len() as u32);
        let Some(slot) = self.slab.take(at) else {
            if (at as usize) < self.entries.len() {
                self.vacant.push(at);
            }
            return;
        };
        self.slab.get_mut(slot).copy_from_slice(bytes);
        let place = if self.ghosts.take(page) {
            Place::Main
        } else {
            Place::Small
        };
        let other = self.first.get(&page).copied().unwrap_or(NONE);
        let entry = Entry {
            page,
            version,
            other,
            newer: NONE,
            older: NONE,
            place,
            wanted: 0,
            slot,
        };
        match self.entries.get_mut(at as usize) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
        self.first.insert(page, at);
        self.push(at, place);
    }

    /// Removes all versions of a page that are older than `newer`.
    fn remove_older(&mut self, page: u32, newer: u64) {
        let mut at = self.first.get(&page).copied().unwrap_or(NONE);
        while at != NONE {
            let Entry { version, other, .. } = self.entries[at as usize];
            if version < newer {
                self.drop_entry(at);
            }
            at = other;
        }
    }

    /// Removes all pages.
    pub(super) fn clear(&mut self) {
        let budget = self.budget;
        *self = Shard {
            budget,
            ..Shard::new(&self.arena)
        };
    }

    /// Sets the budget, in bytes, and evicts pages until it is kept. Their memory goes back to the
    /// system.
    pub(super) fn set_budget(&mut self, budget: usize) {
        let lower = budget < self.budget;
        self.budget = budget;
        self.shrink_to(budget);
        if self.pages() == 0 {
            self.clear();
        } else if lower {
            let entries = &mut self.entries;
            (self.slab).compact(|at, slot| entries[at as usize].slot = slot);
        }
    }

    /// Evicts pages until the others weigh at most `most` bytes.
    fn shrink_to(&mut self, most: usize) {
        while self.bytes() > most {
            if self.small.oldest != NONE
                && (self.small.bytes > self.budget / 10 || self.main.oldest == NONE)
            {
                let at = self.small.oldest;
                let entry = &self.entries[at as usize];
                if entry.wanted > 1 {
                    self.unlink(at);
                    self.push(at, Place::Main);
                } else {
                    let page = entry.page;
                    self.drop_entry(at);
                    let keep = self.pages().max(16);
                    self.ghosts.add(page, keep);
                }
            } else if self.main.oldest != NONE {
                let at = self.main.oldest;
                let entry = &mut self.entries[at as usize];
                if entry.wanted > 0 {
                    let left = entry.wanted - 1;
                    self.unlink(at);
                    self.push(at, Place::Main);
                    self.entries[at as usize].wanted = left;
                } else {
                    self.drop_entry(at);
                }
            } else {
                return;
            }
        }
    }

    fn queue(&mut self, place: Place) -> &mut Queue {
        match place {
            Place::Small => &mut self.small,
            Place::Main => &mut self.main,
        }
    }

    /// What each entry weighs.
    fn weight(&self) -> usize {
        self.slab.slot_len() + ENTRY_BYTES
    }

    /// Puts an entry that is in no queue at the newer end of one.
    fn push(&mut self, at: u32, place: Place) {
        let queue = self.queue(place);
        let older = std::mem::replace(&mut queue.newest, at);
        if older == NONE {
            queue.oldest = at;
        }
        let entry = &mut self.entries[at as usize];
        (entry.place, entry.older, entry.newer, entry.wanted) = (place, older, NONE, 0);
        if older != NONE {
            self.entries[older as usize].newer = at;
        }
        let weight = self.weight();
        self.queue(place).bytes += weight;
    }

    /// Takes an entry out of its queue.
    fn unlink(&mut self, at: u32) {
        let Entry {
            place,
            older,
            newer,
            ..
        } = self.entries[at as usize];
        let weight = self.weight();
        let queue = self.queue(place);
        queue.bytes -= weight;
        if queue.oldest == at {
            queue.oldest = newer;
        }
        if queue.newest == at {
            queue.newest = older;
        }
        if older != NONE {
            self.entries[older as usize].newer = newer;
        }
        if newer != NONE {
            self.entries[newer as usize].older = older;
        }
    }

    /// Removes an entry.
    fn drop_entry(&mut self, at: u32) {
        self.unlink(at);
        let Entry { page, other, .. } = self.entries[at as usize];
        let mut before = self.first.get(&page).copied().unwrap_or(NONE);
        if before == at {
            if other == NONE {
                self.first.remove(&page);
            } else {
                self.first.insert(page, other);
            }
        } else {
            while before != NONE {
                let entry = &mut self.entries[before as usize];
                if entry.other == at {
                    entry.other = other;
                    break;
                }
                before = entry.other;
            }
        }
        self.slab.give(self.entries[at as usize].slot);
        self.vacant.push(at);
    }
}
