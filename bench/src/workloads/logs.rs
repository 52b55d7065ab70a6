//! Log lines of web servers: time, level, host, and messages with paths, numbers and request ids.

use rand::RngExt as _;
use rusqlite::{Connection, params};

use super::Random;
use super::words::{Words, iso, pick};
use crate::result::Result;

const LEVELS: [&str; 20] = [
    "INFO", "INFO", "INFO", "INFO", "INFO", "INFO", "INFO", "INFO", "INFO", "INFO", "INFO",
    "DEBUG", "DEBUG", "DEBUG", "DEBUG", "DEBUG", "WARN", "WARN", "ERROR", "INFO",
];

/// Fills the database.
pub(super) fn fill(con: &Connection, rows: u64, random: &mut Random) -> Result<()> {
    con.execute_batch(
        "CREATE TABLE log(id INTEGER PRIMARY KEY, at TEXT NOT NULL, level TEXT NOT NULL, host TEXT NOT NULL, message TEXT NOT NULL)",
    )?;
    let words = Words::new(2_000, random);
    let mut insert =
        con.prepare("INSERT INTO log(at, level, host, message) VALUES (?, ?, ?, ?)")?;
    let mut now = 1_762_000_000_000;
    for _ in 0..rows {
        now += random.random_range(0..700);
        let host = format!(
            "{}-{:02}.eu-west-{}.example.net",
            pick(random, &["web", "web", "api", "worker"]),
            random.random_range(1..=12),
            random.random_range(1..=3)
        );
        let message = message(&words, random);
        insert.execute(params![iso(now), pick(random, &LEVELS), host, message])?;
    }
    Ok(())
}

fn message(words: &Words, random: &mut Random) -> String {
    let request = random.random::<u32>();
    match random.random_range(0..10) {
        0..=5 => format!(
            "{} /api/v{}/{}/{} {} in {} ms, {} bytes, request {request:08x}",
            pick(random, &["GET", "GET", "GET", "POST", "PUT", "DELETE"]),
            random.random_range(1..=3),
            words.word(random),
            random.random_range(1..2_000_000),
            pick(random, &[200, 200, 200, 201, 204, 304, 404, 500]),
            random.random_range(1..900),
            random.random_range(120..90_000)
        ),
        6 => format!(
            "cache miss for key {}:{}:{}, request {request:08x}",
            words.word(random),
            words.word(random),
            random.random_range(1..500_000)
        ),
        7 => format!(
            "connection from 10.{}.{}.{} port {} closed after {} s",
            random.random_range(0..4),
            random.random_range(0..256),
            random.random_range(1..255),
            random.random_range(1_024..65_536),
            random.random_range(1..600)
        ),
        8 => format!(
            "job {:012x} of queue {} took {}.{:03} s, {} left",
            random.random::<u64>() >> 16,
            words.word(random),
            random.random_range(0..20),
            random.random_range(0..1_000),
            random.random_range(0..300)
        ),
        _ => format!(
            "cannot open /var/lib/app/{}/{}.dat: {}",
            words.word(random),
            random.random_range(1..9_000),
            words.sentence(5, random)
        ),
    }
}
