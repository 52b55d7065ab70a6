//! The worker rests between batches while rows trickle in, and nobody who waits for it notices.

mod common;

use common::{Db, one, open, wait};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SCHEMA: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY)";

fn insert(con: &rusqlite::Connection) {
    con.execute_batch("INSERT INTO t_in VALUES (NULL)")
        .expect("inserts");
}

#[test]
fn rows_that_trickle_in_are_applied_together_and_soon() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("t", "");
    insert(&con);
    wait(&con);
    let ended = AtomicBool::new(false);
    let (rows, positions) = std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let plain = rusqlite::Connection::open(db.path()).expect("opens");
            let mut seen = BTreeSet::new();
            while !ended.load(Ordering::Acquire) {
                seen.insert(one::<i64>(&plain, "SELECT seq FROM densite_applied"));
            }
            seen
        });
        let (begun, mut rows) = (Instant::now(), 1);
        while begun.elapsed() < Duration::from_secs(1) || rows < 300 {
            insert(&con);
            rows += 1;
            assert_eq!(
                one::<i64>(&con, "SELECT count(*) FROM t_in"),
                rows,
                "at once"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        // Without anybody who waits for it.
        let until = Instant::now() + Duration::from_secs(5);
        let plain = rusqlite::Connection::open(db.path()).expect("opens");
        while one::<i64>(&plain, "SELECT count(*) FROM t") < rows {
            assert!(Instant::now() < until, "the table lags behind");
            std::thread::sleep(Duration::from_millis(5));
        }
        ended.store(true, Ordering::Release);
        (rows as usize, looks.join().expect("looks"))
    });
    let batches = positions.len();
    assert!(batches * 5 < rows, "{batches} transactions for {rows} rows");
}

/// A row behind another that was just applied comes in the middle of a rest.
fn times_of_waiting(con: &rusqlite::Connection) -> Duration {
    let times = (0..40).map(|_| {
        insert(con);
        wait(con);
        insert(con);
        let begun = Instant::now();
        wait(con);
        begun.elapsed()
    });
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn who_waits_ends_the_rest() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("t", "");
    let median = times_of_waiting(&con);
    assert!(median < Duration::from_millis(20), "{median:?}");
}

/// Not a test by itself: the process that applies, until its input ends.
#[test]
fn child() {
    let Ok(path) = std::env::var("DENSITE_INGEST_LEADER") else {
        return;
    };
    let con = open(Path::new(&path));
    common::create(&con, "t", "").expect("the ingest table");
    insert(&con);
    wait(&con);
    println!("leads");
    let ended = std::io::stdin().lines().next().transpose();
    ended.expect("the end");
}

#[test]
fn who_waits_in_another_process_ends_the_rest() {
    let db = Db::new(SCHEMA);
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child", "--nocapture"])
        .env("DENSITE_INGEST_LEADER", db.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert!(lines.any(|l| l.expect("a line").contains("leads")));
    let con = db.ingest("t", "");
    let median = times_of_waiting(&con);
    assert!(median < Duration::from_millis(35), "{median:?}");
    drop(child.stdin.take());
    assert!(child.wait().expect("ends").success());
}

#[test]
fn who_closes_in_the_middle_of_a_rest_finds_its_rows_in_the_table() {
    let db = Db::new(SCHEMA);
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    let mut rows = 0;
    for _ in 0..10 {
        let con = db.ingest("t", "");
        insert(&con);
        wait(&con);
        for _ in 0..5 {
            insert(&con);
        }
        rows += 6;
        con.close().expect("closes");
        assert_eq!(one::<i64>(&plain, "SELECT count(*) FROM t"), rows);
    }
}
