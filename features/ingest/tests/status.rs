//! `densite_ingest_status()` and `densite_subscribers()`.

use crate::common::storage::{self, Own};
use crate::common::waiting::caught;
use crate::common::{Db, Held, all, create, one, wait};
use rusqlite::Connection;
use std::time::{Duration, Instant};

const SCHEMA: &str =
    "CREATE TABLE vote(id INTEGER PRIMARY KEY, n INT CHECK (n <> 7)); CREATE TABLE other(a)";

/// The row of figures.
#[derive(Debug, PartialEq)]
struct Figures {
    last: i64,
    applied: i64,
    unapplied_rows: i64,
    unapplied_bytes: i64,
    oldest: Option<f64>,
    per_second: f64,
    rejects: i64,
    applying: bool,
    paused: String,
}

fn figures(con: &Connection) -> Figures {
    let sql = "SELECT last, applied, unapplied_rows, unapplied_bytes, oldest_unapplied_seconds, applied_per_second, rejects, applying, paused FROM densite_ingest_status()";
    con.query_row(sql, [], |row| {
        Ok(Figures {
            last: row.get(0)?,
            applied: row.get(1)?,
            unapplied_rows: row.get(2)?,
            unapplied_bytes: row.get(3)?,
            oldest: row.get(4)?,
            per_second: row.get(5)?,
            rejects: row.get(6)?,
            applying: row.get(7)?,
            paused: row.get(8)?,
        })
    })
    .expect("figures")
}

fn insert(con: &Connection, sql: &str) {
    con.execute_batch(&format!("INSERT INTO vote_in {sql}"))
        .expect("inserts");
}

/// Inserts so many rows in one transaction.
fn insert_many(con: &Connection, from: i64, count: i64) {
    insert(
        con,
        &format!(
            "WITH RECURSIVE i(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM i WHERE i < {from} + {count} - 1) SELECT i, i % 5 FROM i"
        ),
    );
}

#[test]
fn rows_wait_while_a_lock_holds_the_worker() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("vote", "");
    insert(&con, "VALUES (1, 1)");
    wait(&con);
    let none = figures(&con);
    assert_eq!(
        (none.last, none.applied, none.unapplied_rows),
        (1, 1, 0),
        "{none:?}"
    );
    assert_eq!((none.unapplied_bytes, none.oldest), (0, None), "{none:?}");
    assert!(none.applying, "{none:?}");
    assert_eq!(none.paused, "[]");
    // The log is idle for a while: the next row is not as old as the last one.
    std::thread::sleep(Duration::from_secs(3));
    let held = Held::new(&db);
    let begun = Instant::now();
    insert(&con, "VALUES (2, 1), (3, 1)");
    let appended = begun.elapsed().as_secs_f64();
    // As another process sees it, which has only opened the database.
    let other = Own {
        process: 1,
        ..Own::default()
    };
    let other = other.connect(&db.path());
    let mut last_age = 0.0;
    for step in 0..3 {
        for con in [&con, &other] {
            let before = begun.elapsed().as_secs_f64();
            let now = figures(con);
            assert_eq!(
                (now.last, now.applied, now.unapplied_rows),
                (3 + step, 1, 2 + step),
                "{now:?}"
            );
            let database_log = crate::common::database_log(con);
            let bytes = database_log.log().bytes_after(1).expect("counted");
            assert_eq!(now.unapplied_bytes, bytes as i64);
            let age = now.oldest.expect("an age");
            let most = begun.elapsed().as_secs_f64() * 1.125 + 0.1;
            assert!(
                (before - appended - 0.001..=most).contains(&age),
                "the row waits since {appended} to {before} s, at most {most}: {age}"
            );
            assert!(age >= last_age, "{age} after {last_age}");
            last_age = age;
        }
        std::thread::sleep(Duration::from_millis(300));
        // The oldest row stays the oldest.
        insert(&con, &format!("VALUES ({}, 1)", 4 + step));
    }
    drop(held);
    wait(&con);
    for con in [&con, &other] {
        let now = figures(con);
        assert_eq!((now.last, now.applied, now.unapplied_rows), (6, 6, 0));
        assert_eq!((now.unapplied_bytes, now.oldest), (0, None));
    }
}

#[test]
fn the_rate_is_that_of_the_last_seconds() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("vote", "");
    assert_eq!(figures(&con).per_second, 0.0);
    let begun = Instant::now();
    insert_many(&con, 1, 20_000);
    wait(&con);
    let rate = figures(&con).per_second;
    // 20,000 rows in the last ten seconds; on a busy machine they count less by now.
    let least = 2000.0 * (-begun.elapsed().as_secs_f64() / 10.0).exp() * 0.99;
    assert!((least..=2000.0).contains(&rate), "{rate}, least {least}");
    std::thread::sleep(Duration::from_millis(500));
    let later = figures(&con).per_second;
    assert!(later > 0.0 && later < rate, "{later} after {rate}");
    // Another process continues it.
    drop(con);
    let other = Own {
        process: 1,
        ..Own::default()
    };
    let other = other.connect(&db.path());
    create(&other, "vote", "").expect("the ingest table");
    let before = figures(&other).per_second;
    let begun = Instant::now();
    insert_many(&other, 20_001, 20_000);
    wait(&other);
    let after = figures(&other).per_second;
    let least = (before + 2000.0) * (-begun.elapsed().as_secs_f64() / 10.0).exp() * 0.99;
    assert!(
        after >= least && after <= before + 2000.0,
        "{after} after {before}"
    );
}

