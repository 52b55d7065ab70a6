//! A reader of a table sees all of a transaction of the log, or none of it.

use crate::common::storage;

use crate::common::{self, Db, Held, all, create, one, wait};
use densite_ingest::ClusteredLimits;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::{Connection, ErrorCode};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ACCOUNTS: i64 = 5_000;
const TOTAL: i64 = ACCOUNTS * 100;

fn accounts(mode: &str) -> Db {
    let db = Db::new(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER NOT NULL);
         CREATE TABLE w(id INTEGER PRIMARY KEY, v INTEGER NOT NULL);
         WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ACCOUNTS}) INSERT INTO t SELECT i, 100 FROM n;"
    ));
    let con = Connection::open(db.path()).expect("opens");
    con.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(()))
        .expect("the mode");
    db
}

/// Reads the tables until all is applied. Returns how often they had changed.
fn watch(path: &Path, is_over: &AtomicBool) -> usize {
    let con = Connection::open(path).expect("opens");
    let (mut seen, mut before) = (0, -1);
    loop {
        let ends = is_over.load(Ordering::Acquire);
        let sql = "SELECT (SELECT sum(v) FROM t) + (SELECT coalesce(sum(v), 0) FROM w), seq FROM densite_applied";
        let row = con.query_row(sql, [], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)));
        let (sum, seq): (i64, i64) = match row {
            Ok(row) => row,
            // In a rollback mode the worker blocks readers for a moment.
            Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => continue,
            Err(e) => panic!("a look: {e}"),
        };
        assert_eq!(sum, TOTAL, "applied up to {seq}");
        seen += usize::from(seq != before);
        before = seq;
        if ends {
            return seen;
        }
    }
}

/// Each transaction moves an amount from one account to others, some of which are in another table.
#[test]
fn readers_see_whole_transactions() {
    for (mode, longest) in [("wal", 3), ("wal", 600), ("delete", 3), ("delete", 600)] {
        let seed: u64 = rand::random();
        let what = format!("seed {seed}, {mode}, {longest}");
        println!("{what}");
        let mut random = StdRng::seed_from_u64(seed);
        let db = accounts(mode);
        let con = db.ingest("t", ", on_conflict=replace");
        create(&con, "w", ", on_conflict=replace").expect("the other one");
        wait(&con);
        let held = Held::new(&db);
        let mut moved = vec![100; ACCOUNTS as usize + 1];
        let mut apart = vec![0; ACCOUNTS as usize + 1];
        for _ in 0..16_000 / longest {
            con.execute_batch("BEGIN").expect("begins");
            let moves = random.random_range(longest / 2..=longest);
            for _ in 0..moves {
                let to = random.random_range(1..=ACCOUNTS) as usize;
                let (name, other) = match random.random_range(0..4) {
                    0 => ("w", &mut apart),
                    _ => ("t", &mut moved),
                };
                other[to] += 7;
                let sql = format!("INSERT INTO {name}_in VALUES ({to}, {})", other[to]);
                con.execute_batch(&sql).expect("inserts");
            }
            // All additions come after all subtractions: no part of a transaction keeps the sum.
            for _ in 0..moves {
                let from = random.random_range(1..=ACCOUNTS) as usize;
                moved[from] -= 7;
                let sql = format!("INSERT INTO t_in VALUES ({from}, {})", moved[from]);
                con.execute_batch(&sql).expect("inserts");
            }
            con.execute_batch("COMMIT").expect("commits");
        }
        let is_over = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&db.path(), &is_over));
            drop(held);
            wait(&con);
            is_over.store(true, Ordering::Release);
            watcher.join().expect("whole transactions")
        });
        println!("{seen} states");
        assert_eq!(
            one::<i64>(&con, "SELECT count(*) FROM densite_rejects"),
            0,
            "{what}"
        );
    }
}

