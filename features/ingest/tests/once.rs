//! Each row comes once, however SQLite finds it: by the searches of an OR, by outer joins, in
//! statements that change rows.

use crate::common::{Db, Held, all, create, one, refusal, wait};
use rusqlite::Connection;

/// A table, and the content of its log: rows to insert, and changes of existing rows.
const TABLES: [(&str, &str); 4] = [
    (
        "CREATE TABLE t(a INTEGER, b INTEGER, x, PRIMARY KEY(a, b)); INSERT INTO t VALUES (1, 10, 'p'), (1, 11, 'q'), (2, 10, 'r')",
        "INSERT INTO t_in VALUES (1, 12, 's'), (3, 1, 'u'); UPDATE t_in SET x = 'v' WHERE a = 1 AND b = 10",
    ),
    (
        "CREATE TABLE t(a TEXT COLLATE NOCASE, b INTEGER, x, PRIMARY KEY(a, b)) WITHOUT ROWID; INSERT INTO t VALUES ('1', 10, 'p'), ('1', 11, 'q'), ('2', 10, 'r')",
        "INSERT INTO t_in VALUES ('1', 12, 's'), ('3', 1, 'u'); UPDATE t_in SET x = 'v' WHERE a = '1' AND b = 10",
    ),
    // Rows with NULL in the key, in the table and in the log, and equal ones twice.
    (
        "CREATE TABLE t(a INTEGER, b INTEGER, x, PRIMARY KEY(a, b)); INSERT INTO t VALUES (1, NULL, 'p'), (1, NULL, 'p'), (1, 10, 'q'), (NULL, 10, 'r')",
        "INSERT INTO t_in VALUES (1, NULL, 'p'), (1, NULL, 'p'), (NULL, NULL, 's'), (2, 10, 'u')",
    ),
    (
        "CREATE TABLE t(x, rowid, a INTEGER, b INTEGER, _rowid_, PRIMARY KEY(a, b)); INSERT INTO t(a, b, x) VALUES (1, NULL, 'p'), (1, NULL, 'p'), (2, 10, 'q')",
        "INSERT INTO t_in(a, b, x) VALUES (1, NULL, 'p'), (1, 10, 's')",
    ),
];

/// If both sides of an OR are written the same, SQLite searches once.
const CONDITIONS: [&str; 9] = [
    "(a = 1 AND b = 10) OR a = 2 - 1",
    "a = 1 OR (a = 2 - 1 AND b > 5)",
    "a = 1 OR a = 2 AND b = 10",
    "(a = 1 AND b >= 10) OR (a = 2 - 1 AND b < 12)",
    "a = 1 OR (a >= 1 AND a <= 2) OR (a = 2 - 1 AND b = 10)",
    "a IN (1, 2) OR (a = 2 - 1 AND b IN (10, 11))",
    "NOT (a <> 1 AND a <> 2) OR a = 2",
    "(a, b) IN (SELECT a, b FROM $) OR a = 1",
    "a = (SELECT min(a) FROM $) OR (a = 1 AND b = 10)",
];

fn answers(con: &Connection, table: &str) -> Vec<(String, Vec<String>)> {
    let mut answers = Vec::new();
    for condition in CONDITIONS {
        for question in [
            "SELECT a, b, x FROM $ WHERE #",
            "SELECT count(*) FROM $ WHERE #",
            "SELECT DISTINCT a FROM $ WHERE #",
            "SELECT l.a, l.b, r.b FROM $ l JOIN $ r ON r.a = l.a AND r.b = l.b OR r.a = l.a",
            "SELECT l.a, l.b, r.b FROM $ l FULL JOIN (SELECT 1 AS a, 10 AS b) r ON r.a = l.a AND r.b = l.b",
            "SELECT l.a, r.a, r.b FROM (SELECT 1 AS a UNION ALL SELECT 1 UNION ALL SELECT 9) l RIGHT JOIN $ r ON r.a = l.a",
            "SELECT a, b FROM $ UNION SELECT a, b FROM $ WHERE #",
        ] {
            let sql = question.replace('#', condition).replace('$', table);
            let mut rows = all(con, &sql);
            rows.sort_unstable();
            answers.push((sql.replace("t_in", "t"), rows));
        }
    }
    answers
}

#[test]
fn a_row_found_by_several_searches_is_returned_once() {
    let plan = Db::new(TABLES[0].0).ingest("t", "");
    let plan = all(
        &plan,
        &format!(
            "EXPLAIN QUERY PLAN SELECT * FROM t_in WHERE {}",
            CONDITIONS[0]
        ),
    );
    assert!(
        plan.iter().any(|step| step.ends_with("MULTI-INDEX OR")),
        "{plan:?}"
    );
    for (schema, writes) in TABLES {
        let db = Db::new(schema);
        let con = db.ingest("t", "");
        let held = Held::new(&db);
        con.execute_batch(writes).expect("writes");
        let waiting = answers(&con, "t_in");
        con.execute_batch("BEGIN; INSERT INTO t_in(a, b, x) VALUES (1, 77, 'own'), (1, NULL, 'own'), (1, NULL, 'own')").ok();
        let own = answers(&con, "t_in");
        con.execute_batch("COMMIT").expect("commits");
        drop(held);
        wait(&con);
        assert_eq!(own, answers(&con, "t"), "{schema}");
        assert_eq!(own, answers(&con, "t_in"), "{schema}");
        con.execute_batch("DELETE FROM t WHERE x = 'own'")
            .expect("goes");
        assert_eq!(waiting, answers(&con, "t"), "{schema}");
    }
}

