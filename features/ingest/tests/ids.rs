//! Ids that are given out at INSERT, for tables with AUTOINCREMENT.

use crate::common::{self, Db, all, one, refusal, wait};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

const SCHEMA: &str =
    "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a INT, b TEXT DEFAULT 'none')";

/// Inserts a row. Returns its id.
fn insert(con: &rusqlite::Connection, table: &str, a: i64) -> i64 {
    con.execute(&format!("INSERT INTO {table}(a) VALUES (?1)"), [a])
        .expect("inserts");
    con.last_insert_rowid()
}

#[test]
fn an_insert_knows_its_id() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("t", "");
    assert_eq!(insert(&con, "t_in", 7), 1);
    assert_eq!(insert(&con, "t_in", 8), 2);
    con.execute_batch("BEGIN; INSERT INTO t_in(a) VALUES (9), (10)")
        .expect("inserts");
    assert_eq!(con.last_insert_rowid(), 4);
    let rows = "SELECT id, a, b FROM t_in";
    let expected = ["1|7|none", "2|8|none", "3|9|none", "4|10|none"];
    assert_eq!(all(&con, rows), expected);
    con.execute_batch("COMMIT").expect("commits");
    wait(&con);
    assert_eq!(all(&con, "SELECT id, a, b FROM t"), expected);
    assert_eq!(
        all(&con, "SELECT count(*) FROM densite_rejects"),
        ["0"],
        "{:?}",
        all(&con, "SELECT error FROM densite_rejects")
    );
}

/// As a rolled-back block of SQLite's own would be used again, these are not.
#[test]
fn an_id_is_not_given_out_twice_after_a_rollback() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("t", "");
    con.execute_batch("BEGIN; INSERT INTO t_in(a) VALUES (1); ROLLBACK")
        .expect("rolls back");
    assert_eq!(insert(&con, "t_in", 2), 2);
}

#[test]
fn ordinary_inserts_and_other_connections_get_other_ids() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("t", "");
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    plain
        .busy_timeout(Duration::from_secs(10))
        .expect("a timeout");
    let mut ids = HashMap::new();
    for a in 0..400 {
        // Both kinds wait: a row that is applied already would keep SQLite from its id.
        let id = match a % 3 {
            0 => insert(&plain, "t", a),
            _ => insert(&con, "t_in", a),
        };
        assert_eq!(ids.insert(id, a), None, "{id} twice");
    }
    wait(&con);
    let expected: i64 = one(&con, "SELECT count(*) FROM t");
    assert_eq!(expected, ids.len() as i64);
    for (id, a) in ids {
        let found: i64 = one(&con, &format!("SELECT a FROM t WHERE id = {id}"));
        assert_eq!(found, a);
    }
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_rejects"), 0);
}

#[test]
fn an_id_that_the_application_sets_is_not_given_out() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("t", "");
    assert_eq!(insert(&con, "t_in", 0), 1);
    con.execute_batch("INSERT INTO t_in(id, a) VALUES (5, 1), (3, 1)")
        .expect("inserts");
    assert_eq!(insert(&con, "t_in", 2), 6);
    con.execute_batch("INSERT INTO t_in(id, a) VALUES (1000, 3)")
        .expect("inserts");
    // The block goes on; the next one begins above the row.
    let ids: Vec<i64> = (0..100).map(|a| insert(&con, "t_in", a)).collect();
    assert_eq!(ids.first(), Some(&7));
    assert!(ids.contains(&64) && ids.contains(&1001) && !ids.contains(&65));
    wait(&con);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_rejects"), 0);
}

#[test]
fn after_the_largest_id_there_is_an_error() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in(id, a) VALUES (9223372036854775800, 0)")
        .expect("inserts");
    for n in 1..=6 {
        assert_eq!(insert(&con, "t_in", n), i64::MAX - 7 + n);
    }
    let refused = refusal(&con, "INSERT INTO t_in(a) VALUES (1)");
    assert!(refused.contains("largest possible id"), "{refused}");
}

#[test]
fn without_autoincrement_an_id_is_chosen_when_the_row_is_applied() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, a INT)");
    let con = db.ingest("t", "");
    assert_eq!(insert(&con, "t_in", 1), 0);
    wait(&con);
    assert_eq!(all(&con, "SELECT id, a FROM t"), ["1|1"]);
}

