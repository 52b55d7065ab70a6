//! Memory for the shards of a cache, in large pages of the system that they share.
//!
//! A first scan fills the cache. In small pages of the system, a tenth of its processor time is
//! spent on getting them. A shard alone would fill a large page late, and leave much of the last
//! one empty.

use super::fork::Owner;
use densite_disk::memory::{LARGE, Mapping, Piece};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The length of the first pieces of a shard, in bytes.
const FIRST: usize = 64 << 10;
/// The length of later ones.
pub(super) const PIECE: usize = 128 << 10;
/// A cache of so many bytes takes large pages. Then at most two of them are unused: one here, and
/// as much in the last pieces of the shards.
const MUCH: usize = 4 * LARGE;

/// See the module's documentation.
pub(super) struct Arena {
    /// The number of shards in use.
    shards: AtomicUsize,
    /// The unused pieces of one large page.
    spare: Mutex<Vec<Piece>>,
    owner: Owner,
}

impl Arena {
    /// It takes no memory yet.
    pub(super) fn new() -> Arena {
        Arena {
            shards: AtomicUsize::new(1),
            spare: Mutex::new(Vec::new()),
            owner: Owner::new(),
        }
    }

    /// Sets how many shards are in use.
    pub(super) fn set_shards(&self, shards: usize) {
        self.shards.store(shards, Ordering::Relaxed);
    }

    /// Memory of at least `least` bytes for a shard that has `bytes` bytes. `None` if there is no
    /// memory.
    pub(super) fn take(&self, bytes: usize, least: usize) -> Option<Piece> {
        // All shards grow alike.
        let all = bytes.saturating_mul(self.shards.load(Ordering::Relaxed));
        if all < MUCH || least > PIECE {
            let len = (bytes / 4).clamp(FIRST, PIECE).max(least);
            let mapping = Mapping::new(len.next_multiple_of(FIRST))?;
            return mapping.pieces(usize::MAX).pop();
        }
        let mut spare = self.spare()?;
        if spare.is_empty() {
            *spare = Mapping::new(LARGE)?.pieces(PIECE);
            // The first piece is taken first.
            spare.reverse();
        }
        spare.pop()
    }

    /// Gives unused memory back to the system.
    pub(super) fn trim(&self) {
        if let Some(mut spare) = self.spare() {
            spare.clear();
        }
    }

    fn spare(&self) -> Option<MutexGuard<'_, Vec<Piece>>> {
        self.owner.lock(&self.spare)
    }
}
