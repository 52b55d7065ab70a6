//! Schema changes while rows wait in the log: rows that fit are applied, the others are rejected
//! with the reason, and nothing is blocked.

use crate::common::{self, Db, all, create, one, wait};

/// Rows in the log while `change` happens, and their result.
struct Case {
    schema: &'static str,
    options: &'static str,
    rows: &'static str,
    change: &'static str,
    /// The table that has the name afterwards.
    table: &'static str,
    rejects: &'static [&'static str],
}

const BASE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES (100, 1, 1)";

const CASES: &[Case] = &[
    Case {
        schema: BASE,
        options: "",
        rows: "INSERT INTO t_in VALUES (1, 2, 3)",
        change: "ALTER TABLE t ADD COLUMN c TEXT NOT NULL DEFAULT 'new'",
        table: "1|2|3|new 100|1|1|new",
        rejects: &[],
    },
    // An update by key leaves unknown columns unchanged.
    Case {
        schema: BASE,
        options: "",
        rows: "UPDATE t_in SET a = 9 WHERE id = 100; DELETE FROM t_in WHERE id = 5",
        change: "ALTER TABLE t ADD COLUMN c DEFAULT 7",
        table: "100|9|1|7",
        rejects: &[],
    },
    Case {
        schema: BASE,
        options: "",
        rows: "INSERT INTO t_in VALUES (1, 2, 3); DELETE FROM t_in WHERE id = 100",
        change: "ALTER TABLE t DROP COLUMN b",
        table: "",
        rejects: &["1|table t has no column b that can be set"],
    },
    Case {
        schema: BASE,
        options: "",
        rows: "INSERT INTO t_in VALUES (1, 2, 3)",
        change: "ALTER TABLE t RENAME COLUMN b TO z",
        table: "100|1|1",
        rejects: &["1|table t has no column b that can be set"],
    },
    // Another spelling is the same name.
    Case {
        schema: BASE,
        options: "",
        rows: "INSERT INTO t_in VALUES (1, 2, 3)",
        change: "ALTER TABLE t RENAME COLUMN b TO B",
        table: "1|2|3 100|1|1",
        rejects: &[],
    },
    Case {
        schema: BASE,
        options: "",
        rows: "INSERT INTO t_in VALUES (1, 2, 3); UPDATE t_in SET a = 5 WHERE id = 100",
        change: "ALTER TABLE t RENAME TO moved; CREATE VIEW t AS SELECT * FROM moved",
        table: "100|1|1",
        rejects: &[
            "1|t is a view; ingest needs an ordinary table",
            "2|t is a view; ingest needs an ordinary table",
        ],
    },
    Case {
        schema: BASE,
        options: "",
        rows: "INSERT INTO t_in VALUES (1, 2, 3), (2, 1, 4), (3, 4, 5)",
        change: "CREATE UNIQUE INDEX one ON t(a)",
        table: "1|2|3 3|4|5 100|1|1",
        rejects: &["2|UNIQUE constraint failed: t.a"],
    },
    // The columns exist again. The rows of the old table are gone, as DROP TABLE says.
    Case {
        schema: BASE,
        options: "",
        rows: "INSERT INTO t_in VALUES (1, 2, 3)",
        change: "DROP TABLE t; CREATE TABLE t(b, a, id INTEGER PRIMARY KEY, more DEFAULT 8)",
        table: "3|2|1|8",
        rejects: &[],
    },
    Case {
        schema: BASE,
        options: "",
        rows: "INSERT INTO t_in VALUES (1, 2, 3); UPDATE t_in SET a = 5 WHERE id = 100",
        change: "DROP TABLE t; CREATE TABLE t(id, a PRIMARY KEY, b)",
        table: "1|2|3",
        rejects: &["2|the primary key of table t has changed"],
    },
    Case {
        schema: BASE,
        options: "",
        rows: "INSERT INTO t_in VALUES (1, 'x', 3), (2, 5, 3)",
        change: "DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, a INT, b INT) STRICT",
        table: "2|5|3",
        rejects: &["1|cannot store TEXT value in INT column t.a"],
    },
    Case {
        schema: BASE,
        options: "",
        rows: "INSERT INTO t_in VALUES (1, 2, 3), (2, NULL, 3)",
        change: "DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL, b AS (a + 1))",
        table: "",
        rejects: &[
            "1|table t has no column b that can be set",
            "2|table t has no column b that can be set",
        ],
    },
    Case {
        schema: BASE,
        options: "",
        rows: "INSERT INTO t_in VALUES (1, 2, 3), (2, NULL, 3)",
        change: "DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL, b, must NOT NULL DEFAULT 4)",
        table: "1|2|3|4",
        rejects: &["2|NOT NULL constraint failed: t.a"],
    },
    Case {
        schema: BASE,
        options: "",
        rows: "INSERT INTO t_in VALUES (1, 2, 3)",
        change: "DROP TABLE t",
        table: "",
        rejects: &["1|there is no table t"],
    },
    // The conflict policy is logged with the row, and can name columns that are gone.
    Case {
        schema: BASE,
        options: ", on_conflict=update(b)",
        rows: "INSERT INTO t_in VALUES (100, 2, 3)",
        change: "DROP TABLE t; CREATE TABLE t(id, a, b)",
        table: "",
        rejects: &["1|table t has no primary key any more"],
    },
    Case {
        schema: BASE,
        options: ", on_conflict=replace",
        rows: "INSERT INTO t_in VALUES (1, 2, 3), (1, 4, 5)",
        change: "CREATE TABLE seen(id); CREATE TRIGGER s AFTER INSERT ON t BEGIN INSERT INTO seen VALUES (new.id); SELECT RAISE(ABORT, 'not 2') WHERE new.a = 2; END",
        table: "1|4|5 100|1|1",
        rejects: &["1|not 2"],
    },
];

