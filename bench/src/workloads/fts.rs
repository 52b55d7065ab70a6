//! A full-text index (FTS5) over prose, with its content.

use rand::RngExt as _;
use rusqlite::Connection;

use super::Random;
use super::words::Words;
use crate::result::Result;

const VOCABULARY: usize = 20_000;

/// Fills the database.
pub(super) fn fill(con: &Connection, rows: u64, random: &mut Random) -> Result<()> {
    con.execute_batch("CREATE VIRTUAL TABLE prose USING fts5(title, body)")?;
    let words = Words::new(VOCABULARY, random);
    let mut insert = con.prepare("INSERT INTO prose VALUES (?, ?)")?;
    for _ in 0..rows {
        let title = words.sentence(random.random_range(2..7), random);
        let body: Vec<String> = (0..random.random_range(3..22))
            .map(|_| words.sentence(random.random_range(5..22), random))
            .collect();
        insert.execute([title, body.join(" ")])?;
    }
    con.execute_batch("INSERT INTO prose(prose) VALUES ('optimize')")?;
    Ok(())
}
