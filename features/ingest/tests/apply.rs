//! What the worker does: order, rejects, schema changes, limits, pruning, takeover.

use crate::common::{Db, Held, all, create, database_log, one, refusal, wait};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::time::{Duration, Instant};

/// Rule L5: with another UNIQUE, triggers or self-references the order matters; collations decide
/// which keys are equal.
#[test]
fn batches_have_the_result_of_the_log_order() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for schema in [
        "CREATE TABLE t(k INTEGER PRIMARY KEY, u)",
        "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, u)",
        "CREATE TABLE t(k INT PRIMARY KEY, u UNIQUE)",
        "CREATE TABLE t(k INTEGER PRIMARY KEY, u REFERENCES t(k))",
        "CREATE TABLE t(k INTEGER PRIMARY KEY, u); CREATE TABLE sum(n, last); INSERT INTO sum VALUES (0, 0);
         CREATE TRIGGER count AFTER INSERT ON t BEGIN UPDATE sum SET n = n * 3 + new.k, last = new.u; END",
    ] {
        let db = Db::new(schema);
        let plain = rusqlite::Connection::open_in_memory().expect("opens");
        plain.execute_batch(&format!("PRAGMA foreign_keys = ON; {schema}")).expect("the table");
        let con = db.ingest("t", ", on_conflict=replace");
        let held = Held::new(&db);
        for _ in 0..400 {
            let k = match schema.contains("TEXT") {
                true => format!("'{}'", ["a", "A", "b", "C", "c"][random.random_range(0..5)]),
                false => random.random_range(1..30).to_string(),
            };
            let sql = match random.random_range(0..5) {
                0 => format!("DELETE FROM t WHERE k = {k}"),
                _ => format!("INSERT OR REPLACE INTO t VALUES ({k}, {})", random.random_range(1..30)),
            };
            // Ingest rejects what the table refuses.
            plain.execute_batch(&sql).ok();
            if sql.starts_with("DELETE") && schema.contains("REFERENCES") {
                continue;
            }
            con.execute_batch(&sql.replace(" t ", " t_in ")).unwrap_or_else(|e| panic!("{sql}: {e}"));
        }
        drop(held);
        wait(&con);
        if !schema.contains("REFERENCES") {
            assert_eq!(all(&con, "SELECT * FROM t ORDER BY k"), all(&plain, "SELECT * FROM t ORDER BY k"), "seed {seed}: {schema}");
        }
        if schema.contains("TRIGGER") {
            assert_eq!(all(&con, "SELECT * FROM sum"), all(&plain, "SELECT * FROM sum"), "seed {seed}");
        }
    }
}

#[test]
fn refused_rows_are_rejected_with_the_reason() {
    let db = Db::new(
        "CREATE TABLE parent(id INTEGER PRIMARY KEY); INSERT INTO parent VALUES (1);
         CREATE TABLE t(id INTEGER PRIMARY KEY, p REFERENCES parent, c CHECK (c < 10));
         CREATE TABLE seen(id);
         CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO seen VALUES (new.id);
            SELECT CASE new.id WHEN 5 THEN RAISE(FAIL, 'half done') WHEN 6 THEN RAISE(ROLLBACK, 'all gone') WHEN 7 THEN RAISE(IGNORE) END; END",
    );
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1, 1, 1), (2, 9, 1), (3, 1, 11), (1, 1, 2), (5, 1, 1), (6, 1, 1), (7, 1, 1), (8, NULL, NULL); UPDATE t_in SET c = 99 WHERE id = 8").expect("inserts");
    assert_eq!(wait(&con), 9);
    assert_eq!(
        all(&con, "SELECT seq, error FROM densite_rejects ORDER BY seq"),
        [
            "2|FOREIGN KEY constraint failed",
            "3|CHECK constraint failed: c < 10",
            "4|UNIQUE constraint failed: t.id",
            "5|half done",
            "6|all gone",
            "9|CHECK constraint failed: c < 10"
        ]
    );
    assert_eq!(all(&con, "SELECT id FROM t"), ["1", "7", "8"]);
    assert_eq!(all(&con, "SELECT id FROM seen"), ["1", "7", "8"]);
    assert_eq!(
        one::<String>(&con, "SELECT \"row\" FROM densite_rejects WHERE seq = 3"),
        r#"{"id":3,"p":1,"c":11}"#
    );
    // Readers no longer see rejected rows.
    assert_eq!(
        all(&con, "SELECT id, c FROM t_in"),
        ["1|1", "7|1", "8|NULL"]
    );
}

