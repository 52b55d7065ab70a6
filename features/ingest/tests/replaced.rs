//! Rows of one key that replace each other, applied together. Only the last one must be written,
//! and the result is the same.

use crate::common::{self, Db, all, one, wait};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;

const ROWS: usize = 3_000;
const KEYS: usize = 200;

/// What makes a table refuse some values of column `c`: in its definition, or behind it.
const TABLES: [(&str, &str); 9] = [
    ("c", ""),
    (
        "c INT DEFAULT 7",
        "CREATE INDEX i ON t(c); CREATE INDEX j ON t(a, c)",
    ),
    ("c INT NOT NULL", ""),
    ("c NOT NULL DEFAULT 5", ""),
    ("c INT CHECK (c < 5)", ""),
    ("c INT, d INT AS (abs(c)) STORED", ""),
    ("c INT, d INT AS (abs(c))", "CREATE INDEX i ON t(d)"),
    ("c INT", "CREATE INDEX i ON t(abs(c))"),
    ("c INT", "CREATE INDEX i ON t(a) WHERE abs(c) > 1"),
];

/// Of a hundred values, this many are refused by some table.
fn value(random: &mut StdRng, odd: i32) -> &'static str {
    const ODD: [&str; 4] = ["NULL", "9", "-9223372036854775808", "'text'"];
    match random.random_range(0..100) < odd {
        true => ODD[random.random_range(0..ODD.len())],
        false => "1",
    }
}

/// The rows are logged for a table that accepts them all, and applied to each of these.
#[test]
fn replaced_rows_have_the_table_and_rejects_of_single_inserts() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for ending in ["", " WITHOUT ROWID", " STRICT"] {
        for (column, behind) in TABLES {
            // In some runs, each key ends with a value that all tables accept: then only replaced
            // rows are refused.
            for (odd, ends_well) in [(0, false), (1, false), (40, false), (40, true)] {
                let what = format!("seed {seed}, {column}, {behind}{ending}, {odd}, {ends_well}");
                let key = "k INT NOT NULL, l TEXT NOT NULL, a INT";
                let first = format!("CREATE TABLE t({key}, c, PRIMARY KEY(k, l))");
                let column = match (ending, column) {
                    (" STRICT", "c") => "c ANY",
                    (" STRICT", "c NOT NULL DEFAULT 5") => "c ANY NOT NULL DEFAULT 5",
                    _ => column,
                };
                let then =
                    format!("CREATE TABLE t({key}, {column}, PRIMARY KEY(k, l)){ending}; {behind}");
                let db = Db::new(&first);
                let plain = Connection::open_in_memory().expect("opens");
                plain.execute_batch(&then).expect("the table");
                let con = db.ingest("t", ", on_conflict=replace");
                let other = Connection::open(db.path()).expect("opens");
                other
                    .execute_batch("PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE")
                    .expect("the lock");
                con.execute_batch("BEGIN").expect("begins");
                let mut rejects = Vec::new();
                let some =
                    (0..ROWS).map(|_| (random.random_range(0..KEYS), value(&mut random, odd)));
                let mut rows: Vec<_> = some.collect();
                if ends_well {
                    rows.extend((0..KEYS).map(|k| (k, "1")));
                }
                for ((k, c), seq) in rows.iter().zip(1..) {
                    let values = format!("({k}, 'l{}', {seq}, {c})", k % 3);
                    let sql = format!("REPLACE INTO t(k, l, a, c) VALUES {values}");
                    if plain.execute_batch(&sql).is_err() {
                        rejects.push(seq.to_string());
                    }
                    con.execute_batch(&format!("INSERT INTO t_in VALUES {values}"))
                        .unwrap_or_else(|e| panic!("{what}: {values}: {e}"));
                }
                con.execute_batch("COMMIT").expect("commits");
                other
                    .execute_batch(&format!("DROP TABLE t; {then}; COMMIT"))
                    .expect("another table");
                assert_eq!(wait(&con), rows.len() as i64, "{what}");
                let rows = "SELECT *, typeof(c) FROM t ORDER BY k, l";
                assert_eq!(all(&other, rows), all(&plain, rows), "{what}");
                let check: String = one(&other, "PRAGMA integrity_check");
                assert_eq!(check, "ok", "{what}");
                let seqs = all(&other, "SELECT seq FROM densite_rejects ORDER BY seq");
                assert_eq!(seqs, rejects, "{what}");
            }
        }
    }
}

/// Other changes can come between two rows of a key.
#[test]
fn changes_between_two_rows_of_a_key_take_effect() {
    let db = Db::new("CREATE TABLE t(k INTEGER PRIMARY KEY, a, b)");
    let con = db.ingest("t", ", on_conflict=replace");
    let held = common::Held::new(&db);
    con.execute_batch(
        "BEGIN;
         INSERT INTO t_in VALUES (1, 1, 1), (1, 2, 2);
         UPDATE t_in SET a = 3 WHERE k = 1;
         INSERT OR IGNORE INTO t_in VALUES (1, 4, 4);
         INSERT INTO t_in VALUES (2, 1, 1), (2, 2, 2);
         DELETE FROM t_in WHERE k = 2;
         INSERT INTO t_in VALUES (3, 1, 1);
         INSERT OR IGNORE INTO t_in VALUES (3, 2, 2);
         COMMIT",
    )
    .expect("commits");
    drop(held);
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM t ORDER BY k"), ["1|3|2", "3|1|1"]);
    assert_eq!(all(&con, "SELECT * FROM densite_rejects"), [""; 0]);
}

/// Proves that rows are left out at all: each written row takes a number.
#[test]
fn rows_that_are_replaced_are_not_written() {
    let db = Db::new(
        "CREATE TABLE t(k INT, l TEXT COLLATE NOCASE, a, PRIMARY KEY(k, l)); CREATE INDEX i ON t(a)",
    );
    let con = db.ingest("t", ", on_conflict=replace");
    let held = common::Held::new(&db);
    con.execute_batch("BEGIN").expect("begins");
    for i in 0..ROWS {
        con.execute("INSERT INTO t_in VALUES (?1 % 100, 'l', ?1)", [i as i64])
            .expect("inserts");
    }
    con.execute_batch("COMMIT").expect("commits");
    drop(held);
    wait(&con);
    let left = "SELECT count(*), max(rowid) < 300, min(a), max(a) FROM t";
    let (least, most) = (ROWS - 100, ROWS - 1);
    assert_eq!(all(&con, left), [format!("100|1|{least}|{most}")]);
}
