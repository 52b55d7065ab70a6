//! Beginning a clustered apply ([`crate::clustered`]): whether one is worth it, and its order.

use super::clustered_apply::ClusteredApply;
use super::following::Following;
use super::planner::{Waiting, limits};
use super::round::{Round, Turn};
use crate::clustered::{ClusteredBatch, ClusteredLimits, Definition};
use densite_log::Seq;
use densite_sqlite::Result;

/// Whether, and with what, a clustered apply begins.
#[derive(Default)]
pub(super) struct Beginning {
    /// Plans the clustered apply after the present one.
    following: Following,
    due: Option<Due>,
    /// Up to here rows are applied in the log's order: it was tried.
    log_order_to: Seq,
}

/// What a clustered apply begins with.
enum Due {
    /// A thread has planned it.
    Planned(Definition, ClusteredBatch),
    /// Enough rows wait. It may have so many.
    Waiting(ClusteredLimits),
}

impl Beginning {
    /// Whether so many rows wait that another order than the log's is worth it.
    ///
    /// # Errors
    /// The log's.
    pub(super) fn is_due(&mut self, round: &Round, turn: &Turn<'_>) -> Result<bool> {
        let before = turn.named.seq;
        self.due = None;
        if before < self.log_order_to || round.whole {
            return Ok(false);
        }
        self.due = match self.following.take(before) {
            Some((definition, batch)) => Some(Due::Planned(definition, batch)),
            None => limits(turn.applying, before)?.map(Due::Waiting),
        };
        Ok(self.due.is_some())
    }

    /// Puts the rows that wait in order; `None` if they keep the log's order.
    ///
    /// # Errors
    /// SQLite's, the log's.
    pub(super) fn prepare(
        &mut self,
        round: &mut Round,
        turn: &Turn<'_>,
    ) -> Result<Option<ClusteredApply>> {
        let waiting = match self.due.take() {
            None => return Ok(None),
            Some(Due::Planned(definition, batch)) => Waiting::Clustered(definition, batch),
            Some(Due::Waiting(limits)) => {
                let (open, goes_on) = (&turn.applying.open, || !turn.applying.stops());
                (round.planner()).plan(open, turn.named.seq, limits, goes_on)?
            }
        };
        match waiting {
            Waiting::Clustered(definition, batch) => {
                Ok(Some(ClusteredApply::new(definition, batch)))
            }
            Waiting::InLogOrder(last) => {
                self.log_order_to = last;
                Ok(None)
            }
        }
    }

    /// So many of `all` places are done of a clustered apply that ends at `last`: the next one is
    /// prepared when it is time.
    ///
    /// # Errors
    /// The log's.
    pub(super) fn prepare_following(
        &mut self,
        turn: &Turn<'_>,
        last: Seq,
        (done, all): (usize, usize),
    ) -> Result<()> {
        self.following.prepare(turn.applying, last, (done, all))
    }
}
