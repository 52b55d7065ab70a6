//! A log that the database no longer names, and a log that ends before the database's position:
//! their rows would never be applied, so none are acknowledged.

use crate::common::storage;

use crate::common::{Db, all, create, one, refusal, wait};
use rusqlite::Connection;
use std::path::Path;
use std::time::{Duration, Instant};
use storage::{FEW, Own};

const SCHEMA: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v)";

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("made");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copies");
    }
}

fn drop_the_name(db: &Db) {
    let plain = Connection::open(db.path()).expect("opens");
    plain
        .execute_batch("PRAGMA busy_timeout = 10000; DROP TABLE densite_applied")
        .expect("goes");
}

/// Inserts until a row is refused. Returns the error.
fn insert_until_refused(con: &Connection) -> String {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if let Err(e) = con.execute_batch("INSERT INTO t_in(v) VALUES ('late')") {
            return e.to_string();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("rows are acknowledged that no process applies");
}

#[test]
fn an_abandoned_log_acknowledges_no_rows() {
    for mode in ["WAL", "DELETE"] {
        let db = Db::new(SCHEMA);
        let plain = Connection::open(db.path()).expect("opens");
        plain
            .query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(()))
            .expect("the mode");
        drop(plain);
        let con = db.ingest("t", "");
        con.execute_batch("INSERT INTO t_in VALUES (1, 'applied')")
            .expect("inserts");
        wait(&con);
        drop_the_name(&db);
        let gone = "densite_applied was dropped";
        let said = insert_until_refused(&con);
        assert!(said.contains(gone), "{mode}: {said}");
        for sql in [
            "SELECT densite_wait()",
            "SELECT densite_wait(1)",
            "SELECT * FROM t_in",
        ] {
            let said = con.query_row(sql, [], |_| Ok(())).expect_err(sql);
            assert!(said.to_string().contains(gone), "{mode}: {sql}: {said}");
        }
        refusal(&con, "INSERT INTO t_in(v) VALUES ('late')");
        // Another connection does not adopt that log.
        let other = db.open();
        let said = create(&other, "t", "").expect_err("the log has rows");
        assert!(said.to_string().contains("does not name"), "{mode}: {said}");
        drop((con, other));
        std::fs::rename(db.log_dir(), db.path().with_extension("aside")).expect("moves");
        let con = db.ingest("t", "");
        con.execute_batch("INSERT INTO t_in VALUES (2, 'new')")
            .expect("inserts");
        wait(&con);
        assert_eq!(
            all(&con, "SELECT v FROM t_in"),
            ["applied", "new"],
            "{mode}"
        );
    }
}

#[test]
fn a_process_that_is_not_the_applier_gets_the_error_too() {
    let db = Db::new(SCHEMA);
    let own = |process| {
        let storage = Own {
            process,
            ..Own::with_limits(FEW, 0)
        };
        let con = storage.connect(&db.path());
        create(&con, "t", "").expect("t_in");
        con
    };
    let (leads, follows) = (own(1), own(2));
    for con in [&leads, &follows] {
        con.execute_batch("INSERT INTO t_in(v) VALUES ('applied')")
            .expect("inserts");
        wait(con);
    }
    drop_the_name(&db);
    let said = insert_until_refused(&follows);
    assert!(said.contains("densite_applied was dropped"), "{said}");
    assert_eq!(one::<i64>(&leads, "SELECT count(*) FROM t"), 2);
}

/// A log whose creation is rolled back has no rows to lose.
#[test]
fn waiting_for_a_log_whose_creation_was_rolled_back_ends_at_once() {
    let db = Db::new(SCHEMA);
    let con = db.open();
    con.execute_batch("BEGIN; CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t); INSERT INTO t_in VALUES (1, 1); ROLLBACK")
        .expect("takes it back");
    assert_eq!(wait(&con), 0);
    create(&con, "t", "").expect("made again");
    con.execute_batch("INSERT INTO t_in VALUES (1, 1)")
        .expect("inserts");
    wait(&con);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 1);
}

#[test]
fn a_restored_older_log_is_refused() {
    let db = Db::new(SCHEMA);
    let [older, newest] = ["older", "newest"].map(|name| db.path().with_extension(name));
    let insert = |sql: &str| {
        let con = db.ingest("t", "");
        con.execute_batch(sql).expect(sql);
        wait(&con);
    };
    insert("INSERT INTO t_in VALUES (1, 1)");
    copy(&db.log_dir(), &older);
    insert("INSERT INTO t_in VALUES (2, 2), (3, 3)");
    std::fs::rename(db.log_dir(), &newest).expect("moves");
    copy(&older, &db.log_dir());

    let con = db.open();
    for _ in 0..2 {
        let said = create(&con, "t", "").expect_err("older").to_string();
        assert!(said.contains("applied up to row 3"), "{said}");
        assert!(said.contains("ends at row 1"), "{said}");
        assert!(said.contains("DROP TABLE densite_applied"), "{said}");
    }
    let said = con.query_row("SELECT densite_wait()", [], |_| Ok(()));
    let said = said.expect_err("older").to_string();
    assert!(said.contains("older state of the log"), "{said}");
    drop(con);

    // The newest log is restored,
    std::fs::remove_dir_all(db.log_dir()).expect("goes");
    copy(&newest, &db.log_dir());
    insert("INSERT INTO t_in VALUES (4, 4)");
    // or the log is given up.
    std::fs::remove_dir_all(db.log_dir()).expect("goes");
    drop_the_name(&db);
    insert("INSERT INTO t_in VALUES (5, 5)");
    let plain = Connection::open(db.path()).expect("opens");
    assert_eq!(all(&plain, "SELECT id FROM t"), ["1", "2", "3", "4", "5"]);
}
