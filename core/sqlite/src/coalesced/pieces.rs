//! Makes a checkpoint's pages durable while they are written.
//!
//! SQLite writes ten thousands of pages to the page cache and then syncs them at once. Any other
//! sync then waits until the disk has all of that, for hundreds of milliseconds. So pages are
//! synced piece by piece, and a piece is as large as the disk takes in a few milliseconds. SQLite's
//! own sync at the end stays, with the same guarantee.

use std::time::Duration;

/// How long a piece's sync should take. If it is shorter, most of it is the sync's own cost; if it
/// is longer, others wait.
const GOAL: (Duration, Duration) = (Duration::from_millis(3), Duration::from_millis(6));
/// The smallest and the largest piece, in bytes.
const BYTES: (usize, usize) = (128 << 10, 4 << 20);

pub(super) struct Pieces {
    /// A checkpoint is under way.
    checkpoint: bool,
    /// Bytes written since the last sync.
    since: usize,
    size: usize,
}

impl Default for Pieces {
    fn default() -> Pieces {
        Pieces {
            checkpoint: false,
            since: 0,
            size: BYTES.0,
        }
    }
}

impl Pieces {
    /// A checkpoint begins, or ends.
    pub(super) fn checkpoint(&mut self, begins: bool) {
        self.checkpoint = begins;
        self.since = 0;
    }

    /// Counts bytes written to the database's file. Returns whether a sync is due.
    pub(super) fn wrote(&mut self, bytes: usize) -> bool {
        self.since += bytes;
        self.checkpoint && self.since >= self.size
    }

    /// All written bytes were synced, which took this long.
    pub(super) fn synced(&mut self, took: Duration) {
        self.since = 0;
        let (low, high) = GOAL;
        let (least, most) = BYTES;
        if took < low {
            self.size = (2 * self.size).min(most);
        } else if took > high {
            self.size = (self.size / 2).max(least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_as_large_as_the_disk_takes_in_a_few_milliseconds() {
        // The sync's own time and the time for each page, in microseconds.
        for (own, page) in [(100, 5), (1000, 20), (3000, 60)] {
            let mut pieces = Pieces::default();
            pieces.checkpoint(true);
            let (mut since, mut last) = (0, Duration::ZERO);
            for _ in 0..20_000 {
                since += 1;
                if pieces.wrote(4096) {
                    last = Duration::from_micros(own + page * since);
                    pieces.synced(last);
                    since = 0;
                }
            }
            let most = Duration::from_millis(12);
            assert!(last >= GOAL.0 && last < most, "{own} {page}: {last:?}");
        }
    }

    #[test]
    fn writes_outside_checkpoints_are_not_synced() {
        let mut pieces = Pieces::default();
        assert!(!pieces.wrote(1 << 30));
        pieces.checkpoint(true);
        assert!(!pieces.wrote(4096));
        assert!(pieces.wrote(1 << 20));
        pieces.checkpoint(false);
        assert!(!pieces.wrote(1 << 30));
    }
}
