//! A workload whose state after n commits depends only on the seed.
//!
//! Commit n writes some rows of table `entry`, deletes those of commit n - [`KEPT`], moves amounts
//! between accounts and stores n, all in one transaction. So a database shows how many commits it
//! holds, and whether they are complete.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rusqlite::{Connection, params};

/// Number of commits whose rows are kept.
pub const KEPT: u64 = 40;
/// Number of accounts.
const ACCOUNTS: usize = 400;

/// The workload of one seed.
#[derive(Debug, Clone)]
pub struct Ledger {
    seed: u64,
    /// Number of commits in `balances`.
    at: u64,
    balances: Vec<i64>,
}

/// The changes of one commit.
#[derive(Debug)]
pub struct Step {
    /// Rows (number within the commit, text).
    pub rows: Vec<(i64, String)>,
    /// Moves (from, to, amount).
    pub moves: Vec<(usize, usize, i64)>,
    /// Random bits for the caller.
    pub dice: u32,
}

impl Ledger {
    /// A ledger without commits.
    pub fn new(seed: u64) -> Ledger {
        Ledger {
            seed,
            at: 0,
            balances: vec![0; ACCOUNTS],
        }
    }

    /// The changes of commit `n`.
    pub fn step(&self, n: u64) -> Step {
        let mut rng = SmallRng::seed_from_u64(self.seed ^ n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let count = if rng.random_range(0..12) == 0 {
            60
        } else {
            rng.random_range(1..6)
        };
        let text = |rng: &mut SmallRng| {
            let len = match rng.random_range(0..20) {
                0 => rng.random_range(4000..12000),
                1..8 => rng.random_range(200..1500),
                _ => rng.random_range(0..100),
            };
            let mut s = String::with_capacity(len + 16);
            while s.len() < len {
                s.push_str(["commit ", "account ", "moved ", "balance "][rng.random_range(0..4)]);
                s.push_str(&rng.random_range(0..1_000_000u32).to_string());
            }
            s
        };
        let rows = (0..count).map(|i| (i, text(&mut rng))).collect();
        let mut account = || rng.random_range(0..ACCOUNTS);
        let pairs: Vec<(usize, usize)> = (0..4).map(|_| (account(), account())).collect();
        let moves = pairs
            .into_iter()
            .map(|(a, b)| (a, b, rng.random_range(1..1000)))
            .collect();
        Step {
            rows,
            moves,
            dice: rng.random(),
        }
    }

    /// Creates the empty ledger, in one transaction.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn create(db: &Connection) -> rusqlite::Result<()> {
        db.execute_batch(&format!(
            "BEGIN IMMEDIATE;
             CREATE TABLE entry(seq INTEGER, i INTEGER, text TEXT, PRIMARY KEY(seq, i));
             CREATE INDEX entry_text ON entry(substr(text, -6), seq);
             CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER, note TEXT);
             CREATE TABLE last(n INTEGER);
             WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < {ACCOUNTS} - 1)
             INSERT INTO account SELECT i, 0, printf('account %d of a person without a name', i) FROM c;
             INSERT INTO last VALUES (0);
             COMMIT"
        ))
    }

    /// Number of commits in the database; `None` if it has no ledger.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn committed(db: &Connection) -> rusqlite::Result<Option<u64>> {
        let there = "SELECT count(*) FROM sqlite_schema WHERE name = 'last'";
        if db.query_row(there, [], |r| r.get::<_, i64>(0))? == 0 {
            return Ok(None);
        }
        let n: i64 = db.query_row("SELECT n FROM last", [], |r| r.get(0))?;
        Ok(Some(n as u64))
    }

    /// Executes the changes of commit `n`, without BEGIN and COMMIT.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn apply(db: &Connection, n: u64, step: &Step) -> rusqlite::Result<()> {
        let mut insert = db.prepare_cached("INSERT INTO entry VALUES (?1, ?2, ?3)")?;
        for (i, text) in &step.rows {
            insert.execute(params![n as i64, i, text])?;
        }
        if n > KEPT {
            let mut delete = db.prepare_cached("DELETE FROM entry WHERE seq = ?1")?;
            delete.execute([(n - KEPT) as i64])?;
        }
        let mut add =
            db.prepare_cached("UPDATE account SET balance = balance + ?2 WHERE id = ?1")?;
        for (from, to, amount) in &step.moves {
            add.execute(params![*from as i64, -amount])?;
            add.execute(params![*to as i64, amount])?;
        }
        db.prepare_cached("UPDATE last SET n = ?1")?
            .execute([n as i64])?;
        Ok(())
    }

    /// Asserts that the database is exactly in the state after one of the commits `from` to `to`.
    /// Returns its number.
    ///
    /// # Panics
    /// If it is not.
    pub fn assert_state(&mut self, db: &Connection, from: u64, to: u64, what: &str) -> u64 {
        let check: String = db
            .query_row("PRAGMA integrity_check", [], |r| r.get(0))
            .unwrap_or_else(|e| panic!("{what}: integrity_check: {e}"));
        assert_eq!(check, "ok", "{what}");
        let n = Self::committed(db).unwrap_or_else(|e| panic!("{what}: {e}"));
        let Some(n) = n else {
            assert_eq!(from, 0, "{what}: nothing is left");
            let tables: i64 = db
                .query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))
                .expect("schema");
            assert_eq!(tables, 0, "{what}: half a schema");
            return 0;
        };
        assert!(
            n >= from,
            "{what}: commit {from} was acknowledged, {n} is the last one left"
        );
        assert!(
            n <= to,
            "{what}: commit {to} was the last one begun, {n} is there"
        );
        self.assert_rows(db, n, what);
        self.assert_balances(db, n, what);
        n
    }

    fn assert_rows(&self, db: &Connection, n: u64, what: &str) {
        let mut want = BTreeMap::new();
        for seq in (n + 1).saturating_sub(KEPT).max(1)..=n {
            for (i, text) in self.step(seq).rows {
                want.insert((seq as i64, i), text);
            }
        }
        let mut query = db
            .prepare("SELECT seq, i, text FROM entry")
            .expect("prepare");
        let mut rows = query.query([]).expect("query");
        while let Some(row) = rows
            .next()
            .unwrap_or_else(|e| panic!("{what}: reading rows: {e}"))
        {
            let (seq, i): (i64, i64) = (row.get(0).expect("seq"), row.get(1).expect("i"));
            let text: String = row.get(2).expect("text");
            let expected = want.remove(&(seq, i));
            assert_eq!(expected, Some(text), "{what}: after {n}, row ({seq}, {i})");
        }
        let missing: Vec<_> = want.keys().collect();
        assert!(
            missing.is_empty(),
            "{what}: after {n} these rows are missing: {missing:?}"
        );
    }

    fn assert_balances(&mut self, db: &Connection, n: u64, what: &str) {
        if n < self.at {
            *self = Ledger::new(self.seed);
        }
        while self.at < n {
            self.at += 1;
            for (from, to, amount) in self.step(self.at).moves {
                self.balances[from] -= amount;
                self.balances[to] += amount;
            }
        }
        let mut query = db
            .prepare("SELECT balance FROM account ORDER BY id")
            .expect("prepare");
        let got: Vec<i64> = query
            .query_map([], |r| r.get(0))
            .and_then(Iterator::collect)
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(
            got == self.balances,
            "{what}: balances are not those after {n}"
        );
    }
}
