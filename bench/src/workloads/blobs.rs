//! Random blobs of 1 to 20 KB. Most have overflow pages, and none can be compressed.

use rand::{Rng as _, RngExt as _};
use rusqlite::{Connection, params};

use super::Random;
use crate::result::Result;

/// Fills the database.
pub(super) fn fill(con: &Connection, rows: u64, random: &mut Random) -> Result<()> {
    con.execute_batch(
        "CREATE TABLE file(id INTEGER PRIMARY KEY, name TEXT NOT NULL, body BLOB NOT NULL)",
    )?;
    let mut insert = con.prepare("INSERT INTO file(name, body) VALUES (?, ?)")?;
    let mut body = Vec::new();
    for row in 0..rows {
        body.resize(random.random_range(1_000..20_000), 0);
        random.fill_bytes(&mut body);
        insert.execute(params![format!("image-{row:06}.jpg"), body])?;
    }
    Ok(())
}
