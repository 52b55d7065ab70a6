//! Unusual primary keys: how rows are read and applied by them.

use crate::common::{Db, Held, all, create, refusal, wait};

/// A row with NULL in its key conflicts with nothing, but keeps its place in the order.
#[test]
fn null_in_a_key_is_read_in_key_order() {
    let db = Db::new(
        "CREATE TABLE t(a, b, v, PRIMARY KEY(a, b)); INSERT INTO t VALUES (0, 1, 1), (0, NULL, 2), (1, NULL, 3), (1, 1, 4), (2, 0, 5)",
    );
    let con = db.ingest("t", "");
    let held = Held::new(&db);
    con.execute_batch(
        "INSERT INTO t_in VALUES (1, NULL, 6); INSERT INTO t_in VALUES (1, NULL, 7); INSERT INTO t_in VALUES (1, 5, 8); INSERT INTO t_in VALUES (NULL, 3, 9)",
    )
    .expect("inserts");
    let questions = [
        "SELECT a, b FROM t ORDER BY a, b",
        "SELECT a, count(*) FROM t GROUP BY a",
        "SELECT DISTINCT a FROM t",
        "SELECT a, b FROM t WHERE a = 1 ORDER BY a, b",
    ];
    let seen = questions.map(|sql| all(&con, &sql.replace("FROM t", "FROM t_in")));
    drop(held);
    wait(&con);
    for (sql, seen) in questions.iter().zip(seen) {
        assert_eq!(seen, all(&con, sql), "{sql}");
    }
}

/// If a column of the key is renamed to another spelling, readers and the worker treat it as the
/// same column.
#[test]
fn another_spelling_of_a_key_is_the_same_key() {
    let db = Db::new("CREATE TABLE t(k PRIMARY KEY, v); INSERT INTO t VALUES (0, 0)");
    let con = db.ingest("t", ", on_conflict=replace");
    wait(&con);
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    plain
        .execute_batch("ALTER TABLE t RENAME COLUMN k TO K; BEGIN IMMEDIATE")
        .expect("another spelling, and the lock");
    // This connection has read nothing since.
    con.execute_batch("INSERT INTO t_in VALUES (1, 'old'), (2, 'old')")
        .expect("inserts");
    let other = db.ingest("t", ", on_conflict=replace");
    assert_eq!(
        all(&other, "SELECT * FROM t_in ORDER BY k"),
        ["0|0", "1|old", "2|old"]
    );
    plain.execute_batch("ROLLBACK").expect("given back");
    other
        .execute_batch("INSERT INTO t_in VALUES (1, 'new')")
        .expect("inserts");
    wait(&other);
    assert_eq!(
        all(&other, "SELECT * FROM t ORDER BY k"),
        ["0|0", "1|new", "2|old"]
    );
}

/// With such a key, the collations of its columns do not decide which rows have equal keys.
#[test]
fn a_key_that_names_a_column_twice_is_refused() {
    for end in ["", " WITHOUT ROWID"] {
        let db = Db::new(&format!(
            "CREATE TABLE t(a, b, v, PRIMARY KEY(a COLLATE NOCASE, a, b)){end}"
        ));
        let con = db.open();
        let said = create(&con, "t", "").expect_err("no key").to_string();
        assert!(said.contains("names a column more than once"), "{said}");
    }
    let db = Db::new("CREATE TABLE t(a, b, v, PRIMARY KEY(a, b)) WITHOUT ROWID");
    db.ingest("t", "");
}

/// It is not the row id, although its type is INTEGER.
#[test]
fn a_descending_integer_key_is_an_ordinary_key() {
    for schema in [
        "CREATE TABLE t(k INTEGER PRIMARY KEY DESC, v)",
        "CREATE TABLE t(k INTEGER PRIMARY KEY DESC, v) WITHOUT ROWID",
        "CREATE TABLE t(k INT PRIMARY KEY DESC, v ANY) STRICT",
    ] {
        let db = Db::new(schema);
        let con = db.ingest("t", ", on_conflict=replace");
        let held = Held::new(&db);
        con.execute_batch("INSERT INTO t_in VALUES (3, 'a'), (1, 'b'), (2, 'c'), (1, 'd'); DELETE FROM t_in WHERE k = 3")
            .expect("writes");
        let is_other_type = con.execute_batch("INSERT INTO t_in VALUES ('x', 'e')");
        assert_eq!(is_other_type.is_err(), schema.ends_with("STRICT"));
        let seen = all(&con, "SELECT * FROM t_in ORDER BY k");
        drop(held);
        wait(&con);
        assert_eq!(seen, all(&con, "SELECT * FROM t ORDER BY k"), "{schema}");
        assert_eq!(seen[..2], ["1|d", "2|c"], "{schema}");
        assert_eq!(all(&con, "SELECT * FROM densite_rejects"), [""; 0]);
    }
}

