//! The cache of decoded pages. All connections of a process to one file share it. Its budget is set
//! by its users, or is a part of what all such caches of the process share ([`budget`]).
//!
//! The key is a page's number and version, so an entry is never out of date. The cache is split
//! into shards by page number. Each has a lock that is held only to look up and copy, and decides
//! which page it evicts, so that a scan does not evict pages that are read often (see `shard`).
//!
//! Invariants: a lookup gives the bytes that were inserted for that page and version, or nothing;
//! the budget is kept after every call; a child of fork never waits for a lock of its parent, and
//! finds nothing where one is locked.

mod arena;
mod budget;
mod fork;
mod shard;
mod slab;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::options::{DecodedCache, Options};
use arena::Arena;
use fork::Owner;
use shard::Shard;

/// The number of shards of a cache of at least [`SHARDED_MIN`] bytes.
const SHARDS: usize = 16;

/// A cache with a smaller budget has one shard: more would be too small for large pages.
const SHARDED_MIN: usize = 8 << 20;

/// So many pages are inserted between two looks at the clock.
const CHECK_EVERY: u32 = 256;

/// The cache. See the module's documentation.
pub struct Cache {
    shards: [Mutex<Shard>; SHARDS],
    arena: Arc<Arena>,
    /// Shards in use: [`SHARDS`] or 1.
    used: AtomicUsize,
    budget: AtomicUsize,
    /// Locked while the budget changes, so that all shards get their parts of the same budget.
    changing: Mutex<()>,
    /// Its budget is a part of the common one.
    auto: AtomicBool,
    /// A thread may watch its memory.
    watched: AtomicBool,
    /// Pages inserted, modulo 2^32.
    inserted: AtomicU32,
    /// See [`Contents`].
    contents: AtomicU64,
    owner: Owner,
}

/// Identifies what a cache holds pages of. Changes at each [`Cache::clear`]: the file can be of other
/// contents then, with the same page numbers and versions. A thread that began to decode before
/// cannot insert its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents(u64);

impl Cache {
    /// A cache of at most `budget` bytes, including its own overhead. 0 keeps nothing.
    pub fn new(budget: usize) -> Cache {
        let arena = Arc::new(Arena::new());
        let cache = Cache {
            shards: std::array::from_fn(|_| Mutex::new(Shard::new(&arena))),
            arena,
            used: AtomicUsize::new(1),
            budget: AtomicUsize::new(0),
            changing: Mutex::new(()),
            auto: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            inserted: AtomicU32::new(0),
            contents: AtomicU64::new(0),
            owner: Owner::new(),
        };
        cache.set_budget(budget);
        cache
    }

    /// A cache with these settings.
    pub(crate) fn with(options: &Options) -> Arc<Cache> {
        let cache = Arc::new(Cache::new(budget::FIRST));
        budget::join(&cache);
        cache.set(options.decoded_cache);
        cache.let_watch(options.threads > 0);
        cache
    }

    /// Sets whether a background thread may watch the memory. Otherwise it is only looked at while
    /// pages are read.
    pub(crate) fn let_watch(&self, on: bool) {
        self.watched.store(on, Ordering::Relaxed);
    }

    /// Changes the setting.
    pub(crate) fn set(&self, setting: DecodedCache) {
        let auto = setting == DecodedCache::Auto;
        let was_auto = self.auto.swap(auto, Ordering::Relaxed);
        match setting {
            DecodedCache::Auto if was_auto => (),
            DecodedCache::Auto => self.set_budget(budget::FIRST),
            DecodedCache::Bytes(bytes) => self.set_budget(bytes),
        }
    }

    /// Whether its budget is a part of the common one.
    fn is_auto(&self) -> bool {
        self.auto.load(Ordering::Relaxed)
    }

    /// The budget, in bytes.
    pub fn budget(&self) -> usize {
        self.budget.load(Ordering::Relaxed)
    }

    /// Sets the budget, in bytes, and evicts pages until it is kept.
    pub fn set_budget(&self, budget: usize) {
        let Some(changing) = self.owner.lock(&self.changing) else {
            return;
        };
        let used = if budget < SHARDED_MIN { 1 } else { SHARDS };
        self.arena.set_shards(used);
        if self.used.swap(used, Ordering::Relaxed) != used {
            // Pages have other shards now.
            self.clear();
        }
        self.divide(budget, &changing);
    }

    /// The same without changing how many shards are in use, for a budget that changes often.
    fn adjust_budget(&self, budget: usize) {
        if let Some(changing) = self.owner.lock(&self.changing) {
            self.divide(budget, &changing);
        }
    }

    /// Gives each shard its part of the budget.
    fn divide(&self, budget: usize, _changing: &MutexGuard<'_, ()>) {
        let used = self.used.load(Ordering::Relaxed);
        let lower = self.budget.swap(budget, Ordering::Relaxed) > budget;
        for (i, shard) in self.shards.iter().enumerate() {
            if let Some(mut shard) = self.owner.lock(shard) {
                shard.set_budget(if i < used { budget / used } else { 0 });
            }
        }
        if lower {
            self.arena.trim();
        }
    }

    /// The memory in use, in bytes.
    pub fn len_bytes(&self) -> usize {
        self.all().map(|shard| shard.bytes()).sum()
    }

    /// How many pages it holds.
    pub fn pages(&self) -> usize {
        self.all().map(|shard| shard.pages()).sum()
    }

    /// The shards, one after the other.
    fn all(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        (self.shards.iter()).filter_map(|shard| self.owner.lock(shard))
    }

    /// The shard of a page; `None` if a thread that does not exist after a fork has it.
    fn shard(&self, page: u32) -> Option<MutexGuard<'_, Shard>> {
        let used = self.used.load(Ordering::Relaxed);
        // `used` is a power of two not above the number of shards.
        (self.owner).lock(&self.shards[page as usize & (used - 1) & (SHARDS - 1)])
    }

    /// Copies the part of a page that begins at `offset` into `out`. Returns false, and leaves
    /// `out` as it is, if the page is not cached in that version or is too short.
    pub fn get_into(&self, page: u32, version: u64, out: &mut [u8], offset: usize) -> bool {
        let shard = self.shard(page);
        shard.is_some_and(|mut shard| shard.get(page, version, out, offset))
    }

    /// Whether the page is cached. Does not count as a use of it.
    pub fn contains(&self, page: u32, version: u64) -> bool {
        let shard = self.shard(page);
        shard.is_some_and(|shard| shard.contains(page, version))
    }

    /// The contents that it caches now.
    pub fn contents(&self) -> Contents {
        Contents(self.contents.load(Ordering::Acquire))
    }

    /// Inserts a copy of a whole page and removes older versions of it. Does nothing if this version
    /// is cached, or if the cache was cleared since `of` was current.
    pub fn insert_copy(&self, page: u32, version: u64, bytes: &[u8], of: Contents) {
        {
            let Some(mut shard) = self.shard(page) else {
                return;
            };
            // `clear` changes the contents before it takes this lock. So what is inserted here is
            // of the present contents, or is removed.
            if of != self.contents() {
                return;
            }
            shard.insert(page, version, bytes);
        }
        let inserted = self.inserted.fetch_add(1, Ordering::Relaxed);
        if inserted % CHECK_EVERY == CHECK_EVERY - 1 && self.is_auto() {
            budget::check(self.watched.load(Ordering::Relaxed));
        }
    }

    /// Removes all pages. Pages that were read before are not inserted any more.
    pub fn clear(&self) {
        self.contents.fetch_add(1, Ordering::AcqRel);
        self.all().for_each(|mut shard| shard.clear());
    }
}

#[cfg(test)]
mod tests;
