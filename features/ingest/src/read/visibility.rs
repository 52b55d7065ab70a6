//! Which rows of the log a read transaction sees.

use crate::clustered::ClusteredProgress;
use densite_log::Seq;

/// The connection's own rows, which are not appended yet, have numbers from here on.
pub(crate) const OWN: Seq = 1 << 62;

/// A running clustered apply, as a snapshot sees it.
#[derive(Debug, Clone)]
pub(crate) struct ClusteredSnapshot {
    pub(crate) id: i64,
    pub(crate) progress: ClusteredProgress,
}

/// The numbers that a transaction sees.
#[derive(Debug, Clone, Default)]
pub(crate) struct Visibility {
    /// The base table has all rows up to here.
    pub(crate) from: Seq,
    /// The log's end for this transaction.
    pub(crate) to: Seq,
    /// Later rows that the base table also has.
    pub(crate) clustered: Option<ClusteredSnapshot>,
}

impl Visibility {
    /// Whether the transaction sees this row. Its own rows count as well.
    pub(crate) fn sees(&self, seq: Seq) -> bool {
        let is_applied = |s: &ClusteredSnapshot| s.progress.has(seq);
        seq > self.from
            && (seq <= self.to || seq >= OWN)
            && !self.clustered.as_ref().is_some_and(is_applied)
    }
}
