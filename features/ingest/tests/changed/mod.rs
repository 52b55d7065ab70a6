//! `densite_changes`: what tables became.

mod copy;
mod histories;
mod retained;
mod waiting;

use crate::common::{Db, all, one, refusal, wait};
use densite_testing::Stop;
use rusqlite::Connection;
use std::time::Duration;

const SCHEMA: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, a INT UNIQUE, b TEXT)";
/// All columns of the next changes of the subscriber `s`.
const NEXT: &str = "SELECT * FROM densite_changes('s')";

/// Records the table t for the subscriber `s`.
fn recorded(schema: &str) -> (Db, Connection) {
    let db = Db::new(schema);
    let con = db.open();
    let on = "SELECT densite_config('changes', 't', 'on')";
    assert_eq!(one::<String>(&con, on), "on");
    let at = "SELECT densite_changes_subscribe('s')";
    assert_eq!(one::<i64>(&con, at), 0);
    (db, con)
}

fn run(con: &Connection, sql: &str) {
    con.execute_batch(sql)
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
}

#[test]
fn every_changed_row_comes_in_order_with_both_its_states() {
    let (_db, con) = recorded(SCHEMA);
    run(&con, "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, NULL)");
    run(&con, "UPDATE t SET b = x'00ff', id = 7 WHERE id = 2");
    // REPLACE deletes two rows, which no trigger sees.
    run(&con, "INSERT OR REPLACE INTO t VALUES (1, 20, 1.5)");
    run(&con, "DELETE FROM t");
    let expected = [
        r#"1|t|insert|{"id":1}|NULL|{"id":1,"a":10,"b":"x"}|0"#,
        r#"2|t|insert|{"id":2}|NULL|{"id":2,"a":20,"b":null}|1"#,
        r#"3|t|update|{"id":2}|{"id":2,"a":20,"b":null}|{"id":7,"a":20,"b":{"hex":"00FF"}}|1"#,
        r#"4|t|delete|{"id":1}|{"id":1,"a":10,"b":"x"}|NULL|0"#,
        r#"5|t|delete|{"id":7}|{"id":7,"a":20,"b":{"hex":"00FF"}}|NULL|0"#,
        r#"6|t|insert|{"id":1}|NULL|{"id":1,"a":20,"b":"1.5"}|1"#,
        r#"7|t|delete|{"id":1}|{"id":1,"a":20,"b":"1.5"}|NULL|1"#,
    ];
    let mut found = all(&con, NEXT);
    // REPLACE deletes the two in an order of its own.
    found[3..5].sort_by_key(|line| line.contains("{\"id\":7}"));
    let renumbered = |line: &String| line.split_once('|').map(|(_, rest)| rest.to_owned());
    assert_eq!(
        found.iter().map(renumbered).collect::<Vec<_>>(),
        expected.map(|line| renumbered(&line.to_owned()))
    );
    // Again until they are acknowledged, and from the middle of a transaction.
    assert_eq!(one::<i64>(&con, "SELECT densite_changes_ack('s', 1)"), 1);
    let two = all(&con, "SELECT seq FROM densite_changes('s', 2)");
    assert_eq!(two, ["2", "3"]);
    assert_eq!(one::<i64>(&con, "SELECT densite_changes_ack('s', 7)"), 7);
    assert_eq!(all(&con, NEXT), [""; 0]);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_changed"), 0);
    // A number is not used again.
    run(&con, "INSERT INTO t VALUES (1, 1, 1)");
    assert_eq!(all(&con, "SELECT seq FROM densite_changes('s')"), ["8"]);
    one::<Option<i64>>(&con, "SELECT densite_changes_unsubscribe('s')");
    run(&con, "INSERT INTO t VALUES (2, 2, 2)");
    let again = "SELECT densite_changes_subscribe('s', 'start')";
    assert_eq!(one::<i64>(&con, again), 8);
    assert_eq!(all(&con, NEXT), [""; 0]);
}

