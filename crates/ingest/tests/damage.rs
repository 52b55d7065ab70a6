//! A log that cannot be read for a while: nothing is skipped when it can again. A database that an open connection puts back to an older state, further than the log reaches.

mod common;
#[path = "common/flaky.rs"]
mod flaky;

use common::{Db, Held, all, create, one, wait};
use flaky::{Faults, connect};
use std::os::unix::fs::FileExt;

#[test]
fn a_read_that_failed_leaves_no_hole() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", "");
    let held = Held::new(&db);
    for i in 1..=3 {
        con.execute_batch(&format!("INSERT INTO t_in VALUES ({i}, 'row number {i}')"))
            .expect("inserts");
    }
    // The last record gets a wrong byte, in the file.
    let segments = std::fs::read_dir(db.log_dir()).expect("a folder");
    let (path, at) = segments
        .filter_map(|entry| {
            let path = entry.expect("an entry").path();
            let bytes = std::fs::read(&path).expect("a file");
            let at = bytes.windows(12).position(|w| w == b"row number 3")?;
            Some((path, at as u64))
        })
        .next()
        .expect("the segment");
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .expect("opens");
    file.write_all_at(b"X", at).expect("writes");
    let said = con
        .query_row("SELECT count(*) FROM t_in", [], |_| Ok(()))
        .expect_err("damaged")
        .to_string();
    assert!(said.contains("densite log check"), "{said}");
    file.write_all_at(b"r", at).expect("writes");
    assert_eq!(all(&con, "SELECT id FROM t_in"), ["1", "2", "3"]);
    drop(held);
    wait(&con);
    assert_eq!(all(&con, "SELECT id FROM t"), ["1", "2", "3"]);
}

/// The backup API, or a restore in place, changes the database under the running worker: the rows between are not skipped without a word.
#[test]
fn a_database_that_goes_back_further_than_the_log_is_told() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = connect(&db.path(), &Faults::default());
    create(&con, "t", "").expect("the ingest table");
    let first = db.log_dir().join("000000000001.seg");
    let mut rows = 0;
    while first.exists() {
        con.execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) INSERT INTO t_in SELECT {rows} + i, randomblob(200) FROM n"
        ))
        .expect("inserts");
        rows += 20;
        assert!(rows < 100_000, "nothing is pruned");
        wait(&con);
        con.query_row("SELECT densite_prune()", [], |_| Ok(()))
            .expect("prunes");
    }
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    plain
        .busy_timeout(std::time::Duration::from_secs(10))
        .expect("a timeout");
    plain
        .execute_batch("UPDATE densite_applied SET seq = 3; DELETE FROM t WHERE id > 3")
        .expect("goes back");
    let said = con
        .query_row("SELECT densite_wait()", [], |_| Ok(()))
        .expect_err("rows are missing")
        .to_string();
    assert!(said.contains("older than the log reaches back"), "{said}");
    // Nothing was applied over the gap.
    con.execute_batch("INSERT INTO t_in VALUES (-1, 'new')")
        .expect("it is the log that acknowledges");
    con.query_row("SELECT densite_wait()", [], |_| Ok(()))
        .expect_err("rows are missing");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 3);
    drop(con);
    let con = connect(&db.path(), &Faults::default());
    let said = create(&con, "t", "").expect_err("refused").to_string();
    assert!(said.contains("restored from an older backup"), "{said}");
}

/// As far as the log reaches, it catches up, also if the worker was idle.
#[test]
fn a_database_that_goes_back_under_an_idle_worker_catches_up() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1, 1), (2, 2), (3, 3)")
        .expect("inserts");
    wait(&con);
    std::thread::sleep(std::time::Duration::from_millis(900));
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    plain
        .execute_batch("UPDATE densite_applied SET seq = 1; DELETE FROM t WHERE id > 1")
        .expect("goes back");
    assert_eq!(wait(&con), 3);
    assert_eq!(all(&con, "SELECT id FROM t"), ["1", "2", "3"]);
}
