//! The cache of decoded pages, shared by all connections of a process to one file, with one budget.
//!
//! The key is a page's number and version, so an entry is never out of date: a changed page has a new version, and whoever
//! still wants the old one may find it. The cache is cut into shards by page number; each has a lock, held only to look up
//! and copy, so that readers do not wait for each other or count references. Which page goes when the budget is full is the
//! shard's affair (see `shard`): a scan does not flush what is read often.
//!
//! Invariants: a lookup gives the bytes that were inserted for that page and version, or nothing; the budget is kept
//! after every call.

mod shard;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use shard::Shard;

/// Shards of a cache that is large enough.
const SHARDS: usize = 16;

/// A cache smaller than this is not cut into shards: they would be too small for large pages.
const SHARDED_MIN: usize = 8 << 20;

/// The cache. See the module's documentation.
pub struct Cache {
    shards: [Mutex<Shard>; SHARDS],
    /// Shards in use: [`SHARDS`] or 1.
    used: AtomicUsize,
    budget: AtomicUsize,
}

impl Cache {
    /// A cache that keeps at most `budget` bytes, counting what it needs for itself; 0 keeps nothing.
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

    /// Sets the budget, in bytes, and throws out what is above it.
    pub fn set_budget(&self, budget: usize) {
        let used = if budget < SHARDED_MIN { 1 } else { SHARDS };
        self.budget.store(budget, Ordering::Relaxed);
        if self.used.swap(used, Ordering::Relaxed) != used {
            // Pages have other shards now. One that is put into its old shard meanwhile is merely not found.
            self.clear();
        }
        for (i, shard) in self.shards.iter().enumerate() {
            lock(shard).set_budget(if i < used { budget / used } else { 0 });
        }
    }

    /// What the cache weighs now, in bytes.
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

    /// Copies the part of a page that begins at `offset` into `out`. False when the page is not here in that version, or not that long;
    /// `out` is then untouched.
    pub fn get_into(&self, page: u32, version: u64, out: &mut [u8], offset: usize) -> bool {
        self.shard(page).get(page, version, out, offset)
    }

    /// Whether the page is here. Does not count as wanting it.
    pub fn contains(&self, page: u32, version: u64) -> bool {
        self.shard(page).contains(page, version)
    }

    /// Puts a whole page in. Older versions of it go; what is here already stays.
    pub fn insert(&self, page: u32, version: u64, bytes: Box<[u8]>) {
        self.shard(page).insert(page, version, bytes);
    }

    /// Puts a copy of a whole page in, in a buffer of a page that was thrown out where there is one.
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

    /// Takes everything out.
    pub fn clear(&self) {
        for shard in &self.shards {
            lock(shard).clear();
        }
    }
}

/// Takes a lock. A panic while it was held cannot have left broken data behind: no foreign code runs under it.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
