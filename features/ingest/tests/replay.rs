//! `densite_replay_rejects`: rejected rows are applied again after a repair.

use crate::common::{Db, all, one, refusal, wait};

fn replay(con: &rusqlite::Connection) -> i64 {
    one(con, "SELECT densite_replay_rejects()")
}

#[test]
fn rows_are_applied_as_the_log_had_them() {
    let db = Db::new(
        "CREATE TABLE limits(most INT); INSERT INTO limits VALUES (0);
         CREATE TABLE t(k INTEGER PRIMARY KEY, a, r REAL, n INT);
         INSERT INTO t VALUES (7, 'old', 1.5, 1), (8, 'gone', 1, 1);
         CREATE TRIGGER guard BEFORE INSERT ON t WHEN (SELECT most FROM limits) = 0 BEGIN SELECT RAISE(ABORT, 'not yet'); END;
         CREATE TRIGGER guard_update BEFORE UPDATE ON t WHEN (SELECT most FROM limits) = 0 BEGIN SELECT RAISE(ABORT, 'not yet'); END;
         CREATE TRIGGER guard_delete BEFORE DELETE ON t WHEN (SELECT most FROM limits) = 0 BEGIN SELECT RAISE(ABORT, 'not yet'); END",
    );
    let con = db.ingest("t", ", on_conflict='update(n = n + excluded.n, a)'");
    let values = [
        "x'00FF'",
        "CAST(x'61FF41' AS TEXT)",
        "'Infinity'",
        "0.1",
        "-9223372036854775808",
        "NULL",
        "'a\"\n'",
        "1e300 * 1e10",
        "5e-324",
        "123456789.12345679",
    ];
    for (k, value) in values.iter().enumerate() {
        con.execute_batch(&format!(
            "INSERT INTO t_in VALUES ({}, {value}, {value}, 2)",
            100 + k
        ))
        .expect("inserts");
    }
    con.execute_batch(
        "INSERT INTO t_in VALUES (7, 'new', 0, 5); UPDATE t_in SET r = 2.5 WHERE k = 8; DELETE FROM t_in WHERE k = 8",
    )
    .expect("writes");
    wait(&con);
    let rejects = values.len() as i64 + 3;
    assert_eq!(
        one::<i64>(&con, "SELECT count(*) FROM densite_rejects"),
        rejects
    );
    assert_eq!(replay(&con), 0, "the reason is still there");
    assert_eq!(
        one::<i64>(
            &con,
            "SELECT count(*) FROM densite_rejects WHERE error = 'not yet'"
        ),
        rejects
    );
    con.execute_batch("UPDATE limits SET most = 1")
        .expect("repairs");
    assert_eq!(replay(&con), rejects);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_rejects"), 0);
    assert_eq!(all(&con, "SELECT * FROM t WHERE k < 100"), ["7|new|1.5|6"]);
    assert_eq!(
        one::<f64>(&con, "SELECT r FROM t WHERE k = 107"),
        f64::INFINITY
    );
    for (k, value) in values.iter().enumerate() {
        let k = 100 + k;
        let same = format!(
            "SELECT t.a IS s.a AND typeof(t.a) = typeof(s.a) AND t.r IS s.r AND typeof(t.r) = typeof(s.r) AND n = 2
             FROM t, (SELECT a, r FROM same) AS s WHERE k = {k}"
        );
        con.execute_batch(&format!(
            "CREATE TEMP TABLE same(a, r REAL); INSERT INTO same VALUES ({value}, {value})"
        ))
        .expect("the same");
        // As JSON, an infinite number is its name. In a REAL column it is the number again, in one
        // without a type it is text.
        if !["'Infinity'", "1e300 * 1e10"].contains(value) {
            let found = all(&con, &format!("SELECT a, r FROM t WHERE k = {k}"));
            assert_eq!(one::<i64>(&con, &same), 1, "{value}: {found:?}");
        }
        con.execute_batch("DROP TABLE same").expect("drops");
    }
}

#[test]
fn foreign_keys_are_enforced_whatever_the_connection_says() {
    let db = Db::new(
        "CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p)",
    );
    let con = db.ingest("c", "");
    con.execute_batch("PRAGMA foreign_keys = OFF; INSERT INTO c_in VALUES (1, 1), (2, 2)")
        .expect("inserts");
    wait(&con);
    con.execute_batch("INSERT INTO p VALUES (2)")
        .expect("repairs");
    assert_eq!(replay(&con), 1);
    assert_eq!(all(&con, "SELECT * FROM c"), ["2|2"]);
    assert_eq!(
        all(&con, "SELECT seq, error FROM densite_rejects"),
        ["1|FOREIGN KEY constraint failed"]
    );
}

#[test]
fn one_table_alone_and_changed_tables() {
    let db = Db::new(
        "CREATE TABLE a(k INTEGER PRIMARY KEY, n INT CHECK (n < 5)); CREATE TABLE b(k INTEGER PRIMARY KEY, n INT CHECK (n < 5))",
    );
    let con = db.ingest("a", "");
    crate::common::create(&con, "b", "").expect("the ingest table");
    con.execute_batch("INSERT INTO a_in VALUES (1, 7); INSERT INTO b_in VALUES (1, 7)")
        .expect("inserts");
    wait(&con);
    con.execute_batch("DROP TABLE a; CREATE TABLE a(k INTEGER PRIMARY KEY, n INT); DROP TABLE b; CREATE TABLE b(k INTEGER PRIMARY KEY, m INT)")
        .expect("changes");
    assert_eq!(one::<i64>(&con, "SELECT densite_replay_rejects('A')"), 1);
    assert_eq!(replay(&con), 0);
    assert_eq!(
        all(&con, "SELECT error FROM densite_rejects"),
        ["table b has no column n that can be set"]
    );
    let refused = refusal(&con, "SELECT densite_replay_rejects(1)");
    assert!(refused.contains("table's name"), "{refused}");
    let refused = refusal(
        &con,
        "BEGIN; SELECT * FROM a; SELECT densite_replay_rejects()",
    );
    assert!(refused.contains("transaction open"), "{refused}");
}
