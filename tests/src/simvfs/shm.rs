//! The shared memory of one database in WAL mode: regions of heap memory and eight locks.
//!
//! It belongs to the connections that map it and disappears with the last of them, because the
//! first connection that opens a `-shm` file empties it. No part of it is on the disk.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use super::locks::{Busy, Holder};

/// Locks of the shared memory: SQLITE_SHM_NLOCK.
const LOCKS: usize = 8;

/// The locks of one connection, one bit for each lock.
#[derive(Debug, Default, Clone, Copy)]
struct Held {
    shared: u8,
    exclusive: u8,
}

/// The shared memory of one database.
#[derive(Debug, Default)]
pub(super) struct Shm {
    /// Atomics, because SQLite reads and writes them from several threads. A region never moves,
    /// because SQLite has pointers into it.
    regions: Vec<Box<[AtomicU64]>>,
    held: BTreeMap<Holder, Held>,
}

/// The bits of `n` locks starting with `first`; `None` if a lock does not exist.
fn mask(first: usize, n: usize) -> Option<u8> {
    let end = first.checked_add(n).filter(|end| *end <= LOCKS)?;
    Some((first..end).fold(0, |bits, i| bits | 1 << i))
}

impl Shm {
    /// Adds `who` to the users of the shared memory.
    pub(super) fn join(&mut self, who: Holder) {
        self.held.entry(who).or_default();
    }

    /// Removes `who`. The last user removes the shared memory.
    pub(super) fn leave(&mut self, who: Holder) {
        self.held.remove(&who);
        if self.held.is_empty() {
            self.regions.clear();
        }
    }

    pub(super) fn joined(&self, who: Holder) -> bool {
        self.held.contains_key(&who)
    }

    /// The start of region `index` of `size` bytes; `None` if it does not exist and must not be
    /// created.
    pub(super) fn region(&mut self, index: usize, size: usize, make: bool) -> Option<*mut u8> {
        if make {
            while self.regions.len() <= index {
                let words = (0..size.div_ceil(8)).map(|_| AtomicU64::new(0));
                self.regions.push(words.collect());
            }
        }
        let region = self.regions.get(index)?;
        Some(region.as_ptr().cast_mut().cast::<u8>())
    }

    pub(super) fn lock(
        &mut self,
        who: Holder,
        first: usize,
        n: usize,
        exclusive: bool,
    ) -> Result<(), Busy> {
        let bits = mask(first, n).ok_or(Busy)?;
        for (_, other) in self.held.iter().filter(|(h, _)| **h != who) {
            let against = other.exclusive | if exclusive { other.shared } else { 0 };
            if against & bits != 0 {
                return Err(Busy);
            }
        }
        let mine = self.held.entry(who).or_default();
        if exclusive {
            mine.exclusive |= bits;
        } else {
            mine.shared |= bits;
        }
        Ok(())
    }

    pub(super) fn unlock(&mut self, who: Holder, first: usize, n: usize) {
        if let (Some(bits), Some(mine)) = (mask(first, n), self.held.get_mut(&who)) {
            mine.shared &= !bits;
            mine.exclusive &= !bits;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_exclude() {
        let mut shm = Shm::default();
        shm.join(1);
        shm.join(2);
        assert_eq!(shm.lock(1, 3, 1, false), Ok(()));
        assert_eq!(shm.lock(2, 3, 1, false), Ok(()));
        assert_eq!(shm.lock(1, 3, 1, true), Err(Busy));
        assert_eq!(shm.lock(1, 1, 2, true), Ok(()));
        assert_eq!(shm.lock(2, 0, 2, true), Err(Busy), "1 is taken");
        assert_eq!(shm.lock(2, 0, 1, true), Ok(()));
        shm.leave(1);
        assert_eq!(shm.lock(2, 1, 7, true), Ok(()));
        assert_eq!(shm.lock(2, 7, 2, true), Err(Busy), "there is no lock 8");
    }

    #[test]
    fn the_last_connection_removes_the_shared_memory() {
        let mut shm = Shm::default();
        shm.join(1);
        shm.join(2);
        assert!(shm.region(0, 100, false).is_none());
        let start = shm.region(1, 100, true);
        assert!(start.is_some());
        shm.leave(1);
        assert_eq!(shm.region(1, 100, false), start);
        shm.leave(2);
        assert!(shm.region(1, 100, false).is_none());
    }
}
