//! What was asked of ingest, and what it said when, by the changes of the disk up to then.

use densite_disk::sync::Mutex;
use densite_sim_disk::SimDisk;

/// Numbers of the disk's changes before something began and when it was done; `None` if nobody was told that it was.
#[derive(Debug, Clone, Copy)]
pub struct When {
    /// Before it began.
    pub began: u64,
    /// When it was answered.
    pub done: u64,
}

/// What the application was told of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It is committed; the number of its last row.
    Committed(u64),
    /// It is not.
    Nothing,
    /// It was not told: the machine failed first.
    Unknown,
}

/// A row: the table's name and two numbers that no other row has.
pub(super) type Row = (&'static str, i64, i64);

/// A transaction.
#[derive(Debug, Clone)]
pub struct Txn {
    /// Its rows in order, without those that a savepoint took back.
    pub rows: Vec<Row>,
    /// Rows that were taken back before COMMIT.
    pub taken_back: Vec<Row>,
    /// What was told.
    pub told: Told,
    /// When.
    pub when: When,
}

/// Everything that happened.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Transactions in the order of their ends.
    pub txns: Mutex<Vec<Txn>>,
    /// Positions that the subscriber asked for, and whether that was acknowledged.
    pub acks: Mutex<Vec<(u64, bool, When)>>,
    /// Where the subscriber began, which is behind what was pruned by then, and when it was added.
    pub subscribed: Mutex<Option<(u64, When)>>,
    /// What is wrong already while it runs.
    pub wrong: Mutex<Vec<String>>,
}

/// The table refuses these rows.
pub(super) fn is_refused(row: &Row) -> bool {
    row.0 == "t" && row.2 % 10 == 7
}

impl Ledger {
    /// Runs something and notes when.
    pub fn when<T>(disk: &SimDisk, what: impl FnOnce() -> T) -> (T, When) {
        let began = disk.changes();
        let answer = what();
        let done = disk.changes();
        (answer, When { began, done })
    }

    /// Notes something that must not be.
    pub fn note(&self, what: String) {
        self.wrong.lock().push(what);
    }

    /// How many transactions were acknowledged.
    pub fn acknowledged(&self) -> usize {
        let txns = self.txns.lock();
        txns.iter()
            .filter(|t| matches!(t.told, Told::Committed(_)))
            .count()
    }
}