#[test]
fn deferred_foreign_keys_are_checked_by_transaction() {
    let db = Db::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, up REFERENCES t(id) DEFERRABLE INITIALLY DEFERRED)",
    );
    let con = db.ingest("t", "");
    let held = Held::new(&db);
    for (a, b) in [
        ("(1, 2)", "(2, 1)"),
        ("(3, 99)", "(4, 3)"),
        ("(5, 6)", "(6, NULL)"),
    ] {
        con.execute_batch(&format!(
            "BEGIN; INSERT INTO t_in VALUES {a}; INSERT INTO t_in VALUES {b}; COMMIT"
        ))
        .expect("inserts");
    }
    drop(held);
    wait(&con);
    assert_eq!(all(&con, "SELECT id FROM t"), ["1", "2", "5", "6"]);
    assert_eq!(
        all(&con, "SELECT seq, error FROM densite_rejects"),
        [
            "3|FOREIGN KEY constraint failed",
            "4|FOREIGN KEY constraint failed"
        ]
    );
}

#[test]
fn the_schema_may_change_while_rows_wait() {
    let db = Db::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); CREATE TABLE gone(id INTEGER PRIMARY KEY)",
    );
    let con = db.ingest("t", "");
    create(&con, "gone", "").expect("gone_in");
    wait(&con);
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    plain.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    con.execute_batch("INSERT INTO t_in VALUES (1, 2, 3); INSERT INTO gone_in VALUES (1)")
        .expect("inserts");
    plain
        .execute_batch("ALTER TABLE t ADD COLUMN c DEFAULT 'new'; DROP TABLE gone; COMMIT")
        .expect("changes");
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM t"), ["1|2|3|new"]);
    assert_eq!(
        all(&con, "SELECT \"table\", error FROM densite_rejects"),
        ["gone|there is no table gone"]
    );
    plain.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    con.execute_batch("INSERT INTO t_in VALUES (2, 2, 3, 4)")
        .expect("inserts");
    plain
        .execute_batch("ALTER TABLE t DROP COLUMN b; COMMIT")
        .expect("changes");
    wait(&con);
    assert_eq!(
        all(
            &con,
            "SELECT error FROM densite_rejects WHERE \"table\" = 't'"
        ),
        ["table t has no column b that can be set"]
    );
}

/// The write lock is held for at most half a second, whatever the rows cost.
#[test]
fn the_write_lock_is_released_within_half_a_second() {
    many_rows_take_turns(6000, 3000, 6000);
}

/// Also if a hundred rows take seconds.
#[test]
fn the_write_lock_is_released_between_slow_rows() {
    many_rows_take_turns(120, 200_000, 1);
}

/// Each row of `rows` costs as much as a query of `steps` rows, and `together` rows are written at
/// once.
fn many_rows_take_turns(rows: i64, steps: i64, together: i64) {
    // Allows twice the promised time, and several attempts: the machine can be busy.
    let times: Vec<Duration> = (0..4)
        .map(|_| longest_turn(rows, steps, together))
        .take_while(|time| *time >= Duration::from_millis(1000))
        .collect();
    assert!(times.len() < 4, "{times:?}");
}

