//! How much of a WAL was written since somebody last made it durable, and how far it reaches.

use densite_disk::sync::{Condvar, Mutex};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// So many bytes are worth a sync: a disk takes about as long for them as for the sync itself.
const PIECE: u64 = 1 << 20;

/// Told by a connection that coalesces writes, for a thread that makes its WAL durable beside it: what waits until the checkpoint is a hundred MiB, and everybody else's
/// syncs wait for as much.
#[derive(Debug, Default)]
pub struct WalProgress {
    bytes: Mutex<u64>,
    rises: Condvar,
    /// The end of what this connection wrote last, since the WAL began anew.
    reach: AtomicU64,
}

impl WalProgress {
    /// So many bytes were written.
    pub(super) fn rise(&self, bytes: usize) {
        let mut sum = self.bytes.lock();
        let before = *sum;
        *sum = before.saturating_add(bytes as u64);
        if before < PIECE && *sum >= PIECE {
            self.rises.notify_all();
        }
    }

    /// So many bytes were written, or will be with the frame that commits, from `offset` on. At the front there is the header: the WAL begins anew.
    pub(super) fn reach(&self, offset: u64, bytes: usize) {
        let end = offset.saturating_add(bytes as u64);
        match offset {
            0 => self.reach.store(end, Ordering::Release),
            _ => _ = self.reach.fetch_max(end, Ordering::AcqRel),
        }
    }

    /// How long the WAL was when this connection last wrote to it, in bytes, the frames of others before its own included. 0 if it has not since [`WalProgress::forget`].
    pub fn reached(&self) -> u64 {
        self.reach.load(Ordering::Acquire)
    }

    /// All of it is in the database's file: somebody else may begin it anew.
    pub fn forget(&self) {
        self.reach.store(0, Ordering::Release);
    }

    /// Ends the waiting of this moment.
    pub fn wake(&self) {
        let _sum = self.bytes.lock();
        self.rises.notify_all();
    }

    /// Waits until as much was written as is worth a sync, and counts anew; false if the time is over before, or somebody woke it.
    pub fn wait(&self, at_most: Duration) -> bool {
        let mut sum = self.bytes.lock();
        if *sum < PIECE {
            sum = self.rises.wait_for(sum, at_most);
        }
        let is_worth = *sum >= PIECE;
        if is_worth {
            *sum = 0;
        }
        is_worth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reaches_as_far_as_was_written_since_the_header() {
        let wal_progress = WalProgress::default();
        wal_progress.reach(32, 4120);
        wal_progress.reach(4152, 8240);
        // Checksums of frames that were written before, mended at COMMIT.
        wal_progress.reach(32, 24);
        assert_eq!(wal_progress.reached(), 12_392);
        wal_progress.reach(0, 32);
        assert_eq!(wal_progress.reached(), 32);
        wal_progress.reach(4152, 4120);
        wal_progress.forget();
        assert_eq!(wal_progress.reached(), 0);
        // Behind what others wrote.
        wal_progress.reach(41_232, 4120);
        assert_eq!(wal_progress.reached(), 45_352);
    }
}
