//! The additional peak memory of a process that writes large transactions through an ingest table,
//! as the system measures it.
#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "it shares a part with the other tests")]
mod common;

use common::{Db, all, create, one, open, wait};
use rand::Rng;
use rusqlite::Connection;
use std::path::Path;
use std::process::Command;

const MIB: usize = 1 << 20;
/// Rows of a mebibyte in a large transaction.
const LARGE: usize = 400;

/// The work of the measured process.
#[derive(Clone, Copy)]
enum Job {
    /// One transaction of large rows.
    Large,
    /// The same with text, which the log compresses.
    Text,
    /// The same, and it reads and changes its own rows.
    Own,
    /// Small rows, each of which is read at once.
    Reads,
    /// Four rows of 100 MiB in one transaction.
    Huge,
    /// One transaction of rows of 100 bytes.
    Small,
    /// One transaction of rows of two integers, which take 8 bytes in the log.
    Numbers,
    /// Transactions of 25 MiB each.
    Many,
    /// Transactions of 100 MiB each, while nothing is applied.
    Waiting,
    /// A transaction of the log, without SQLite.
    Log,
}

use Job::{Huge, Large, Log, Many, Numbers, Own, Reads, Small, Text, Waiting};

const JOBS: [(&str, Job); 10] = [
    ("large", Large),
    ("text", Text),
    ("own", Own),
    ("reads", Reads),
    ("huge", Huge),
    ("small", Small),
    ("numbers", Numbers),
    ("many", Many),
    ("waiting", Waiting),
    ("log", Log),
];

/// Rows of a transaction of small rows.
const SMALL: usize = 3_000_000;
const NUMBERS: usize = 10_000_000;

fn status(what: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|l| l.strip_prefix(what));
    let kib = line.expect("a figure").trim().split(' ').next();
    kib.expect("a number").parse::<usize>().expect("a number") * 1024
}

fn run(con: &Connection, sql: &str) {
    con.execute_batch(sql)
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
}

/// Inserts rows with ids from `from` up to `to`.
fn insert(con: &Connection, (from, to): (usize, usize), value: &str) {
    run(
        con,
        &format!(
            "WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {to}) INSERT INTO t_in SELECT i, {value} FROM n"
        ),
    );
}

const BLOB: &str = "randomblob(1048576)";

/// A transaction of this many rows of a mebibyte. Half of them are rolled back and inserted again.
fn half_again(con: &Connection, from: usize, rows: usize) {
    let (half, to) = (from + rows / 2, from + rows);
    run(con, "BEGIN");
    insert(con, (from, half), BLOB);
    run(con, "SAVEPOINT s");
    insert(con, (half, to), BLOB);
    run(con, "ROLLBACK TO s");
    insert(con, (half, to), BLOB);
    run(con, "COMMIT");
}

fn work(job: Job, con: &Connection) {
    match job {
        Large => {
            run(con, "BEGIN");
            insert(con, (0, LARGE), BLOB);
            run(con, "COMMIT");
        }
        Text => {
            run(con, "BEGIN");
            insert(
                con,
                (0, LARGE),
                "hex(zeroblob(524200)) || hex(randomblob(88))",
            );
            run(con, "COMMIT");
        }
        Own => {
            run(con, "BEGIN");
            for i in 0..LARGE {
                insert(con, (i, i + 1), BLOB);
                let size: i64 = one(con, &format!("SELECT length(v) FROM t_in WHERE id = {i}"));
                assert_eq!(size, MIB as i64);
            }
            assert_eq!(one::<i64>(con, "SELECT count(v) FROM t_in"), LARGE as i64);
            run(con, "DELETE FROM t_in WHERE id % 2; COMMIT");
        }
        Reads => {
            run(con, "BEGIN");
            for i in 0..4000 {
                insert(con, (i, i + 1), "randomblob(1000)");
                let size: i64 = one(con, &format!("SELECT length(v) FROM t_in WHERE id = {i}"));
                assert_eq!(size, 1000);
            }
            run(con, "COMMIT");
        }
        Huge => {
            run(con, "BEGIN");
            insert(con, (0, 4), "randomblob(104857600)");
            run(con, "COMMIT");
        }
        Small => {
            run(con, "BEGIN");
            insert(con, (0, SMALL), "hex(randomblob(50))");
            run(con, "COMMIT");
        }
        Numbers => {
            run(con, "BEGIN");
            insert(
                con,
                (0, NUMBERS),
                "1000000000000000000 + (random() & 0xffffffffffff)",
            );
            run(con, "COMMIT");
        }
        Many => (0..24).for_each(|i| half_again(con, i * 25, 25)),
        Waiting => {
            let plain = Connection::open(con.path().expect("a file")).expect("opens");
            run(&plain, "BEGIN IMMEDIATE");
            (0..6).for_each(|i| half_again(con, i * 100, 100));
            run(&plain, "ROLLBACK");
        }
        Log => {
            use densite_log::{Batch, Op, Table, Txn, Value};
            let database_log = common::database_log(con);
            let table = Table::new("t", ["id", "v"], 1, []).expect("a table");
            let mut txn = Txn::new(database_log.log().new_txn());
            let mut blob = vec![0; MIB];
            for i in 0..LARGE {
                // Bytes that do not compress.
                rand::rng().fill_bytes(&mut blob);
                let mut batch = Batch::new(&table, Op::Insert);
                let row = [Value::Int(i as i64), Value::Blob(&blob)];
                batch.push(&row).expect("pushed");
                txn.push(&batch).expect("pushed");
            }
            // Its memory until it is decided.
            let txn = std::sync::Arc::new(txn);
            database_log.log().prepare(&txn).expect("appended");
            database_log.log().cancel(txn.id()).expect("rolled back");
        }
    }
}