/// The longest wait of a writer for the worker's transactions.
fn longest_turn(rows: i64, steps: i64, together: i64) -> Duration {
    let db = Db::new(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE other(x);
         CREATE TRIGGER slow AFTER INSERT ON t BEGIN SELECT count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {steps}) SELECT i FROM n); END"
    ));
    let con = db.ingest("t", "");
    for first in (1..=rows).step_by(together as usize) {
        let end = first + together;
        con.execute_batch(&format!("WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {end}) INSERT INTO t_in SELECT i, i FROM n")).expect("inserts");
    }
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    plain.busy_timeout(Duration::ZERO).expect("a timeout");
    let (mut longest, mut turns) = (Duration::ZERO, 0);
    while one::<i64>(&plain, "SELECT seq FROM densite_applied") < rows {
        // Polls at once, so that one transaction of the worker is measured.
        let begun = Instant::now();
        while let Err(e) = plain.execute_batch("INSERT INTO other VALUES (1)") {
            let code = e.sqlite_error_code();
            assert_eq!(code, Some(rusqlite::ErrorCode::DatabaseBusy), "{e}");
            std::thread::sleep(Duration::from_micros(200));
        }
        longest = longest.max(begun.elapsed());
        turns += 1;
    }
    assert!(turns > 3, "{turns}");
    assert_eq!(wait(&con), rows);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), rows);
    longest
}

/// Rule L4: all other connections run with synchronous=OFF, and one reads an old state. Only rows
/// that the database durably holds are pruned.
#[test]
fn only_checkpointed_rows_are_pruned() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", "");
    con.execute_batch("PRAGMA synchronous = OFF; INSERT INTO t_in VALUES (0, 0)")
        .expect("inserts");
    wait(&con);
    let database_log = database_log(&con);
    let reader = rusqlite::Connection::open(db.path()).expect("opens");
    reader
        .execute_batch("BEGIN; SELECT * FROM t")
        .expect("reads");
    // Two segments of text that does not compress.
    let fill = |from: i64| {
        for i in 0..10 {
            con.execute_batch(&format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO t_in SELECT {from} + {i} * 1000 + i, randomblob(8000) FROM n"
            ))
            .expect("inserts");
        }
    };
    fill(1);
    wait(&con);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(
        database_log.log().status().expect("a status").first,
        1,
        "the reader keeps the checkpoint from completing"
    );
    reader.execute_batch("COMMIT").expect("commits");
    fill(20_001);
    wait(&con);
    let until = Instant::now() + Duration::from_secs(20);
    while database_log.log().status().expect("a status").first == 1 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = database_log.log().status().expect("a status");
    assert!(status.first > 1, "{status:?}");
    assert!(status.segments <= 2, "{status:?}");
    // The WAL is bounded by the worker's checkpoints.
    let wal = db.wal_len();
    assert!(wal < 200 << 20, "{wal}");
}

#[test]
fn writers_wait_when_too_much_is_unapplied() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", "");
    let hasty = db.ingest("t", ", on_full=error");
    wait(&con);
    database_log(&con)
        .log()
        .set_config(|c| c.max_unapplied_bytes = 100_000)
        .expect("set");
    let held = Held::new(&db);
    con.execute_batch("INSERT INTO t_in VALUES (1, randomblob(200000))")
        .expect("inserts");
    std::thread::sleep(Duration::from_millis(50));
    let said = refusal(&hasty, "INSERT INTO t_in VALUES (2, 2)");
    assert!(said.contains("max_unapplied_bytes is 100000"), "{said}");
    let writer = std::thread::spawn(move || {
        con.execute_batch("INSERT INTO t_in VALUES (4, 4)")
            .expect("inserts");
        con
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(!writer.is_finished(), "it waits");
    drop(held);
    let con = writer.join().expect("no panic");
    wait(&con);
    assert_eq!(all(&con, "SELECT id FROM t"), ["1", "4"]);
}

/// Rule L1: rows that are rolled back after xSync are neither applied nor read.
#[test]
fn a_commit_refused_by_a_hook_leaves_no_rows() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let mut con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    con.commit_hook(Some(|| true)).expect("a hook");
    con.execute_batch("INSERT INTO t_in VALUES (2)")
        .expect_err("refused");
    con.commit_hook(None::<fn() -> bool>).expect("no hook");
    assert_eq!(all(&con, "SELECT * FROM t_in"), ["1"]);
    con.execute_batch("INSERT INTO t_in VALUES (3)")
        .expect("inserts");
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM t"), ["1", "3"]);
    // The rows had numbers, which are not used again.
    assert_eq!(one::<i64>(&con, "SELECT densite_last_seq()"), 3);
}

