//! A checkpoint's pages are made durable while they are written.
//!
//! SQLite writes ten thousands of pages to the page cache and then syncs them at once. Whoever else syncs meanwhile waits until the disk has all that, for hundreds of milliseconds. So
//! pages are synced a piece at a time, and a piece is as large as the disk takes in a few milliseconds. SQLite's own sync at the end stays; what it promises is the same.

use std::time::Duration;

/// What a piece's sync should take: less, and most of it is the sync itself; more, and others wait.
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

    /// So many bytes were written to the database's file; whether a sync is due.
    pub(super) fn wrote(&mut self, bytes: usize) -> bool {
        self.since += bytes;
        self.checkpoint && self.since >= self.size
    }

    /// What was written is synced; that took so long.
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
        // A sync of its own, and so much for each page.
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
    fn outside_of_checkpoints_nothing_is_synced() {
        let mut pieces = Pieces::default();
        assert!(!pieces.wrote(1 << 30));
        pieces.checkpoint(true);
        assert!(!pieces.wrote(4096));
        assert!(pieces.wrote(1 << 20));
        pieces.checkpoint(false);
        assert!(!pieces.wrote(1 << 30));
    }
}
