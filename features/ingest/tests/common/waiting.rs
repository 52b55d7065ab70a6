//! Tables with random changes that wait in the log, and their expected results.
#![allow(dead_code, reason = "each test file uses a part of it")]

use crate::common::storage::{self, ONE};
use crate::common::{Db, all, create, one};
use rand::RngExt;
use rand::rngs::StdRng;
use rusqlite::Connection;
use std::time::{Duration, Instant};

/// A table, and the values of a random row.
pub(crate) struct Shape {
    pub(crate) schema: &'static str,
    pub(crate) columns: fn(&mut StdRng) -> String,
    /// The key's columns.
    pub(crate) key: &'static str,
}

fn text(random: &mut StdRng) -> String {
    let letter = ["a", "A", "b", "B ", "b", "cc", "Cc", "d  ", "d"][random.random_range(0..9)];
    format!("'{letter}{}'", random.random_range(0..12))
}

pub(crate) const SHAPES: [Shape; 9] = [
    Shape {
        schema: "CREATE TABLE t(u INTEGER NOT NULL, s INTEGER NOT NULL, v, PRIMARY KEY(u, s)); CREATE INDEX by_s ON t(s)",
        columns: |r| {
            format!(
                "{}, {}, {}",
                r.random_range(0..30),
                r.random_range(0..8),
                r.random_range(0..99)
            )
        },
        key: "u, s",
    },
    Shape {
        schema: "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, v COLLATE NOCASE, x) WITHOUT ROWID; CREATE INDEX by_v ON t(v)",
        columns: |r| format!("{}, {}, {}", text(r), text(r), r.random_range(0..99)),
        key: "k",
    },
    Shape {
        schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, v, CHECK (v % 9 <> 4)); CREATE INDEX by_a ON t(a); CREATE INDEX by_v ON t(v, a)",
        columns: |r| {
            format!(
                "{}, {}, {}",
                r.random_range(-80..80),
                text(r),
                r.random_range(0..99)
            )
        },
        key: "id",
    },
    Shape {
        schema: "CREATE TABLE t(k TEXT COLLATE RTRIM PRIMARY KEY, v)",
        columns: |r| format!("{}, {}", text(r), r.random_range(0..99)),
        key: "k",
    },
    Shape {
        schema: "CREATE TABLE t(k PRIMARY KEY NOT NULL, v, w); CREATE INDEX odd ON t(v + 1); CREATE INDEX by_w ON t(w DESC, v) WHERE w > 3; CREATE INDEX by_v ON t(v)",
        columns: |r| {
            let n = r.random_range(0..40);
            let k = match r.random_range(0..4) {
                0 => format!("{n}.0"),
                1 => format!("{n}.5"),
                2 => format!("x'{n:02x}'"),
                _ => n.to_string(),
            };
            format!("{k}, {}, {}", r.random_range(0..20), r.random_range(0..9))
        },
        key: "k",
    },
    Shape {
        schema: "CREATE TABLE t(k TEXT PRIMARY KEY, v REAL); CREATE INDEX by_v ON t(v)",
        columns: |r| format!("'{}', {}.25", r.random::<u32>(), r.random_range(0..99)),
        key: "k",
    },
    Shape {
        schema: "CREATE TABLE t(a INTEGER NOT NULL, b TEXT COLLATE NOCASE NOT NULL, v, PRIMARY KEY(a DESC, b)); CREATE INDEX by_v ON t(v DESC)",
        columns: |r| {
            format!(
                "{}, {}, {}",
                r.random_range(-9..9),
                text(r),
                r.random_range(0..99)
            )
        },
        key: "a, b",
    },
    Shape {
        schema: "CREATE TABLE t(k INTEGER NOT NULL PRIMARY KEY DESC, v, w); CREATE INDEX by_w ON t(w DESC, v) WHERE v > 3",
        columns: |r| {
            format!(
                "{}, {}, {}",
                r.random_range(-80..80),
                r.random_range(0..20),
                text(r)
            )
        },
        key: "k",
    },
    Shape {
        schema: "CREATE TABLE t(b TEXT, a, v, PRIMARY KEY(b DESC, a DESC)) WITHOUT ROWID; CREATE INDEX by_v ON t(v COLLATE RTRIM DESC)",
        columns: |r| format!("{}, {}.5, {}", text(r), r.random_range(0..9), text(r)),
        key: "b, a",
    },
];

