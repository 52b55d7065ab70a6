//! What reading has cost.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What reading a remote file has cost so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Requests sent, with repeated ones.
    pub requests: u64,
    /// Bytes of the bodies that were received.
    pub bytes: u64,
    /// Reads of a block that was in memory.
    pub hits: u64,
    /// Blocks that came from the local disk.
    pub disk_hits: u64,
    /// The slowest request, with its body.
    pub slowest: Duration,
}

impl Counters {
    /// Both together.
    pub(crate) fn and(self, other: Counters) -> Counters {
        Counters {
            requests: self.requests + other.requests,
            bytes: self.bytes + other.bytes,
            hits: self.hits + other.hits,
            disk_hits: self.disk_hits + other.disk_hits,
            slowest: self.slowest.max(other.slowest),
        }
    }
}

/// The same while it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    requests: AtomicU64,
    bytes: AtomicU64,
    hits: AtomicU64,
    disk_hits: AtomicU64,
    slowest_micros: AtomicU64,
}

impl Counting {
    /// A request is sent.
    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    /// So many bytes of a body have arrived.
    pub(crate) fn arrived(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// A body has arrived whole, after this time.
    pub(crate) fn received(&self, after: Duration) {
        let micros = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        self.slowest_micros.fetch_max(micros, Relaxed);
    }

    /// Adds what another reader of the same file has cost.
    pub(crate) fn add(&self, other: Counters) {
        self.requests.fetch_add(other.requests, Relaxed);
        self.bytes.fetch_add(other.bytes, Relaxed);
        self.hits.fetch_add(other.hits, Relaxed);
        self.disk_hits.fetch_add(other.disk_hits, Relaxed);
        let micros = u64::try_from(other.slowest.as_micros()).unwrap_or(u64::MAX);
        self.slowest_micros.fetch_max(micros, Relaxed);
    }

    /// The local disk had a block.
    pub(crate) fn disk_hit(&self) {
        self.disk_hits.fetch_add(1, Relaxed);
    }

    /// A block was in memory.
    pub(crate) fn hit(&self) {
        self.hits.fetch_add(1, Relaxed);
    }

    /// The figures now.
    pub(crate) fn now(&self) -> Counters {
        Counters {
            requests: self.requests.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            hits: self.hits.load(Relaxed),
            disk_hits: self.disk_hits.load(Relaxed),
            slowest: Duration::from_micros(self.slowest_micros.load(Relaxed)),
        }
    }
}
