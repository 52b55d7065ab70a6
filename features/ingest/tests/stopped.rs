//! A process that is stopped while it holds a lock of the log makes others wait for their
//! busy_timeout and no longer. `sqlite3_interrupt` ends their wait.
//!
//! Here, an open and locked file takes the part of the stopped process.

use crate::common::{Db, create, one, open};
use rusqlite::{Error, ErrorCode};
use std::fs::File;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Much longer than the two seconds that every connection waits.
const LATE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn locked(db: &Db, name: &str) -> File {
    let file = File::open(db.log_dir().join(name)).expect("the log's file");
    file.lock().expect("locked");
    file
}

fn is(done: rusqlite::Result<()>, code: ErrorCode) -> String {
    match done {
        Err(Error::SqliteFailure(e, Some(text))) if e.code == code => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_busy_timeout_bounds_the_wait_for_a_stopped_writer() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    drop(db.ingest("t", ""));
    let stopped = locked(&db, "append.lock");
    let con = open(&db.path());
    con.busy_timeout(Duration::ZERO).expect("a timeout");
    let begun = Instant::now();
    let told = is(create(&con, "t", ""), ErrorCode::DatabaseBusy);
    assert!(told.contains("append.lock"), "{told}");
    let own = format!("process {}", std::process::id());
    assert!(!cfg!(target_os = "linux") || told.contains(&own), "{told}");
    assert!(begun.elapsed() < LATE);
    drop(stopped);
    create(&con, "t", "").expect("the ingest table");
    let stopped = locked(&db, "append.lock");
    con.execute_batch("BEGIN; INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    let told = is(con.execute_batch("COMMIT"), ErrorCode::DatabaseBusy);
    assert!(told.contains("append.lock"), "{told}");
    assert!(begun.elapsed() < LATE);
    drop(stopped);
    con.execute_batch("COMMIT").expect("the same transaction");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t_in"), 1);
}

/// The rows of the refused COMMIT are written already. They are rolled back, so that the next COMMIT
/// does not insert them twice.
#[test]
fn a_busy_timeout_bounds_the_wait_for_a_stopped_sync() {
    let db = Db::new("CREATE TABLE t(id INTEGER)");
    let con = db.ingest("t", "");
    con.busy_timeout(Duration::ZERO).expect("a timeout");
    con.execute_batch("INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    let begun = Instant::now();
    let stopped = locked(&db, "sync.lock");
    con.execute_batch("BEGIN; INSERT INTO t_in VALUES (2)")
        .expect("inserts");
    let told = is(con.execute_batch("COMMIT"), ErrorCode::DatabaseBusy);
    assert!(told.contains("sync.lock"), "{told}");
    let own = format!("process {}", std::process::id());
    assert!(!cfg!(target_os = "linux") || told.contains(&own), "{told}");
    assert!(begun.elapsed() < LATE);
    drop(stopped);
    con.execute_batch("COMMIT").expect("the same transaction");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t_in"), 2);
}

#[test]
fn an_interrupt_ends_the_wait_for_a_stopped_writer() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let con = db.ingest("t", "");
    con.busy_timeout(HOUR).expect("a timeout");
    let stopped = locked(&db, "append.lock");
    let handle = con.get_interrupt_handle();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            // An interrupt before the wait begins has no effect.
            while is_done.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout)
            {
                handle.interrupt();
            }
        });
        let insert = con.execute_batch("INSERT INTO t_in VALUES (1)");
        is(insert, ErrorCode::OperationInterrupted);
        drop(done);
    });
    assert!(begun.elapsed() < LATE);
    drop(stopped);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t_in"), 0);
}
