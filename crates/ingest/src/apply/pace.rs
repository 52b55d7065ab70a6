//! How many rows a batch may have: as many as hold the write lock for the time that is aimed at. More rows at once write fewer pages for each, so it is not less either.

use std::time::Duration;

/// The write lock is held no longer; half a second is promised.
pub(super) const HOLD_MAX: Duration = Duration::from_millis(450);
/// What batches aim at.
const HOLD_GOAL: Duration = Duration::from_millis(280);
/// A batch that held the lock for longer is followed by a time of a tenth of that in which it is free.
const GAP_FROM: Duration = Duration::from_millis(30);
/// A COMMIT that meets a checkpoint's syncs takes so many times as long as the one before it, at most.
const SLOWER: u32 = 3;
const ROWS_FIRST: usize = 4 << 10;
const ROWS_MAX: usize = 512 << 10;

/// See the module.
pub(super) struct Pace {
    rows: usize,
    /// What COMMIT took for each row the last time.
    commit: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            rows: ROWS_FIRST,
            commit: Duration::ZERO,
        }
    }
}

impl Pace {
    /// Rows of the next batch; half of them while a checkpoint is `beside`, since a COMMIT that meets its syncs may take several times as long as those before.
    pub(super) fn rows(&self, beside: bool) -> usize {
        match beside {
            true => (self.rows / 2).max(1),
            false => self.rows,
        }
    }

    /// How long rows of a batch may be inserted, so that the lock is given back in time after its COMMIT; that is taken to be [`SLOWER`] times as long where a checkpoint is `beside`.
    pub(super) fn limit(&self, rows: usize, beside: bool) -> Duration {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        let commit = self.commit.saturating_mul(rows);
        let commit = commit.saturating_mul(if beside { SLOWER } else { 1 });
        HOLD_MAX.saturating_sub(commit).max(HOLD_MAX / 4)
    }

    /// The COMMIT of so many rows took so long.
    pub(super) fn committed(&mut self, rows: usize, took: Duration) {
        self.commit = took / u32::try_from(rows.max(1)).unwrap_or(u32::MAX);
    }

    /// So many rows held the lock for so long. `is_full`: it could have been more.
    pub(super) fn held(&mut self, rows: usize, held: Duration, is_full: bool) {
        let factor = HOLD_GOAL.as_secs_f64() / held.as_secs_f64().max(1e-6);
        if factor < 1.0 || is_full {
            // Pages that are written anew cost less with more rows, so it is approached in steps.
            let rows = rows as f64 * factor.clamp(0.25, 2.0);
            self.rows = (rows as usize).clamp(1, ROWS_MAX);
        }
    }

    /// Only so many rows were done in the time there is, and all had to be taken back.
    pub(super) fn slow(&mut self, done: usize) {
        self.rows = (done / 2).max(1);
    }

    /// How long the lock is to be free after it was held for so long.
    pub(super) fn gap(held: Duration) -> Duration {
        match held > GAP_FROM {
            true => held / 10,
            false => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows that cost 5 µs, and 8 µs each page of 40,000 that they touch at random: as a table of ten million rows.
    #[test]
    fn batches_come_to_the_time_that_is_aimed_at() {
        let mut pace = Pace::default();
        for round in 0..40 {
            let rows = pace.rows(false);
            let pages = 40_000.0 * (1.0 - (-(rows as f64) / 40_000.0).exp());
            let (insert, commit) = (rows as f64 * 5e-6, pages * 8e-6);
            let insert = Duration::from_secs_f64(insert);
            if insert > pace.limit(rows, false) {
                pace.slow(rows / 2);
                continue;
            }
            let commit = Duration::from_secs_f64(commit);
            assert!(
                insert + commit < Duration::from_millis(500),
                "{round}: {rows}"
            );
            pace.committed(rows, commit);
            pace.held(rows, insert + commit, true);
            if round > 20 {
                assert!(
                    (insert + commit).abs_diff(HOLD_GOAL) < Duration::from_millis(20),
                    "{round}: {rows}"
                );
            }
        }
        // A batch that ends with the log says nothing of what would fit.
        let rows = pace.rows(false);
        pace.held(1, Duration::from_micros(100), false);
        assert_eq!(pace.rows(false), rows);
        assert!(pace.limit(rows / 2, true) < pace.limit(rows / 2, false));
        // Half as many rows in half the time say the same.
        assert_eq!(pace.rows(true), rows / 2);
        pace.held(rows / 2, HOLD_GOAL / 2, true);
        assert!(pace.rows(false).abs_diff(rows) < 3);
        pace.held(rows, HOLD_GOAL * 2, false);
        assert_eq!(pace.rows(false), rows / 2);
    }
}
