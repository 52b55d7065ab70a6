//! Clustered applies: a long batch of the log is applied in an order in which neighbouring rows
//! share pages of the table (docs/decisions/ingest-applying.md, Clustered apply).
//!
//! The order is stored before its first row is applied. The number of done places changes in the
//! transaction that applies rows, and `seq` stays before the batch until all is done. So after a
//! kill, a power cut or a restored backup, the next worker and every reader know which rows the
//! table has. No order needs to be reproducible.

mod clustered_batch;
mod definition;
mod key;
mod lookup;
mod order;
mod second;
#[cfg(test)]
mod tests;

pub(crate) use clustered_batch::{ClusteredBatch, bytes};
pub(crate) use definition::Definition;
pub(crate) use lookup::Lookup;
pub(crate) use order::{Second, log_order, permutation};

use densite_log::Seq;
use std::sync::Arc;

/// The limits of a clustered apply, and when one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusteredLimits {
    /// The fewest waiting rows.
    pub least: usize,
    /// The most rows to order together, at most [`ClusteredLimits::MOST`].
    pub most: usize,
    /// The most memory of those rows, bytes.
    pub bytes: usize,
    /// The number of rows that a transaction is expected to apply.
    pub together: usize,
    /// The most rows of a transaction, however fast they are.
    pub at_once: usize,
}

impl ClusteredLimits {
    /// The most numbers that a batch of the log can span.
    pub const MOST: usize = 1 << 22;
}

impl Default for ClusteredLimits {
    fn default() -> ClusteredLimits {
        ClusteredLimits {
            least: 512 << 10,
            most: ClusteredLimits::MOST,
            bytes: 128 << 20,
            together: 64 << 10,
            at_once: usize::MAX,
        }
    }
}

/// For each number of a batch of the log, the place of its row in the order.
pub(crate) type Permutation = Arc<[u32]>;

/// The place of a number that no row has.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// The places that rows keep when their batch is ordered again: those before `done`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kept<'a> {
    pub(crate) permutation: &'a [u32],
    pub(crate) done: u32,
}

impl Kept<'_> {
    /// The kept place of a number of the batch, if it has one.
    fn place(self, number: u32) -> Option<u32> {
        let place = self.permutation.get(number as usize).copied();
        place.filter(|place| *place < self.done)
    }
}

/// Which rows of a batch the table already has.
#[derive(Debug, Clone)]
pub(crate) struct ClusteredProgress {
    /// The last number before the batch.
    pub(crate) before: Seq,
    pub(crate) permutation: Permutation,
    /// The table has the rows with places before this one.
    pub(crate) done: u32,
}

impl ClusteredProgress {
    /// Whether the table already has the row of this number.
    pub(crate) fn has(&self, seq: Seq) -> bool {
        let offset = seq.checked_sub(self.before + 1);
        let place = offset.and_then(|o| self.permutation.get(usize::try_from(o).ok()?));
        place.is_some_and(|place| *place < self.done)
    }
}
