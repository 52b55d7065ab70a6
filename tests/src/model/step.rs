//! One step: what is done on both sides, and what counts as its success.

use super::kind::Kind;
use super::outcome::Outcome;

/// What to do.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// SQL on the main connection. `{DIR}` stands for the side's folder.
    Main(String),
    /// SQL on the main connection after a statement that is another one for plain SQLite, and
    /// whose rows may differ.
    MainAfter {
        first: String,
        plain: String,
        sql: String,
    },
    /// A checkpoint of `main` in that mode. How many frames a WAL has depends on what was in
    /// SQLite's page cache, and that on whether the VFS lets it read parts of overflow pages
    /// past that cache: so only whether it was busy is compared.
    Checkpoint(&'static str),
    /// SQL on the second connection, which is opened if need be.
    Second(String),
    /// Closes the second connection.
    CloseSecond,
    /// Opens a transaction on the second connection and takes down what it sees.
    SnapshotBegin,
    /// Looks whether the second connection still sees the same.
    SnapshotRead,
    /// Reads a value of `keep_blobs` through the incremental API in pieces of that many bytes,
    /// the nth row and the one after it.
    BlobRead { nth: usize, piece: usize },
    /// Writes into a value through the incremental API: that many bytes from there on.
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
    /// Copies the main database into a file with the backup API, so many pages at a time,
    /// with a statement after the first of them, and compares.
    BackupOut {
        plain: bool,
        pages: i32,
        between: Option<String>,
    },
    /// Copies such a file back over the main database.
    BackupIn { plain: bool, pages: i32 },
    /// Closes all connections, or all but the second one, looks at what they leave, and opens
    /// again. `settings` are Densite's URI parameters; with `check` the store is verified in
    /// between, if nobody has it open.
    Reopen {
        settings: String,
        keep_second: bool,
        check: bool,
    },
    /// Compares a digest of all content.
    Digest,
}

/// What counts as success.
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
    /// No error; a checkpoint of a WAL that nobody was in the way of.
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
    /// `None`: only prepares another one.
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

    /// SQL on the main connection that succeeds when it does not fail.
    pub(crate) fn sql(kind: Kind, sql: impl Into<String>) -> Step {
        Step::new(kind, Action::Main(sql.into()), Proof::Ok)
    }

    /// SQL on the main connection that succeeds when it writes rows.
    pub(crate) fn writes(kind: Kind, sql: impl Into<String>) -> Step {
        Step::new(kind, Action::Main(sql.into()), Proof::Changes)
    }
}
