//! Beginning a clustered apply ([`crate::clustered`]): whether it is worth it, and its order.

use super::clustered_apply::ClusteredApply;
use super::planner::{Waiting, limits};
use super::round::{Round, Turn};
use crate::clustered::ClusteredLimits;
use densite_log::Seq;
use densite_sqlite::Result;

/// Decides whether a clustered apply begins, and with which rows.
#[derive(Default)]
pub(super) struct Beginning {
    /// Set if enough rows wait: the limits of their batch.
    due: Option<ClusteredLimits>,
    /// Up to here rows are applied in the log's order, because planning found no better order.
    log_order_to: Seq,
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
        self.due = limits(turn.applying, before)?;
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
        let Some(limits) = self.due.take() else {
            return Ok(None);
        };
        let (open, goes_on) = (&turn.applying.open, || !turn.applying.stops());
        match (round.planner()).plan(open, turn.named.seq, limits, goes_on)? {
            Waiting::Clustered(definition, batch) => {
                Ok(Some(ClusteredApply::new(definition, batch)))
            }
            Waiting::InLogOrder(last) => {
                self.log_order_to = last;
                Ok(None)
            }
        }
    }
}
