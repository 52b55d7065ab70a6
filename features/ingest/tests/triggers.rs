//! Tables with triggers: their own clauses count, as if the table had been written directly.

use crate::common::{self, Db, all, wait};

/// SQLite applies the conflict clause of a statement to the statements of its triggers. So the
/// worker's statements have none, unless the declaration has one that must not count.
#[test]
fn statements_of_triggers_keep_their_conflict_clauses() {
    let count = "CREATE TABLE counts(v PRIMARY KEY, n DEFAULT 0); CREATE TABLE last(v UNIQUE ON CONFLICT REPLACE, k);
         CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT OR IGNORE INTO counts(v) VALUES (new.v); UPDATE counts SET n = n + 1 WHERE v = new.v; INSERT INTO last VALUES (new.v, new.k); END;
         CREATE TRIGGER b AFTER UPDATE ON t BEGIN INSERT OR IGNORE INTO counts(v) VALUES (new.v); INSERT INTO last VALUES (new.v, new.k); END;";
    for policy in ["abort", "ignore", "'update(w)'"] {
        let db = Db::new(&format!("CREATE TABLE t(k PRIMARY KEY, v, w); {count}"));
        let con = db.ingest("t", &format!(", on_conflict={policy}"));
        con.execute_batch(
            "INSERT INTO t_in VALUES (1, 'a', 0), (2, 'a', 0), (3, 'b', 0); UPDATE t_in SET v = 'b' WHERE k = 1",
        )
        .expect("writes");
        wait(&con);
        assert_eq!(
            all(&con, "SELECT error FROM densite_rejects"),
            [""; 0],
            "{policy}"
        );
        assert_eq!(
            all(&con, "SELECT v, n FROM counts"),
            ["a|2", "b|1"],
            "{policy}"
        );
        assert_eq!(
            all(&con, "SELECT v, k FROM last ORDER BY v"),
            ["a|2", "b|1"],
            "{policy}"
        );
    }
}

/// An UPDATE that a trigger ignores does not mean that the row is missing.
#[test]
fn updates_ignored_by_a_trigger_are_not_rejected() {
    let db = Db::new(
        "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, v); INSERT INTO t VALUES ('a', 1), ('b', 1);
         CREATE TRIGGER x BEFORE UPDATE ON t WHEN new.v = 7 BEGIN SELECT RAISE(IGNORE); END",
    );
    let con = db.ingest("t", "");
    con.execute_batch(
        "UPDATE t_in SET v = 7 WHERE k = 'A'; UPDATE t_in SET v = 8 WHERE k = 'B'; BEGIN; UPDATE t_in SET v = 9 WHERE k = 'b'; COMMIT",
    )
    .expect("updates");
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM t"), ["a|1", "b|9"]);
    assert_eq!(all(&con, "SELECT error FROM densite_rejects"), [""; 0]);
    // An update of a row that is gone is rejected.
    let held = common::Held::new(&db);
    con.execute_batch("UPDATE t_in SET v = 7 WHERE k = 'a'; UPDATE t_in SET v = 7 WHERE k = 'b'")
        .expect("an update");
    drop(held);
    wait(&con);
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    plain
        .execute_batch("BEGIN IMMEDIATE; DELETE FROM t WHERE k = 'a'")
        .expect("deletes");
    con.execute_batch("UPDATE t_in SET v = 7 WHERE k = 'a'")
        .expect("an update");
    plain.execute_batch("COMMIT").expect("commits");
    wait(&con);
    assert_eq!(
        all(&con, "SELECT error FROM densite_rejects"),
        ["there is no row with this key to update"]
    );
}
