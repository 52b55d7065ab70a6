//! Pruning behind a batch (rule L4), with small segments, so that a batch fills many.

use crate::common::storage;

use crate::common::{Db, Held, create, one, wait};
use densite_disk::RealDir;
use densite_log::Log;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use storage::{Faults, failing};

/// Number of the first row in the log.
fn first(db: &Db) -> u64 {
    let dir = Arc::new(RealDir::new(db.log_dir()));
    let id = densite_log::id_in(dir.clone())
        .expect("reads")
        .expect("a log");
    let log = Log::open_read_only(dir, id).expect("opens");
    log.status().expect("a status").first
}

/// After a batch this large, a checkpoint is due at once. A reader prevents its completion: nothing
/// is pruned until the reader ends.
#[test]
fn a_batch_with_an_incomplete_checkpoint_stops_pruning() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = failing(&db.path(), &Faults::default());
    create(&con, "t", "").expect("the ingest table");
    con.execute_batch("INSERT INTO t_in VALUES (0, 0)")
        .expect("inserts");
    wait(&con);
    let reader = rusqlite::Connection::open(db.path()).expect("opens");
    reader
        .execute_batch("BEGIN; SELECT * FROM t")
        .expect("reads");
    let held = Held::new(&db);
    for i in 0..20 {
        con.execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO t_in SELECT {i} * 200 + i, randomblob(100) FROM n"
        ))
        .expect("inserts");
    }
    // Longer than the time between two prunings.
    std::thread::sleep(Duration::from_millis(1200));
    drop(held);
    assert_eq!(wait(&con), 4001);
    let until = Instant::now() + Duration::from_millis(700);
    while Instant::now() < until {
        // The row before the reader may be durable already.
        assert!(first(&db) <= 2, "the file of the database has none of it");
        std::thread::sleep(Duration::from_millis(20));
    }
    reader.execute_batch("COMMIT").expect("ends");
    con.execute_batch("INSERT INTO t_in VALUES (-1, 0)")
        .expect("inserts");
    let until = Instant::now() + Duration::from_secs(20);
    while first(&db) <= 2 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(first(&db) > 2, "pruned once it is there");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t_in"), 4002);
}

/// A database with rows in many segments. They are applied once the lock is released, and no more
/// rows come.
struct Filled {
    faults: Faults,
    con: rusqlite::Connection,
    held: Option<Held>,
    /// Dropped last, because it removes files that the others have open.
    db: Db,
}

impl Filled {
    fn new() -> Filled {
        let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
        let faults = Faults::default();
        let con = failing(&db.path(), &faults);
        create(&con, "t", "").expect("the ingest table");
        let held = Some(Held::new(&db));
        for i in 0..10 {
            con.execute_batch(&format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) INSERT INTO t_in SELECT {i} * 200 + i, randomblob(500) FROM n"
            ))
            .expect("inserts");
        }
        let filled = Filled {
            faults,
            con,
            held,
            db,
        };
        assert!(filled.db.segments() > 5);
        filled
    }

    fn apply(&mut self) {
        self.held = None;
        wait(&self.con);
    }

    fn failed(&self) -> u64 {
        self.faults.failed.load(Ordering::SeqCst)
    }

    fn is_pruned(&self) {
        until("it is tried again", || self.db.segments() == 1);
    }
}

/// Waits until a condition is true.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn failed_pruning_is_tried_again_without_new_rows() {
    let mut filled = Filled::new();
    filled.faults.keeps.store(true, Ordering::SeqCst);
    filled.apply();
    let all = filled.db.segments() as u64;
    until("it is tried", || filled.failed() >= all - 1);
    until("and again", || filled.failed() >= 2 * (all - 1));
    filled.faults.keeps.store(false, Ordering::SeqCst);
    filled.is_pruned();
}

#[test]
fn pruning_on_a_full_disk_is_tried_again_without_new_rows() {
    let mut filled = Filled::new();
    filled.faults.full.store(true, Ordering::SeqCst);
    filled.apply();
    until("it is tried", || filled.failed() > 0);
    filled.faults.full.store(false, Ordering::SeqCst);
    filled.is_pruned();
}

/// One reader of the database's old state, so that no checkpoint completes, and one of the log.
#[test]
fn segments_kept_by_a_reader_are_pruned_after_it_without_new_rows() {
    let mut filled = Filled::new();
    let reader = rusqlite::Connection::open(filled.db.path()).expect("opens");
    reader
        .execute_batch("BEGIN; SELECT * FROM t")
        .expect("reads");
    filled.apply();
    // Longer than the worker keeps its connection.
    std::thread::sleep(Duration::from_millis(700));
    let log = {
        let dir = Arc::new(RealDir::new(filled.db.log_dir()));
        let id = densite_log::id_in(dir.clone()).expect("reads");
        Log::open_read_only(dir, id.expect("a log")).expect("opens")
    };
    let mut rows = log.read_after(0).expect("a reader");
    rows.next().expect("reads").expect("a row");
    assert!(filled.db.segments() > 5);
    reader.execute_batch("COMMIT").expect("ends");
    std::thread::sleep(Duration::from_millis(2500));
    assert!(filled.db.segments() > 5, "the other one is there");
    drop(rows);
    filled.is_pruned();
}

#[test]
fn acknowledged_segments_are_pruned_without_new_rows() {
    let mut filled = Filled::new();
    let subscribe = "SELECT densite_subscribe('mirror', 'start')";
    filled.con.execute_batch(subscribe).expect("subscribes");
    filled.apply();
    // Longer than the worker takes for its first attempt.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(filled.db.segments() > 5, "nothing is acknowledged");
    let acknowledge = "SELECT densite_ack('mirror', densite_log_last())";
    filled.con.execute_batch(acknowledge).expect("acknowledges");
    filled.is_pruned();
}