#[test]
fn what_is_rolled_back_is_not_reported() {
    let (_db, con) = recorded(SCHEMA);
    run(&con, "BEGIN; INSERT INTO t VALUES (1, 1, 1); ROLLBACK");
    run(
        &con,
        "BEGIN; INSERT INTO t VALUES (1, 1, 1); SAVEPOINT a; INSERT INTO t VALUES (2, 2, 2);
         SAVEPOINT b; UPDATE t SET b = 'b'; ROLLBACK TO b; RELEASE b; DELETE FROM t WHERE id = 1;
         ROLLBACK TO a; INSERT INTO t VALUES (3, 3, 3); RELEASE a",
    );
    // A statement that fails in the middle is undone; with OR FAIL it is not.
    refusal(&con, "INSERT INTO t VALUES (4, 4, 4), (5, 1, 5)");
    refusal(&con, "INSERT OR FAIL INTO t VALUES (6, 6, 6), (7, 1, 7)");
    run(&con, "COMMIT");
    refusal(&con, "INSERT INTO t VALUES (8, 8, 8), (9, 1, 9)");
    refusal(&con, "INSERT OR FAIL INTO t VALUES (10, 10, 10), (9, 1, 9)");
    let ids = "SELECT group_concat(json_extract(new, '$.id')) FROM densite_changes('s')";
    assert_eq!(one::<String>(&con, ids), "1,3,6,10");
    assert_eq!(
        one::<String>(&con, "SELECT group_concat(id) FROM t"),
        "1,3,6,10"
    );
}

