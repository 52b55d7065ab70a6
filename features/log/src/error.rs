//! Errors of the log, one variant for each way in which a caller can react.

use crate::Seq;
use densite_disk as disk;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the log.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The disk is full: free space and try again. No row of the request is in the log.
    #[error("{0}")]
    Full(disk::Error),
    /// A system call failed; the log can still be used. No row of the request is in the log.
    #[error("{0}")]
    Io(disk::Error),
    /// A sync failed. The rows are not in the log, and the next batch goes to a new segment.
    #[error("the log could not be made durable ({0}); the rows were not appended")]
    SyncFailed(disk::Error),
    /// Bytes that were known to be synced are missing or changed. `densite log check` lists all
    /// such places.
    #[error("the log is damaged: {segment}, offset {offset}: {problem}")]
    Damaged {
        /// Name of the file in the log's directory.
        segment: String,
        /// Offset in the file, bytes.
        offset: u64,
        /// What is wrong there.
        problem: String,
    },
    /// There is no log in the directory, and the options do not ask to make one.
    #[error("there is no log in the directory")]
    Missing,
    /// The log belongs to another database.
    #[error(
        "the log belongs to another database: its id is {found}, the database names {expected}"
    )]
    OtherLog {
        /// The id in the log.
        found: crate::LogId,
        /// The id that was asked for.
        expected: crate::LogId,
    },
    /// The log was written by a newer program.
    #[error(
        "log format version {found} is newer than {supported}, the newest this program reads; use a newer Densite"
    )]
    NewerFormat {
        /// The version found.
        found: u32,
        /// The newest version supported.
        supported: u32,
    },
    /// The requested rows are no longer in the log.
    #[error(
        "the log begins at {first}; {wanted} was pruned, or the database is older than the log reaches back"
    )]
    Pruned {
        /// The sequence number that was asked for.
        wanted: Seq,
        /// The first one in the log.
        first: Seq,
    },
    /// No subscriber has that name.
    #[error("there is no subscriber {0:?}")]
    NoSubscriber(String),
    /// The subscriber was dropped, because more was kept for it than `max_retained_bytes` allows.
    #[error(
        "the subscriber {0:?} was dropped: the log kept more than max_retained_bytes for it, and rows that it has not acknowledged can be gone; read what it needs from the tables, and subscribe again"
    )]
    Dropped(String),
    /// There is already a subscriber with that name.
    #[error("there is a subscriber {0:?} already")]
    SubscriberExists(String),
    /// The name is not valid for a subscriber.
    #[error("{0:?} is no name for a subscriber: 1 to 64 letters, digits, '-', '_' or '.'")]
    BadName(String),
    /// The acknowledged row is not in the log.
    #[error("{seq} cannot be acknowledged: the log ends at {last}")]
    AckBeyondEnd {
        /// The sequence number of the request.
        seq: Seq,
        /// The last sequence number that can have been read.
        last: Seq,
    },
    /// One transaction is too large for the log.
    #[error("a transaction of {bytes} bytes is too large for the log; {max} fit")]
    TooLarge {
        /// Its size, bytes.
        bytes: u64,
        /// The largest size, bytes.
        max: u64,
    },
    /// The number of values of a row differs from the number of columns of its table.
    #[error("table {table} has {expected} columns, the row has {found} values")]
    WrongColumns {
        /// Name of the table.
        table: String,
        /// Number of its columns.
        expected: usize,
        /// Number of values in the row.
        found: usize,
    },
    /// A name, a number of columns or another quantity exceeds a limit of the format.
    #[error("{0}")]
    Limit(&'static str),
    /// The log's directory, or a file in it, was moved, removed or replaced since the log was
    /// opened. A repair does this too. Neither log has a row or a change of the request.
    #[error("the log was moved, removed, repaired or replaced since it was opened; open it again")]
    Replaced,
    /// The log is open for reading only.
    #[error("the log is open for reading only; open it for writing")]
    ReadOnly,
    /// Another process has the log open.
    #[error("another process has the log open; end it first")]
    InUse,
    /// Another process holds a lock of the log and does not release it. No row or change of the
    /// request is in the log.
    #[error(
        "{file} of the log is held by {}, which is stopped or waits for its disk; continue or end it, and try again", shown(*holder)
    )]
    Locked {
        /// Name of the file in the log's directory.
        file: String,
        /// The process, if the system knows it.
        holder: Option<u32>,
    },
    /// A wait for another process was interrupted. No row of the request is in the log.
    #[error("waiting for another process that uses the log was interrupted; try again")]
    Interrupted,
    /// The process was forked after it opened the log: open it again in the child.
    #[error("the log was opened before a fork; open it again in this process")]
    Forked,
    /// A thread that wrote for others panicked. Whether this transaction is in the log is unknown
    /// until the log is opened again.
    #[error("a thread failed while it wrote this transaction; open the log again")]
    Abandoned,
    /// The transaction is not prepared.
    #[error("the transaction is not waiting for commit or rollback")]
    NotPrepared,
}

fn shown(holder: Option<u32>) -> String {
    holder.map_or("another process".to_owned(), |pid| format!("process {pid}"))
}

impl From<disk::Error> for Error {
    fn from(e: disk::Error) -> Self {
        match e.kind {
            disk::ErrorKind::Full => Error::Full(e),
            _ => Error::Io(e),
        }
    }
}
