//! One step: what both sides execute, and what counts as success.

use super::kind::Kind;
use super::outcome::Outcome;

/// The operation of a step.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// SQL on the main connection. `{DIR}` stands for the directory of the side.
    Main(String),
    /// SQL on the main connection, after a statement that differs for plain SQLite and whose rows
    /// can differ.
    MainAfter {
        first: String,
        plain: String,
        sql: String,
    },
    /// A checkpoint of `main` in that mode. The number of frames in a WAL depends on SQLite's page
    /// cache, and that depends on whether the VFS lets SQLite read parts of overflow pages past the
    /// cache. So only the busy flag is compared.
    Checkpoint(&'static str),
    /// SQL on the second connection, which is opened if necessary.
    Second(String),
    /// Closes the second connection.
    CloseSecond,
    /// Begins a transaction on the second connection and records what it sees.
    SnapshotBegin,
    /// Checks that the second connection still sees the same.
    SnapshotRead,
    /// Reads a value of `keep_blobs` through the incremental API, in pieces of that many bytes: the
    /// nth row and the one after it.
    BlobRead { nth: usize, piece: usize },
    /// Writes to a value through the incremental API: that many bytes from an offset on.
    BlobWrite {
        nth: usize,
        per_mille: usize,
        len: usize,
        seed: u64,
    },
    /// For each row of a query, runs a statement with its row number in place of `?`.
    Cursor { query: String, statement: String },
    /// VACUUM INTO, and compares the copy with its source.
    VacuumInto { sql: String, plain: bool },
    /// Copies the main database into a file with the backup API, with a given number of pages at a
    /// time and a statement after the first step. Then compares the copy.
    BackupOut {
        plain: bool,
        pages: i32,
        between: Option<String>,
    },
    /// Copies such a file back over the main database.
    BackupIn { plain: bool, pages: i32 },
    /// Closes all connections, or all except the second one, checks the files, and opens again.
    /// `settings` are Densite's URI parameters. With `check` the store is verified in between, if
    /// no connection has it open.
    Reopen {
        settings: String,
        keep_second: bool,
        check: bool,
    },
    /// Compares a digest of all content.
    Digest,
}

/// The condition of success.
#[derive(Debug, Clone)]
pub(crate) enum Proof {
    /// No error.
    Ok,
    /// No error, and rows were written.
    Changes,
    /// No error, and rows came back.
    Rows,
    /// No error, and the last row is this.
    Last(String),
    /// No error, and the first row is not the last one.
    Differ,
    /// A constraint was violated.
    Constraint,
    /// No error, and the checkpoint of a WAL was not blocked.
    Checkpoint,
}

impl Proof {
    pub(crate) fn holds(&self, outcome: &Outcome) -> bool {
        match self {
            Proof::Constraint => outcome.is_constraint(),
            _ if !outcome.is_ok() => false,
            Proof::Ok => true,
            Proof::Changes => outcome.changes > 0,
            Proof::Rows => outcome.rows > 0,
            Proof::Last(wanted) => outcome.last.as_ref() == Some(wanted),
            Proof::Differ => outcome.rows > 1 && outcome.first.first() != outcome.last.as_ref(),
            Proof::Checkpoint => outcome.last.as_deref() == Some("done"),
        }
    }
}

/// One step.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// `None` if the step only prepares another one.
    pub(crate) kind: Option<Kind>,
    pub(crate) action: Action,
    pub(crate) proof: Proof,
}

impl Step {
    pub(crate) fn new(kind: Kind, action: Action, proof: Proof) -> Step {
        Step {
            kind: Some(kind),
            action,
            proof,
        }
    }

    /// SQL on the main connection. It succeeds if there is no error.
    pub(crate) fn sql(kind: Kind, sql: impl Into<String>) -> Step {
        Step::new(kind, Action::Main(sql.into()), Proof::Ok)
    }

    /// SQL on the main connection. It succeeds if it writes rows.
    pub(crate) fn writes(kind: Kind, sql: impl Into<String>) -> Step {
        Step::new(kind, Action::Main(sql.into()), Proof::Changes)
    }
}
