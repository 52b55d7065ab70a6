//! How far the base is, in the snapshot that a cursor reads.

use super::unapplied::Unapplied;
use super::visibility::{ClusteredSnapshot, Visibility};
use crate::clustered::{ClusteredProgress, Definition};
use densite_log::Seq;
use densite_sqlite::{Connection, OwnedStatement, Result, ValueRef};

/// The columns of `densite_applied` that say it, in the order of [`Applied::of`].
pub(crate) const APPLIED_COLUMNS: [&str; 3] = ["seq", "clustered", "clustered_done"];

/// What `densite_applied` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Applied {
    pub(crate) seq: Seq,
    /// The clustered apply's id, 0 without one, and how many places of its order are done.
    clustered: i64,
    done: u32,
}

impl Applied {
    /// From the columns of a statement, the first of which is this one; `None` where they say
    /// nothing.
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

    /// Whether this is what a visibility was made for.
    pub(crate) fn is_of(self, visibility: &Visibility) -> bool {
        let (clustered, done) = visibility
            .clustered
            .as_ref()
            .map_or((0, 0), |s| (s.id, s.progress.done));
        // As long as nothing of it is done, a clustered apply is like none.
        visibility.from == self.seq
            && done == self.done
            && (clustered == self.clustered || done == 0)
    }

    /// Which rows behind `seq` the base has nevertheless. The connection's snapshot is the one that
    /// this was read in.
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
