//! The delay between batches while few rows come in.
//!
//! One transaction for each new row would use the writers' processor and disk as often as they
//! commit. Readers see unapplied rows, so a few rows can wait for more. A process that waits for
//! rows or for room ends the delay. The end of the worker also ends it, and the worker then applies
//! these rows.

use super::Applying;
use super::applier::Applier;
use densite_disk::wait::Deadline;
use densite_log::Seq;
use std::time::Duration;

/// The longest delay: how far a table lags behind its log while the worker keeps up.
const BATCH_DELAY: Duration = Duration::from_millis(50);
/// Time between two checks of how many rows have come, and whether another process waits for them.
const LOOK: Duration = Duration::from_millis(10);
/// This many rows are worth a transaction of their own.
const ROWS: u64 = 4096;

impl Applying {
    /// Number of rows that wait behind this one.
    fn waiting(&self, seq: Seq) -> u64 {
        self.open
            .log()
            .last()
            .map_or(0, |last| last.saturating_sub(seq))
    }

    /// Waits after a batch up to `seq`, until the next one is worth a transaction.
    pub(super) fn delay_next_batch(&self, seq: Seq) {
        let until = Deadline::after(BATCH_DELAY);
        while self.waiting(seq) < ROWS && !self.open.log().is_wanted().unwrap_or(false) {
            let mut state = self.state.lock();
            if std::mem::take(&mut state.wanted) || self.stops() || until.is_over() {
                return;
            }
            drop(self.hurry.wait_for(state, until.left().min(LOOK)));
        }
    }

    /// Applies the last few rows at the end of the worker. So after the database is closed, its
    /// tables have the rows that came in time. Rows that come later stay in the log.
    pub(super) fn finish(&self, applier: &mut Applier, seq: Seq, known: Option<Seq>) {
        let is_well = self.state.lock().trouble.is_none();
        if is_well && (1..ROWS).contains(&self.waiting(seq)) {
            // If this fails, they stay in the log.
            applier.run(self, known).ok();
        }
    }
}
