//! The tables of the ingest measures, and their rows.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rusqlite::{Connection, Statement};

use crate::result::{About as _, Result};

/// Increased when [`fill`] changes. Databases of an earlier version are not reused.
const VERSION: u32 = 1;
/// The number of keys of [`Shape::States`].
const STATES: u64 = 500_000;
/// Length of the payload of a state.
const PAYLOAD: usize = 64;
/// The number of articles.
const ARTICLES: usize = 10_000;
/// The skew of votes: the k-th article gets a share proportional to 1 / k to this power.
const SKEW: f64 = 1.0;
/// Numbers of rows that writers add begin here. Those of a filled table are lower.
pub(super) const FIRST: u64 = 1 << 24;
/// How many numbers each writing thread can use.
pub(super) const EACH: u64 = 1 << 26;

/// The kind of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Shape {
    /// Two integers, of 32 and 20 bits, all different, in random order
    Votes,
    /// Two integers of 63 bits, all different, in random order
    Wide,
    /// New states of a fixed number of keys
    States,
    /// Votes for skewed articles, read by article
    Articles,
}

impl Shape {
    /// Creates table and index, if they do not exist.
    pub(super) fn schema(self) -> &'static str {
        match self {
            Shape::Votes | Shape::Wide => {
                "CREATE TABLE IF NOT EXISTS vote(user INTEGER NOT NULL, article INTEGER NOT NULL, PRIMARY KEY(user, article)); \
                 CREATE INDEX IF NOT EXISTS vote_article ON vote(article)"
            }
            Shape::States => {
                "CREATE TABLE IF NOT EXISTS vote(id INTEGER NOT NULL, part INTEGER NOT NULL, payload BLOB, PRIMARY KEY(id, part)); \
                 CREATE INDEX IF NOT EXISTS vote_part ON vote(part)"
            }
            Shape::Articles => {
                "CREATE TABLE IF NOT EXISTS vote(user INTEGER NOT NULL, article INTEGER NOT NULL, PRIMARY KEY(article, user)); \
                 CREATE INDEX IF NOT EXISTS vote_user ON vote(user)"
            }
        }
    }

    /// The ingest table of a connection.
    pub(super) fn ingest(self) -> String {
        let policy = match self {
            Shape::Votes | Shape::Wide => "abort",
            Shape::States => "replace",
            Shape::Articles => "ignore",
        };
        format!(
            "CREATE VIRTUAL TABLE temp.vote_in USING densite_ingest(vote, on_conflict={policy})"
        )
    }

    /// The INSERT of a row: into the ingest table, or directly into the table with the same result.
    pub(super) fn insert(self, ingest: bool) -> String {
        let columns = if self == Shape::States { 3 } else { 2 };
        let places = ["?1", "?2", "?3"].get(..columns).unwrap_or_default();
        let (verb, table) = match (ingest, self) {
            (true, _) => ("INSERT", "vote_in"),
            (false, Shape::Votes | Shape::Wide) => ("INSERT", "vote"),
            (false, Shape::States) => ("REPLACE", "vote"),
            (false, Shape::Articles) => ("INSERT OR IGNORE", "vote"),
        };
        format!("{verb} INTO {table} VALUES ({})", places.join(", "))
    }
}

/// The key of row `number` of these shapes. Different numbers have different keys.
pub(super) fn key(shape: Shape, number: u64) -> (i64, i64) {
    let article = mixed(number, 63);
    match shape {
        Shape::Wide => (mixed(number ^ 1 << 40, 63) as i64, article as i64),
        _ => (mixed(number, 32) as i64, (article & 0xF_FFFF) as i64),
    }
}

/// A one-to-one map of the numbers of `bits` bits, which looks random.
fn mixed(number: u64, bits: u32) -> u64 {
    let mask = (1 << bits) - 1;
    let mut x = number & mask;
    for odd in [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03u64] {
        x = x.wrapping_mul(odd) & mask;
        x ^= x >> (bits / 2);
    }
    x
}

/// The rows of one writer.
pub(super) struct Rows {
    shape: Shape,
    rng: Xoshiro256PlusPlus,
    /// Ascending sums of the articles' shares.
    shares: Vec<f64>,
}

impl Rows {
    pub(super) fn new(shape: Shape, seed: u64) -> Rows {
        let mut shares = Vec::new();
        if shape == Shape::Articles {
            let mut sum = 0.0;
            for k in 1..=ARTICLES {
                sum += (k as f64).powf(-SKEW);
                shares.push(sum);
            }
            shares.iter_mut().for_each(|s| *s /= sum);
        }
        Rows {
            shape,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            shares,
        }
    }

