//! How much of a WAL was written since somebody last made it durable.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// So many bytes are worth a sync: a disk takes about as long for them as for the sync itself.
const PIECE: u64 = 1 << 20;

/// Told by a connection that gathers, for a thread that makes its WAL durable beside it: what waits until the checkpoint is a hundred MiB, and everybody else's
/// syncs wait for as much.
#[derive(Debug, Default)]
pub struct Flood {
    bytes: Mutex<u64>,
    rises: Condvar,
}

impl Flood {
    /// So many bytes were written.
    pub(super) fn rise(&self, bytes: usize) {
        let mut sum = self.bytes.lock();
        let before = *sum;
        *sum = before.saturating_add(bytes as u64);
        if before < PIECE && *sum >= PIECE {
            self.rises.notify_all();
        }
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
            self.rises.wait_for(&mut sum, at_most);
        }
        let is_worth = *sum >= PIECE;
        if is_worth {
            *sum = 0;
        }
        is_worth
    }
}
