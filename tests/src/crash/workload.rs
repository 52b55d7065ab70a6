//! The transactions before a power cut, derived from a seed.
//!
//! Every transaction writes rows whose amounts have the sum zero, and one row in `done` with the
//! number of these rows. Some transactions move amounts between rows of an earlier transaction, and
//! some delete an earlier one completely. So a partial transaction is detected.

use std::fmt;

use densite_sim_disk::{Extension, MetadataOrder, SimDisk, WriteOrder};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// `PRAGMA journal_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "SQLite's own names")]
pub enum Journal {
    Delete,
    Truncate,
    Persist,
    Wal,
}

impl Journal {
    /// All of them.
    pub const ALL: [Journal; 4] = [
        Journal::Delete,
        Journal::Truncate,
        Journal::Persist,
        Journal::Wal,
    ];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Journal::Delete => "DELETE",
            Journal::Truncate => "TRUNCATE",
            Journal::Persist => "PERSIST",
            Journal::Wal => "WAL",
        }
    }
}

/// `PRAGMA synchronous`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "SQLite's own names")]
pub enum Synchronous {
    Off,
    Normal,
    Full,
    Extra,
}

impl Synchronous {
    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Synchronous::Off => "OFF",
            Synchronous::Normal => "NORMAL",
            Synchronous::Full => "FULL",
            Synchronous::Extra => "EXTRA",
        }
    }
}

/// What SQLite promises for a database after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Nothing.
    Nothing,
    /// A sound database in the state after some transaction.
    Consistent,
    /// The same, and no acknowledged transaction is missing.
    Durable,
}

/// A workload: settings and a script, all from the seed unless set afterwards.
#[derive(Debug, Clone)]
pub struct Workload {
    /// `PRAGMA journal_mode`.
    pub journal: Journal,
    /// `PRAGMA synchronous`.
    pub synchronous: Synchronous,
    /// Determines the script and the settings below.
    pub seed: u64,
    /// `PRAGMA page_size`, bytes.
    pub page_size: u32,
    /// `PRAGMA auto_vacuum`: 0 none, 1 full, 2 incremental.
    pub auto_vacuum: u32,
    /// `PRAGMA cache_size`, pages. With a small one, SQLite writes in the middle of a transaction.
    pub cache_pages: u32,
    /// `PRAGMA locking_mode=EXCLUSIVE`.
    pub exclusive: bool,
    /// `PRAGMA wal_autocheckpoint`, pages; 0 for never.
    pub autocheckpoint_pages: u32,
    /// The number of transactions in the script.
    pub transactions: u32,
    /// Whether to start with a durable database that has the schema, instead of an empty disk.
    pub prepared: bool,
    /// Whether journal mode, locking mode, page size and auto_vacuum change during the run.
    pub restless: bool,
    /// Changes the disk after [`Workload::shape`].
    pub reshape: Option<fn(&SimDisk)>,
}

/// One step of a script.
#[derive(Debug, Clone)]
pub enum Step {
    /// `BEGIN`, these statements, `COMMIT`: the database reaches its next state.
    Commit(Vec<String>),
    /// `BEGIN`, these statements, `ROLLBACK`.
    Rollback(Vec<String>),
    /// One statement that changes no row: a checkpoint, a vacuum.
    Maintain(&'static str),
    /// The connection is closed and a new one opened.
    Reopen,
    /// A second connection begins a read transaction, and its snapshot must not change.
    ReaderBegins,
    /// The read transaction ends.
    ReaderEnds,
}

/// Setting changes of a restless workload.
///
/// The page size does not change while the journal file stays after a commit (PERSIST, or EXCLUSIVE
/// without TRUNCATE). In these modes a power cut breaks plain SQLite itself, as
/// `tests/tests/control.rs` shows.
const CHANGES: &[&str] = &[
    "PRAGMA journal_mode=DELETE",
    "PRAGMA journal_mode=TRUNCATE",
    "PRAGMA journal_mode=PERSIST",
    "PRAGMA journal_mode=WAL",
    "PRAGMA journal_mode=WAL",
    "PRAGMA locking_mode=EXCLUSIVE; SELECT count(*) FROM done",
    "PRAGMA locking_mode=NORMAL; SELECT count(*) FROM done",
    "PRAGMA journal_mode=TRUNCATE; PRAGMA page_size=512; VACUUM",
    "PRAGMA journal_mode=TRUNCATE; PRAGMA page_size=1024; PRAGMA auto_vacuum=1; VACUUM",
    "PRAGMA journal_mode=TRUNCATE; PRAGMA page_size=4096; PRAGMA auto_vacuum=0; VACUUM",
    "PRAGMA locking_mode=NORMAL; PRAGMA journal_mode=DELETE; PRAGMA page_size=8192; PRAGMA auto_vacuum=2; VACUUM",
    "PRAGMA locking_mode=NORMAL; PRAGMA journal_mode=DELETE; PRAGMA page_size=2048; VACUUM; PRAGMA journal_mode=WAL",
];

/// The tables. They are the first state of a database, which is empty before.
pub const SCHEMA: &str = "
    CREATE TABLE ledger(id INTEGER PRIMARY KEY, txn INTEGER, part INTEGER, amount INTEGER, pad);
    CREATE INDEX ledger_txn ON ledger(txn, part);
    CREATE TABLE done(txn INTEGER PRIMARY KEY, rows INTEGER) WITHOUT ROWID;";

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "journal_mode={} synchronous={} workload seed {}",
            self.journal.name(),
            self.synchronous.name(),
            self.seed
        )
    }
}