/// A clustered apply applies rows in another order and divides transactions. The table has whole
/// transactions again when the clustered apply ends.
#[test]
fn a_clustered_apply_ends_with_a_transaction() {
    const EACH: i64 = 7;
    let db = Db::new(
        "CREATE TABLE t(u INTEGER NOT NULL, s INTEGER NOT NULL, PRIMARY KEY(u, s)); CREATE INDEX by_s ON t(s)",
    );
    let limits = ClusteredLimits {
        least: 100,
        most: 300,
        together: 50,
        at_once: 50,
        ..ClusteredLimits::default()
    };
    let con = storage::with_limits(&db.path(), limits, 0);
    create(&con, "t", "").expect("the ingest table");
    wait(&con);
    let mut random = StdRng::seed_from_u64(2);
    let held = Held::new(&db);
    for _ in 0..400 {
        con.execute_batch("BEGIN").expect("begins");
        // Two records of the log.
        for row in 0..EACH {
            let or = if row < 3 { "" } else { " OR IGNORE" };
            let sql = format!("INSERT{or} INTO t_in VALUES (?1, ?2)");
            con.execute(&sql, random.random::<[i64; 2]>())
                .expect("inserts");
        }
        con.execute_batch("COMMIT").expect("commits");
    }
    drop(held);
    let plain = Connection::open(db.path()).expect("opens");
    plain
        .busy_timeout(Duration::from_secs(10))
        .expect("a timeout");
    let mut clustered = 0;
    loop {
        let sql = "SELECT seq, clustered_last, clustered_done, (SELECT count(*) FROM t) FROM densite_applied";
        let place = all(&plain, sql);
        let numbers: Vec<i64> = place[0]
            .split('|')
            .map(|n| n.parse().expect("a number"))
            .collect();
        let [seq, last, done, rows] = numbers[..] else {
            panic!("{place:?}");
        };
        assert_eq!((seq % EACH, last % EACH), (0, 0), "{place:?}");
        assert_eq!(rows, seq + done, "{place:?}");
        clustered += usize::from(done > 0);
        if seq == 400 * EACH {
            break;
        }
    }
    println!("{clustered} looks within clustered applies");
}

/// A table whose rows take some milliseconds each, and how long.
const SLOW: &str = "CREATE TABLE z(id INTEGER PRIMARY KEY, steps INTEGER NOT NULL);
     CREATE TRIGGER slow AFTER INSERT ON z BEGIN SELECT count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < new.steps) SELECT i FROM n); END;";

/// The number of steps of a row of that table that takes about this long.
fn steps(time: Duration) -> i64 {
    let con = Connection::open_in_memory().expect("opens");
    con.execute_batch(SLOW).expect("the table");
    let (begun, some) = (Instant::now(), 500_000);
    con.execute("INSERT INTO z VALUES (1, ?1)", [some])
        .expect("inserts");
    let steps = some as f64 * time.as_secs_f64() / begun.elapsed().as_secs_f64();
    steps as i64
}

/// From now on each transaction of the worker records the total number of rows of these tables.
fn note_states(con: &Connection, tables: &[&str]) {
    let counts: Vec<String> = tables
        .iter()
        .map(|t| format!("(SELECT count(*) FROM {t})"))
        .collect();
    con.execute_batch(&format!(
        "CREATE TABLE states(rows INTEGER NOT NULL); CREATE TRIGGER note AFTER UPDATE ON densite_applied BEGIN INSERT INTO states SELECT {}; END",
        counts.join(" + ")
    ))
    .expect("the trigger");
}

/// The tables only ever had whole transactions of `each` rows, and have `all` rows in the end.
fn had_whole_transactions(con: &Connection, each: i64, all: i64) {
    wait(con);
    let states = common::all(con, "SELECT rows FROM states");
    let states: Vec<i64> = states
        .iter()
        .map(|n| n.parse().expect("a number"))
        .collect();
    println!("{states:?}");
    assert!(states.iter().all(|rows| rows % each == 0), "{states:?}");
    assert_eq!(states.last(), Some(&all));
    assert_eq!(one::<i64>(con, "SELECT count(*) FROM densite_rejects"), 0);
}

