//! How far the base table is, in the snapshot that a cursor reads.

use super::unapplied::Unapplied;
use super::visibility::{ClusteredSnapshot, Visibility};
use crate::clustered::{ClusteredProgress, Definition};
use densite_log::Seq;
use densite_sqlite::{Connection, OwnedStatement, Result, ValueRef};

/// The columns of `densite_applied` for [`Applied::of`], in its order.
pub(crate) const APPLIED_COLUMNS: [&str; 3] = ["seq", "clustered", "clustered_done"];

/// The progress in `densite_applied`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Applied {
    pub(crate) seq: Seq,
    /// Id of the clustered apply, 0 without one, and the number of places of its order that are
    /// done.
    clustered: i64,
    done: u32,
}

impl Applied {
    /// Reads the columns of a statement from `first` on; `None` if they have no position.
    pub(crate) fn of(statement: &OwnedStatement, first: usize) -> Option<Applied> {
        let number = |i: usize| match statement.column(first + i) {
            ValueRef::Integer(n) => Some(n),
            _ => None,
        };
        Some(Applied {
            seq: u64::try_from(number(0)?).unwrap_or(0),
            clustered: number(1).unwrap_or(0),
            done: u32::try_from(number(2).unwrap_or(0)).unwrap_or(0),
        })
    }

    /// Whether a visibility was made for this progress.
    pub(crate) fn is_of(self, visibility: &Visibility) -> bool {
        let (clustered, done) = visibility
            .clustered
            .as_ref()
            .map_or((0, 0), |s| (s.id, s.progress.done));
        // While nothing of it is done, a clustered apply has no effect.
        visibility.from == self.seq
            && done == self.done
            && (clustered == self.clustered || done == 0)
    }

    /// The rows behind `seq` that the base table already has. The connection must still be in the
    /// snapshot in which this was read.
    pub(crate) fn clustered(
        self,
        connection: &Connection,
        unapplied: &Unapplied,
    ) -> Result<Option<ClusteredSnapshot>> {
        if self.clustered == 0 || self.done == 0 {
            return Ok(None);
        }
        let permutation = match unapplied.permutation(self.clustered) {
            Some(permutation) => permutation,
            None => {
                let read = Definition::load(connection, self.clustered)?.permutation;
                unapplied.keep_permutation(self.clustered, self.seq, read.clone());
                read
            }
        };
        Ok(Some(ClusteredSnapshot {
            id: self.clustered,
            progress: ClusteredProgress {
                before: self.seq,
                permutation,
                done: self.done,
            },
        }))
    }
}
