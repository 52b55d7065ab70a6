//! The size of the WAL.

use crate::common::storage;

use crate::common::{Db, Held, all, create, one, wait};
use std::time::{Duration, Instant};
use storage::{ONE, Own};

/// Rows of 4 KB that do not compress, in transactions of a thousand.
fn fill(con: &rusqlite::Connection, from: i64, thousands: i64) {
    for i in 0..thousands {
        con.execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO t_in SELECT {from} + {i} * 1000 + i, randomblob(4000) FROM n"
        ))
        .expect("inserts");
    }
}

/// A reader that stays prevents the reuse of the WAL. Then rows stay readable in the log until the
/// reader ends.
#[test]
fn a_long_reader_does_not_make_the_wal_grow_without_limit() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", "");
    wait(&con);
    let reader = rusqlite::Connection::open(db.path()).expect("opens");
    reader
        .execute_batch("BEGIN; SELECT * FROM t")
        .expect("reads");
    let (mut rows, mut said) = (0, String::new());
    let until = Instant::now() + Duration::from_secs(180);
    while said.is_empty() && Instant::now() < until {
        fill(&con, rows, 4);
        rows += 4000;
        if let Err(e) = con.query_row("SELECT densite_wait()", [], |_| Ok(())) {
            said = e.to_string();
        }
    }
    assert!(said.contains("reading an old state"), "{said}");
    let stopped = db.wal_len();
    fill(&con, rows, 20);
    rows += 20_000;
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(db.wal_len(), stopped, "no rows are applied");
    let applied = one::<i64>(&con, "SELECT count(*) FROM t");
    assert!(applied < rows, "{applied}");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t_in"), rows);
    reader.execute_batch("COMMIT").expect("commits");
    let begun = Instant::now();
    while con
        .query_row("SELECT densite_wait()", [], |_| Ok(()))
        .is_err()
    {
        // The error can be older than the end of the reader.
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), rows);
    assert_eq!(all(&con, "SELECT error FROM densite_rejects"), [""; 0]);
}

/// While rows come through the log without a pause, the WAL is reused again and again.
#[test]
fn the_wal_is_flat_under_constant_load() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", ", on_conflict=replace");
    wait(&con);
    let (mut largest, mut early) = (0, 0);
    for round in 0..40 {
        // The same keys: the size of the database does not change.
        fill(&con, 0, 2);
        largest = largest.max(db.wal_len());
        if round == 19 {
            wait(&con);
            early = largest;
        }
    }
    wait(&con);
    // A batch that was still to be applied adds to the bound.
    let bound = 100 << 20;
    assert!(early < bound && largest < bound, "{early}, {largest}");
    // When the database is idle, the WAL is truncated, even if a connection reads it at first.
    let reader = rusqlite::Connection::open(db.path()).expect("opens");
    reader
        .execute_batch("BEGIN; SELECT * FROM t")
        .expect("reads");
    std::thread::sleep(Duration::from_secs(1));
    reader.execute_batch("COMMIT").expect("commits");
    let until = Instant::now() + Duration::from_secs(30);
    while db.wal_len() > 16 << 20 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(db.wal_len() <= 16 << 20, "{}", db.wal_len());
}

/// The cost of rows differs widely: first many rows of few pages, then rows of several pages, in a
/// transaction each.
#[test]
fn the_wal_is_bounded_if_the_size_of_rows_changes() {
    const LEAST: u64 = 1 << 20;
    const MANY: i64 = 20_000;
    const ROWS: i64 = 2000;
    let db = Db::new(
        "CREATE TABLE w(v); CREATE TABLE t(id INTEGER PRIMARY KEY, v, x); CREATE INDEX by_v ON t(v)",
    );
    let storage = Own {
        wal: (LEAST, 512 << 20),
        ..Own::with_limits(ONE, 0)
    };
    let con = storage.connect(&db.path());
    create(&con, "w", "").expect("w_in");
    create(&con, "t", "").expect("t_in");
    let numbers = |from: i64, count: i64| {
        let last = from + count - 1;
        format!(
            "WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {last})"
        )
    };
    let many = numbers(0, MANY);
    con.execute_batch(&format!("{many} INSERT INTO w_in SELECT i FROM n"))
        .expect("inserts");
    wait(&con);
    let held = Held::new(&db);
    for from in (0..ROWS).step_by(100) {
        let some = numbers(from, 100);
        con.execute_batch(&format!(
            "{some} INSERT INTO t_in SELECT i * 7919 % {ROWS}, i * 104729 % 1009, zeroblob(1000) FROM n"
        ))
        .expect("inserts");
    }
    drop(held);
    let mut longest = 0;
    loop {
        let applied = one::<i64>(&con, "SELECT densite_wait(NULL, 0.01)");
        longest = longest.max(db.wal_len());
        if applied == MANY + ROWS {
            break;
        }
    }
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), ROWS);
    assert!(longest > LEAST / 2, "{longest}: so many rows take more");
    assert!(longest < 4 * LEAST, "{longest}");
}