/// A statement that finds a row twice changes and counts it once.
#[test]
fn a_row_is_changed_once() {
    for (schema, writes) in &TABLES[..2] {
        for condition in &CONDITIONS[..7] {
            let db = Db::new(schema);
            let con = db.ingest("t", "");
            let held = Held::new(&db);
            con.execute_batch(writes).expect("writes");
            let wanted: i64 = one(
                &con,
                &format!(
                    "SELECT sum((SELECT count(*) FROM t_in i WHERE i.a = o.a AND i.b = o.b AND ({condition}))) FROM t_in o"
                ),
            );
            let last = || one::<Option<i64>>(&con, "SELECT densite_last_seq()").unwrap_or(0);
            for sql in ["UPDATE t_in SET x = x || '!'", "DELETE FROM t_in"] {
                let before = last();
                let sql = format!("{sql} WHERE {condition}");
                assert_eq!(con.execute(&sql, []), Ok(wanted as usize), "{sql}");
                assert_eq!(last() - before, wanted, "{sql}");
            }
            drop(held);
            wait(&con);
            assert_eq!(
                one::<i64>(&con, &format!("SELECT count(*) FROM t WHERE {condition}")),
                0
            );
        }
    }
}

/// Rows without an id have a temporary one until they are applied, which no other row has.
#[test]
fn rows_without_an_id_have_different_temporary_ids() {
    let db = Db::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (-5, 'a'), (7, 'b')",
    );
    let con = db.ingest("t", "");
    let held = Held::new(&db);
    con.execute_batch("INSERT INTO t_in(v) VALUES ('c'), ('c')")
        .expect("inserts");
    let ids = "SELECT count(*), count(DISTINCT rowid), count(id) FROM t_in WHERE id < 9 OR id IS NULL OR v = 'c'";
    assert_eq!(all(&con, ids), ["4|4|2"]);
    con.execute_batch("BEGIN; INSERT INTO t_in(v) VALUES ('own'), ('own')")
        .expect("inserts");
    assert_eq!(all(&con, ids), ["6|6|2"]);
    let first = "SELECT min(rowid) FROM t_in WHERE v = 'c'";
    let id: i64 = one(&con, first);
    con.execute_batch("UPDATE t_in SET v = 'A' WHERE id = -5; ROLLBACK")
        .expect("an update");
    assert_eq!(one::<i64>(&con, first), id);
    // A row with such an id as its key.
    con.execute("INSERT INTO t_in VALUES (?1, 'd')", [id])
        .expect("inserts");
    for sql in [
        "SELECT rowid FROM t_in",
        "DELETE FROM t_in WHERE v IN ('c', 'd')",
    ] {
        let said = con.prepare(sql).and_then(|mut s| {
            let mut rows = s.query([])?;
            while rows.next()?.is_some() {}
            Ok(())
        });
        let said = said.expect_err(sql).to_string();
        assert!(said.contains("densite_wait()"), "{said}");
    }
    drop(held);
    wait(&con);
    assert_eq!(
        all(&con, "SELECT v FROM t_in ORDER BY id"),
        ["d", "a", "b", "c", "c"]
    );
    con.execute_batch("DELETE FROM t_in WHERE v IN ('a', 'd')")
        .expect("goes");
    wait(&con);
    assert_eq!(all(&con, "SELECT v FROM t"), ["b", "c", "c"]);
}

/// If columns hide all names of the row id, rows without a key have no identity: that is an error
/// and not a wrong answer.
#[test]
fn rows_without_an_identity_are_an_error() {
    let db = Db::new(
        "CREATE TABLE t(a INTEGER, b INTEGER, rowid, _rowid_, oid, PRIMARY KEY(a, b)); INSERT INTO t(a, b) VALUES (1, NULL), (1, NULL), (2, 2)",
    );
    let con = db.ingest("t", "");
    assert_eq!(all(&con, "SELECT a FROM t_in WHERE a = 1"), ["1", "1"]);
    let said = refusal(&con, "DELETE FROM t_in WHERE a = 1");
    assert!(said.contains("rename one of rowid"), "{said}");
    con.execute_batch("DELETE FROM t_in WHERE a = 2")
        .expect("has a key");
    wait(&con);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 2);
}

/// The hidden column has another name if the table has a column with its usual name.
#[test]
fn a_column_named_like_the_hidden_one_is_a_column() {
    let db = Db::new("CREATE TABLE t(k TEXT PRIMARY KEY, densite_row)");
    let con = db.ingest("t", "");
    create(&con, "t", "").expect_err("is there already");
    con.execute_batch("INSERT INTO t_in VALUES ('a', 1), ('b', 2); UPDATE t_in SET densite_row = 3 WHERE k = 'a'; DELETE FROM t_in WHERE densite_row = 2")
        .expect("writes");
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM t_in"), ["a|3"]);
}
