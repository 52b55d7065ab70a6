//! How a round of the worker ends.

use densite_log::Seq;
use densite_sqlite::Error;

/// The result of a round.
pub(super) enum Did {
    /// Rows are applied up to here.
    Applied(Seq),
    /// There was no work; everything is applied up to here.
    Nothing(Seq),
    /// Everything that came from the stream is applied; own rows are applied up to here.
    AwaitsStream(Seq),
    /// There are rows, and this error keeps them from being applied.
    Waits(Error),
    /// The database does not name the log: the transaction that writes the name is not committed
    /// yet, or its table was dropped.
    Unnamed,
}

/// How a transaction failed.
pub(super) enum Failed {
    /// It takes too long: this many rows were done within the limit.
    Slow(usize),
    /// A statement for many rows failed because of one of them: try again one by one.
    Together,
    /// The database changed between reading and taking the lock: try again.
    Again,
    /// This row ended the whole transaction (RAISE(ROLLBACK)): try again without it.
    Poison(Seq, String),
    /// COMMIT was refused (a deferred foreign key): try fewer transactions. One alone is rejected.
    Commit(Error),
    /// An error that does not concern the rows: try again later.
    Other(Error),
}

impl From<Error> for Failed {
    fn from(e: Error) -> Failed {
        Failed::Other(e)
    }
}