impl Workload {
    /// The workload of this seed.
    pub fn new(journal: Journal, synchronous: Synchronous, seed: u64) -> Workload {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5e77_1465);
        Workload {
            journal,
            synchronous,
            seed,
            page_size: pick(&mut rng, &[512, 1024, 1024, 4096, 4096, 4096]),
            auto_vacuum: pick(&mut rng, &[0, 0, 0, 1, 2]),
            cache_pages: pick(&mut rng, &[5, 10, 1000]),
            exclusive: rng.random_ratio(1, 5),
            autocheckpoint_pages: pick(&mut rng, &[0, 10, 30, 1000]),
            transactions: rng.random_range(6..16),
            prepared: rng.random_ratio(3, 4),
            restless: false,
            reshape: None,
        }
    }

    /// What SQLite promises with these settings.
    pub fn promise(&self) -> Promise {
        use {Journal as J, Synchronous as S};
        match (self.journal, self.synchronous) {
            (_, S::Off) => Promise::Nothing,
            (_, S::Normal) => Promise::Consistent,
            // The removal of the journal is durable only after a sync of its directory.
            (J::Delete, S::Full) => Promise::Consistent,
            (_, S::Extra) => Promise::Durable,
            (_, S::Full) if self.restless => Promise::Consistent,
            (J::Truncate | J::Persist | J::Wal, S::Full) => Promise::Durable,
        }
    }

    /// Gives `disk` the worst behaviour under which SQLite keeps its promise.
    ///
    /// With FULL and EXTRA the disk writes in any order and leaves garbage where a file grew.
    /// NORMAL with a rollback journal is weaker: SQLite syncs the records of a journal and their
    /// count together, and its checksum covers one byte in 200. So it needs a disk that keeps the
    /// order of writes within a file. DELETE without EXTRA shortens the database (auto_vacuum)
    /// after a removal of the journal that is not durable. So it needs a file system with a journal
    /// of metadata.
    pub fn shape(&self, disk: &SimDisk) {
        let rollback = self.journal != Journal::Wal || self.restless;
        if rollback && self.synchronous == Synchronous::Normal {
            disk.set_write_order(WriteOrder::InFile);
        } else if self.seed % 2 == 1 {
            disk.set_extension(Extension::Garbage);
        }
        if rollback && self.promise() == Promise::Consistent {
            disk.set_metadata_order(MetadataOrder::Journalled);
        }
        if let Some(reshape) = self.reshape {
            reshape(disk);
        }
    }

    /// The statements that a new connection runs first.
    pub fn settings(&self) -> String {
        let locking = if self.exclusive {
            "EXCLUSIVE"
        } else {
            "NORMAL"
        };
        format!(
            "PRAGMA page_size={}; PRAGMA auto_vacuum={}; PRAGMA locking_mode={locking};
             PRAGMA journal_mode={}; PRAGMA synchronous={}; PRAGMA cache_size={};
             PRAGMA wal_autocheckpoint={}",
            self.page_size,
            self.auto_vacuum,
            self.journal.name(),
            self.synchronous.name(),
            self.cache_pages,
            self.autocheckpoint_pages,
        )
    }

    /// The steps after the schema.
    pub fn script(&self) -> Vec<Step> {
        let mut writer = Writer {
            rng: Xoshiro256PlusPlus::seed_from_u64(self.seed),
            id_next: 1,
            alive: Vec::new(),
        };
        let readers = self.journal == Journal::Wal && !self.exclusive && !self.restless;
        // A separate generator, so that the written rows are the same with and without changes.
        let mut changes = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ 0xc4a6_e5ee);
        let mut reading = false;
        let mut steps = Vec::new();
        for txn in 1..=self.transactions {
            if reading && writer.rng.random_ratio(1, 3) {
                steps.push(Step::ReaderEnds);
                reading = false;
            }
            match writer.rng.random_range(0..12u32) {
                0 => {
                    let statements = writer.aborted();
                    steps.push(Step::Rollback(statements));
                }
                1 => {
                    if reading {
                        steps.push(Step::ReaderEnds);
                        reading = false;
                    }
                    steps.push(Step::Reopen);
                }
                2 => steps.push(Step::Maintain("VACUUM")),
                3 if self.auto_vacuum == 2 => {
                    steps.push(Step::Maintain("PRAGMA incremental_vacuum(3)"));
                }
                3..=5 if self.journal == Journal::Wal => {
                    steps.push(Step::Maintain(pick(
                        &mut writer.rng,
                        &[
                            "PRAGMA wal_checkpoint(PASSIVE)",
                            "PRAGMA wal_checkpoint(FULL)",
                            "PRAGMA wal_checkpoint(RESTART)",
                            "PRAGMA wal_checkpoint(TRUNCATE)",
                        ],
                    )));
                }
                6 if readers && !reading => {
                    steps.push(Step::ReaderBegins);
                    reading = true;
                }
                _ => {}
            }
            if self.restless && changes.random_ratio(1, 2) {
                steps.push(Step::Maintain(pick(&mut changes, CHANGES)));
            }
            let statements = writer.transaction(txn);
            steps.push(Step::Commit(statements));
        }
        if reading {
            steps.push(Step::ReaderEnds);
        }
        steps
    }
}

