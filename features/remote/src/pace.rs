//! How fast bytes arrive, so that no request asks for more than arrives in time.

use crate::blocks::BLOCK;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The part of the time limit that a request may take at the newest pace.
const PART: u128 = 4;

/// The pace of the newest answer.
#[derive(Debug)]
pub(crate) struct Pace {
    limit: Duration,
    /// Blocks that come within a part of the limit.
    in_time: AtomicU64,
}

impl Pace {
    /// For requests that may take this long.
    pub(crate) fn new(limit: Duration) -> Pace {
        Pace {
            limit,
            in_time: AtomicU64::new(u64::MAX),
        }
    }

    /// This many bytes came within this time, after a delay that any number of them has.
    pub(crate) fn received(&self, bytes: u64, delay: Duration, within: Duration) {
        let limit = self.limit.saturating_sub(delay).as_nanos();
        let in_limit = u128::from(bytes) * limit / within.as_nanos().max(1);
        let blocks = u64::try_from(in_limit / PART / u128::from(BLOCK)).unwrap_or(u64::MAX);
        self.in_time.store(blocks, Relaxed);
    }

    /// How many blocks come in time at the newest pace.
    pub(crate) fn in_time(&self) -> u64 {
        self.in_time.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_line_gets_smaller_requests() {
        let pace = Pace::new(Duration::from_secs(32));
        assert_eq!(pace.in_time(), u64::MAX, "nothing is known");
        // 128 KiB/s: 64 blocks in 8 s.
        let second = Duration::from_secs(1);
        pace.received(128 << 10, Duration::ZERO, second);
        assert_eq!(pace.in_time(), 64);
        // A delay does not grow with the bytes.
        pace.received(128 << 10, 8 * second, second);
        assert_eq!(pace.in_time(), 48);
        pace.received(1, Duration::ZERO, 32 * second);
        assert_eq!(pace.in_time(), 0);
        pace.received(8 << 20, 2 * second, Duration::ZERO);
        assert!(pace.in_time() > 1 << 20);
    }
}
