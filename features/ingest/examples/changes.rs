//! What recording of changes costs on this machine: `cargo run --release -p densite-ingest
//! --example changes [updates, insert or ingest [recorded or plain]]`.
//!
//! Each figure is the median of rounds that alternate between a table that is recorded for a
//! subscriber and one that is not. With all arguments it runs once, for a profiler.

use densite_sqlite::Connection;
use std::time::Instant;

const ROUNDS: usize = 7;
/// Rows of a large transaction.
const ROWS: i64 = 100_000;
/// Transactions of one row.
const UPDATES: i64 = 20_000;

fn opened(dir: &std::path::Path, is_recorded: bool) -> rusqlite::Connection {
    let api = densite_linked::api().expect("the linked SQLite is new enough");
    let con = rusqlite::Connection::open(dir.join("app.db")).expect("opens");
    con.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; CREATE TABLE vote(user INTEGER, article INTEGER, name TEXT, x REAL, PRIMARY KEY (user, article))")
        .expect("the table");
    // SAFETY: it is an open connection of that library.
    let lent = unsafe { Connection::borrow(api, con.handle().cast()) }.expect("a connection");
    densite_ingest::create_functions(&lent).expect("functions");
    con.execute_batch("CREATE VIRTUAL TABLE temp.vote_in USING densite_ingest(vote)")
        .expect("ingest");
    if is_recorded {
        con.query_row(
            "SELECT densite_config('changes', 'vote', 'on'), densite_changes_subscribe('copy')",
            [],
            |_| Ok(()),
        )
        .expect("recorded");
    }
    con
}

fn insert(con: &rusqlite::Connection, table: &str) {
    con.execute_batch("BEGIN").expect("begins");
    let sql = format!("INSERT INTO {table} VALUES (?1, ?2, ?3, ?4)");
    let mut insert = con.prepare(&sql).expect("compiles");
    for n in 0..ROWS {
        let row = (
            n * 7919 % 1_000_003,
            n,
            format!("article {n}"),
            n as f64 / 2.0,
        );
        insert.execute(row).expect("inserts");
    }
    con.execute_batch("COMMIT").expect("commits");
}

/// Seconds that the case takes.
fn run(case: &str, is_recorded: bool) -> f64 {
    let dir = tempfile::tempdir_in(std::env::var("DIR").unwrap_or_else(|_| ".".into()))
        .expect("a folder");
    let con = opened(dir.path(), is_recorded);
    let mut begun = Instant::now();
    match case {
        "updates" => {
            con.execute_batch("WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1999) INSERT INTO vote SELECT i, i, 'article ' || i, i FROM n")
                .expect("rows");
            let sql = "UPDATE vote SET x = x + 1 WHERE user = ?1 AND article = ?1";
            let mut update = con.prepare(sql).expect("compiles");
            begun = Instant::now();
            for n in 0..UPDATES {
                update.execute([n % 2000]).expect("updates");
            }
        }
        "insert" => insert(&con, "vote"),
        "ingest" => {
            insert(&con, "temp.vote_in");
            con.query_row("SELECT densite_wait()", [], |_| Ok(()))
                .expect("waits");
        }
        _ => panic!("updates, insert or ingest"),
    }
    begun.elapsed().as_secs_f64()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if let [case, recorded] = &given[..] {
        println!("{:.3} s", run(case, recorded == "recorded"));
        return;
    }
    for case in ["updates", "insert", "ingest"] {
        if given.first().is_some_and(|only| only != case) {
            continue;
        }
        let (mut plain, mut recorded) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            plain.push(run(case, false));
            recorded.push(run(case, true));
        }
        let (plain, recorded) = (median(plain), median(recorded));
        println!(
            "{case}: {plain:.3} s, recorded {recorded:.3} s: {:.2} x",
            recorded / plain
        );
    }
}