#[test]
fn rejects_and_paused_tables_are_shown() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("vote", "");
    insert(&con, "VALUES (1, 7), (2, 1), (3, 7)");
    wait(&con);
    assert_eq!(figures(&con).rejects, 2);
    con.execute_batch("DELETE FROM densite_rejects WHERE seq = 1")
        .expect("deletes");
    assert_eq!(figures(&con).rejects, 1);
    one::<i64>(&con, "SELECT densite_pause('vote')");
    one::<i64>(&con, "SELECT densite_pause('other')");
    insert(&con, "VALUES (4, 1)");
    let now = figures(&con);
    assert_eq!(now.paused, r#"["vote","other"]"#);
    assert_eq!(now.unapplied_rows, 1);
    assert!(now.oldest.is_some(), "{now:?}");
}

#[test]
fn the_lag_of_a_slow_subscriber_is_shown() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("vote", "");
    let lag = "SELECT name, position, rows_behind, bytes_behind > 0 FROM densite_subscribers()";
    assert!(all(&con, lag).is_empty());
    for name in ["fast", "slow"] {
        one::<i64>(&con, &format!("SELECT densite_subscribe('{name}')"));
    }
    insert(&con, "VALUES (1, 1)");
    insert(&con, "VALUES (2, 1)");
    insert(&con, "VALUES (3, 1)");
    one::<i64>(&con, "SELECT densite_ack('fast', 3)");
    one::<i64>(&con, "SELECT densite_ack('slow', 1)");
    assert_eq!(all(&con, lag), ["fast|3|0|0", "slow|1|2|1"]);
    let database_log = crate::common::database_log(&con);
    let bytes = database_log.log().bytes_after(1).expect("counted");
    let slow = "SELECT bytes_behind FROM densite_subscribers() WHERE name = 'slow'";
    assert_eq!(one::<i64>(&con, slow), bytes as i64);
    // One that is dropped is shown until it comes back.
    one::<i64>(&con, "SELECT densite_config('max_retained_bytes', 1)");
    wait(&con);
    one::<i64>(&con, "SELECT densite_prune()");
    let all_of = "SELECT name, feed, position, dropped FROM densite_subscribers()";
    assert_eq!(all(&con, all_of), ["fast|log|3|0", "slow|log|NULL|1"]);
    one::<i64>(&con, "SELECT densite_subscribe('slow')");
    assert_eq!(all(&con, all_of), ["fast|log|3|0", "slow|log|3|0"]);
}

/// In a clustered apply, rows behind the position are applied. They do not wait.
#[test]
fn rows_of_a_clustered_apply_that_are_applied_do_not_wait() {
    // The worker can apply all rows before they are looked at.
    let begun = (0..50).find_map(|_| {
        let db = Db::new("CREATE TABLE vote(id TEXT PRIMARY KEY, n INT)");
        let con = storage::with_limits(&db.path(), storage::ONE, 0);
        create(&con, "vote", "").expect("the ingest table");
        let plain = Connection::open(db.path()).expect("opens");
        plain.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        for i in 0..200 {
            insert(&con, &format!("VALUES ('{}', 1)", i * 7919 % 200));
        }
        plain.execute_batch("ROLLBACK").expect("rolls back");
        caught(&plain, 200).map(|at| (db, con, plain, at))
    });
    let (_db, con, plain, (seq, done)) = begun.expect("a clustered apply on its way");
    let now = figures(&con);
    assert_eq!((now.last, now.applied), (200, seq));
    assert_eq!(now.unapplied_rows, 200 - seq - done, "{now:?}");
    let count: i64 = one(&con, "SELECT count(*) FROM main.vote");
    assert_eq!(now.unapplied_rows, 200 - count);
    assert!(now.oldest.is_some(), "{now:?}");
    plain.execute_batch("ROLLBACK").expect("rolls back");
    wait(&con);
}

#[test]
fn without_a_log_there_are_no_figures() {
    let db = Db::new(SCHEMA);
    let con = db.open();
    assert!(all(&con, "SELECT * FROM densite_ingest_status()").is_empty());
    assert!(all(&con, "SELECT * FROM densite_subscribers()").is_empty());
    assert!(!db.log_dir().exists());
}

/// The file of the times matters for one figure only.
#[test]
fn the_age_is_unknown_without_the_times() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("vote", "");
    let times = db.log_dir().join("times");
    insert(&con, "VALUES (1, 1)");
    wait(&con);
    let held = Held::new(&db);
    insert(&con, "VALUES (2, 1)");
    for damage in [None, Some(&b"short"[..]), Some(&[0xA5; 5000])] {
        match damage {
            None => std::fs::remove_file(&times).expect("removed"),
            Some(bytes) => std::fs::write(&times, bytes).expect("overwritten"),
        }
        let now = figures(&con);
        assert_eq!((now.unapplied_rows, now.oldest), (1, None), "{now:?}");
    }
    // The next writer makes a new file. The old row waits at least since then.
    std::thread::sleep(Duration::from_millis(150));
    insert(&con, "VALUES (3, 1)");
    let age = figures(&con).oldest.expect("an age");
    assert!(age < 5.0, "{age}");
    drop(held);
    wait(&con);
    assert_eq!(figures(&con).oldest, None);
}
