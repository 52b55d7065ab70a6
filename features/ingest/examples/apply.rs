//! How many rows per second the worker applies to a table that has rows already, compared with
//! SQLite: `cargo run --release -p densite-ingest --example apply [ROWS [BASE [SECONDS
//! [ROUNDS]]]]`.
//!
//! The table has BASE rows (kept in `DIR/apply-BASE.db` for the next run). Then, in turn, SQLite
//! inserts for some seconds with batches of 400, WAL and synchronous=FULL, and ROWS rows with
//! random keys go through ingest. Another connection requests the write lock all the time and
//! measures how long it waits.

use densite_sqlite::{Api, Connection};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Random numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0
    }

    fn row(&mut self) -> [i64; 2] {
        [(self.next() >> 32) as i64, (self.next() >> 44) as i64]
    }
}

const TABLE: &str = "CREATE TABLE t(u INTEGER NOT NULL, s INTEGER NOT NULL, PRIMARY KEY(u, s))";
const INDEX: &str = "CREATE INDEX s ON t(s)";

fn base(path: &Path, rows: u64) {
    if path.exists() {
        return;
    }
    let con = rusqlite::Connection::open(path).expect("opens");
    con.execute_batch(&format!(
        "PRAGMA journal_mode = OFF; PRAGMA cache_size = -500000; {TABLE}; BEGIN"
    ))
    .expect("the table");
    let mut numbers = Numbers(1);
    let mut all: Vec<[i64; 2]> = (0..rows).map(|_| numbers.row()).collect();
    all.sort_unstable();
    let mut insert = con
        .prepare("INSERT OR IGNORE INTO t VALUES (?1, ?2)")
        .expect("compiles");
    for row in all {
        insert.execute(row).expect("inserts");
    }
    con.execute_batch(&format!("{INDEX}; COMMIT"))
        .expect("the index");
    drop(insert);
    con.execute_batch("PRAGMA journal_mode = WAL").expect("WAL");
}

/// Rows per second of SQLite itself.
fn direct(path: &Path, numbers: &mut Numbers, time: Duration) -> f64 {
    let con = rusqlite::Connection::open(path).expect("opens");
    con.execute_batch("PRAGMA synchronous = FULL")
        .expect("FULL");
    let mut insert = con
        .prepare("INSERT OR IGNORE INTO t VALUES (?1, ?2)")
        .expect("compiles");
    let (begun, mut rows) = (Instant::now(), 0u64);
    while begun.elapsed() < time {
        con.execute_batch("BEGIN").expect("begins");
        for _ in 0..400 {
            insert.execute(numbers.row()).expect("inserts");
        }
        con.execute_batch("COMMIT").expect("commits");
        rows += 400;
    }
    rows as f64 / begun.elapsed().as_secs_f64()
}

fn ingest(api: Api, path: &Path, numbers: &mut Numbers, rows: u64) -> f64 {
    let con = rusqlite::Connection::open(path).expect("opens");
    // SAFETY: it is an open connection of that library.
    let lent = unsafe { Connection::borrow(api, con.handle().cast()) }.expect("a connection");
    densite_ingest::create_functions(&lent).expect("functions");
    con.execute_batch("CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t, on_conflict=ignore)")
        .expect("ingest");
    con.query_row("SELECT densite_wait()", [], |_| Ok(()))
        .expect("waits");
    let holder = rusqlite::Connection::open(path).expect("opens");
    holder.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let mut insert = con
        .prepare("INSERT INTO t_in VALUES (?1, ?2)")
        .expect("compiles");
    for i in 0..rows {
        if i % 400 == 0 {
            con.execute_batch("BEGIN").expect("begins");
        }
        insert.execute(numbers.row()).expect("inserts");
        if i % 400 == 399 || i + 1 == rows {
            con.execute_batch("COMMIT").expect("commits");
        }
    }
    holder.execute_batch("ROLLBACK").expect("gives it back");
    let over = AtomicBool::new(false);
    let wal = path.with_extension("db-wal");
    let begun = Instant::now();
    let over = &over;
    let (taken, (longest, largest)) = std::thread::scope(|scope| {
        let others = scope.spawn(move || {
            let (mut longest, mut largest) = (0, 0);
            holder.busy_timeout(Duration::ZERO).expect("a timeout");
            while !over.load(Ordering::Relaxed) {
                let asked = Instant::now();
                while holder.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err()
                    && !over.load(Ordering::Relaxed)
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                longest = asked.elapsed().as_millis().max(longest);
                largest = std::fs::metadata(&wal).map_or(0, |m| m.len()).max(largest);
                std::thread::sleep(Duration::from_millis(20));
            }
            (longest, largest)
        });
        con.query_row("SELECT densite_wait()", [], |_| Ok(()))
            .expect("waits");
        let taken = begun.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        (taken, others.join().expect("no panic"))
    });
    println!(
        "  the write lock was waited for {} ms at most; largest WAL {} MiB",
        longest,
        largest >> 20
    );
    rows as f64 / taken
}

fn main() {
    let argument = |n: usize| std::env::args().nth(n);
    let number = |n: usize, or: u64| argument(n).and_then(|n| n.parse().ok()).unwrap_or(or);
    let (rows, base_rows) = (number(1, 1_000_000), number(2, 10_000_000));
    let dir = std::env::var("DIR").unwrap_or_else(|_| ".".into());
    let path = Path::new(&dir).join(format!("apply-{base_rows}.db"));
    base(&path, base_rows);
    let api = densite_linked::api().expect("the linked SQLite is new enough");
    let mut numbers = Numbers(std::process::id().into());
    let time = Duration::from_secs(number(3, 5));
    for _ in 0..number(4, 2) {
        let ours = ingest(api, &path, &mut numbers, rows);
        let theirs = match time.is_zero() {
            true => 0.0,
            false => direct(&path, &mut numbers, time),
        };
        println!(
            "applied {ours:.0} rows/s, SQLite {theirs:.0} rows/s: {:.1}",
            ours / theirs
        );
    }
}
