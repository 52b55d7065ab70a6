//! The cache of decoded pages. All connections of a process to one file share it, with one budget.
//!
//! The key is a page's number and version, so an entry is never out of date. The cache is split
//! into shards by page number. Each has a lock that is held only to look up and copy, and decides
//! which page it evicts, so that a scan does not evict pages that are read often (see `shard`).
//!
//! Invariants: a lookup gives the bytes that were inserted for that page and version, or nothing;
//! the budget is kept after every call.

mod shard;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use shard::Shard;

/// The number of shards of a cache of at least [`SHARDED_MIN`] bytes.
const SHARDS: usize = 16;

/// A cache with a smaller budget has one shard: more would be too small for large pages.
const SHARDED_MIN: usize = 8 << 20;

/// The cache. See the module's documentation.
pub struct Cache {
    shards: [Mutex<Shard>; SHARDS],
    /// Shards in use: [`SHARDS`] or 1.
    used: AtomicUsize,
    budget: AtomicUsize,
}

impl Cache {
    /// A cache of at most `budget` bytes, including its own overhead. 0 keeps nothing.
    pub fn new(budget: usize) -> Cache {
        let cache = Cache {
            shards: std::array::from_fn(|_| Mutex::new(Shard::new())),
            used: AtomicUsize::new(1),
            budget: AtomicUsize::new(0),
        };
        cache.set_budget(budget);
        cache
    }

    /// The budget, in bytes.
    pub fn budget(&self) -> usize {
        self.budget.load(Ordering::Relaxed)
    }

    /// Sets the budget, in bytes, and evicts pages until it is kept.
    pub fn set_budget(&self, budget: usize) {
        let used = if budget < SHARDED_MIN { 1 } else { SHARDS };
        self.budget.store(budget, Ordering::Relaxed);
        if self.used.swap(used, Ordering::Relaxed) != used {
            // Pages have other shards now. A page that another thread puts into its old shard
            // meanwhile is not found.
            self.clear();
        }
        for (i, shard) in self.shards.iter().enumerate() {
            lock(shard).set_budget(if i < used { budget / used } else { 0 });
        }
    }

    /// The memory in use, in bytes.
    pub fn len_bytes(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).bytes()).sum()
    }

    /// How many pages it holds.
    pub fn pages(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).pages()).sum()
    }

    fn shard(&self, page: u32) -> MutexGuard<'_, Shard> {
        let used = self.used.load(Ordering::Relaxed);
        // `used` is a power of two not above the number of shards.
        lock(&self.shards[page as usize & (used - 1) & (SHARDS - 1)])
    }

    /// Copies the part of a page that begins at `offset` into `out`. Returns false, and leaves
    /// `out` as it is, if the page is not cached in that version or is too short.
    pub fn get_into(&self, page: u32, version: u64, out: &mut [u8], offset: usize) -> bool {
        self.shard(page).get(page, version, out, offset)
    }

    /// Whether the page is cached. Does not count as a use of it.
    pub fn contains(&self, page: u32, version: u64) -> bool {
        self.shard(page).contains(page, version)
    }

    /// Inserts a whole page and removes older versions of it. Does nothing if this version is
    /// cached.
    pub fn insert(&self, page: u32, version: u64, bytes: Box<[u8]>) {
        self.shard(page).insert(page, version, bytes);
    }

    /// Inserts a copy of a whole page, in the buffer of an evicted page if there is one.
    pub fn insert_copy(&self, page: u32, version: u64, bytes: &[u8]) {
        let mut shard = self.shard(page);
        let copy = match shard.spare(bytes.len()) {
            Some(mut spare) => {
                spare.copy_from_slice(bytes);
                spare
            }
            None => bytes.into(),
        };
        shard.insert(page, version, copy);
    }

    /// Removes all pages.
    pub fn clear(&self) {
        for shard in &self.shards {
            lock(shard).clear();
        }
    }
}

/// Takes a lock. Ignoring poison is safe: only code of this module runs under the lock, and a panic
/// cannot leave broken data behind.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
