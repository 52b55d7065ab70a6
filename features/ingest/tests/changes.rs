//! `changes()` and `total_changes()` are those of plain SQLite, whatever is read through an ingest
//! table. Applications call them after their own statements.

use crate::common::{Db, all, one};

/// The counts after each statement, compared with those of a plain table `twin` with the same rows.
fn same_counts(before: &str, statements: &[&str]) {
    let db = Db::new(
        "CREATE TABLE t(k INTEGER PRIMARY KEY, v); CREATE TABLE twin(k INTEGER PRIMARY KEY, v);
         INSERT INTO t VALUES (1, 'a'), (2, 'b'); INSERT INTO twin SELECT * FROM t;
         CREATE TABLE o(a); CREATE TABLE counted(n); CREATE TABLE w(a);
         CREATE TRIGGER r AFTER INSERT ON w BEGIN
             INSERT INTO o VALUES (new.a), (new.a); INSERT INTO counted SELECT changes();
         END",
    );
    let counts = |reads: &str| {
        // A first connection makes Densite's own tables.
        drop(db.ingest("t", ""));
        let con = db.ingest("t", "");
        con.execute_batch(before).expect("the first statements");
        let mut seen = Vec::new();
        for sql in statements {
            let sql = sql.replace("READ", reads);
            let rows = all(&con, &sql);
            let now: (i64, i64) = (
                one(&con, "SELECT changes()"),
                one(&con, "SELECT total_changes()"),
            );
            seen.push((con.changes(), now, rows));
        }
        if !con.is_autocommit() {
            con.execute_batch("ROLLBACK").expect("the end");
        }
        con.execute_batch("DELETE FROM o; DELETE FROM counted; DELETE FROM w")
            .expect("the end");
        seen
    };
    let (ingest, plain) = (counts("t_in"), counts("twin"));
    assert_eq!(ingest, plain, "{before}: {statements:?}");
    assert!(plain.iter().any(|(changes, ..)| *changes > 0));
}

const READS: [&str; 5] = [
    "SELECT count(*) FROM READ",
    "SELECT v FROM READ WHERE k = 2",
    "SELECT a.v FROM READ a JOIN READ b USING (k) ORDER BY k",
    "SELECT * FROM READ WHERE k > 1",
    "SELECT (SELECT max(k) FROM READ)",
];

#[test]
fn reads_keep_the_counts_in_autocommit_and_in_transactions() {
    for begin in ["", "BEGIN; ", "BEGIN IMMEDIATE; ", "SAVEPOINT s; "] {
        same_counts(
            &format!("{begin}INSERT INTO o VALUES (1), (2), (3)"),
            &READS,
        );
        same_counts(
            &format!("INSERT INTO o VALUES (1), (2); {begin}SELECT 1"),
            &READS,
        );
    }
}

#[test]
fn reads_keep_the_counts_after_returning_and_between_writes() {
    same_counts(
        "BEGIN",
        &[
            "INSERT INTO o VALUES (1), (2) RETURNING a",
            "SELECT count(*) FROM READ",
            "UPDATE o SET a = a + 1 WHERE a = (SELECT min(k) FROM READ) RETURNING a",
            "SELECT count(*) FROM READ",
            "INSERT INTO o SELECT k FROM READ RETURNING a",
            "SELECT * FROM READ",
            "DELETE FROM o WHERE a IN (SELECT k FROM READ)",
            "SELECT * FROM READ",
            "COMMIT",
            "SELECT * FROM READ",
        ],
    );
}

#[test]
fn reads_keep_the_counts_that_a_trigger_sees() {
    for begin in ["SELECT 1", "BEGIN"] {
        same_counts(
            begin,
            &[
                "INSERT INTO w SELECT k FROM READ",
                "SELECT n FROM counted",
                "SELECT count(*) FROM READ",
            ],
        );
    }
    // A temporary trigger reads the table itself.
    same_counts(
        "BEGIN; CREATE TEMP TRIGGER x AFTER INSERT ON o BEGIN INSERT INTO counted SELECT changes() FROM twin WHERE k = 1; END",
        &[
            "INSERT INTO o SELECT k FROM READ",
            "SELECT n FROM counted",
            "SELECT count(*) FROM READ",
        ],
    );
}
