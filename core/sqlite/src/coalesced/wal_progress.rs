//! How much of a WAL was written since it was last made durable, and how far it reaches.

use densite_disk::sync::{Condvar, Mutex};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The bytes that are worth a sync: a disk needs about as long for them as for the sync itself.
const PIECE: u64 = 1 << 20;

/// A connection that coalesces writes reports its progress here, to a thread that makes its WAL
/// durable meanwhile. Without that, a checkpoint must sync a hundred MiB, and every other sync
/// waits as long.
#[derive(Debug, Default)]
pub struct WalProgress {
    bytes: Mutex<u64>,
    rises: Condvar,
    /// The end of this connection's last write since the WAL was restarted.
    reach: AtomicU64,
}

impl WalProgress {
    /// Counts bytes as written.
    pub(super) fn rise(&self, bytes: usize) {
        let mut sum = self.bytes.lock();
        let before = *sum;
        *sum = before.saturating_add(bytes as u64);
        if before < PIECE && *sum >= PIECE {
            self.rises.notify_all();
        }
    }

    /// Notes bytes from `offset` on that are written, or will be with the frame that commits. A
    /// write at 0 is the header: the WAL is restarted.
    pub(super) fn reach(&self, offset: u64, bytes: usize) {
        let end = offset.saturating_add(bytes as u64);
        match offset {
            0 => self.reach.store(end, Ordering::Release),
            _ => _ = self.reach.fetch_max(end, Ordering::AcqRel),
        }
    }

    /// The length of the WAL in bytes when this connection last wrote to it, including earlier
    /// frames of other connections. 0 if it has not written since [`WalProgress::forget`].
    pub fn reached(&self) -> u64 {
        self.reach.load(Ordering::Acquire)
    }

    /// All of the WAL is in the database's file, so another connection can restart it.
    pub fn forget(&self) {
        self.reach.store(0, Ordering::Release);
    }

    /// Ends a wait that is going on now.
    pub fn wake(&self) {
        let _sum = self.bytes.lock();
        self.rises.notify_all();
    }

    /// Waits until enough is written to be worth a sync, and restarts the count. Returns false if
    /// the time is over before, or on [`WalProgress::wake`].
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
    fn wal_progress_reaches_the_end_of_the_writes_since_the_header() {
        let wal_progress = WalProgress::default();
        wal_progress.reach(32, 4120);
        wal_progress.reach(4152, 8240);
        // Checksums of earlier frames, corrected at COMMIT.
        wal_progress.reach(32, 24);
        assert_eq!(wal_progress.reached(), 12_392);
        wal_progress.reach(0, 32);
        assert_eq!(wal_progress.reached(), 32);
        wal_progress.reach(4152, 4120);
        wal_progress.forget();
        assert_eq!(wal_progress.reached(), 0);
        // After frames of other connections.
        wal_progress.reach(41_232, 4120);
        assert_eq!(wal_progress.reached(), 45_352);
    }
}