/// The first row makes the worker take few rows at a time. The transactions that follow have more,
/// in many records of the log.
#[test]
fn small_batches_do_not_split_a_transaction_of_several_tables() {
    let db = Db::new(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE w(id INTEGER PRIMARY KEY); {SLOW}"
    ));
    let con = db.ingest("z", "");
    for name in ["t", "w"] {
        create(&con, name, "").expect("the other ones");
    }
    let slow = steps(Duration::from_millis(600));
    con.execute("INSERT INTO z_in VALUES (1, ?1)", [slow])
        .expect("inserts");
    wait(&con);
    note_states(&con, &["t", "w"]);
    let held = Held::new(&db);
    for i in 0..100 {
        con.execute_batch("BEGIN").expect("begins");
        for row in i * 10..i * 10 + 10 {
            let sql = format!("INSERT INTO t_in VALUES ({row}); INSERT INTO w_in VALUES ({row})");
            con.execute_batch(&sql).expect("inserts");
        }
        con.execute_batch("COMMIT").expect("commits");
    }
    drop(held);
    had_whole_transactions(&con, 20, 2000);
}

/// A small transaction is never divided, however long it takes.
#[test]
fn a_slow_small_transaction_is_not_split() {
    let db = Db::new(SLOW);
    let con = db.ingest("z", "");
    wait(&con);
    note_states(&con, &["z"]);
    let slow = steps(Duration::from_millis(20));
    for i in 0..3 {
        con.execute_batch("BEGIN").expect("begins");
        for row in i * 40..i * 40 + 40 {
            con.execute("INSERT INTO z_in VALUES (?1, ?2)", [row, slow])
                .expect("inserts");
        }
        con.execute_batch("COMMIT").expect("commits");
    }
    had_whole_transactions(&con, 40, 120);
}

/// A transaction that is larger than the first batches, and fast.
#[test]
fn a_transaction_of_half_a_second_is_not_split() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let con = db.ingest("t", "");
    wait(&con);
    note_states(&con, &["t"]);
    let held = Held::new(&db);
    for i in 0..5 {
        let sql = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000) INSERT INTO t_in SELECT {i} * 6000 + i FROM n"
        );
        con.execute_batch(&sql).expect("inserts");
    }
    drop(held);
    had_whole_transactions(&con, 6000, 30_000);
}

/// A clustered apply takes rows of one table. It takes none of a transaction that has rows of
/// another one.
#[test]
fn a_clustered_apply_does_not_split_transactions_of_several_tables() {
    let db = Db::new(
        "CREATE TABLE t(u INTEGER NOT NULL, s INTEGER NOT NULL, PRIMARY KEY(u, s)); CREATE INDEX t_s ON t(s);
         CREATE TABLE w(u INTEGER NOT NULL, s INTEGER NOT NULL, PRIMARY KEY(u, s)); CREATE INDEX w_s ON w(s);",
    );
    let con = storage::with_limits(&db.path(), storage::FEW, 0);
    for name in ["t", "w"] {
        create(&con, name, "").expect("the ingest tables");
    }
    wait(&con);
    let mut random = StdRng::seed_from_u64(3);
    let plain = Connection::open(db.path()).expect("opens");
    let sql = "SELECT seq, clustered_last, clustered_done, (SELECT count(*) FROM t) + (SELECT count(*) FROM w) FROM densite_applied";
    let (mut clustered, mut ends) = (0, vec![0]);
    for several in [&["t", "w"][..], &["w", "t", "w"], &["t", "w", "t"]] {
        let held = Held::new(&db);
        for i in 0..9 {
            con.execute_batch("BEGIN").expect("begins");
            for name in if i == 5 { several } else { &["t"] } {
                // Enough rows of one table for a clustered apply.
                let sql = format!("INSERT INTO {name}_in VALUES (?1, ?2)");
                for _ in 0..50 {
                    con.execute(&sql, random.random::<[i64; 2]>())
                        .expect("inserts");
                }
            }
            con.execute_batch("COMMIT").expect("commits");
            ends.push(one::<i64>(&con, "SELECT densite_last_seq()"));
        }
        drop(held);
        loop {
            let place: [i64; 4] = plain
                .query_row(sql, [], |r| {
                    Ok([r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?])
                })
                .expect("a look");
            let [seq, last, done, rows] = place;
            assert!(ends.contains(&seq) && ends.contains(&last), "{place:?}");
            assert_eq!(rows, seq + done, "{place:?}");
            clustered += usize::from(done > 0);
            if Some(&seq) == ends.last() {
                break;
            }
        }
    }
    println!("{clustered} looks within clustered applies");
    assert!(clustered > 0);
}