#[test]
fn a_transaction_that_blocks_the_reservation_gets_an_error_at_once() {
    let db = Db::new(&format!("PRAGMA journal_mode = DELETE; {SCHEMA}"));
    let con = db.ingest("t", "");
    con.execute_batch("BEGIN; SELECT count(*) FROM t")
        .expect("reads");
    let refused = refusal(&con, "INSERT INTO t_in(a) VALUES (1)");
    assert!(refused.contains("rollback mode"), "{refused}");
    con.execute_batch("ROLLBACK; BEGIN IMMEDIATE")
        .expect("begins");
    let refused = refusal(&con, "INSERT INTO t_in(a) VALUES (1)");
    assert!(refused.contains("outbox"), "{refused}");
    con.execute_batch("ROLLBACK").expect("ends");
    // A statement that reads cannot insert first. Its rows get their ids later.
    let statement = "INSERT INTO t_in(a) SELECT a FROM t UNION ALL SELECT 7";
    con.execute_batch(statement).expect("inserts");
    assert_eq!(con.last_insert_rowid(), 0);
    wait(&con);
    assert_eq!(all(&con, "SELECT id, a FROM t"), ["1|7"]);
    assert_eq!(insert(&con, "t_in", 1), 2);
}

#[test]
fn a_process_never_gives_out_its_own_ids_again() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("t", "");
    for n in 0..130 {
        if n == 50 {
            wait(&con);
            con.execute_batch("DELETE FROM t; DELETE FROM sqlite_sequence")
                .expect("resets");
        }
        assert_eq!(insert(&con, "t_in", n), n + 1);
    }
    wait(&con);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_rejects"), 0);
}

/// The database is an older state, its log the newest one: rows with ids of a later block wait.
#[test]
fn a_restored_database_does_not_give_out_the_ids_of_waiting_rows() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("t", "");
    one::<i64>(&con, "SELECT densite_subscribe('keeper', 'start')");
    insert(&con, "t_in", 0);
    wait(&con);
    con.close().expect("closes");
    let old = std::fs::read(db.path()).expect("the database");
    let con = db.ingest("t", "");
    for a in 1..200 {
        insert(&con, "t_in", a);
    }
    wait(&con);
    con.close().expect("closes");
    std::fs::write(db.path(), old).expect("restores");
    let con = db.open();
    // Nothing is applied before the new row has its id.
    let held = rusqlite::Connection::open(db.path()).expect("opens");
    common::create(&con, "t", "").expect("the ingest table");
    let id = insert(&con, "t_in", 200);
    drop(held);
    assert!(id > 200, "{id}");
    wait(&con);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 201);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_rejects"), 0);
}

/// Not a test by itself: the body of the child processes. They insert, one through ingest and one
/// into the table itself, and report each id.
#[test]
fn child() {
    let Ok(path) = std::env::var("DENSITE_IDS_CHILD") else {
        return;
    };
    let con = common::open(path.as_ref());
    common::create(&con, "t", "").expect("the ingest table");
    let writer = i64::from(std::process::id()) << 32;
    for n in 0.. {
        let table = if n % 16 == 15 { "t" } else { "t_in" };
        let id = insert(&con, table, writer + n);
        println!("acknowledged {id} {}", writer + n);
    }
}

#[test]
fn killed_processes_never_share_an_id() {
    let db = Db::new(SCHEMA);
    let (tell, acknowledged) = channel();
    for _ in 0..4 {
        let mut children: Vec<_> = (0..3)
            .map(|_| {
                Command::new(std::env::current_exe().expect("this program"))
                    .args(["--exact", "ids::child", "--nocapture"])
                    .env("DENSITE_IDS_CHILD", db.path())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("starts")
            })
            .collect();
        let readers: Vec<_> = children
            .iter_mut()
            .map(|child| {
                let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
                let tell = tell.clone();
                std::thread::spawn(move || {
                    for line in lines.map_while(Result::ok) {
                        let words = line.split("acknowledged ").nth(1);
                        let mut words = words.unwrap_or_default().split(' ');
                        let mut number = || words.next()?.trim().parse::<i64>().ok();
                        if let (Some(id), Some(a)) = (number(), number()) {
                            tell.send((id, a)).ok();
                        }
                    }
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(900));
        for child in &mut children {
            child.kill().expect("kills");
            child.wait().expect("is gone");
        }
        for reader in readers {
            reader.join().expect("reads");
        }
    }
    drop(tell);
    let con = db.ingest("t", "");
    wait(&con);
    let mut rows = HashMap::new();
    for (id, a) in acknowledged {
        assert_eq!(rows.insert(id, a), None, "{id} was given out twice");
    }
    assert!(rows.len() > 100, "{} rows", rows.len());
    for (id, a) in rows {
        let found: i64 = one(&con, &format!("SELECT a FROM t WHERE id = {id}"));
        assert_eq!(found, a, "{id}");
    }
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_rejects"), 0);
    assert_eq!(all(&con, "PRAGMA integrity_check"), ["ok"]);
}
