//! The number of rows at the beginning of each savepoint of a transaction.
//!
//! SQLite numbers the savepoints of a connection from the outermost, 0, inwards, and reports a new
//! one to every table of the transaction. To a table that joins later, it reports only the
//! innermost one. If that table is the first to join, the outer savepoints began without rows.

/// A position among the rows of a transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) batches: usize,
    /// Rows of the last of these batches.
    pub(crate) rows: usize,
}

/// One mark for each open savepoint, by its number.
#[derive(Default)]
pub(crate) struct Savepoints(Vec<Mark>);

/// Number of savepoints up to number `n`. The transaction itself is -1.
fn count(n: i32) -> usize {
    usize::try_from(n.saturating_add(1)).unwrap_or(0)
}

impl Savepoints {
    /// Savepoint `n` begins. Several tables report the same savepoint: the first report counts.
    pub(crate) fn begin(&mut self, n: i32, now: Mark) {
        let known = self.0.len();
        self.0.resize(count(n).max(known), now);
    }

    /// Savepoint `n` and those within it have ended.
    pub(crate) fn release(&mut self, n: i32) {
        self.0.truncate(count(n.saturating_sub(1)));
    }

    /// Savepoint `n` continues, those within it have ended. Returns where the rows end now. Without
    /// a known savepoint that is the beginning of the transaction.
    pub(crate) fn rollback_to(&mut self, n: i32) -> Mark {
        self.0.truncate(count(n));
        self.0.last().copied().unwrap_or_default()
    }

    /// The transaction has ended.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rows: usize) -> Mark {
        Mark { batches: 1, rows }
    }

    #[test]
    fn rollback_to_returns_to_the_savepoint_and_not_to_one_within_it() {
        let mut marks = Savepoints::default();
        for (n, rows) in [(0, 1), (1, 2), (2, 3)] {
            marks.begin(n, at(rows));
            // Another table reports the same savepoint.
            marks.begin(n, at(rows));
        }
        assert_eq!(marks.rollback_to(1), at(2));
        assert_eq!(marks.rollback_to(1), at(2));
        assert_eq!(marks.rollback_to(0), at(1));
        assert_eq!(marks.rollback_to(-1), Mark::default());
    }

    #[test]
    fn savepoints_that_began_before_the_first_table_joined_have_no_rows() {
        let mut marks = Savepoints::default();
        marks.begin(1, Mark::default());
        marks.release(1);
        marks.begin(1, at(2));
        assert_eq!(marks.rollback_to(0), Mark::default());
    }

    #[test]
    fn a_number_is_used_again_after_its_release() {
        let mut marks = Savepoints::default();
        marks.begin(0, at(1));
        marks.release(0);
        marks.begin(0, at(5));
        assert_eq!(marks.rollback_to(0), at(5));
    }
}
