//! A log that cannot be read for a while: no rows are skipped when it can be read again. Also a
//! database that an open connection restores to an older state than the log reaches back to.

use crate::common::storage;

use crate::common::{Db, Held, all, create, one, wait};
use std::os::unix::fs::FileExt;
use storage::{Faults, failing};

/// A wrong byte in the log's files, in place of these bytes. Dropping it restores the byte.
struct Damage {
    file: std::fs::File,
    at: u64,
    right: u8,
}

impl Damage {
    fn at(db: &Db, bytes: &[u8]) -> Damage {
        let segments = std::fs::read_dir(db.log_dir()).expect("a folder");
        let (path, at) = segments
            .filter_map(|entry| {
                let path = entry.expect("an entry").path();
                let all = std::fs::read(&path).expect("a file");
                let at = all.windows(bytes.len()).position(|w| w == bytes)?;
                Some((path, at as u64))
            })
            .next()
            .expect("the segment");
        let file = std::fs::OpenOptions::new().write(true).open(path);
        let file = file.expect("opens");
        let right = bytes[0];
        file.write_all_at(&[!right], at).expect("writes");
        Damage { file, at, right }
    }
}

impl Drop for Damage {
    fn drop(&mut self) {
        self.file
            .write_all_at(&[self.right], self.at)
            .expect("writes");
    }
}

/// The worker's error for rows that it cannot read.
fn trouble(con: &rusqlite::Connection) -> String {
    let said = con.query_row("SELECT densite_wait()", [], |_| Ok(()));
    said.expect_err("damaged").to_string()
}

#[test]
fn a_failed_read_skips_no_rows() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", "");
    let held = Held::new(&db);
    for i in 1..=3 {
        con.execute_batch(&format!("INSERT INTO t_in VALUES ({i}, 'row number {i}')"))
            .expect("inserts");
    }
    let damage = Damage::at(&db, b"row number 3");
    let error = con
        .query_row("SELECT count(*) FROM t_in", [], |_| Ok(()))
        .expect_err("damaged");
    let code = error.sqlite_error().map(|e| e.extended_code);
    assert_eq!(
        code,
        Some(densite_sqlite::Code::CORRUPT.explained().0),
        "{error}"
    );
    assert!(error.to_string().contains("densite log check"), "{error}");
    drop(damage);
    assert_eq!(all(&con, "SELECT id FROM t_in"), ["1", "2", "3"]);
    drop(held);
    // The worker can have read the wrong byte meanwhile. It says so once.
    if let Err(e) = con.query_row("SELECT densite_wait()", [], |_| Ok(())) {
        assert!(e.to_string().contains("checksum mismatch"), "{e}");
        wait(&con);
    }
    assert_eq!(all(&con, "SELECT id FROM t"), ["1", "2", "3"]);
}

/// All rows were acknowledged. Rows in front of the damage are applied, however few, and then the
/// error is reported. Only whole transactions are applied, of the log and of a batch with a
/// deferred key.
#[test]
fn rows_before_damage_are_applied() {
    for schema in [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v)",
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v, p REFERENCES t(id) DEFERRABLE INITIALLY DEFERRED)",
    ] {
        let db = Db::new(schema);
        let con = db.ingest("t", "");
        one::<i64>(&con, "SELECT densite_subscribe('reader', 'start')");
        let held = Held::new(&db);
        for i in 1..=5 {
            con.execute_batch(&format!(
                "INSERT INTO t_in(id, v) VALUES ({i}, 'row number {i}')"
            ))
            .expect("inserts");
        }
        // Two records of one transaction, of which the second is damaged.
        con.execute_batch(
            "BEGIN; INSERT INTO t_in(id, v) VALUES (6, 'row number 6'); UPDATE t_in SET v = 'another' WHERE id = 2; COMMIT;
             INSERT INTO t_in(id, v) VALUES (7, 'row number 7')",
        )
        .expect("inserts");
        // By a worker that has not read it before.
        drop(con);
        let damage = Damage::at(&db, b"another");
        let con = db.ingest("t", "");
        drop(held);
        assert_eq!(one::<i64>(&con, "SELECT densite_wait(5)"), 5);
        let said = trouble(&con);
        assert!(said.contains("densite log check"), "{said}");
        let applied = "SELECT group_concat(id), max(v) FROM t";
        assert_eq!(all(&con, applied), ["1,2,3,4,5|row number 5"], "{schema}");
        let read = "SELECT group_concat(seq) FROM densite_log('reader')";
        assert_eq!(all(&con, read), ["1,2,3,4,5"]);
        one::<i64>(&con, "SELECT densite_ack('reader', 5)");
        con.query_row(read, [], |_| Ok(()))
            .expect_err("nothing else can be read");
        // Another worker reports the same error, and new rows are acknowledged.
        drop(con);
        let con = db.ingest("t", "");
        con.execute_batch("INSERT INTO t_in(id, v) VALUES (8, 'row number 8')")
            .expect("it is the log that acknowledges");
        trouble(&con);
        assert_eq!(all(&con, applied), ["1,2,3,4,5|row number 5"], "{schema}");
        drop(damage);
        assert_eq!(wait(&con), 9);
        assert_eq!(
            all(&con, "SELECT group_concat(id) FROM t"),
            ["1,2,3,4,5,6,7,8"]
        );
        assert_eq!(all(&con, "SELECT v FROM t WHERE id = 2"), ["another"]);
    }
}

/// The same for the damaged header of a segment among those that wait. Without the end of a segment
/// it is unknown which of its rows were acknowledged.
#[test]
fn rows_before_a_damaged_segment_are_applied() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = failing(&db.path(), &Faults::default());
    create(&con, "t", "").expect("the ingest table");
    let held = Held::new(&db);
    let segment = |n: u64| db.log_dir().join(format!("{n:012}.seg"));
    let (mut rows, mut known) = (0, 0);
    while !segment(8).exists() {
        con.execute_batch(&format!(
            "INSERT INTO t_in VALUES ({rows}, randomblob(900))"
        ))
        .expect("inserts");
        rows += 1;
        if !segment(4).exists() {
            known = rows;
        }
    }
    drop(con);
    let bytes = std::fs::read(segment(5)).expect("the segment");
    let damage = Damage::at(&db, &bytes[..64]);
    let con = failing(&db.path(), &Faults::default());
    create(&con, "t", "").expect("the ingest table");
    drop(held);
    assert_eq!(
        one::<i64>(&con, &format!("SELECT densite_wait({known})")),
        known
    );
    let said = trouble(&con);
    assert!(said.contains("000000000005.seg"), "{said}");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), known);
    drop(damage);
    assert_eq!(wait(&con), rows);
}

/// The backup API, or a restore in place, changes the database under the running worker. Missing
/// rows are reported and not skipped.
#[test]
fn a_position_before_the_start_of_the_log_is_an_error() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = failing(&db.path(), &Faults::default());
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
    // Nothing was applied behind the gap.
    con.execute_batch("INSERT INTO t_in VALUES (-1, 'new')")
        .expect("it is the log that acknowledges");
    con.query_row("SELECT densite_wait()", [], |_| Ok(()))
        .expect_err("rows are missing");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 3);
    drop(con);
    let con = failing(&db.path(), &Faults::default());
    let said = create(&con, "t", "").expect_err("refused").to_string();
    assert!(said.contains("restored from an older backup"), "{said}");
}

/// The worker catches up as far as the log reaches, even if it was idle.
#[test]
fn a_database_restored_under_an_idle_worker_catches_up() {
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
