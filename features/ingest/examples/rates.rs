//! The speed of ingest on this machine: `cargo run --release -p densite-ingest --example rates
//! [ROWS [wide]]`.

use densite_sqlite::Connection;
use std::time::Instant;

/// Resident memory of this process, MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.and_then(|l| l.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

fn main() {
    let rows: u64 = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(2_000_000);
    // Keys of 16 bytes instead of 6.
    let is_wide = std::env::args().nth(2).as_deref() == Some("wide");
    let key = |state: u64| match is_wide {
        true => ((state >> 1) as i64, (state.rotate_left(31) >> 1) as i64),
        false => ((state >> 33) as i64, (state >> 20 & 0xFFFF) as i64),
    };
    let dir = tempfile::tempdir_in(std::env::var("DIR").unwrap_or_else(|_| ".".into()))
        .expect("a folder");
    let path = dir.path().join("app.db");
    let api = densite_linked::api().expect("the linked SQLite is new enough");
    let con = rusqlite::Connection::open(&path).expect("opens");
    con.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE vote(user INTEGER, article INTEGER, PRIMARY KEY(user, article)) WITHOUT ROWID; CREATE INDEX a ON vote(article)").expect("the table");
    // SAFETY: it is an open connection of that library.
    let lent = unsafe { Connection::borrow(api, con.handle().cast()) }.expect("a connection");
    densite_ingest::create_functions(&lent).expect("functions");
    con.execute_batch(
        "CREATE VIRTUAL TABLE temp.vote_in USING densite_ingest(vote, on_conflict=replace)",
    )
    .expect("ingest");
    con.query_row("SELECT densite_wait()", [], |_| Ok(()))
        .expect("waits");
    let holder = rusqlite::Connection::open(&path).expect("opens");
    holder.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let begun = Instant::now();
    let mut insert = con
        .prepare("INSERT INTO vote_in VALUES (?1, ?2)")
        .expect("compiles");
    let mut state = 1u64;
    for i in 0..rows {
        if i % 10_000 == 0 {
            con.execute_batch("BEGIN").expect("begins");
        }
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        insert.execute(key(state)).expect("inserts");
        if i % 10_000 == 9_999 || i + 1 == rows {
            con.execute_batch("COMMIT").expect("commits");
        }
    }
    println!(
        "insert, one thread, 10,000 rows each commit: {:.0} rows/s",
        rows as f64 / begun.elapsed().as_secs_f64()
    );
    let before = resident();
    let begun = Instant::now();
    let found: i64 = con
        .query_row("SELECT count(*) FROM vote_in WHERE user = 5", [], |r| {
            r.get(0)
        })
        .expect("reads");
    println!(
        "first lookup, which reads the log: {:.2} s; {} MiB resident, {before} before ({found})",
        begun.elapsed().as_secs_f64(),
        resident()
    );
    let lookups = 50_000u64;
    let time = |sql: &str| {
        let mut lookup = con.prepare(sql).expect("compiles");
        let begun = Instant::now();
        let mut state = 1u64;
        for _ in 0..lookups {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let mut got = lookup.query(key(state)).expect("reads");
            while got.next().expect("a row").is_some() {}
        }
        begun.elapsed().as_secs_f64() * 1e6 / lookups as f64
    };
    println!(
        "lookup by key: {:.2} µs through ingest, {:.2} µs in the (empty) table",
        time("SELECT 1 FROM vote_in WHERE user = ?1 AND article = ?2"),
        time("SELECT 1 FROM vote WHERE user = ?1 AND article = ?2")
    );
    let begun = Instant::now();
    let count: i64 = con
        .query_row("SELECT count(*) FROM vote_in", [], |r| r.get(0))
        .expect("reads");
    println!(
        "full scan: {:.0} rows/s",
        count as f64 / begun.elapsed().as_secs_f64()
    );
    holder.execute_batch("ROLLBACK").expect("gives it back");
    let begun = Instant::now();
    con.query_row("SELECT densite_wait()", [], |_| Ok(()))
        .expect("waits");
    println!(
        "apply, random keys, one more index: {:.0} rows/s",
        rows as f64 / begun.elapsed().as_secs_f64()
    );
    // Time for the worker to checkpoint and to close its connection.
    std::thread::sleep(std::time::Duration::from_secs(1));
    for _ in 0..2 {
        println!(
            "lookup by key: {:.2} µs through ingest, {:.2} µs in the table",
            time("SELECT 1 FROM vote_in WHERE user = ?1 AND article = ?2"),
            time("SELECT 1 FROM vote WHERE user = ?1 AND article = ?2")
        );
    }
}
