//! kill -9 of processes that append, apply and prune, and of a subscriber that acknowledges. Every
//! acknowledged row is exactly once in the table or once in the rejects. The log has all rows that
//! the subscriber has not acknowledged.

use crate::common::storage;
use densite_testing::acknowledged;

use crate::common::{self, Db, all, one, wait};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use storage::{Faults, failing};

const SCHEMA: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, writer INT, n INT, u INT UNIQUE, CHECK (n % 50 != 7)); CREATE INDEX by_writer ON t(writer, n)";
/// Rows of one transaction.
const BATCH: i64 = 20;

/// Not a test by itself: the body of the child processes. It appends transactions and reports each
/// acknowledged one.
#[test]
fn child() {
    let Ok(path) = std::env::var("DENSITE_INGEST_CHILD") else {
        return;
    };
    let writer: i64 = std::env::var("DENSITE_INGEST_WRITER")
        .expect("a number")
        .parse()
        .expect("a number");
    let con = failing(Path::new(&path), &Faults::default());
    if writer < 0 {
        return follow(&con);
    }
    common::create(&con, "t", "").expect("the ingest table");
    for transaction in 0.. {
        con.execute_batch("BEGIN").expect("begins");
        for i in 0..BATCH {
            let n = transaction * BATCH + i;
            let id = writer * 1_000_000 + n;
            con.execute("INSERT INTO t_in VALUES (?1, ?2, ?3, ?1)", (id, writer, n))
                .expect("inserts");
        }
        con.execute_batch("COMMIT").expect("commits");
        println!("acknowledged {transaction}");
    }
}

/// The body of the subscriber's process: it reads, acknowledges, reports, and prunes.
fn follow(con: &rusqlite::Connection) {
    // An earlier process may have added it.
    con.query_row("SELECT densite_subscribe('s', 'start')", [], |_| Ok(()))
        .ok();
    loop {
        let sql = "SELECT max(seq) FROM (SELECT seq FROM densite_log('s', 200))";
        if let Some(to) = one::<Option<i64>>(con, sql) {
            one::<i64>(con, &format!("SELECT densite_ack('s', {to})"));
            println!("acknowledged {to}");
            // Can be busy.
            con.query_row("SELECT densite_prune()", [], |_| Ok(())).ok();
        }
    }
}

/// A child, and the thread that collects its reports.
struct Heard {
    child: Child,
    acknowledged: Receiver<i64>,
}

fn spawn(db: &Db, writer: i64) -> Heard {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "kill::child", "--nocapture"])
        .env("DENSITE_INGEST_CHILD", db.path())
        .env("DENSITE_INGEST_WRITER", writer.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let acknowledged = acknowledged(&mut child);
    Heard {
        child,
        acknowledged,
    }
}

impl Heard {
    /// Waits until the process has reported something or has ended. A subscriber ends if the first
    /// writer has not made the log yet.
    fn begins(&self) -> i64 {
        match self.acknowledged.recv_timeout(Duration::from_secs(120)) {
            Ok(number) => number,
            Err(RecvTimeoutError::Disconnected) => -1,
            Err(RecvTimeoutError::Timeout) => panic!("it never begins"),
        }
    }

    /// Kills the process. Returns the last transaction that it reported as acknowledged.
    fn killed(&mut self, first: i64) -> i64 {
        self.child.kill().expect("kills");
        self.child.wait().expect("is gone");
        self.acknowledged.iter().last().unwrap_or(first)
    }
}

#[test]
fn killed_writers_and_appliers_lose_and_duplicate_no_rows() {
    let db = Db::new(SCHEMA);
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut state = seed;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut done, mut followed) = (Vec::new(), 0);
    for round in 0..5 {
        let writers = [round * 2, round * 2 + 1, -1];
        let children = writers.map(|w| (w, spawn(&db, w)));
        let children = children.map(|(writer, child)| (writer, child.begins(), child));
        std::thread::sleep(Duration::from_millis(200 + random(500)));
        // One after the other: the second one may be the one that applies, or take over.
        for (writer, first, mut child) in children {
            match (writer, child.killed(first)) {
                (-1, last) => followed = followed.max(last),
                acknowledged => done.push(acknowledged),
            }
            std::thread::sleep(Duration::from_millis(random(150)));
        }
    }
    let con = failing(&db.path(), &Faults::default());
    common::create(&con, "t", "").expect("the ingest table");
    let last = wait(&con);
    assert!(
        done.iter().any(|(_, last)| *last > 0),
        "nothing was acknowledged: {done:?}"
    );
    for (writer, last) in done {
        let count = |sql: &str| -> i64 { one(&con, &sql.replace("?1", &writer.to_string())) };
        let there = count("SELECT count(*) FROM t WHERE writer = ?1");
        let rejected = count(
            "SELECT count(*) FROM densite_rejects WHERE json_extract(\"row\", '$.writer') = ?1",
        );
        let total = there + rejected;
        // Whole transactions: the acknowledged ones, and at most one more whose acknowledgement was
        // not reported.
        assert_eq!(total % BATCH, 0, "writer {writer}: {there} + {rejected}");
        let transactions = total / BATCH;
        assert!(
            (last + 1..=last + 2).contains(&transactions),
            "writer {writer}: {transactions} after {last}"
        );
        let distinct = count(
            "SELECT count(DISTINCT n) FROM (SELECT n FROM t WHERE writer = ?1 UNION ALL SELECT json_extract(\"row\", '$.n') FROM densite_rejects WHERE json_extract(\"row\", '$.writer') = ?1)",
        );
        assert_eq!(distinct, total, "writer {writer}");
        assert_eq!(
            count(
                "SELECT ifnull(max(n) + 1, 0) FROM (SELECT n FROM t WHERE writer = ?1 UNION ALL SELECT json_extract(\"row\", '$.n') FROM densite_rejects WHERE json_extract(\"row\", '$.writer') = ?1)"
            ),
            total
        );
        let wrong = count(
            "SELECT count(*) FROM densite_rejects WHERE json_extract(\"row\", '$.writer') = ?1 AND json_extract(\"row\", '$.n') % 50 != 7",
        );
        assert_eq!(wrong, 0);
    }
    assert_eq!(all(&con, "PRAGMA integrity_check"), ["ok"]);
    // The subscriber lacks no row behind its position, and fully acknowledged segments are gone.
    assert!(followed > 0, "the subscriber never acknowledged");
    let seen = all(&con, "SELECT seq FROM densite_log('s', 10000000)");
    let from = last - seen.len() as i64;
    assert!(from >= followed, "acknowledged {followed}, it is at {from}");
    let wanted: Vec<String> = (from + 1..=last).map(|seq| seq.to_string()).collect();
    assert_eq!(seen, wanted);
    assert!(
        !db.log_dir().join("000000000001.seg").exists(),
        "nothing was pruned"
    );
}
