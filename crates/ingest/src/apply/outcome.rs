//! How a round of the worker ends.

use densite_log::Seq;
use densite_sqlite::Error;

/// What a round did.
pub(super) enum Did {
    /// Rows are applied up to here.
    Applied(Seq),
    /// There was nothing; all is applied up to here.
    Nothing(Seq),
    /// There are rows, and this keeps them from being applied.
    Waits(Error),
    /// The database does not name the log: the transaction that makes it do so is not committed
    /// yet, or its table was dropped.
    Unnamed,
}

/// How a transaction failed.
pub(super) enum Failed {
    /// It takes too long: so many rows were done in the time there is.
    Slow(usize),
    /// A statement of many rows failed for one of them: again, one by one.
    Together,
    /// Something changed between reading and the lock.
    Again,
    /// This row ended the whole transaction (RAISE(ROLLBACK)): again, without it.
    Poison(Seq, String),
    /// COMMIT was refused (a deferred foreign key): fewer transactions; one alone is rejected.
    Commit(Error),
    /// Nothing to do with the rows: later again.
    Other(Error),
}

impl From<Error> for Failed {
    fn from(e: Error) -> Failed {
        Failed::Other(e)
    }
}
