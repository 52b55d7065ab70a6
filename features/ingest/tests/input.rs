//! Bad input is refused by the statement, with the column's name, before anything is logged.

use crate::common::{Db, all, create, one, open, refusal, wait};

const SCHEMA: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL, b INT DEFAULT 7, g AS (a || b));
    CREATE TABLE s(k INT PRIMARY KEY, r REAL NOT NULL, x ANY, i INTEGER, w TEXT, z BLOB) STRICT;
    CREATE TABLE p(a, b, c, PRIMARY KEY(b, a)) WITHOUT ROWID; CREATE TABLE bare(a, b NOT NULL);
    CREATE VIEW v AS SELECT 1; CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO t VALUES (100, 'x', 1)";

/// The statement, and a part of its error.
const STATEMENTS: &[(&str, &str)] = &[
    // Wrong number of columns.
    (
        "INSERT INTO t_in VALUES (1, 2)",
        "t_in has 3 columns but 2 values",
    ),
    (
        "INSERT INTO t_in VALUES (1, 2, 3, 4)",
        "t_in has 3 columns but 4 values",
    ),
    (
        "INSERT INTO t_in(id, a) VALUES (1, 2, 3)",
        "3 values for 2 columns",
    ),
    ("INSERT INTO t_in(id, nothing) VALUES (1, 2)", "nothing"),
    (
        "INSERT INTO t_in(id, a, g) VALUES (1, 'a', 'b')",
        "no column named g",
    ),
    (
        "INSERT INTO t_in(rowid, id, a) VALUES (5, 1, 'a')",
        "cannot be given a rowid",
    ),
    // Wrong type.
    (
        "INSERT INTO t_in VALUES ('x', 'a', 1)",
        "t.id must be an integer",
    ),
    (
        "INSERT INTO t_in VALUES (1.5, 'a', 1)",
        "t.id must be an integer",
    ),
    (
        "INSERT INTO t_in VALUES (x'00', 'a', 1)",
        "t.id must be an integer",
    ),
    (
        "INSERT INTO s_in VALUES ('x', 1, 1, 1, 'w', x'')",
        "s.k has the type INT",
    ),
    (
        "INSERT INTO s_in VALUES (1, 'one', 1, 1, 'w', x'')",
        "s.r has the type REAL",
    ),
    (
        "INSERT INTO s_in VALUES (1, 1, 1, 1.5, 'w', x'')",
        "s.i has the type INTEGER",
    ),
    (
        "INSERT INTO s_in VALUES (1, 1, 1, 1, x'01', x'')",
        "s.w has the type TEXT",
    ),
    (
        "INSERT INTO s_in VALUES (1, 1, 1, 1, 'w', 'z')",
        "s.z has the type BLOB",
    ),
    // A missing NOT NULL value: given as NULL, left out, or in a key that allows no NULL.
    (
        "INSERT INTO t_in VALUES (1, NULL, 1)",
        "t.a may not be NULL",
    ),
    ("INSERT INTO t_in(id) VALUES (1)", "t.a may not be NULL"),
    ("INSERT INTO s_in(k) VALUES (1)", "s.r may not be NULL"),
    (
        "INSERT INTO p_in VALUES (NULL, 1, 1)",
        "p.a may not be NULL",
    ),
    (
        "INSERT INTO p_in VALUES (1, NULL, 1)",
        "p.b may not be NULL",
    ),
    (
        "INSERT INTO bare_in(a) VALUES (1)",
        "bare.b may not be NULL",
    ),
    // The same for an UPDATE. Also, it cannot change the key.
    (
        "UPDATE t_in SET a = NULL WHERE id = 100",
        "t.a may not be NULL",
    ),
    (
        "UPDATE t_in SET id = 5 WHERE id = 100",
        "cannot change the primary key of t",
    ),
    (
        "UPDATE t_in SET id = 'x' WHERE id = 100",
        "t.id must be an integer",
    ),
    // In the middle of a statement: then none of its rows is kept.
    (
        "INSERT INTO t_in VALUES (1, 'a', 1), (2, 'b', 1), (3, NULL, 1)",
        "t.a may not be NULL",
    ),
];

