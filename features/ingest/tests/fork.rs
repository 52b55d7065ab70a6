//! Rule S15 with a worker: a process without threads of its own can fork while rows are applied,
//! and the child can open and use a database. The child finds no mutex of SQLite held by a thread
//! that it does not have, and no lock of its parent.
//!
//! The forking process is this test program with a single test, so that nothing else runs in it.

use crate::common::{Db, create, one, open, wait};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(30);
const CHILDREN: i64 = 12;
/// Rows that the worker applies whenever the process forks. Each takes a while.
const ROWS: i64 = 200;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn kill(pid: i32, signal: i32) -> i32;
    fn _exit(status: i32) -> !;
}

/// Runs `child` in a forked child and waits for its end.
fn in_child(child: impl FnOnce()) {
    // SAFETY: the child runs only the following code and leaves by _exit.
    let pid = unsafe { fork() };
    assert!(pid >= 0, "no fork");
    if pid == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: it ends the child at once.
        unsafe { _exit(i32::from(done.is_err())) };
    }
    let (begin, mut status) = (Instant::now(), -1);
    // SAFETY: `status` is a valid place for the status; 1 is WNOHANG.
    while unsafe { waitpid(pid, &raw mut status, 1) } == 0 {
        if begin.elapsed() > WAIT {
            // SAFETY: `pid` is the new child, which was not waited for yet.
            unsafe { kill(pid, 9) };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status, 0, "the child failed");
}

#[test]
fn forking_process() {
    let Some(path) = std::env::var_os("FORK_DB").map(PathBuf::from) else {
        return;
    };
    let con = open(&path);
    create(&con, "t", "").expect("the ingest table");
    let mut next = 0;
    for child in 0..CHILDREN {
        con.execute_batch("BEGIN").expect("begins");
        for _ in 0..ROWS {
            next += 1;
            con.execute("INSERT INTO t_in VALUES (?1)", [next])
                .expect("inserts");
        }
        con.execute_batch("COMMIT").expect("commits");
        // Somewhere in the worker's transactions, or while it waits for rows.
        if child % 3 == 2 {
            wait(&con);
        }
        std::thread::sleep(Duration::from_millis(7 * child.unsigned_abs()));
        in_child(|| works(&path, child));
    }
    wait(&con);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), next);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM u"), 2 * CHILDREN);
    assert_eq!(one::<String>(&con, "PRAGMA integrity_check"), "ok");
}

/// The work of a child, with its own connections.
fn works(path: &Path, child: i64) {
    let con = open(path);
    con.execute("INSERT INTO u VALUES (?1)", [child])
        .expect("inserts");
    create(&con, "u", "").expect("the ingest table");
    con.execute("INSERT INTO u_in VALUES (?1)", [1000 + child])
        .expect("inserts");
    let seen = format!("SELECT count(*) FROM u_in WHERE id % 1000 = {child}");
    assert_eq!(one::<i64>(&con, &seen), 2);
}

#[test]
fn a_child_of_a_fork_beside_the_worker_can_work() {
    // The trigger takes a millisecond or two.
    let db = Db::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE u(id INTEGER PRIMARY KEY); CREATE TABLE n(n);
         CREATE TRIGGER slow AFTER INSERT ON t BEGIN
             DELETE FROM n;
             INSERT INTO n WITH c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 3000) SELECT i FROM c;
         END",
    );
    let out = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "fork::forking_process", "--nocapture"])
        .env("FORK_DB", db.path())
        .output()
        .expect("runs");
    let told = String::from_utf8_lossy(&out.stdout).into_owned();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{told}{error}");
}
