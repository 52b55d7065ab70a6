//! Writers that wait for room: more of the log than `max_unapplied_bytes` is not applied.

use crate::common::{Db, Held, all, database_log, one, refusal, wait};
use rusqlite::{Connection, ErrorCode};
use std::sync::mpsc;
use std::time::Duration;

const TABLE: &str =
    "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)";

/// Waiting writes, each as the statements of one transaction.
const WRITES: [&str; 6] = [
    "INSERT INTO t_in VALUES (10, 10)",
    "INSERT INTO t_in VALUES (11, 11), (12, 12)",
    "UPDATE t_in SET v = 'new' WHERE id = 1",
    "DELETE FROM t_in WHERE id = 2",
    "BEGIN; INSERT INTO t_in VALUES (13, 13); COMMIT",
    "BEGIN; INSERT INTO t_in VALUES (14, 14); SELECT * FROM t_in; SELECT * FROM t; COMMIT",
];
const READ_FIRST: &str =
    "BEGIN; SELECT * FROM t_in WHERE id = 3; INSERT INTO t_in VALUES (15, 15); COMMIT";

fn database(mode: &str) -> Db {
    let db = Db::new(TABLE);
    let con = Connection::open(db.path()).expect("opens");
    let is: String = con
        .query_row(&format!("PRAGMA journal_mode = {mode}"), [], |row| {
            row.get(0)
        })
        .expect("a mode");
    assert_eq!(is, mode);
    db
}

/// While this is held, more is unapplied than the limit allows.
fn full(db: &Db, con: &Connection) -> Held {
    wait(con);
    set(con, 0);
    let held = Held::new(db);
    con.execute_batch("INSERT INTO t_in VALUES (NULL, zeroblob(1000))")
        .expect("inserts");
    set(con, 100);
    held
}

fn set(con: &Connection, bytes: u64) {
    let log = database_log(con);
    log.log()
        .set_config(|c| c.max_unapplied_bytes = bytes)
        .expect("set");
    // A check of the unapplied bytes stays valid for this long.
    std::thread::sleep(Duration::from_millis(30));
}

/// Runs these statements without room, and returns once there is room. The statements must wait for
/// it.
fn waits(db: &Db, con: Connection, sql: &str) -> Connection {
    let held = full(db, &con);
    let (done, is_done) = mpsc::channel();
    let writer = {
        let sql = sql.to_owned();
        std::thread::spawn(move || {
            let ran = con.execute_batch(&sql);
            done.send(()).expect("the receiver exists");
            (con, ran)
        })
    };
    let early = is_done.recv_timeout(Duration::from_millis(150));
    drop(held);
    let (con, ran) = writer.join().expect("no panic");
    ran.unwrap_or_else(|e| panic!("{sql}: {e}"));
    assert!(early.is_err(), "{sql}: it did not wait");
    con
}

#[test]
fn writers_wait_for_room_after_any_read() {
    let db = database("wal");
    let mut con = db.ingest("t", ", on_conflict=replace");
    for sql in WRITES.iter().chain([&READ_FIRST]) {
        con = waits(&db, con, sql);
    }
    wait(&con);
    let rows = all(&con, "SELECT id, v FROM t WHERE typeof(v) <> 'blob'");
    assert_eq!(
        rows,
        [
            "1|new", "3|3", "10|10", "11|11", "12|12", "13|13", "14|14", "15|15"
        ]
    );
}

/// There a reader blocks the worker's commit, so a connection that has read does not wait.
#[test]
fn writers_in_a_rollback_mode_wait_before_they_read() {
    let db = database("delete");
    let mut con = db.ingest("t", ", on_conflict=replace");
    for sql in WRITES {
        con = waits(&db, con, sql);
    }
    let held = full(&db, &con);
    let said = refusal(&con, READ_FIRST);
    assert!(said.contains("has read before it wrote"), "{said}");
    con.execute_batch("ROLLBACK").expect("rolls back");
    drop(held);
    wait(&con);
    // It found room when it began, and would now wait for itself.
    con.execute_batch("BEGIN; INSERT INTO t_in VALUES (16, 16); SELECT * FROM t")
        .expect("begins");
    let other = db.ingest("t", "");
    set(&other, 0);
    other
        .execute_batch("INSERT INTO t_in VALUES (NULL, zeroblob(1000))")
        .expect("inserts");
    set(&other, 100);
    con.execute_batch("COMMIT").expect("commits");
    wait(&con);
    let rows = all(&con, "SELECT id FROM t WHERE typeof(v) <> 'blob'");
    assert_eq!(rows, ["1", "3", "10", "11", "12", "13", "14", "16"]);
}

#[test]
fn a_wait_for_room_ends_with_the_busy_timeout() {
    for mode in ["wal", "delete"] {
        let db = database(mode);
        let (con, other) = (db.ingest("t", ""), db.open());
        let held = full(&db, &con);
        for ms in [0, 60] {
            con.busy_timeout(Duration::from_millis(ms)).expect("set");
            let error = con
                .execute_batch("INSERT INTO t_in VALUES (40, 40)")
                .expect_err("no room");
            assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
            let said = error.to_string();
            assert!(said.contains("busy_timeout"), "{said}");
            assert!(said.contains("max_unapplied_bytes is 100"), "{said}");
        }
        // A COMMIT can be tried again.
        set(&con, 0);
        con.execute_batch("BEGIN; INSERT INTO t_in VALUES (50, 50)")
            .expect("begins");
        set(&other, 100);
        refusal(&con, "COMMIT");
        assert!(!con.is_autocommit());
        drop(held);
        con.busy_timeout(Duration::from_secs(10)).expect("set");
        con.execute_batch("COMMIT").expect("commits");
        wait(&con);
        assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t WHERE id = 40"), 0);
        assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t WHERE id = 50"), 1);
    }
}

/// Applied rows in the same segment as waiting rows are not counted.
#[test]
fn applied_rows_do_not_count_as_unapplied() {
    let db = Db::new(TABLE);
    let con = db.ingest("t", ", on_full=error");
    con.execute_batch("INSERT INTO t_in VALUES (NULL, randomblob(1000000))")
        .expect("inserts");
    wait(&con);
    let held = Held::new(&db);
    set(&con, 20_000);
    for row in 10..20 {
        con.execute_batch(&format!(
            "INSERT INTO t_in VALUES ({row}, randomblob(1000))"
        ))
        .expect("there is room");
        std::thread::sleep(Duration::from_millis(25));
    }
    con.execute_batch("INSERT INTO t_in VALUES (NULL, randomblob(10000))")
        .expect("there is room");
    std::thread::sleep(Duration::from_millis(30));
    let said = refusal(&con, "INSERT INTO t_in VALUES (NULL, 0)");
    assert!(said.contains("max_unapplied_bytes is 20000"), "{said}");
    drop(held);
}
