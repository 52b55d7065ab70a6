//! The delay between batches while rows trickle in.
//!
//! A transaction for each row that comes would take the writers' processor, and their disk's time,
//! as often as they commit. Readers see rows that are not applied, so few rows can wait a little
//! for more. Who waits for them, or for room, ends the delay; so does the end of the worker, which
//! then applies them.

use super::Applying;
use super::applier::Applier;
use densite_log::Seq;
use std::time::{Duration, Instant};

/// The longest delay: how far a table lags behind its log while its worker keeps up.
const BATCH_DELAY: Duration = Duration::from_millis(50);
/// Between two looks at how many rows have come, and whether another process waits for them.
const LOOK: Duration = Duration::from_millis(10);
/// So many rows are worth a transaction of their own.
const ROWS: u64 = 4096;

impl Applying {
    /// How many rows wait that follow this one.
    fn waiting(&self, seq: Seq) -> u64 {
        self.open
            .log()
            .last()
            .map_or(0, |last| last.saturating_sub(seq))
    }

    /// Waits after a batch up to `seq`, until the next one is worth a transaction.
    pub(super) fn delay_next_batch(&self, seq: Seq) {
        let until = Instant::now() + BATCH_DELAY;
        while self.waiting(seq) < ROWS && !self.open.log().is_wanted().unwrap_or(false) {
            let mut state = self.state.lock();
            let left = until.saturating_duration_since(Instant::now());
            if std::mem::take(&mut state.wanted) || self.stops() || left.is_zero() {
                return;
            }
            drop(self.hurry.wait_for(state, left.min(LOOK)));
        }
    }

    /// The end of the worker. Whoever closes the database finds in its tables what was there in
    /// time; what came after that stays in the log.
    pub(super) fn finish(&self, applier: &mut Applier, seq: Seq, known: Option<Seq>) {
        let is_well = self.state.lock().trouble.is_none();
        if is_well && (1..ROWS).contains(&self.waiting(seq)) {
            // They stay in the log if it fails.
            applier.run(self, known).ok();
        }
    }
}