fn pick<T: Copy>(rng: &mut Xoshiro256PlusPlus, from: &[T]) -> T {
    from[rng.random_range(0..from.len())]
}

/// Writes SQL, and tracks the rows that it refers to.
struct Writer {
    rng: Xoshiro256PlusPlus,
    id_next: u32,
    /// Transactions whose rows exist.
    alive: Vec<u32>,
}

impl Writer {
    fn transaction(&mut self, txn: u32) -> Vec<String> {
        let mut statements = Vec::new();
        if !self.alive.is_empty() && self.rng.random_ratio(1, 4) {
            let at = self.rng.random_range(0..self.alive.len());
            let gone = self.alive.swap_remove(at);
            statements.push(format!("DELETE FROM ledger WHERE txn = {gone}"));
            statements.push(format!("DELETE FROM done WHERE txn = {gone}"));
        }
        if !self.alive.is_empty() && self.rng.random_ratio(1, 2) {
            statements.push(self.shift());
        }
        let parts = self.rng.random_range(2..7u32);
        let mut sum = 0i64;
        for part in 0..parts {
            let amount = match part + 1 == parts {
                true => -sum,
                false => self.rng.random_range(-1000..1000),
            };
            sum += amount;
            statements.push(self.insert(txn, part, amount));
        }
        statements.push(format!("INSERT INTO done VALUES ({txn}, {parts})"));
        self.alive.push(txn);
        statements
    }

    fn insert(&mut self, txn: u32, part: u32, amount: i64) -> String {
        // Mostly in order, as logs grow; sometimes in between, so that pages split.
        let id = if self.rng.random_ratio(1, 4) {
            1_000_000 - self.id_next * 7
        } else {
            self.id_next * 11
        };
        self.id_next += 1;
        let pad = self.pad();
        format!("INSERT INTO ledger VALUES ({id}, {txn}, {part}, {amount}, '{pad}')")
    }

    /// Moves an amount between two rows of one transaction. Each transaction has at least two rows.
    fn shift(&mut self) -> String {
        let at = self.rng.random_range(0..self.alive.len());
        let (txn, by) = (self.alive[at], self.rng.random_range(1..500i64));
        let pad = self.pad();
        format!(
            "UPDATE ledger SET amount = amount + CASE part WHEN 0 THEN {by} ELSE -{by} END,
             pad = '{pad}' WHERE txn = {txn} AND part < 2"
        )
    }

    /// Statements to roll back. They can be anything.
    fn aborted(&mut self) -> Vec<String> {
        let pad = self.pad();
        vec![
            "DELETE FROM ledger WHERE id % 3 = 0".to_owned(),
            format!("UPDATE ledger SET amount = 7, pad = '{pad}' WHERE id % 2"),
            "CREATE TABLE never(x)".to_owned(),
        ]
    }

    /// Text that compresses well, badly, or spills to overflow pages.
    fn pad(&mut self) -> String {
        let len = match self.rng.random_range(0..10u32) {
            0 => self.rng.random_range(3000..12_000usize),
            1..=3 => self.rng.random_range(300..1500),
            _ => self.rng.random_range(0..200),
        };
        if self.rng.random_bool(0.5) {
            let word = format!("word{} ", self.rng.random_range(0..50u32));
            return word.repeat(len / word.len());
        }
        let digits = (0..len).map(|_| self.rng.random_range(b'!'..=b'~'));
        let text: String = digits.map(char::from).collect();
        text.replace('\'', "_")
    }
}