/// A transaction is committed with its changes, or not at all, however COMMIT goes.
#[test]
fn a_commit_that_is_busy_is_repeated() {
    let (db, con) = recorded(SCHEMA);
    run(&con, "PRAGMA journal_mode = DELETE");
    con.busy_timeout(std::time::Duration::ZERO).expect("none");
    let reader = db.open();
    run(&reader, "BEGIN");
    assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t"), 0);
    run(&con, "BEGIN; INSERT INTO t VALUES (1, 1, 1)");
    refusal(&con, "COMMIT");
    // They are no changes before they are committed.
    assert_eq!(all(&con, NEXT), [""; 0]);
    let says = refusal(&con, "SELECT densite_changes_ack('s', 1)");
    assert!(says.contains("change 1 does not exist"), "{says}");
    run(&con, "INSERT INTO t VALUES (2, 2, 2)");
    refusal(&con, "COMMIT");
    run(&reader, "COMMIT");
    run(&con, "COMMIT");
    let found = all(&con, "SELECT seq, key FROM densite_changes('s')");
    assert_eq!(found, [r#"1|{"id":1}"#, r#"2|{"id":2}"#]);
    // A savepoint from before the busy COMMIT takes back what that stored, and not more.
    run(&reader, "BEGIN");
    assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t"), 2);
    run(
        &con,
        "BEGIN; INSERT INTO t VALUES (3, 3, 3); SAVEPOINT x; INSERT INTO t VALUES (4, 4, 4)",
    );
    refusal(&con, "COMMIT");
    run(&con, "ROLLBACK TO x");
    refusal(&con, "COMMIT");
    run(&con, "INSERT INTO t VALUES (5, 5, 5)");
    run(&reader, "COMMIT");
    run(&con, "COMMIT");
    let keys = "SELECT group_concat(seq || key) FROM densite_changes('s') WHERE seq > 2";
    assert_eq!(one::<String>(&con, keys), r#"3{"id":3},4{"id":5}"#);
    // All of it is taken back.
    run(&reader, "BEGIN");
    assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t"), 4);
    run(&con, "BEGIN; SAVEPOINT x; INSERT INTO t VALUES (6, 6, 6)");
    refusal(&con, "COMMIT");
    run(&con, "ROLLBACK TO x");
    run(&reader, "COMMIT");
    run(&con, "COMMIT");
    assert_eq!(
        one::<i64>(&con, "SELECT max(seq) FROM densite_changes('s')"),
        4
    );
}

/// Otherwise changes before the subscription would be missing, or come although the copy has them.
#[test]
fn a_subscription_begins_before_the_changes_of_its_transaction() {
    let (_db, con) = recorded(SCHEMA);
    for sql in [
        "INSERT INTO t VALUES (1, 1, 1)",
        "DELETE FROM t WHERE id = 9",
    ] {
        run(&con, &format!("BEGIN; {sql}"));
        let says = refusal(&con, "SELECT densite_changes_subscribe('n')");
        assert!(says.contains("subscribe at its beginning"), "{says}");
        run(&con, "ROLLBACK");
    }
    run(
        &con,
        "BEGIN; SELECT densite_changes_subscribe('n'); INSERT INTO t VALUES (1, 1, 1); COMMIT",
    );
    assert_eq!(all(&con, "SELECT seq FROM densite_changes('n')"), ["1"]);
}

/// SQLite stores a REAL without a fraction as an integer. Before 3.47, its hook reports that.
#[test]
fn a_real_is_a_real() {
    let (_db, con) = recorded("CREATE TABLE t(id REAL PRIMARY KEY, a DOUBLE, b NUMERIC)");
    run(&con, "INSERT INTO t VALUES (1, 2, 3.0); UPDATE t SET b = 4");
    let sides = "SELECT old || key || new FROM densite_changes('s') WHERE op = 'update'";
    let expected = r#"{"id":1.0,"a":2.0,"b":3}{"id":1.0}{"id":1.0,"a":2.0,"b":4}"#;
    assert_eq!(one::<String>(&con, sides), expected);
    let new = "SELECT new FROM densite_changes('s') WHERE op = 'insert'";
    assert_eq!(one::<String>(&con, new), r#"{"id":1.0,"a":2.0,"b":3}"#);
}

#[test]
fn rows_of_ingest_are_reported_when_they_are_applied() {
    let (db, con) =
        recorded("CREATE TABLE t(id INTEGER PRIMARY KEY, a INT UNIQUE, b TEXT CHECK (b <> 'no'))");
    drop(con);
    let con = db.ingest("t", ", on_conflict='update(b = b || excluded.b)'");
    run(&con, "INSERT INTO t_in VALUES (1, 1, 'x'), (2, 2, 'no')");
    run(&con, "INSERT INTO t_in VALUES (1, 1, 'y')");
    run(&con, "DELETE FROM t_in WHERE id = 1");
    wait(&con);
    let ops = "SELECT op, new FROM densite_changes('s')";
    let expected = [
        r#"insert|{"id":1,"a":1,"b":"x"}"#,
        r#"update|{"id":1,"a":1,"b":"xy"}"#,
        "delete|NULL",
    ];
    assert_eq!(all(&con, ops), expected);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_rejects"), 1);
}

/// A program can set it at every start, beside others that write.
#[test]
fn setting_it_again_misses_no_row() {
    // Each of the two keeps the other from the lock for a long time on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);
    let (db, con) = recorded(SCHEMA);
    con.busy_timeout(PATIENCE).expect("set");
    let stop = Stop::new();
    std::thread::scope(|scope| {
        let _stopping = stop.at_end();
        scope.spawn(|| {
            let other = db.open();
            other.busy_timeout(PATIENCE).expect("set");
            while !stop.is_set() {
                run(&other, "SELECT densite_config('changes', 't', 'on')");
                // It is off for no moment that others see.
                run(
                    &other,
                    "BEGIN IMMEDIATE; SELECT densite_config('changes', 't', 'off'); SELECT densite_config('changes', 't', 'on'); COMMIT",
                );
            }
        });
        for id in 0..1000 {
            run(&con, &format!("INSERT INTO t VALUES ({id}, {id}, 1)"));
        }
    });
    let count = "SELECT count(*) FROM densite_changes('s', 10000)";
    assert_eq!(one::<i64>(&con, count), 1000);
}

/// The triggers do not change how rows are applied.
#[test]
fn the_recording_of_a_table_can_be_read_and_ended() {
    let (_db, con) = recorded(SCHEMA);
    let is_on = |table: &str| -> String {
        one(
            &con,
            &format!("SELECT densite_config('changes', '{table}')"),
        )
    };
    assert_eq!(is_on("T"), "on");
    run(&con, "ALTER TABLE t RENAME TO u; CREATE TABLE t(x)");
    assert_eq!((is_on("t"), is_on("u")), ("off".into(), "on".into()));
    run(
        &con,
        "INSERT INTO u VALUES (1, 1, 1); INSERT INTO t VALUES (1)",
    );
    one::<String>(&con, "SELECT densite_config('changes', 't', 'on')");
    run(&con, "INSERT INTO t VALUES (2)");
    one::<String>(&con, "SELECT densite_config('changes', 'u', NULL)");
    run(&con, "DELETE FROM u");
    let found = all(&con, "SELECT \"table\", op, key FROM densite_changes('s')");
    assert_eq!(found, [r#"u|insert|{"id":1}"#, r#"t|insert|{"x":2}"#]);
    let triggers = "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'";
    assert_eq!(one::<i64>(&con, triggers), 3);
}

#[test]
fn nothing_is_written_past_the_recorder() {
    let (db, con) = recorded(SCHEMA);
    run(&con, "INSERT INTO t VALUES (1, 1, zeroblob(10))");
    let plain = Connection::open(db.path()).expect("opens");
    let says = refusal(&plain, "DELETE FROM t");
    assert!(
        says.contains("no such table: main.densite_recorder"),
        "{says}"
    );
    // Attached, the rows would have to go to another database.
    let other = Db::new("CREATE TABLE x(y)");
    let attached = other.open();
    run(&attached, &format!("ATTACH '{}' AS a", db.path().display()));
    let says = refusal(&attached, "UPDATE a.t SET b = 1");
    assert!(says.contains("a.t are recorded"), "{says}");
    let says = refusal(
        &attached,
        "BEGIN; INSERT INTO x VALUES (1); DELETE FROM a.t; COMMIT",
    );
    assert!(says.contains("a.t are recorded"), "{says}");
    // Without a subscriber nothing is stored, also beside an attached database.
    let unread = Db::new(SCHEMA);
    let both = unread.open();
    one::<String>(&both, "SELECT densite_config('changes', 't', 'on')");
    run(&both, "ATTACH ':memory:' AS m; CREATE TABLE m.x(y)");
    run(
        &both,
        "BEGIN; INSERT INTO t VALUES (1, 1, 1); INSERT INTO m.x VALUES (1); COMMIT",
    );
    assert_eq!(one::<i64>(&both, "SELECT count(*) FROM densite_changed"), 0);
    // A schema changes beside rows.
    let says = refusal(
        &con,
        "BEGIN; DELETE FROM t; ALTER TABLE t ADD COLUMN c; COMMIT",
    );
    assert!(says.contains("use two transactions"), "{says}");
    assert!(con.is_autocommit());
    run(
        &con,
        "BEGIN; UPDATE t SET a = 2; CREATE TABLE y(z); CREATE INDEX i ON t(b); COMMIT",
    );
    run(
        &con,
        "ALTER TABLE t ADD COLUMN c DEFAULT 5; UPDATE t SET a = 3",
    );
    let found = all(
        &con,
        "SELECT json_extract(new, '$.a', '$.c') FROM densite_changes('s')",
    );
    assert_eq!(found, ["[1,null]", "[2,null]", "[3,5]"]);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 1);
    for (sql, reason) in [
        (
            "SELECT densite_config('changes', 'densite_changed', 'on')",
            "Densite's own",
        ),
        (
            "SELECT densite_config('changes', 'nothing', 'on')",
            "there is no table nothing",
        ),
        (
            "SELECT densite_config('changes', 't', 'yes')",
            "'on' or 'off'",
        ),
        (
            "SELECT densite_changes_ack('s', 99)",
            "change 99 does not exist",
        ),
        (
            "SELECT * FROM densite_changes('other')",
            "there is no subscriber \"other\"",
        ),
        ("SELECT densite_changes_subscribe('')", "wants a name"),
        (
            "INSERT INTO densite_recorder VALUES (1)",
            "is for the triggers",
        ),
        (
            "CREATE VIRTUAL TABLE f USING fts5(x); SELECT densite_config('changes', 'f_content', 'on')",
            "part of a virtual table",
        ),
        (
            "CREATE TABLE g(a, b AS (a + 1), c); SELECT densite_config('changes', 'g', 'on')",
            "b is VIRTUAL and comes before the column c",
        ),
    ] {
        let says = refusal(&con, sql);
        assert!(says.contains(reason), "{sql}: {says}");
    }
}

/// SQLite lets only one hook be registered. A session takes it.
#[test]
fn a_hook_of_the_application_is_found() {
    let (_db, con) = recorded(SCHEMA);
    run(&con, "BEGIN; INSERT INTO t VALUES (1, 1, 1)");
    unsafe extern "C" fn theirs(
        _: *mut std::ffi::c_void,
        _: *mut rusqlite::ffi::sqlite3,
        _: i32,
        _: *const std::ffi::c_char,
        _: *const std::ffi::c_char,
        _: i64,
        _: i64,
    ) {
    }
    let mut own = 0;
    // SAFETY: an open connection; the hook ignores its pointer.
    unsafe {
        let pointer = (&raw mut own).cast();
        rusqlite::ffi::sqlite3_preupdate_hook(con.handle(), Some(theirs), pointer);
    }
    let says = refusal(&con, "INSERT INTO t VALUES (2, 2, 2); COMMIT");
    assert!(says.contains("another preupdate hook"), "{says}");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 0);
    // It is gone now.
    run(&con, "INSERT INTO t VALUES (2, 2, 2)");
    assert_eq!(all(&con, NEXT).len(), 1);
}

#[test]
fn a_blob_that_is_written_in_place_is_refused() {
    let (_db, con) = recorded(SCHEMA);
    run(
        &con,
        "INSERT INTO t VALUES (1, 1, 'some'); BEGIN; UPDATE t SET a = 2",
    );
    let mut blob = (con.blob_open("main", "t", "b", 1, false)).expect("a blob");
    std::io::Write::write_all(&mut blob, b"x").expect("writes");
    drop(blob);
    let says = refusal(&con, "COMMIT");
    assert!(says.contains("written in place"), "{says}");
}

/// A large transaction is stored in pieces, and is one transaction for subscribers.
#[test]
fn large_transactions() {
    let (_db, con) = recorded(SCHEMA);
    run(
        &con,
        "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
         INSERT INTO t SELECT i, i, printf('%.200c', 'x') || random() FROM n",
    );
    let pieces: i64 = one(&con, "SELECT count(*) FROM densite_changed");
    assert!(pieces > 3, "{pieces}");
    let all = "SELECT count(*) || ' ' || sum(ends_transaction) || ' ' || max(seq) FROM densite_changes('s', 100000)";
    assert_eq!(one::<String>(&con, all), "30000 1 30000");
    let some = "SELECT min(seq) || ' ' || max(seq) FROM densite_changes('s', 20000)";
    assert_eq!(one::<String>(&con, some), "1 20000");
    one::<i64>(&con, "SELECT densite_changes_ack('s', 29999)");
    let last = "SELECT seq || ' ' || ends_transaction FROM densite_changes('s')";
    assert_eq!(one::<String>(&con, last), "30000 1");
    let pieces: i64 = one(&con, "SELECT count(*) FROM densite_changed");
    assert_eq!(pieces, 1);
}
