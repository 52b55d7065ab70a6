//! Space reclamation. All calls need the right to write, and are made between transactions.

use super::Handle;
use crate::error::Result;
use crate::publish;
use crate::reclaim::{ReclaimBudget, ReclaimStep, Reclaimed, Reclaimer};
use crate::relearn::{self, RelearnStep, RelearnWhen};
use crate::relearn_state::Stage;
use std::time::Duration;

impl Handle {
    fn reclaimer(&mut self) -> Result<Reclaimer<'_>> {
        self.connection.open.check_writable()?;
        self.between_transactions()?;
        let connection = &mut self.connection;
        Ok(Reclaimer { connection })
    }

    /// Encodes up to `most` pages that were stored raw, because they were written again and again.
    /// Publishes at most one commit, without a sync. Returns whether such pages are left.
    ///
    /// # Errors
    /// As [`Handle::reclaim_step`].
    pub fn settle(&mut self, most: usize) -> Result<bool> {
        if !self.is_unsettled() {
            return Ok(false);
        }
        let shared = self.connection.open.shared()?;
        self.between_transactions()?;
        let due = shared.preencoded.heat.due(most, true);
        publish::in_transaction(&mut self.connection, |transaction, connection| {
            transaction.settle(connection, &due)
        })?;
        Ok(shared.preencoded.heat.is_due())
    }

    /// Whether [`Handle::settle`] has pages to encode.
    pub fn is_unsettled(&self) -> bool {
        let shared = self.connection.open.known();
        shared.is_some_and(|shared| shared.preencoded.heat.is_due())
    }

    /// Learns again from the whole database if it has grown since, and encodes again what becomes
    /// smaller: a step of it, until `stop`. Publishes at most one commit, without a sync. Without
    /// threads, a step can train for 0.5 s.
    ///
    /// # Errors
    /// As [`Handle::reclaim_step`].
    pub fn relearn(&mut self, when: RelearnWhen, stop: &dyn Fn() -> bool) -> Result<RelearnStep> {
        self.between_transactions()?;
        relearn::step(&mut self.connection, when, stop)
    }

    /// Runs a training job that [`Handle::relearn`] waits for on this thread: up to 0.5 s, in which
    /// the caller needs no lock. Returns false if threads have begun all of them.
    pub fn train_here(&self) -> bool {
        let shared = self.connection.open.known();
        let job = shared.and_then(|shared| match &*shared.relearning.lock() {
            Stage::Training(training) => training.unbegun(),
            Stage::Idle | Stage::Sampling(_) => None,
        });
        job.map(|job| job()).is_some()
    }

    /// Whether [`Handle::relearn`] has something to do.
    pub fn wants_relearning(&self, when: RelearnWhen) -> bool {
        let shared = self.connection.open.known();
        shared.is_some_and(|shared| relearn::is_due(&self.connection, shared, when))
    }

    /// Moves the live records of some units elsewhere, if more than the limit is dead or free.
    /// Publishes at most one commit, without a sync.
    ///
    /// # Errors
    /// I/O, a full disk, damage in the page map: nothing has changed then.
    /// [`Error::Setting`](crate::Error::Setting) within a transaction or for a limit out of range.
    pub fn reclaim_step(&mut self, budget: &ReclaimBudget<'_>) -> Result<ReclaimStep> {
        self.reclaimer()?.step(budget)
    }

    /// Does the share of space reclamation that is due after a commit. Nothing is due unless more
    /// than `dead_limit` per cent (10 to 90) of the file is dead or free. `elapsed` returns how
    /// long this has taken. Published, not synced.
    ///
    /// # Errors
    /// As [`Handle::reclaim_step`].
    pub fn reclaim_share(
        &mut self,
        dead_limit: u8,
        elapsed: &dyn Fn() -> Duration,
    ) -> Result<ReclaimStep> {
        self.between_transactions()?;
        let connection = &mut self.connection;
        Reclaimer { connection }.share(dead_limit, elapsed)
    }

    /// Reclaims space down to the limit, in as many rounds as needed. `stop` is also asked between
    /// rounds.
    ///
    /// # Errors
    /// As [`Handle::reclaim_step`], [`Handle::make_reusable`] and [`Handle::cut_end`].
    pub fn reclaim(&mut self, budget: &ReclaimBudget<'_>) -> Result<Reclaimed> {
        self.reclaimer()?.reclaim(budget)
    }

    /// The same up to the point where a sync is due, which is left to the caller. `stop` ends it
    /// too.
    ///
    /// # Errors
    /// As [`Handle::reclaim_step`].
    pub fn reclaim_unsynced(&mut self, budget: &ReclaimBudget<'_>) -> Result<Reclaimed> {
        self.reclaimer()?.reclaim_unsynced(budget)
    }

    /// Makes everything published durable and names it in a durable slot, so that freed space can
    /// be reused. Takes two syncs.
    ///
    /// # Errors
    /// As [`Handle::sync`].
    pub fn make_reusable(&mut self) -> Result<()> {
        let connection = &mut self.connection;
        Reclaimer { connection }.make_reusable()
    }

    /// Cuts free space off the end of the file, except for the reserve. Returns by how many bytes
    /// the file is shorter.
    ///
    /// # Errors
    /// As [`Handle::sync`]; [`Error::Setting`](crate::Error::Setting) within a transaction.
    pub fn cut_end(&mut self) -> Result<u64> {
        self.reclaimer()?.cut_end()
    }
}