/// Not a test by itself: the body of the measured process.
#[test]
fn child() {
    let Ok(path) = std::env::var("DENSITE_INGEST_WRITER") else {
        return;
    };
    let name = std::env::var("DENSITE_INGEST_JOB").expect("a job");
    let (_, job) = JOBS.iter().find(|(n, _)| *n == name).expect("a job");
    let con = open(Path::new(&path));
    create(&con, "t", "").expect("the ingest table");
    wait(&con);
    // The peak is measured from here.
    std::fs::write("/proc/self/clear_refs", "5").expect("written");
    let before = status("VmRSS:");
    work(*job, &con);
    println!("peak {} ", status("VmHWM:") - before);
    println!("kept {} ", status("VmRSS:").saturating_sub(before));
    wait(&con);
    println!("applied {} ", status("VmHWM:") - before);
}

/// Additional peak memory, bytes, until the COMMIT and until all rows are applied.
fn peaks(db: &Db, job: &str) -> (usize, usize) {
    let out = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child", "--nocapture"])
        .env("DENSITE_INGEST_WRITER", db.path())
        .env("DENSITE_INGEST_JOB", job)
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&out.stdout);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}{errors}");
    let figure = |name: &str| {
        let (_, rest) = said.split_once(name).expect("a figure");
        let number = rest.split(' ').next().expect("a number");
        number.parse().expect("a number")
    };
    let peaks: (usize, usize) = (figure("peak "), figure("applied "));
    println!(
        "{job}: {} MiB, {} until applied",
        peaks.0 / MIB,
        peaks.1 / MIB
    );
    peaks
}

fn database() -> Db {
    Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
}

fn rows(db: &Db) -> Vec<String> {
    let plain = Connection::open(db.path()).expect("opens");
    let sql = "SELECT count(*), count(DISTINCT id), min(length(v)), (SELECT count(*) FROM densite_rejects) FROM t";
    all(&plain, sql)
}

#[test]
fn a_large_transaction_takes_less_than_twice_its_size() {
    for (job, size, is_there) in [
        ("large", LARGE * MIB, format!("{LARGE}|{LARGE}|{MIB}|0")),
        ("text", LARGE * MIB, format!("{LARGE}|{LARGE}|1048576|0")),
        ("own", LARGE * MIB, format!("200|200|{MIB}|0")),
        ("huge", 400 * MIB, "4|4|104857600|0".to_owned()),
        ("small", SMALL * 104, format!("{SMALL}|{SMALL}|100|0")),
        ("numbers", NUMBERS * 8, format!("{NUMBERS}|{NUMBERS}|19|0")),
        ("log", LARGE * MIB, "0|0|NULL|0".to_owned()),
    ] {
        let db = database();
        let (committed, applied) = peaks(&db, job);
        assert_eq!(rows(&db), [is_there], "{job}");
        let most = (2 * size).max(256 * MIB);
        assert!(committed < most, "{job}: {} MiB", committed / MIB);
        assert!(applied < most, "{job}: {} MiB", applied / MIB);
    }
}

/// Small transactions are partly applied meanwhile. Large ones are applied only after all are
/// committed.
#[test]
fn any_number_of_transactions_of_25_or_100_mib_take_less_than_256_mib() {
    for job in ["many", "waiting"] {
        let db = database();
        let (committed, applied) = peaks(&db, job);
        assert_eq!(rows(&db), [format!("600|600|{MIB}|0")], "{job}");
        assert!(committed < 256 * MIB, "{job}: {} MiB", committed / MIB);
        assert!(applied < 256 * MIB, "{job}: {} MiB", applied / MIB);
    }
}

/// A read does not store again what earlier reads of the transaction have stored.
#[test]
fn the_memory_of_reads_within_a_transaction_is_bounded() {
    let db = database();
    let (committed, _) = peaks(&db, "reads");
    assert_eq!(rows(&db), ["4000|4000|1000|0"]);
    assert!(committed < 32 * MIB, "{} MiB", committed / MIB);
}