#[test]
fn refused_statements_name_the_column() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("t", "");
    for table in ["s", "p", "bare"] {
        create(&con, table, "").expect(table);
    }
    for (sql, part) in STATEMENTS {
        let said = refusal(&con, sql);
        assert!(said.contains(part), "{sql}: {said}");
        // Within a transaction, which can continue without it.
        con.execute_batch("BEGIN").expect("begins");
        let said = refusal(&con, sql);
        assert!(said.contains(part), "{sql}: {said}");
        con.execute_batch("COMMIT").expect("commits nothing");
    }
    assert_eq!(one::<Option<i64>>(&con, "SELECT densite_last_seq()"), None);
    assert_eq!(wait(&con), 0, "nothing was logged");
    // A row without a key to name it.
    con.execute_batch("INSERT INTO bare_in VALUES (1, 2)")
        .expect("inserts");
    for sql in ["DELETE FROM bare_in", "UPDATE bare_in SET a = 3"] {
        let said = refusal(&con, sql);
        assert!(
            said.contains("table bare has no primary key"),
            "{sql}: {said}"
        );
    }
    assert_eq!(wait(&con), 1);
    assert_eq!(all(&con, "SELECT * FROM bare"), ["1|2"]);
    assert_eq!(all(&con, "SELECT count(*) FROM t"), ["1"]);
    assert_eq!(all(&con, "SELECT * FROM densite_rejects"), [""; 0]);
}

#[test]
fn tables_that_cannot_be_ingested_into_are_refused() {
    let db = Db::new(SCHEMA);
    let plain = db.open();
    plain
        .create_collation("own", |a: &str, b: &str| a.cmp(b))
        .expect("a collation");
    plain
        .execute_batch("CREATE TABLE c(k TEXT PRIMARY KEY COLLATE own)")
        .expect("a table");
    for (table, options, part) in [
        ("nothing", "", "there is no table nothing"),
        ("v", "", "v is a view"),
        ("f", "", "f is a virtual table"),
        ("sqlite_schema", "", "there is no table sqlite_schema"),
        (
            "bare",
            ", on_conflict=replace",
            "table bare has no primary key",
        ),
        (
            "bare",
            ", on_conflict=ignore",
            "table bare has no primary key",
        ),
        (
            "bare",
            ", on_conflict=update(a)",
            "table bare has no primary key",
        ),
        ("t", ", on_conflict=update(z)", "no column z"),
        (
            "t",
            ", on_conflict=update(g)",
            "no column g that can be set",
        ),
        ("t", ", on_conflict=fail", "use abort, ignore, replace"),
        ("t", ", on_full=maybe", "use wait or error"),
        ("t", ", what=ever", "does not know"),
        ("c", "", "compares by the collation own"),
    ] {
        let con = open(&db.path());
        let said = con
            .execute_batch(&format!(
                "CREATE VIRTUAL TABLE temp.x USING densite_ingest({table}{options})"
            ))
            .expect_err(table)
            .to_string();
        assert!(said.contains(part), "{table}{options}: {said}");
    }
    assert!(!db.log_dir().exists(), "no log for nothing");
    let con = db.open();
    let said = refusal(&con, "CREATE VIRTUAL TABLE temp.x USING densite_ingest()");
    assert!(said.contains("needs the table's name"), "{said}");
    let said = refusal(&con, "CREATE VIRTUAL TABLE main.x USING densite_ingest(t)");
    assert!(said.contains("temporary"), "{said}");
}

/// A refused row must fit into the table of rejects. Otherwise it would block all rows behind it
/// forever.
#[test]
fn a_row_that_the_rejects_cannot_hold_is_refused() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, b BLOB, u UNIQUE)");
    let con = db.ingest("t", "");
    for long in ["zeroblob(510000000)", "CAST(zeroblob(170000000) AS TEXT)"] {
        let said = refusal(&con, &format!("INSERT INTO t_in VALUES (1, {long}, 1)"));
        assert!(said.contains("too long for densite_rejects"), "{said}");
    }
    con.execute_batch(
        "INSERT INTO t_in VALUES (2, zeroblob(1000000), 1), (3, zeroblob(1000000), 1)",
    )
    .expect("inserts");
    wait(&con);
    assert_eq!(all(&con, "SELECT id FROM t"), ["2"]);
    assert_eq!(all(&con, "SELECT seq FROM densite_rejects"), ["2"]);
}
