//! Rows of 2 to 20 KB, nearly all of which continue on overflow pages: JSON documents with other
//! columns before and behind them, and texts.

use std::fmt::Write as _;

use rand::RngExt as _;
use rusqlite::{Connection, params};

use super::Random;
use super::words::{Words, capital, iso, pick};
use crate::result::Result;

/// Bytes of a document or text.
const BYTES: std::ops::Range<usize> = 2_000..20_000;
const STATES: [&str; 4] = ["draft", "review", "published", "published"];

/// Fills the database. Every third row is a text.
pub(super) fn fill(con: &Connection, rows: u64, random: &mut Random) -> Result<()> {
    con.execute_batch(
        "CREATE TABLE report(id INTEGER PRIMARY KEY, created TEXT NOT NULL, state TEXT NOT NULL, body TEXT NOT NULL, version INTEGER NOT NULL, checked REAL);
         CREATE TABLE article(id INTEGER PRIMARY KEY, title TEXT NOT NULL, body TEXT NOT NULL)",
    )?;
    let words = Words::new(6_000, random);
    let mut report = con.prepare("INSERT INTO report VALUES (NULL, ?, ?, ?, ?, ?)")?;
    let mut article = con.prepare("INSERT INTO article VALUES (NULL, ?, ?)")?;
    let mut now = 1_730_000_000_000;
    for id in 0..rows {
        now += random.random_range(1_000..900_000);
        let len = random.random_range(BYTES);
        if id % 3 == 2 {
            let title = words.sentence(6, random);
            article.execute([title, text(len, &words, random)])?;
            continue;
        }
        let checked = random
            .random_bool(0.7)
            .then(|| f64::from(random.random_range(0..1_000)) / 10.0);
        report.execute(params![
            iso(now),
            pick(random, &STATES),
            document(id, len, &words, random),
            random.random_range(1..20),
            checked
        ])?;
    }
    Ok(())
}

/// Paragraphs of sentences.
fn text(len: usize, words: &Words, random: &mut Random) -> String {
    let mut out = String::new();
    while out.len() < len {
        for _ in 0..random.random_range(2..7) {
            let count = random.random_range(5..20);
            out.push_str(&words.sentence(count, random));
            out.push(' ');
        }
        out.push_str("\n\n");
    }
    out
}

fn document(id: u64, len: usize, words: &Words, random: &mut Random) -> String {
    let mut out = format!(
        r#"{{"report":"rep-{id:06}","author":{{"name":"{} {}","team":"{}"}},"entries":["#,
        capital(words.word(random)),
        capital(words.word(random)),
        words.word(random)
    );
    for i in 0.. {
        let count = random.random_range(3..25);
        let _ = write!(
            out,
            r#"{}{{"id":{i},"name":"{}","value":{}.{:02},"unit":"{}","valid":{},"tags":["{}","{}"],"remark":{}}}"#,
            if i == 0 { "" } else { "," },
            words.word(random),
            random.random_range(0..5_000),
            random.random_range(0..100),
            pick(random, &["kg", "m", "s", "EUR"]),
            random.random_bool(0.9),
            words.word(random),
            words.word(random),
            match random.random_range(0..3) {
                0 => format!(r#""{}""#, words.sentence(count, random)),
                _ => "null".to_owned(),
            }
        );
        if out.len() >= len {
            break;
        }
    }
    out.push_str("]}");
    out
}
