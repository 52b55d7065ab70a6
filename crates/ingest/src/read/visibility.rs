//! Which rows of the log a read transaction sees.

use crate::clustered::ClusteredProgress;
use densite_log::Seq;

/// Rows that are not appended yet have numbers above this.
pub(crate) const OWN: Seq = 1 << 62;

/// A clustered apply that is on its way, as a snapshot has it.
#[derive(Debug, Clone)]
pub(crate) struct ClusteredSnapshot {
    pub(crate) id: i64,
    pub(crate) progress: ClusteredProgress,
}

/// Which numbers a transaction sees.
#[derive(Debug, Clone, Default)]
pub(crate) struct Visibility {
    /// The base table has the rows up to here.
    pub(crate) from: Seq,
    /// The log's end for this transaction.
    pub(crate) to: Seq,
    /// Rows between them that it has, too.
    pub(crate) clustered: Option<ClusteredSnapshot>,
}

impl Visibility {
    /// Own rows have no number yet.
    pub(crate) fn sees(&self, seq: Seq) -> bool {
        let is_applied = |s: &ClusteredSnapshot| s.progress.has(seq);
        seq > self.from
            && (seq <= self.to || seq >= OWN)
            && !self.clustered.as_ref().is_some_and(is_applied)
    }
}