#[test]
fn an_older_backup_is_refused_unless_the_log_reaches_back() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", ", on_conflict=replace");
    con.execute_batch("INSERT INTO t_in VALUES (1, 1)")
        .expect("inserts");
    wait(&con);
    con.execute_batch(&format!(
        "VACUUM INTO '{}'",
        db.path().with_extension("old").display()
    ))
    .expect("a backup");
    con.execute_batch("INSERT INTO t_in VALUES (2, 2)")
        .expect("inserts");
    wait(&con);
    drop(con);
    let restore = || {
        for suffix in ["db-wal", "db-shm"] {
            std::fs::remove_file(db.path().with_extension(suffix)).ok();
        }
        std::fs::copy(db.path().with_extension("old"), db.path()).expect("restores");
    };
    restore();
    let con = db.ingest("t", ", on_conflict=replace");
    wait(&con);
    assert_eq!(
        all(&con, "SELECT * FROM t"),
        ["1|1", "2|2"],
        "the log still has what the backup lacks"
    );
    for i in 0..20 {
        con.execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO t_in SELECT {i} * 1000 + i, randomblob(8000) FROM n"
        ))
        .expect("inserts");
    }
    wait(&con);
    let database_log = database_log(&con);
    let until = Instant::now() + Duration::from_secs(20);
    while database_log.log().status().expect("a status").first == 1 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    drop((database_log, con));
    restore();
    let said = create(&db.open(), "t", "")
        .expect_err("too old")
        .to_string();
    assert!(said.contains("restored from an older backup"), "{said}");
}

/// The worker of another connection continues when the applying one is gone. A rollback journal
/// works as well as a WAL.
#[test]
fn rows_are_applied_in_rollback_mode_and_after_a_takeover() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    rusqlite::Connection::open(db.path())
        .expect("opens")
        .execute_batch("PRAGMA journal_mode = DELETE")
        .expect("the mode");
    for i in 0..5 {
        let con = db.ingest("t", "");
        con.execute_batch(&format!("INSERT INTO t_in VALUES ({i})"))
            .expect("inserts");
        if i % 2 == 0 {
            wait(&con);
        }
    }
    let con = db.ingest("t", "");
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM t"), ["0", "1", "2", "3", "4"]);
    assert_eq!(one::<String>(&con, "PRAGMA journal_mode"), "delete");
    // An idle worker does not block a change of the journal mode.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(one::<String>(&con, "PRAGMA journal_mode = WAL"), "wal");
    assert_eq!(
        one::<String>(&con, "PRAGMA journal_mode = DELETE"),
        "delete"
    );
}

/// Another database is copied over this one, page by page, while it is open. Its position belongs
/// to another log.
#[test]
fn a_database_gets_only_rows_of_the_log_that_it_names() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    wait(&con);
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    plain
        .busy_timeout(Duration::from_secs(10))
        .expect("a timeout");
    let id: Vec<u8> = one(&plain, "SELECT log FROM densite_applied");
    plain
        .execute_batch("UPDATE densite_applied SET log = zeroblob(16)")
        .expect("another id");
    con.execute_batch("INSERT INTO t_in VALUES (2)")
        .expect("inserts");
    let said = refusal(&con, "SELECT densite_wait()");
    assert!(said.contains("another"), "{said}");
    assert_eq!(
        all(&plain, "SELECT seq, count(*) FROM densite_applied, t"),
        ["1|1"]
    );
    plain
        .execute("UPDATE densite_applied SET log = ?1", [id])
        .expect("the id");
    let begun = Instant::now();
    while con
        .query_row("SELECT densite_wait()", [], |_| Ok(()))
        .is_err()
    {
        // The reported error can be older than the id.
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(all(&plain, "SELECT id FROM t"), ["1", "2"]);
}

/// Dropping the table of rejects removes the rejects so far.
#[test]
fn the_table_of_rejects_is_made_again() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1, 1), (1, 2)")
        .expect("inserts");
    wait(&con);
    con.execute_batch("DROP TABLE densite_rejects; INSERT INTO t_in VALUES (1, 3), (2, 4), (2, 5)")
        .expect("inserts");
    wait(&con);
    assert_eq!(all(&con, "SELECT seq FROM densite_rejects"), ["3", "5"]);
    assert_eq!(all(&con, "SELECT * FROM t"), ["1|1", "2|4"]);
}