/// A row id that an UPDATE sets is its key.
#[test]
fn a_row_keeps_its_row_id() {
    for schema in [
        "CREATE TABLE t(k INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (2, 'a')",
        "CREATE TABLE t(k TEXT PRIMARY KEY, v); INSERT INTO t VALUES ('2', 'a')",
    ] {
        let db = Db::new(schema);
        let con = db.ingest("t", "");
        for sql in [
            "UPDATE t_in SET rowid = 8 WHERE k = 2",
            "UPDATE t_in SET rowid = 8, v = 'b' WHERE k = 2",
        ] {
            refusal(&con, sql);
        }
        con.execute_batch("UPDATE t_in SET v = 'c' WHERE k = 2")
            .expect("an update");
        wait(&con);
        assert_eq!(all(&con, "SELECT * FROM t"), ["2|c"], "{schema}");
    }
}

/// SQLite accepts any bytes as text. Rows are found, changed and kept by these bytes.
#[test]
fn text_that_is_not_utf8_is_kept() {
    for (collation, end) in [("BINARY", ""), ("RTRIM", " WITHOUT ROWID"), ("NOCASE", "")] {
        let db = Db::new(&format!(
            "CREATE TABLE t(k TEXT COLLATE {collation} PRIMARY KEY, x TEXT, v){end};
             INSERT INTO t VALUES (CAST(x'61FF' AS TEXT), CAST(x'80' AS TEXT), 0), (CAST(x'61EFBFBD' AS TEXT), 'other', 0), (CAST(x'61FE' AS TEXT), 'goes', 0)"
        ));
        let con = db.ingest("t", ", on_conflict='update(v)'");
        let held = Held::new(&db);
        con.execute_batch(
            "INSERT INTO t_in VALUES (CAST(x'61FF' AS TEXT), 'not set', 1); INSERT INTO t_in VALUES (CAST(x'C0' AS TEXT), CAST(x'F8' AS TEXT), 1);
             UPDATE t_in SET v = v + 1 WHERE v = 1; DELETE FROM t_in WHERE v = 0 AND k = CAST(x'61FE' AS TEXT)",
        )
        .expect("writes");
        let question = "SELECT hex(k), hex(x), v FROM $ ORDER BY k";
        let by_key = "SELECT v FROM $ WHERE k = CAST(x'61FF' AS TEXT)";
        let expected = ["61EFBFBD|6F74686572|0", "61FF|80|2", "C0|F8|2"];
        assert_eq!(all(&con, &question.replace('$', "t_in")), expected);
        assert_eq!(all(&con, &by_key.replace('$', "t_in")), ["2"]);
        drop(held);
        wait(&con);
        assert_eq!(
            all(&con, &question.replace('$', "t")),
            expected,
            "{collation}"
        );
        assert_eq!(all(&con, "SELECT error FROM densite_rejects"), [""; 0]);
    }
}

/// A table with another key has no row id: using one is an error and never finds another row.
#[test]
fn a_row_id_that_is_not_the_key_does_not_identify_rows() {
    let db = Db::new(
        "CREATE TABLE t(k TEXT PRIMARY KEY, v); INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3)",
    );
    let con = db.ingest("t", "");
    for sql in [
        "SELECT rowid FROM t_in",
        "DELETE FROM t_in WHERE rowid = 1",
        "UPDATE t_in SET v = 0 WHERE rowid > 0",
        "SELECT * FROM t_in a JOIN t_in b ON a.rowid = b.rowid",
    ] {
        let said = refusal(&con, sql);
        assert!(said.contains("no such column"), "{sql}: {said}");
    }
    // The hidden column identifies no other row, and cannot be set.
    for sql in [
        "UPDATE t_in SET densite_row = (SELECT densite_row FROM t_in WHERE k = 'a') WHERE k = 'b'",
        "UPDATE t_in SET densite_row = NULL",
        "INSERT INTO t_in(k, densite_row) VALUES ('d', x'00')",
    ] {
        refusal(&con, sql);
    }
    con.execute_batch("UPDATE t_in SET v = 7")
        .expect("an update");
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM t"), ["a|7", "b|7", "c|7"]);
}
