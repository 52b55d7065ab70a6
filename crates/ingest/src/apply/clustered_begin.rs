//! Beginning a clustered apply ([`crate::clustered`]): whether it is worth it, and its order.

use super::clustered_apply::ClusteredApply;
use super::following::Following;
use super::planner::{Waiting, limits};
use super::round::{Round, Turn};
use crate::clustered::{ClusteredBatch, ClusteredLimits, Definition};
use densite_log::Seq;
use densite_sqlite::Result;

/// Decides whether a clustered apply begins, and with which rows.
#[derive(Default)]
pub(super) struct Beginning {
    /// Plans the clustered apply after the running one.
    following: Following,
    due: Option<Due>,
    /// Up to here rows are applied in the log's order, because planning found no better order.
    log_order_to: Seq,
}

/// The rows of a clustered apply that is about to begin.
enum Due {
    /// A thread has planned it.
    Planned(Definition, ClusteredBatch),
    /// Enough rows wait. The batch can have this many.
    Waiting(ClusteredLimits),
}

impl Beginning {
    /// Whether enough rows wait for a clustered apply.
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

    /// Orders the waiting rows; `None` if they keep the log's order.
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

    /// Prepares the next clustered apply when it is time. The running one ends at `last`, and
    /// `done` of its `all` places are done.
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
