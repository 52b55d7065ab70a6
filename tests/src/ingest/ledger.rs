//! Records the requests to ingest and their results, each with the number of disk changes at that
//! time.

use densite_disk::sync::Mutex;
use densite_sim_disk::SimDisk;

/// The number of disk changes before a request began and when it returned.
#[derive(Debug, Clone, Copy)]
pub struct When {
    /// Before it began.
    pub began: u64,
    /// When it returned.
    pub done: u64,
}

/// The result of a transaction, as the application knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Committed, with the number of its last row.
    Committed(u64),
    /// Not committed.
    Nothing,
    /// Unknown: the machine failed before COMMIT returned.
    Unknown,
}

/// A row: the name of its table, and two numbers that identify it.
pub(super) type Row = (&'static str, i64, i64);

/// A transaction.
#[derive(Debug, Clone)]
pub struct Txn {
    /// Its rows in order, without those that a savepoint rolled back.
    pub rows: Vec<Row>,
    /// Rows that were rolled back before COMMIT.
    pub taken_back: Vec<Row>,
    /// The result.
    pub told: Told,
    /// The time of COMMIT.
    pub when: When,
}

/// All events of a run.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Transactions in the order of their ends.
    pub txns: Mutex<Vec<Txn>>,
    /// Positions that the subscriber acknowledged, and whether the acknowledgement returned.
    pub acks: Mutex<Vec<(u64, bool, When)>>,
    /// The first position of the subscriber, which is after the pruned rows, and the time of the
    /// subscription.
    pub subscribed: Mutex<Option<(u64, When)>>,
    /// Problems that were found during the run.
    pub wrong: Mutex<Vec<String>>,
}

/// Whether the table refuses this row.
pub(super) fn is_refused(row: &Row) -> bool {
    row.0 == "t" && row.2 % 10 == 7
}

impl Ledger {
    /// Runs something, and returns its result with its time.
    pub fn when<T>(disk: &SimDisk, what: impl FnOnce() -> T) -> (T, When) {
        let began = disk.changes();
        let answer = what();
        let done = disk.changes();
        (answer, When { began, done })
    }

    /// Records a problem.
    pub fn note(&self, what: String) {
        self.wrong.lock().push(what);
    }

    /// The number of acknowledged transactions.
    pub fn acknowledged(&self) -> usize {
        let txns = self.txns.lock();
        txns.iter()
            .filter(|t| matches!(t.told, Told::Committed(_)))
            .count()
    }
}