pub(crate) const POLICIES: [(&str, &str); 4] = [
    ("abort", "INSERT"),
    ("ignore", "INSERT OR IGNORE"),
    ("replace", "REPLACE"),
    ("'update(v)'", "INSERT"),
];

/// A random change of the table `t` as plain SQL.
pub(crate) fn change(random: &mut StdRng, shape: &Shape, verb: &str, update: bool) -> String {
    let values = (shape.columns)(random);
    let keys = shape.key.split(", ").count();
    let key: Vec<&str> = values.split(", ").take(keys).collect();
    match random.random_range(0..12) {
        0 => format!("DELETE FROM t WHERE ({}) = ({})", shape.key, key.join(", ")),
        1 => format!(
            "UPDATE t SET v = 7 WHERE ({}) = ({})",
            shape.key,
            key.join(", ")
        ),
        _ if update => format!(
            "{verb} INTO t VALUES ({values}) ON CONFLICT({}) DO UPDATE SET v = excluded.v",
            shape.key
        ),
        _ => format!("{verb} INTO t VALUES ({values})"),
    }
}

/// The same change for the ingest table.
pub(crate) fn through(sql: &str) -> String {
    let plain = sql.split(" ON CONFLICT").next().unwrap_or_default();
    plain
        .replace("INSERT OR IGNORE INTO t ", "INSERT INTO t_in ")
        .replace("REPLACE INTO t ", "INSERT INTO t_in ")
        .replace(" INTO t ", " INTO t_in ")
        .replace(" FROM t ", " FROM t_in ")
        .replace("UPDATE t ", "UPDATE t_in ")
}

pub(crate) fn rows(con: &Connection, table: &str) -> Vec<String> {
    let mut rows = all(con, &format!("SELECT * FROM {table}"));
    rows.sort_unstable();
    rows
}

/// Writes changes to the log. Returns the logged changes, one for each number, as they will be
/// applied.
pub(crate) fn log(con: &Connection, changes: Vec<String>, what: &str) -> Vec<String> {
    let (mut logged, count) = (Vec::new(), changes.len());
    for (i, sql) in changes.into_iter().enumerate() {
        if i % 10 == 0 {
            con.execute_batch("BEGIN").expect("begins");
        }
        con.execute_batch(&through(&sql))
            .unwrap_or_else(|e| panic!("{what}: {sql}: {e}"));
        // A change of a row that does not exist is not logged.
        if con.changes() == 1 {
            logged.push(sql);
        }
        if i % 10 == 9 || i + 1 == count {
            con.execute_batch("COMMIT").expect("commits");
        }
    }
    assert_eq!(
        one::<i64>(con, "SELECT densite_log_last()"),
        logged.len() as i64,
        "{what}"
    );
    logged
}

/// Where a clustered apply is: `seq`, its last number, places done, and its definition.
pub(crate) fn place(con: &Connection) -> (i64, i64, i64, Vec<u32>) {
    let (seq, last, done) = con
        .query_row(
            "SELECT seq, clustered_last, clustered_done FROM densite_applied",
            [],
            |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)),
        )
        .expect("a position");
    let blob: Option<Vec<u8>> = con
        .query_row(
            "SELECT permutation FROM densite_clustered WHERE id = (SELECT clustered FROM densite_applied)",
            [],
            |r| r.get(0),
        )
        .ok();
    let places = blob.unwrap_or_default();
    let places = places
        .chunks(4)
        .map(|b| u32::from_le_bytes(b.try_into().expect("four bytes")));
    (seq, last, done, places.collect())
}

