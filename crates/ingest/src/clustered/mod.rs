//! Clustered applies: a long batch of the log, applied in another order than its own, so that what is applied together lies together in the table.
//!
//! Random rows in the order of the log meet a page of each index for every row. So where many rows wait, all of one table whose rows may be applied in any order that keeps the order within a key
//! (rule 5), a long batch of them is put in order first: cut into stripes by the primary key, and within a stripe ordered by the first column of another index. As many rows as a transaction takes, one after
//! another in that order, share their pages in both.
//!
//! That order is written to the database, in a transaction of its own, before the first row of it is applied: the number of a row in the log gives its place in the order. How many places are done stands in
//! `densite_applied` and changes in the transaction that applies them; `seq` there stays in front of the batch until all of it is done. So whoever goes on with it after a kill, a power cut or a restored backup, and
//! whoever reads table and log as one, knows of each row whether it is in the table, and nothing has to be computed twice in the same way.

mod batch;
mod definition;
mod key;
mod lookup;
mod order;
mod second;
#[cfg(test)]
mod tests;

pub(crate) use batch::{ClusteredBatch, bytes};
pub(crate) use definition::Definition;
pub(crate) use lookup::Lookup;
pub(crate) use order::{Second, log_order, permutation};

use densite_log::Seq;
use std::sync::Arc;

/// When rows are applied in another order than that of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusteredLimits {
    /// So many rows must wait.
    pub least: usize,
    /// So many are put in order together at most; no more than [`ClusteredLimits::MOST`].
    pub most: usize,
    /// Bytes of the memory that those may take.
    pub bytes: usize,
    /// Rows that a transaction is expected to apply.
    pub together: usize,
    /// Rows that a transaction may apply, however fast they are.
    pub at_once: usize,
    /// Rows that readers of this process have in memory at most, some 100 MiB of them, beside two clustered applies: while there are more, the next one is not read beforehand.
    pub read_max: usize,
}

impl ClusteredLimits {
    /// Numbers that a batch of the log may have.
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
            read_max: 4 << 20,
        }
    }
}

/// For each number of a batch of the log the place of its row in the order.
pub(crate) type Permutation = Arc<[u32]>;

/// No row has this number.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Permutation that rows of a batch keep when it gets another order: those before `done`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kept<'a> {
    pub(crate) permutation: &'a [u32],
    pub(crate) done: u32,
}

impl Kept<'_> {
    /// That of a number of the batch.
    fn place(self, number: u32) -> Option<u32> {
        let place = self.permutation.get(number as usize).copied();
        place.filter(|place| *place < self.done)
    }
}

/// Which rows of a batch of the log the base has.
#[derive(Debug, Clone)]
pub(crate) struct ClusteredProgress {
    /// The last number before the batch.
    pub(crate) before: Seq,
    pub(crate) permutation: Permutation,
    /// The base has the rows with places before this one.
    pub(crate) done: u32,
}

impl ClusteredProgress {
    /// Whether the base has the row of this number already.
    pub(crate) fn has(&self, seq: Seq) -> bool {
        let offset = seq.checked_sub(self.before + 1);
        let place = offset.and_then(|o| self.permutation.get(usize::try_from(o).ok()?));
        place.is_some_and(|place| *place < self.done)
    }
}
