//! The end of the log for the worker and for waiting connections: rows that were rolled back, and
//! transactions that are not decided yet.

use crate::common::{Db, all, database_log, one, wait};
use densite_log::{Log, Options};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// The result of `wait`, or a panic after twenty seconds.
fn wait_soon(con: rusqlite::Connection) -> (i64, rusqlite::Connection) {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let at = wait(&con);
        send.send((at, con)).expect("still awaited");
    });
    receive
        .recv_timeout(Duration::from_secs(20))
        .expect("densite_wait() ends")
}

fn cancelled(con: &mut rusqlite::Connection, sql: &str) {
    con.commit_hook(Some(|| true)).expect("a hook");
    con.execute_batch(sql).expect_err("refused");
    con.commit_hook(None::<fn() -> bool>).expect("no hook");
}

/// The position moves past rolled-back rows at the end of the log.
#[test]
fn a_log_that_ends_with_rolled_back_rows_is_applied_to_its_end() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let mut con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1, 1)")
        .expect("inserts");
    cancelled(
        &mut con,
        "INSERT INTO t_in VALUES (2, randomblob(200000)), (3, 3)",
    );
    let (at, mut con) = wait_soon(con);
    assert_eq!(at, 3);
    assert_eq!(all(&con, "SELECT seq FROM densite_applied"), ["3"]);
    // Nothing is unapplied, so no writer waits.
    database_log(&con)
        .log()
        .set_config(|c| c.max_unapplied_bytes = 100_000)
        .expect("set");
    cancelled(&mut con, "INSERT INTO t_in VALUES (4, randomblob(200000))");
    let (at, con) = wait_soon(con);
    assert_eq!(at, 4);
    let (send, receive) = channel();
    std::thread::spawn(move || {
        con.execute_batch("INSERT INTO t_in VALUES (5, 5)")
            .expect("inserts");
        send.send(con).expect("still awaited");
    });
    let con = receive
        .recv_timeout(Duration::from_secs(20))
        .expect("a writer that may go on");
    let (at, con) = wait_soon(con);
    assert_eq!(at, 5);
    assert_eq!(all(&con, "SELECT id FROM t"), ["1", "5"]);
}

/// Numbers without rows, which a repair can leave, are passed too.
#[test]
fn sequence_numbers_without_rows_are_skipped() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    wait(&con);
    let position = one::<Vec<u8>>(&con, "SELECT log FROM densite_applied");
    let mut options = Options::new(densite_log::LogId(position.try_into().expect("16 bytes")));
    options.above = 50;
    let dir = Arc::new(densite_disk::RealDir::new(db.log_dir()));
    drop(Log::open(dir, options).expect("opens"));
    assert_eq!(database_log(&con).log().last().expect("an end"), 50);
    let (at, con) = wait_soon(con);
    assert_eq!(at, 50);
    con.execute_batch("INSERT INTO t_in VALUES (2)")
        .expect("inserts");
    assert_eq!(wait_soon(con).0, 51);
}

/// A connection whose commit is in its hook: its rows are in the log, and prepared until `tell` is
/// used.
struct Prepared {
    tell: Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Prepared {
    fn new(db: &Db) -> Prepared {
        let mut other = db.ingest("t", "");
        let (tell, told) = channel::<()>();
        let (send, receive) = channel();
        let thread = std::thread::spawn(move || {
            other
                .commit_hook(Some(move || {
                    send.send(()).ok();
                    if told.recv().is_ok() {
                        // Another connection is waiting by then.
                        std::thread::sleep(Duration::from_millis(300));
                    }
                    false
                }))
                .expect("a hook");
            other
                .execute_batch("INSERT INTO t_in VALUES (100)")
                .expect("inserts");
        });
        receive.recv().expect("the hook");
        Prepared { tell, thread }
    }

    /// Ends the hook, after a while.
    fn is_decided_soon(&self) {
        self.tell.send(()).expect("the hook");
    }

    fn ends(self) {
        drop(self.tell);
        self.thread.join().expect("no panic");
    }
}

#[test]
fn own_rows_are_read_while_others_are_prepared() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let con = db.ingest("t", "");
    let other = Prepared::new(&db);
    con.execute_batch("INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    other.is_decided_soon();
    assert_eq!(all(&con, "SELECT id FROM t_in WHERE id = 1"), ["1"]);
    other.ends();
    let other = Prepared::new(&db);
    con.execute_batch("INSERT INTO t_in VALUES (2)")
        .expect("inserts");
    other.is_decided_soon();
    assert_eq!(
        one::<i64>(&con, "SELECT densite_wait(densite_last_seq())"),
        4
    );
    assert_eq!(all(&con, "SELECT id FROM t"), ["1", "2", "100"]);
    other.ends();
    let other = Prepared::new(&db);
    con.execute_batch("INSERT INTO t_in VALUES (3)")
        .expect("inserts");
    other.is_decided_soon();
    // Also without a number.
    assert_eq!(one::<i64>(&con, "SELECT densite_wait()"), 6);
    other.ends();
}

/// It neither waits forever nor returns without the row.
#[test]
fn own_rows_that_cannot_be_read_are_an_error() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let con = db.ingest("t", "");
    let other = Prepared::new(&db);
    con.execute_batch("INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    for sql in ["SELECT id FROM t_in WHERE id = 1", "SELECT densite_wait()"] {
        let said = con
            .query_row(sql, [], |_| Ok(()))
            .expect_err("not yet")
            .to_string();
        assert!(said.contains("not decided"), "{sql}: {said}");
    }
    other.ends();
    assert_eq!(all(&con, "SELECT id FROM t_in WHERE id = 1"), ["1"]);
}

#[test]
fn an_open_cursor_hides_no_later_commit_of_its_connection() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)");
    let con = db.ingest("t", "");
    let mut open = con.prepare("SELECT id FROM t_in").expect("prepares");
    let mut rows = open.query([]).expect("reads");
    rows.next().expect("steps").expect("a row");
    con.execute_batch("INSERT INTO t_in VALUES (4)")
        .expect("inserts");
    assert_eq!(all(&con, "SELECT id FROM t_in WHERE id > 2"), ["3", "4"]);
    // The first cursor keeps what it saw at its beginning.
    let mut rest = 0;
    while rows.next().expect("steps").is_some() {
        rest += 1;
    }
    assert_eq!(rest, 2);
}
