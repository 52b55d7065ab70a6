//! The first log of a database.

use crate::common::{Db, all, create, one, open, wait};
use rusqlite::ErrorCode;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const ROUNDS: usize = 12;
const THREADS: i64 = 6;

/// A second connection waits for the first for its `busy_timeout`, although SQLite itself lets no
/// connection wait that has already read.
fn several_at_once(mode: &str) {
    for round in 0..ROUNDS {
        let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
        let plain = rusqlite::Connection::open(db.path()).expect("opens");
        let set: String = one(&plain, &format!("PRAGMA journal_mode = {mode}"));
        assert_eq!(set, mode);
        drop(plain);
        let barrier = Barrier::new(THREADS as usize);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, barrier) = (&db, &barrier);
                scope.spawn(move || {
                    let con = open(&db.path());
                    barrier.wait();
                    create(&con, "t", "").unwrap_or_else(|e| panic!("{mode}, {round}: {e}"));
                    con.execute("INSERT INTO t_in VALUES (?1)", [thread])
                        .expect("inserts");
                });
            }
        });
        let con = db.ingest("t", "");
        wait(&con);
        assert_eq!(all(&con, "SELECT count(*) FROM t"), [THREADS.to_string()]);
        assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_applied"), 1);
    }
}

#[test]
fn several_connections_create_the_log_at_once_with_a_wal() {
    several_at_once("wal");
}

#[test]
fn several_connections_create_the_log_at_once_with_a_rollback_journal() {
    several_at_once("delete");
}

/// A lock that stays is waited for as long as `busy_timeout`, and no longer.
#[test]
fn a_held_lock_is_waited_for_as_long_as_busy_timeout() {
    for (ms, least, most) in [(0, 0, 400), (600, 550, 3000)] {
        let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
        let other = rusqlite::Connection::open(db.path()).expect("opens");
        other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        let con = open(&db.path());
        con.busy_timeout(Duration::from_millis(ms)).expect("a time");
        let took = || {
            let begun = Instant::now();
            let refused = create(&con, "t", "").expect_err("it is locked");
            let took = begun.elapsed();
            assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
            assert!(took >= Duration::from_millis(least), "{ms}: {took:?}");
            took
        };
        // The machine can be busy.
        let in_time = |_| took() < Duration::from_millis(most);
        assert!((0..10).any(in_time), "{ms}: it took longer each time");
        other
            .execute_batch("ROLLBACK")
            .expect("the lock is released");
        create(&con, "t", "").expect("no lock is held");
    }
}

/// A connection within a transaction keeps its reads valid, so it cannot wait.
#[test]
fn creating_the_log_in_a_transaction_does_not_wait() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let other = rusqlite::Connection::open(db.path()).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let con = open(&db.path());
    con.execute_batch("BEGIN").expect("begins");
    all(&con, "SELECT * FROM t");
    let in_time = |_| {
        let begun = Instant::now();
        create(&con, "t", "").expect_err("it is locked");
        begun.elapsed() < Duration::from_secs(2)
    };
    assert!((0..3).any(in_time), "it waited each time");
}

/// Rejects stay until the application deletes them, even if their log is given up and another one
/// begins.
#[test]
fn a_later_log_does_not_overwrite_rejects() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1, 'in'), (1, 'refused'), (2, 'in')")
        .expect("inserts");
    wait(&con);
    drop(con);
    // An empty log can exist already, left by a transaction that was rolled back.
    for left in [false, true] {
        open(&db.path())
            .execute_batch("DROP TABLE densite_applied")
            .expect("drops");
        std::fs::remove_dir_all(db.log_dir()).expect("removes");
        if left {
            let con = open(&db.path());
            con.execute_batch("BEGIN").expect("begins");
            create(&con, "t", "").expect("the ingest table");
            con.execute_batch("ROLLBACK").expect("rolls back");
        }
        let con = db.ingest("t", "");
        con.execute_batch("INSERT INTO t_in VALUES (1, 'refused later'), (2, 'and so')")
            .expect("inserts");
        wait(&con);
    }
    let con = open(&db.path());
    let rejects = "SELECT seq, json_extract(\"row\", '$.v') FROM densite_rejects ORDER BY seq";
    let expected = [
        "2|refused",
        "3|refused later",
        "4|and so",
        "5|refused later",
        "6|and so",
    ];
    assert_eq!(all(&con, rejects), expected);
}

/// The numbers of rejects prove nothing about a log with rows that the database does not name.
#[test]
fn rejects_do_not_make_a_log_with_rows_count_as_new() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1, 'in'), (1, 'refused')")
        .expect("inserts");
    wait(&con);
    con.execute_batch("DROP TABLE temp.t_in").expect("drops");
    con.execute_batch("DROP TABLE densite_applied")
        .expect("drops");
    drop(con);
    let said = create(&open(&db.path()), "t", "").expect_err("unknown");
    assert!(said.to_string().contains("does not name"), "{said}");
}
