//! The peak memory of a process that only applies rows, as the system measures it.
#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "it shares a part with the other tests")]
mod common;

use common::{Db, Held, all, create, one, open, wait};
use std::path::Path;
use std::process::Command;

/// Bytes of all rows: more than may be in memory.
const SIZE: usize = 400_000_000;
/// Bytes of a large row and of a small one.
const LARGE: usize = 1_000_000;
const SMALL: usize = 100;
const MIB: usize = 1 << 20;

/// Not a test by itself: the body of the measured process.
#[test]
fn child() {
    let Ok(path) = std::env::var("DENSITE_INGEST_PEAK") else {
        return;
    };
    let con = open(Path::new(&path));
    create(&con, "t", "").expect("the ingest table");
    wait(&con);
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    println!("peak {}", peak.expect("a figure").trim());
}

/// Peak memory, bytes, of a process that applied the waiting rows.
fn applied_by_another(db: &Db) -> usize {
    let out = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child", "--nocapture"])
        .env("DENSITE_INGEST_PEAK", db.path())
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said}");
    let (_, peak) = said.split_once("peak ").expect("a figure");
    let kib = peak.split(' ').next().expect("a number");
    kib.parse::<usize>().expect("a number") * 1024
}

/// A database with this table, and waiting rows of this many bytes, this many in each transaction.
fn waiting(schema: &str, bytes: usize, together: usize) -> Db {
    let db = Db::new(schema);
    let con = db.ingest("t", "");
    wait(&con);
    // No rows are applied in this process.
    let held = Held::new(&db);
    let text = "x".repeat(bytes);
    let mut insert = con
        .prepare("INSERT INTO t_in(id, v) VALUES (?1, ?2)")
        .expect("compiles");
    for row in 0..SIZE / bytes {
        if row % together == 0 {
            con.execute_batch("BEGIN").expect("begins");
        }
        insert.execute((row as i64, &text)).expect("inserts");
        if (row + 1) % together == 0 {
            con.execute_batch("COMMIT").expect("commits");
        }
    }
    drop(insert);
    drop(con);
    drop(held);
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    assert_eq!(one::<i64>(&plain, "SELECT count(*) FROM t"), 0);
    db
}

fn has_all(db: &Db, bytes: usize) {
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    let sql = "SELECT count(*), min(length(v)), (SELECT count(*) FROM densite_rejects) FROM t";
    assert_eq!(all(&plain, sql), [format!("{}|{bytes}|0", SIZE / bytes)]);
}

const PLAIN: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)";

/// Peak memory of a process that applies rows of this many bytes, this many in each transaction.
fn peak_of(bytes: usize, together: usize) -> usize {
    let db = waiting(PLAIN, bytes, together);
    let peak = applied_by_another(&db);
    println!(
        "{together} rows of {bytes} bytes a transaction: {} MiB",
        peak / MIB
    );
    has_all(&db, bytes);
    peak
}

#[test]
fn unapplied_rows_take_at_most_256_mib() {
    for together in [1, 10, SIZE / LARGE] {
        let peak = peak_of(LARGE, together);
        assert!(peak < 256 * MIB, "{together}: {} MiB", peak / MIB);
    }
}

/// If more than half a million rows wait, two lots of 128 MiB can be in memory.
#[test]
fn unapplied_small_rows_take_at_most_320_mib() {
    let peak = peak_of(SMALL, 1000);
    assert!(peak < 320 * MIB, "{} MiB", peak / MIB);
}

/// A transaction that is judged as a whole is in memory as a whole.
#[test]
fn applying_a_large_transaction_takes_at_most_twice_its_size() {
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, p INTEGER REFERENCES t(id) DEFERRABLE INITIALLY DEFERRED)";
    for bytes in [LARGE, SMALL] {
        let db = waiting(schema, bytes, SIZE / bytes);
        let peak = applied_by_another(&db);
        println!("rows of {bytes} bytes: {} MiB", peak / MIB);
        has_all(&db, bytes);
        assert!(peak < 2 * SIZE, "{} MiB", peak / MIB);
    }
}
