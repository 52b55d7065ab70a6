//! Facts about entities. One column has NULLs, integers, REALs, text and blobs. Two columns are
//! added when half of the rows exist, so rows of two lengths are side by side.

use rand::RngExt as _;
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::Random;
use super::words::{Words, pick};
use crate::result::Result;

/// Fills the database.
pub(super) fn fill(con: &Connection, rows: u64, random: &mut Random) -> Result<()> {
    con.execute_batch(
        "CREATE TABLE fact(id INTEGER PRIMARY KEY, entity INTEGER NOT NULL, key TEXT NOT NULL, value)",
    )?;
    let words = Words::new(5_000, random);
    let keys: Vec<&str> = (0..60).map(|_| words.word(random)).collect();
    let mut entity = 0;
    let mut insert = con.prepare("INSERT INTO fact(entity, key, value) VALUES (?, ?, ?)")?;
    for _ in 0..rows / 2 {
        entity += random.random_range(0..3);
        let value = value(&words, random);
        insert.execute(params![entity, pick(random, &keys), value])?;
    }
    con.execute_batch(
        "ALTER TABLE fact ADD COLUMN note TEXT; ALTER TABLE fact ADD COLUMN weight REAL DEFAULT 1.0",
    )?;
    let mut insert =
        con.prepare("INSERT INTO fact(entity, key, value, note, weight) VALUES (?, ?, ?, ?, ?)")?;
    for _ in rows / 2..rows {
        entity += random.random_range(0..3);
        let value = value(&words, random);
        let note = random
            .random_ratio(1, 10)
            .then(|| words.sentence(4, random));
        let weight = random
            .random_ratio(1, 4)
            .then(|| f64::from(random.random_range(0..1_000)) / 100.0);
        insert.execute(params![entity, pick(random, &keys), value, note, weight])?;
    }
    // Some old rows are updated, and have all columns then.
    con.execute_batch("UPDATE fact SET weight = 2.5 WHERE id % 17 = 3")?;
    Ok(())
}

fn value(words: &Words, random: &mut Random) -> Value {
    match random.random_range(0..10) {
        0 => Value::Null,
        1 => Value::Integer(random.random_range(0..2)),
        2 | 3 => Value::Integer(random.random_range(-1_000..100_000)),
        4 => Value::Integer(random.random::<i64>() >> random.random_range(0..40)),
        5 => Value::Real(f64::from(random.random_range(0..1_000_000)) / 1000.0),
        6 => Value::Real(random.random::<f64>()),
        7 => Value::Text(words.word(random).to_owned()),
        8 => Value::Text(words.sentence(random.random_range(2..12), random)),
        _ => Value::Blob(
            (0..random.random_range(4..40))
                .map(|_| random.random())
                .collect(),
        ),
    }
}