/// A database in memory with the rows of a table of another database.
fn copy(con: &Connection, shape: &Shape) -> Connection {
    let copy = Connection::open_in_memory().expect("opens");
    copy.execute_batch(shape.schema).expect("the table");
    let mut from = con.prepare("SELECT * FROM t").expect("reads");
    let columns = from.column_count();
    let places = vec!["?"; columns].join(", ");
    let mut into = copy
        .prepare(&format!("INSERT INTO t VALUES ({places})"))
        .expect("an insert");
    let mut rows = from.query([]).expect("reads");
    while let Some(row) = rows.next().expect("a row") {
        let values: Vec<rusqlite::types::Value> =
            (0..columns).map(|i| row.get(i).expect("a value")).collect();
        into.execute(rusqlite::params_from_iter(values))
            .expect("inserts");
    }
    drop(into);
    copy
}

/// Applies the log from `seq` on to the table's rows, except what a clustered apply has done.
pub(crate) fn expected(con: &Connection, shape: &Shape, changes: &[String]) -> Vec<String> {
    let model = copy(con, shape);
    let (seq, last, done, places) = place(con);
    for (number, sql) in (1i64..).zip(changes) {
        let is_applied = number > seq
            && number <= last
            && i64::from(places[usize::try_from(number - seq - 1).expect("a place")]) < done;
        if number > seq && !is_applied {
            model.execute_batch(sql).ok();
        }
    }
    rows(&model, "t")
}

/// Takes the lock between the first and the last transaction of a clustered apply; `None` if there
/// is nothing left to apply.
pub(crate) fn caught(con: &Connection, changes: usize) -> Option<(i64, i64)> {
    let until = Instant::now() + Duration::from_secs(20);
    con.busy_timeout(Duration::ZERO).expect("a timeout");
    while Instant::now() < until {
        // Polls at once: the worker releases the lock only for a moment.
        if con.execute_batch("BEGIN IMMEDIATE").is_err() {
            continue;
        }
        let (seq, _, done, _) = place(con);
        if done > 0 || seq >= changes as i64 {
            return (done > 0).then_some((seq, done));
        }
        con.execute_batch("ROLLBACK").expect("rolls back");
        std::thread::yield_now();
    }
    panic!("no rows are applied");
}

/// A database with a table and another index, and a log with waiting changes. No rows are applied
/// while the returned last connection holds the lock.
pub(crate) fn waiting(
    shape: &Shape,
    count: usize,
    random: &mut StdRng,
) -> (Db, Connection, Connection, Vec<String>) {
    let db = Db::new(shape.schema);
    let con = storage::with_limits(&db.path(), ONE, 0);
    create(&con, "t", ", on_conflict=replace").expect("the ingest table");
    let plain = Connection::open(db.path()).expect("opens");
    plain
        .busy_timeout(Duration::from_secs(10))
        .expect("a timeout");
    plain.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let changes = (0..count).map(|_| change(random, shape, "REPLACE", false));
    let changes = log(&con, changes.collect(), "waiting");
    (db, con, plain, changes)
}

/// Applies the remaining changes one by one. Returns the resulting rows and the refused changes.
/// Everything is rolled back.
pub(crate) fn one_by_one(plain: &Connection, changes: &[String]) -> (Vec<String>, Vec<String>) {
    let (seq, last, done, places) = place(plain);
    let mut rejects = all(plain, "SELECT seq FROM densite_rejects");
    plain.execute_batch("SAVEPOINT model").expect("begins");
    for (number, sql) in (1i64..).zip(changes).skip_while(|(n, _)| *n <= seq) {
        let at = usize::try_from(number - seq - 1).expect("a number behind it");
        if number <= last && i64::from(places[at]) < done {
            continue;
        }
        // Columns that were added later have their defaults.
        let sql = sql.replace("INTO t VALUES", "INTO t(u, s, v) VALUES");
        let is_done = plain.execute(&sql, []);
        if is_done.is_err() || sql.starts_with("UPDATE") && is_done == Ok(0) {
            rejects.push(number.to_string());
        }
    }
    let there: i64 = one(plain, "SELECT count(*) FROM sqlite_schema WHERE name = 't'");
    let rows = match there {
        0 => Vec::new(),
        _ => rows(plain, "t"),
    };
    plain
        .execute_batch("ROLLBACK TO model; RELEASE model")
        .expect("takes it back");
    rejects.sort_unstable();
    (rows, rejects)
}