    /// A random article, by its share.
    pub(super) fn article(&mut self) -> i64 {
        let at: f64 = self.rng.random();
        self.shares.partition_point(|s| *s < at) as i64
    }

    /// A random number below a hundred.
    pub(super) fn percent(&mut self) -> u64 {
        self.rng.random_range(0..100)
    }

    /// Runs an [`Shape::insert`] for the row with this number.
    pub(super) fn insert(&mut self, statement: &mut Statement<'_>, number: u64) -> Result<()> {
        match self.shape {
            Shape::Votes | Shape::Wide => statement.execute(key(self.shape, number))?,
            Shape::States => {
                let id = self.rng.random_range(0..STATES);
                let mut payload = [0u8; PAYLOAD];
                self.rng.fill_bytes(&mut payload);
                statement.execute((mixed(id, 32) as i64, (id % 1000) as i64, payload))?
            }
            Shape::Articles => {
                let user: u32 = self.rng.random();
                let article = self.article();
                statement.execute((user, article))?
            }
        };
        Ok(())
    }
}

/// A database in `dir` with a table of this shape and `rows` rows. It is made if it is missing.
pub(super) fn filled(dir: &Path, shape: Shape, rows: u64) -> Result<PathBuf> {
    let name = crate::work::name(shape);
    let path = dir.join(format!("ingest-{name}-{rows}-v{VERSION}.db"));
    if !path.exists() {
        eprintln!("generating {rows} rows");
        let part = path.with_extension("part");
        if part.exists() {
            std::fs::remove_file(&part).about("remove", &part)?;
        }
        let con = Connection::open(&part).about("create", &part)?;
        fill(&con, shape, rows)?;
        con.close().map_err(|(_, e)| e)?;
        std::fs::rename(&part, &path).about("rename a finished file to", &path)?;
    }
    Ok(path)
}

/// Inserts in the order of the key, and creates the other index afterwards, so that pages are full
/// and are not read again.
fn fill(con: &Connection, shape: Shape, rows: u64) -> Result<()> {
    // The file is deleted if anything fails, so it needs no journal and no sync.
    con.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-262144; BEGIN")?;
    let (table, index) = shape.schema().split_once("; ").unwrap_or_default();
    con.execute_batch(table)?;
    if shape == Shape::States {
        let mut source = Rows::new(shape, 0);
        let mut insert = con.prepare(&shape.insert(false))?;
        for number in 0..rows {
            source.insert(&mut insert, number)?;
        }
    } else {
        let mut keys: Vec<(i64, i64)> = (0..rows).map(|number| key(shape, number)).collect();
        keys.sort_unstable();
        let mut insert = con.prepare(&shape.insert(false))?;
        for key in keys {
            insert.execute(key)?;
        }
    }
    con.execute_batch(index)?;
    con.execute_batch("COMMIT")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_numbers_are_mixed_to_different_ones() {
        for bits in [32, 63] {
            let mut seen: Vec<u64> = (0..200_000).map(|n| mixed(n * 7919, bits)).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), 200_000);
            assert!(seen.last().is_some_and(|n| *n >> (bits - 1) == 1));
        }
    }

    #[test]
    fn tables_are_reused_and_the_first_articles_get_most_votes() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = filled(dir.path(), Shape::Votes, 5_000).expect("a table");
        let made = std::fs::metadata(&path)
            .and_then(|m| m.modified())
            .expect("a time");
        assert_eq!(
            filled(dir.path(), Shape::Votes, 5_000).expect("the same"),
            path
        );
        assert_eq!(
            std::fs::metadata(&path)
                .and_then(|m| m.modified())
                .expect("a time"),
            made
        );
        let con = Connection::open(&path).expect("it opens");
        let (rows, check): (i64, String) = con
            .query_row(
                "SELECT count(*), (SELECT * FROM pragma_integrity_check) FROM vote",
                [],
                |r| Ok((r.get(0)?, r.get(1)?)),
            )
            .expect("a count");
        assert_eq!((rows, check.as_str()), (5_000, "ok"));
        let mut rows = Rows::new(Shape::Articles, 1);
        let first = (0..10_000).filter(|_| rows.article() == 0).count();
        assert!((800..1_300).contains(&first), "{first}");
    }
}