#[test]
fn after_a_schema_change_rows_that_fit_are_applied_and_others_rejected() {
    for case in CASES {
        let what = format!("{} {}", case.rows, case.change);
        let db = Db::new(case.schema);
        let con = db.ingest("t", case.options);
        wait(&con);
        let plain = rusqlite::Connection::open(db.path()).expect("opens");
        plain
            .busy_timeout(std::time::Duration::from_secs(10))
            .expect("a timeout");
        plain.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        con.execute_batch(case.rows)
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        plain
            .execute_batch(case.change)
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        plain.execute_batch("COMMIT").expect("changes");
        wait(&con);
        let is_there = all(&con, "SELECT count(*) FROM sqlite_schema WHERE name = 't'") == ["1"];
        if is_there {
            assert_eq!(all(&con, "SELECT * FROM t").join(" "), case.table, "{what}");
        }
        let rejects = all(&con, "SELECT seq, error FROM densite_rejects ORDER BY seq");
        assert_eq!(rejects, case.rejects, "{what}");
        // It continues with the new schema.
        plain
            .execute_batch("CREATE TABLE more(id INTEGER PRIMARY KEY)")
            .expect("a table");
        create(&con, "more", "").unwrap_or_else(|e| panic!("{what}: {e}"));
        con.execute_batch("INSERT INTO more_in VALUES (1)")
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        wait(&con);
        assert_eq!(all(&con, "SELECT * FROM more"), ["1"], "{what}");
    }
}

/// Reads through the ingest table show what will be in the table, including columns that were added
/// after the row.
#[test]
fn unapplied_rows_are_read_with_the_new_schema() {
    let db = Db::new(BASE);
    let con = db.ingest("t", "");
    wait(&con);
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    plain.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    con.execute_batch("INSERT INTO t_in VALUES (1, 2, 3); UPDATE t_in SET a = 9 WHERE id = 100")
        .expect("writes");
    plain
        .execute_batch("ALTER TABLE t ADD COLUMN c DEFAULT 'new'; COMMIT")
        .expect("changes");
    let held = common::Held::new(&db);
    // The ingest table has the columns of the schema that its connection read last.
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 1);
    assert_eq!(
        all(&con, "SELECT * FROM t_in"),
        ["1|2|3|new", "100|9|1|new"]
    );
    drop(held);
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM t"), ["1|2|3|new", "100|9|1|new"]);
}
