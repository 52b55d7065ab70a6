//! What ids at INSERT cost on this machine: `cargo run --release -p densite-ingest --example ids`.
//!
//! Eight processes with transactions of 100 rows, into a table whose ids are given out at INSERT,
//! and into one whose ids are chosen when rows are applied. Each figure is the median of rounds that
//! alternate.

use densite_sqlite::Connection;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const ROUNDS: usize = 5;
const PROCESSES: usize = 8;
const TRANSACTIONS: usize = 1000;

fn opened(path: &Path) -> rusqlite::Connection {
    let api = densite_linked::api().expect("the linked SQLite is new enough");
    let con = rusqlite::Connection::open(path).expect("opens");
    let timeout = std::time::Duration::from_secs(60);
    con.busy_timeout(timeout).expect("a timeout");
    // SAFETY: it is an open connection of that library.
    let lent = unsafe { Connection::borrow(api, con.handle().cast()) }.expect("a connection");
    densite_ingest::create_functions(&lent).expect("functions");
    con
}

/// A process that writes, between two lines of its input.
fn write(path: &Path) {
    let con = opened(path);
    con.execute_batch("CREATE VIRTUAL TABLE temp.event_in USING densite_ingest(event)")
        .expect("ingest");
    let sql = "INSERT INTO temp.event_in(kind, what) VALUES (?1, ?2)";
    let mut insert = con.prepare(sql).expect("compiles");
    let mut line = String::new();
    println!("ready");
    std::io::stdin().read_line(&mut line).expect("a line");
    for _ in 0..TRANSACTIONS {
        con.execute_batch("BEGIN").expect("begins");
        for n in 0..100 {
            insert.execute((n, format!("event {n}"))).expect("inserts");
        }
        con.execute_batch("COMMIT").expect("commits");
    }
    println!("done");
    std::io::stdin().read_line(&mut line).expect("a line");
}

/// Seconds until all rows are acknowledged.
fn run(automatic: &str) -> f64 {
    let dir = tempfile::tempdir_in(std::env::var("DIR").unwrap_or_else(|_| ".".into()))
        .expect("a folder");
    let path = dir.path().join("app.db");
    let con = opened(&path);
    con.execute_batch(&format!("PRAGMA journal_mode = WAL; CREATE TABLE event(id INTEGER PRIMARY KEY {automatic}, kind INTEGER NOT NULL, what TEXT NOT NULL); CREATE INDEX by_kind ON event(kind)"))
        .expect("the table");
    let start = |_| {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let lines = BufReader::new(output.expect("piped")).lines();
        (child, input.expect("piped"), lines)
    };
    let mut writers: Vec<_> = (0..PROCESSES).map(start).collect();
    let turn = |writers: &mut Vec<_>| {
        for (_, _, lines) in writers.iter_mut() {
            let line: Option<std::io::Result<String>> = Iterator::next(lines);
            line.expect("a line").expect("reads");
        }
    };
    turn(&mut writers);
    let begun = Instant::now();
    for (_, input, _) in &mut writers {
        input.write_all(b"go\n").expect("writes");
    }
    turn(&mut writers);
    let acknowledged = begun.elapsed().as_secs_f64();
    for (mut child, mut input, _) in writers {
        input.write_all(b"end\n").expect("writes");
        assert!(child.wait().expect("ends").success());
    }
    acknowledged
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

fn main() {
    if let Some(path) = std::env::args_os().nth(1) {
        return write(Path::new(&path));
    }
    let (mut later, mut ids) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        later.push(run(""));
        ids.push(run("AUTOINCREMENT"));
    }
    let rows = (PROCESSES * TRANSACTIONS * 100) as f64;
    let (later, ids) = (rows / median(later), rows / median(ids));
    println!(
        "rows a second: {later:.0} with ids chosen later, {ids:.0} with ids at INSERT: {:.2} x",
        ids / later
    );
}
