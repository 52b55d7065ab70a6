//! Giving space back. All calls are for whoever has the writer's right, between transactions.

use super::Handle;
use crate::error::Result;
use crate::reclaim::{ReclaimBudget, ReclaimStep, Reclaimed, Reclaimer};
use std::time::Duration;

impl Handle {
    fn reclaimer(&mut self) -> Result<Reclaimer<'_>> {
        self.connection.open.check_writable()?;
        self.between_transactions()?;
        let connection = &mut self.connection;
        Ok(Reclaimer { connection })
    }

    /// Moves what lives in some units elsewhere, if more than the limit is dead or free. One published commit at most, not synced.
    ///
    /// # Errors
    /// I/O, a full disk, damage in the page map: nothing has changed then. [`Error::Setting`](crate::Error::Setting) within a
    /// transaction or for a limit out of range.
    pub fn reclaim_step(&mut self, budget: &ReclaimBudget<'_>) -> Result<ReclaimStep> {
        self.reclaimer()?.step(budget)
    }

    /// After a commit: moves what it owes, if more than `dead_limit` per cent (10 to 90) of the file is dead or free. `elapsed` tells
    /// how long this has taken. Published and not synced.
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

    /// Gives back what the limit says, in as many rounds as it takes; `stop` is asked between them too.
    ///
    /// # Errors
    /// As [`Handle::reclaim_step`], [`Handle::make_reusable`] and [`Handle::cut_end`].
    pub fn reclaim(&mut self, budget: &ReclaimBudget<'_>) -> Result<Reclaimed> {
        self.reclaimer()?.reclaim(budget)
    }

    /// The same up to where a sync is due, which is left to the caller. `stop` ends it, too.
    ///
    /// # Errors
    /// As [`Handle::reclaim_step`].
    pub fn reclaim_unsynced(&mut self, budget: &ReclaimBudget<'_>) -> Result<Reclaimed> {
        self.reclaimer()?.reclaim_unsynced(budget)
    }

    /// Makes everything published durable and names it in a durable slot, so that what was freed can be written again. Two syncs.
    ///
    /// # Errors
    /// As [`Handle::sync`].
    pub fn make_reusable(&mut self) -> Result<()> {
        let connection = &mut self.connection;
        Reclaimer { connection }.make_reusable()
    }

    /// Cuts off what is free at the end of the file, except for the reserve. Returns the bytes by which the file is shorter.
    ///
    /// # Errors
    /// As [`Handle::sync`]; [`Error::Setting`](crate::Error::Setting) within a transaction.
    pub fn cut_end(&mut self) -> Result<u64> {
        self.reclaimer()?.cut_end()
    }
}
