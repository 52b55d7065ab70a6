//! A table with a UUID key and two indexes: rows that arrive in random order, as many applications
//! write them.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use rusqlite::{Connection, params};

use crate::connect::set_journal_mode;
use crate::result::Result;

/// The rows of a transaction with a WAL.
const ROWS: usize = 500;

/// A row: id, owner, time, name, amount.
pub(crate) type Row = (String, String, i64, String, f64);

/// The same rows for the same count.
pub(crate) fn rows(count: u64) -> Vec<Row> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(22);
    let mut uuid = || {
        let hex = format!("{:032x}", random.random::<u128>());
        let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
        parts.map(|(from, to)| &hex[from..to]).join("-")
    };
    let owners: Vec<String> = (0..count / 20 + 1).map(|_| uuid()).collect();
    let ids: Vec<String> = (0..count).map(|_| uuid()).collect();
    let mut created = 1_740_000_000;
    let rows = ids.into_iter().map(|id| {
        created += random.random_range(0..90);
        let owner = owners[random.random_range(0..owners.len())].clone();
        let name = format!("order {}", random.random_range(0..100_000));
        let amount = f64::from(random.random_range(100..100_000)) / 100.0;
        (id, owner, created, name, amount)
    });
    rows.collect()
}

/// Inserts the rows: in one transaction, or in transactions of 500 rows with a WAL.
pub(crate) fn insert(con: &Connection, rows: &[Row], wal: bool) -> Result<()> {
    if wal {
        set_journal_mode(con, "wal")?;
        con.execute_batch("PRAGMA synchronous=NORMAL")?;
    }
    con.execute_batch(
        "CREATE TABLE purchase(id TEXT PRIMARY KEY, owner TEXT NOT NULL, created INTEGER NOT NULL,
                               name TEXT, amount REAL);
         CREATE INDEX purchase_owner ON purchase(owner);
         CREATE INDEX purchase_created ON purchase(created)",
    )?;
    let mut statement = con.prepare("INSERT INTO purchase VALUES (?, ?, ?, ?, ?)")?;
    for batch in rows.chunks(if wal { ROWS } else { rows.len().max(1) }) {
        con.execute_batch("BEGIN")?;
        for (id, owner, created, name, amount) in batch {
            statement.execute(params![id, owner, created, name, amount])?;
        }
        con.execute_batch("COMMIT")?;
    }
    Ok(())
}
