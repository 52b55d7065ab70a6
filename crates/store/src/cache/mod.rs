//! The cache of decoded pages, shared by all connections of a process to one file, with one budget.
//!
//! The key is a page's number and version, so an entry is never out of date: a changed page has a new version, and whoever
//! still wants the old one may find it. The cache is cut into shards by page number; each has a lock, held only to look up
//! and copy, so that readers do not wait for each other or count references. Which page goes when the budget is full is the
//! shard's affair (see `shard`): a scan does not flush what is read often.
//!
//! Reading ahead: [`Cache::read_ahead`] hands a decoding job to the pool and notes for each of its pages that
//! it is on its way; [`Cache::get_or_wait`] then waits for such a page, or does the job itself when no thread has begun it.
//!
//! Invariants: a lookup gives the bytes that were inserted for that page and version, or nothing; the budget is kept
//! after every call; no lock is held while a page is decoded.

mod shard;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::pool::{Pool, Task};
use shard::Shard;

/// Shards of a cache that is large enough.
const SHARDS: usize = 16;

/// A cache smaller than this is not cut into shards: they would be too small for large pages.
const SHARDED_MIN: usize = 8 << 20;

/// A decoded page, as a read-ahead job hands it over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Its number.
    pub page: u32,
    /// Its version.
    pub version: u64,
    /// Its bytes, the whole page.
    pub bytes: Box<[u8]>,
}

/// A decoding job under way, as the pages it will yield point to it.
struct Inflight {
    /// Tells it from every other one of this cache.
    number: u64,
    task: Task<()>,
}

/// The cache. See the module's documentation.
pub struct Cache {
    shards: [Mutex<Shard>; SHARDS],
    /// Shards in use: [`SHARDS`] or 1.
    used: AtomicUsize,
    budget: AtomicUsize,
    next_inflight: AtomicU64,
    /// Jobs of read-ahead that have not ended.
    ahead: AtomicUsize,
}

impl Cache {
    /// A cache that keeps at most `budget` bytes, counting what it needs for itself; 0 keeps nothing.
    pub fn new(budget: usize) -> Cache {
        let cache = Cache {
            shards: std::array::from_fn(|_| Mutex::new(Shard::new())),
            used: AtomicUsize::new(1),
            budget: AtomicUsize::new(0),
            next_inflight: AtomicU64::new(1),
            ahead: AtomicUsize::new(0),
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

    /// Jobs of read-ahead under way.
    pub fn ahead(&self) -> usize {
        self.ahead.load(Ordering::Relaxed)
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

    /// The same, and waits for a page that is being read ahead; does that job itself when no thread has begun it.
    pub fn get_or_wait(&self, page: u32, version: u64, out: &mut [u8], offset: usize) -> bool {
        let inflight = {
            let mut shard = self.shard(page);
            if shard.get(page, version, out, offset) {
                return true;
            }
            match shard.inflight.get(&(page, version)) {
                Some(inflight) => Arc::clone(inflight),
                None => return false,
            }
        };
        inflight.task.join() && self.get_into(page, version, out, offset)
    }

    /// Whether the page is here or on its way. Does not count as wanting it.
    pub fn contains(&self, page: u32, version: u64) -> bool {
        let shard = self.shard(page);
        shard.contains(page, version) || shard.inflight.contains_key(&(page, version))
    }

    /// Puts a whole page in. Older versions of it go; what is here already stays.
    pub fn insert(&self, page: u32, version: u64, bytes: Box<[u8]>) {
        self.shard(page).insert(page, version, bytes, false);
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
        shard.insert(page, version, copy, false);
    }

    /// Takes a page out, in all versions.
    pub fn remove_page(&self, page: u32) {
        self.shard(page).remove_where(page, |_| true);
    }

    /// Takes everything out. Jobs under way go on.
    pub fn clear(&self) {
        for shard in &self.shards {
            lock(shard).clear();
        }
    }

    /// Has `job` decode pages on the pool, into this cache. `keys` are the pages (number, version) that it will yield. Does nothing and
    /// returns false when all of them are here or on their way, or when the pool is busy: a reader has better things to do
    /// than to read ahead in line. A job that fails yields nothing; who waited then decodes for itself and sees why.
    pub fn read_ahead(
        self: &Arc<Self>,
        pool: &Pool,
        keys: &[(u32, u64)],
        job: impl FnOnce() -> Vec<Decoded> + Send + 'static,
    ) -> bool {
        if keys
            .iter()
            .all(|&(page, version)| self.contains(page, version))
        {
            return false;
        }
        let number = self.next_inflight.fetch_add(1, Ordering::Relaxed);
        self.ahead.fetch_add(1, Ordering::Relaxed);
        let landing = Landing {
            cache: Arc::downgrade(self),
            number,
            keys: keys.to_vec(),
        };
        let task = Task::lazy(move || {
            // Also when the job panics, its pages stop being on their way.
            let landing = landing;
            let pages = job();
            if let Some(cache) = landing.cache.upgrade() {
                for Decoded {
                    page,
                    version,
                    bytes,
                } in pages
                {
                    cache.shard(page).insert(page, version, bytes, true);
                }
            }
        });
        let inflight = Arc::new(Inflight { number, task });
        for &(page, version) in keys {
            let mut shard = self.shard(page);
            if !shard.contains(page, version) {
                shard
                    .inflight
                    .entry((page, version))
                    .or_insert_with(|| Arc::clone(&inflight));
            }
        }
        let taken = inflight.task.offer(pool);
        if !taken {
            self.land(number, keys);
        }
        taken
    }

    /// Forgets that the pages `keys` are on their way by job `number`.
    fn land(&self, number: u64, keys: &[(u32, u64)]) {
        for key in keys {
            let mut shard = self.shard(key.0);
            let gone = match shard.inflight.get(key) {
                Some(inflight) if inflight.number == number => shard.inflight.remove(key),
                _ => None,
            };
            drop(shard);
            // The last owner of a job drops what it holds, this one's `Landing` too: not under the lock.
            drop(gone);
        }
    }
}

/// Held by a read-ahead job; when it is dropped, the job is over, whatever became of it.
struct Landing {
    cache: Weak<Cache>,
    number: u64,
    keys: Vec<(u32, u64)>,
}

impl Drop for Landing {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.upgrade() {
            cache.land(self.number, &self.keys);
            cache.ahead.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Takes a lock. A panic while it was held cannot have left broken data behind: no foreign code runs under it.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
