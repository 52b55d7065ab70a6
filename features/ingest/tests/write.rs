//! Writing to `densite_ingest` tables: acknowledged, applied, refused.

use crate::common::{Db, Held, all, create, one, open, refusal, wait};

const VOTE: &str = "CREATE TABLE vote(user INTEGER, article INTEGER, score REAL, note TEXT, PRIMARY KEY(user, article)); CREATE INDEX by_article ON vote(article)";

#[test]
fn rows_are_acknowledged_and_applied() {
    let db = Db::new(VOTE);
    let con = db.ingest("vote", "");
    assert_eq!(one::<Option<i64>>(&con, "SELECT densite_last_seq()"), None);
    con.execute_batch("INSERT INTO vote_in VALUES (1, 2, 3, 'a'), (1, 3, 4, 'b')")
        .expect("inserts");
    assert_eq!(one::<i64>(&con, "SELECT densite_last_seq()"), 2);
    assert_eq!(wait(&con), 2);
    assert_eq!(all(&con, "SELECT * FROM vote"), ["1|2|3.0|a", "1|3|4.0|b"]);
    assert_eq!(one::<i64>(&con, "SELECT seq FROM densite_applied"), 2);
    drop(con);
    // The next connection continues with the numbers.
    let con = db.ingest("vote", ", on_conflict=replace");
    con.execute_batch("INSERT INTO vote_in VALUES (1, 2, 9, 'c')")
        .expect("inserts");
    assert_eq!(wait(&con), 3);
    assert_eq!(
        all(&con, "SELECT * FROM vote WHERE article = 2"),
        ["1|2|9.0|c"]
    );
}

#[test]
fn conflicts_by_policy() {
    let db = Db::new(
        "CREATE TABLE t(k TEXT PRIMARY KEY COLLATE NOCASE, a, b) WITHOUT ROWID; INSERT INTO t VALUES ('x', 1, 1)",
    );
    let rows = |options: &str, insert: &str| {
        let con = db.ingest("t", options);
        con.execute_batch(insert).expect("inserts");
        wait(&con);
        all(&con, "SELECT * FROM t").join(" ")
    };
    assert_eq!(rows("", "INSERT INTO t_in VALUES ('X', 2, 2)"), "x|1|1");
    let con = db.open();
    assert_eq!(
        all(
            &con,
            "SELECT seq, \"table\", \"row\", error FROM densite_rejects"
        ),
        [r#"1|t|{"k":"X","a":2,"b":2}|UNIQUE constraint failed: t.k"#]
    );
    assert_eq!(
        rows(
            ", on_conflict=ignore",
            "INSERT INTO t_in VALUES ('X', 3, 3)"
        ),
        "x|1|1"
    );
    assert_eq!(
        rows(
            ", on_conflict=update(b)",
            "INSERT INTO t_in VALUES ('X', 4, 4)"
        ),
        "x|1|4"
    );
    assert_eq!(
        rows(
            ", on_conflict='update(a, b)'",
            "INSERT INTO t_in VALUES ('X', 5, 6)"
        ),
        "x|5|6"
    );
    assert_eq!(
        rows("", "INSERT OR IGNORE INTO t_in VALUES ('X', 7, 7)"),
        "x|5|6"
    );
    assert_eq!(
        rows("", "INSERT OR REPLACE INTO t_in VALUES ('X', 8, 8)"),
        "X|8|8"
    );
    assert_eq!(
        rows(
            ", on_conflict=replace",
            "INSERT INTO t_in VALUES ('x', 9, 9)"
        ),
        "x|9|9"
    );
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_rejects"), 1);
}

#[test]
fn bad_input_is_refused_before_anything_is_logged() {
    let db = Db::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL, b INT DEFAULT 7, g AS (a || b)); CREATE TABLE s(k INT PRIMARY KEY, r REAL NOT NULL, x ANY) STRICT;
         CREATE TABLE bare(a); CREATE VIEW v AS SELECT 1",
    );
    let con = db.ingest("t", "");
    create(&con, "s", "").expect("s_in");
    create(&con, "bare", "").expect("bare_in");
    for (sql, part) in [
        ("INSERT INTO t_in(id) VALUES (1)", "t.a may not be NULL"),
        (
            "INSERT INTO t_in VALUES ('x', 'a', 1)",
            "t.id must be an integer",
        ),
        ("INSERT INTO t_in VALUES (1, 2)", "3 columns"),
        (
            "INSERT INTO t_in(id, a, g) VALUES (1, 'a', 'b')",
            "no column named g",
        ),
        (
            "INSERT INTO s_in VALUES ('x', 1, 1)",
            "s.k has the type INT",
        ),
        ("INSERT INTO s_in(k) VALUES (1)", "s.r may not be NULL"),
        (
            "INSERT INTO s_in VALUES (1, 'one', 1)",
            "s.r has the type REAL",
        ),
        ("DELETE FROM bare_in", "x"),
    ] {
        if sql.starts_with("DELETE") {
            continue;
        }
        let said = refusal(&con, sql);
        assert!(said.contains(part), "{sql}: {said}");
    }
    for (table, options, part) in [
        ("nothing", "", "there is no table nothing"),
        ("v", "", "is a view"),
        ("bare", ", on_conflict=replace", "no primary key"),
        ("t", ", on_conflict=update(z)", "no column z"),
        ("t", ", on_conflict=fail", "use abort, ignore, replace"),
        ("t", ", what=ever", "does not know"),
    ] {
        let said = create(&db.open(), table, options)
            .expect_err(table)
            .to_string();
        assert!(said.contains(part), "{table}{options}: {said}");
    }
    let said = refusal(&con, "CREATE VIRTUAL TABLE main.x USING densite_ingest(t)");
    assert!(said.contains("temporary"), "{said}");
    assert_eq!(wait(&con), 0);
    // Defaults are applied, and affinities too.
    con.execute_batch("INSERT INTO t_in(id, a) VALUES (5, 12); INSERT INTO s_in VALUES ('3', 4, 'x'); INSERT INTO bare_in VALUES ('y')").expect("inserts");
    wait(&con);
    assert_eq!(all(&con, "SELECT *, typeof(a) FROM t"), ["5|12|7|127|text"]);
    assert_eq!(
        all(&con, "SELECT k, r, x, typeof(k) FROM s"),
        ["3|4.0|x|integer"]
    );
    assert_eq!(all(&con, "SELECT * FROM bare"), ["y"]);
}

#[test]
fn rollback_and_savepoints_drop_rows() {
    let db =
        Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE u(id INTEGER PRIMARY KEY)");
    let con = db.ingest("t", "");
    create(&con, "u", "").expect("u_in");
    con.execute_batch("BEGIN; INSERT INTO t_in VALUES (1); ROLLBACK")
        .expect("rolls back");
    con.execute_batch(
        "BEGIN; INSERT INTO t_in VALUES (2); SAVEPOINT a; INSERT INTO t_in VALUES (3); INSERT INTO u_in VALUES (3); SAVEPOINT b; INSERT INTO u_in VALUES (4);
         ROLLBACK TO b; INSERT INTO t_in VALUES (5); RELEASE b; ROLLBACK TO a; INSERT INTO u_in VALUES (6); RELEASE a; INSERT INTO t_in VALUES (7); COMMIT",
    )
    .expect("commits");
    // A statement that fails in the middle leaves none of its rows.
    let said = refusal(
        &con,
        "INSERT INTO t_in SELECT value FROM (SELECT 8 AS value UNION ALL SELECT 'x')",
    );
    assert!(said.contains("t.id"), "{said}");
    wait(&con);
    assert_eq!(all(&con, "SELECT id FROM t"), ["2", "7"]);
    assert_eq!(all(&con, "SELECT id FROM u"), ["6"]);
}

/// The first ingest table writes the log's name to main.
#[test]
fn a_transaction_that_created_the_first_ingest_table_is_refused_with_the_reason() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let con = db.open();
    con.execute_batch("BEGIN").expect("begins");
    create(&con, "t", "").expect("the first");
    con.execute_batch("INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    let said = refusal(&con, "COMMIT");
    assert!(said.contains("run it before BEGIN"), "{said}");
    if !con.is_autocommit() {
        con.execute_batch("ROLLBACK").expect("rolls back");
    }
    create(&con, "t", "").expect("outside");
    con.execute_batch("BEGIN; INSERT INTO t_in VALUES (1); COMMIT")
        .expect("commits");
}

#[test]
fn a_mixed_transaction_is_refused() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE other(x)");
    let con = db.ingest("t", "");
    let extra = tempfile::tempdir().expect("a folder");
    con.execute_batch(&format!(
        "ATTACH '{}' AS aside; CREATE TABLE aside.z(x)",
        extra.path().join("a.db").display()
    ))
    .expect("attaches");
    for write in [
        "INSERT INTO other VALUES (1)",
        "INSERT INTO aside.z VALUES (1)",
    ] {
        con.execute_batch(&format!("BEGIN; INSERT INTO t_in VALUES (1); {write}"))
            .expect("begins");
        let said = refusal(&con, "COMMIT");
        assert!(said.contains("cannot be committed as one"), "{said}");
        if !con.is_autocommit() {
            con.execute_batch("ROLLBACK").expect("rolls back");
        }
    }
    // Temporary tables can be written in the same transaction.
    con.execute_batch("CREATE TEMP TABLE own(x); BEGIN; INSERT INTO own VALUES (1); INSERT INTO t_in VALUES (2); COMMIT").expect("commits");
    wait(&con);
    assert_eq!(all(&con, "SELECT id FROM t"), ["2"]);
    assert_eq!(
        one::<i64>(
            &con,
            "SELECT (SELECT count(*) FROM other) + (SELECT count(*) FROM aside.z)"
        ),
        0
    );
}

#[test]
fn databases_that_cannot_have_a_log_are_refused() {
    let memory = open(std::path::Path::new(":memory:"));
    memory
        .execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY)")
        .expect("a table");
    assert!(
        create(&memory, "t", "")
            .expect_err("memory")
            .to_string()
            .contains("in memory")
    );
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    std::fs::hard_link(db.path(), db.path().with_extension("other")).expect("links");
    let said = create(&db.open(), "t", "").expect_err("links").to_string();
    assert!(said.contains("hard links"), "{said}");
    std::fs::remove_file(db.path().with_extension("other")).expect("removes");
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    wait(&con);
    drop(con);
    // First the log is missing; then the directory has that of another database.
    let aside = db.path().with_extension("aside");
    std::fs::rename(db.log_dir(), &aside).expect("moves");
    let said = create(&db.open(), "t", "")
        .expect_err("missing")
        .to_string();
    assert!(
        said.contains("not there") && said.contains("DROP TABLE densite_applied"),
        "{said}"
    );
    let other = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let con = other.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    drop(con);
    std::fs::rename(other.log_dir(), db.log_dir()).expect("moves");
    let said = create(&db.open(), "t", "")
        .expect_err("another")
        .to_string();
    assert!(said.contains("belongs to another database"), "{said}");
    // A log with rows that the database does not name.
    db.open()
        .execute_batch("DROP TABLE densite_applied")
        .expect("drops");
    let said = create(&db.open(), "t", "")
        .expect_err("unknown")
        .to_string();
    assert!(said.contains("does not name"), "{said}");
    std::fs::remove_dir_all(db.log_dir()).expect("removes");
    db.ingest("t", "")
        .execute_batch("INSERT INTO t_in VALUES (2)")
        .expect("a new one");
}

/// Converted to UTF-8, such a name can be that of another database.
#[test]
fn a_name_that_is_not_utf8_is_not_confused_with_others() {
    use std::os::unix::ffi::OsStrExt;
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let named = |name: &[u8]| db.path().with_file_name(std::ffi::OsStr::from_bytes(name));
    let (odd, other) = (named(b"a\xff.db"), named("a\u{fffd}.db".as_bytes()));
    for path in [&odd, &other] {
        let con = open(path);
        con.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY)")
            .expect("the schema");
    }
    let said = create(&open(&odd), "t", "").expect_err("no UTF-8");
    assert!(said.to_string().contains("not UTF-8"), "{said}");
    create(&open(&other), "t", "").expect("its own log");
}

#[test]
fn statements_do_not_wait_for_a_worker_that_has_main_open() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let con = db.ingest("t", "");
    let held = Held::new(&db);
    con.execute_batch("INSERT INTO t_in VALUES (1); BEGIN; SELECT * FROM t")
        .expect("reads");
    let begun = std::time::Instant::now();
    let said = con
        .query_row("SELECT densite_wait()", [], |_| Ok(()))
        .expect_err("refused")
        .to_string();
    assert!(said.contains("transaction open on main"), "{said}");
    assert!(begun.elapsed().as_secs() < 5);
    con.execute_batch("COMMIT").expect("commits");
    drop(held);
    assert_eq!(wait(&con), 1);
}

/// With a limit in seconds it returns how far rows are applied, which is not an error.
#[test]
fn waiting_ends_after_its_timeout() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let end = "SELECT densite_log_last()";
    assert_eq!(one::<Option<i64>>(&db.open(), end), None);
    let con = db.ingest("t", "");
    let held = Held::new(&db);
    con.execute_batch("INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    for sql in ["densite_wait(1, 0.05)", "densite_wait(NULL, 0)"] {
        assert_eq!(one::<i64>(&con, &format!("SELECT {sql}")), 0, "{sql}");
    }
    // Row 1 is the last row, for any connection.
    assert_eq!(one::<i64>(&db.open(), end), 1);
    drop(held);
    assert_eq!(one::<i64>(&con, "SELECT densite_wait(1, 20)"), 1);
    assert_eq!(one::<i64>(&con, "SELECT densite_wait(NULL, 20)"), 1);
    for wrong in ["-1", "1, -1", "1, 'x'", "1, 9e999", "1, 2, 3", "'1'"] {
        let said = refusal(&con, &format!("SELECT densite_wait({wrong})"));
        assert!(said.contains("densite_wait takes"), "{wrong}: {said}");
    }
}

/// A connection's schema can be out of date when it makes its ingest table, and when the table is
/// opened again.
#[test]
fn another_connection_may_have_changed_the_schema() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, at TEXT DEFAULT 'now')");
    let (con, other) = (db.open(), db.ingest("t", ""));
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 0);
    other.execute_batch("CREATE TABLE a(x)").expect("changes");
    create(&con, "t", "").expect("made");
    for n in 1..4 {
        other
            .execute_batch(&format!("CREATE TABLE b{n}(x)"))
            .expect("changes");
        assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), n - 1);
        other
            .execute_batch(&format!("CREATE TABLE c{n}(x)"))
            .expect("changes");
        con.execute_batch(&format!("INSERT INTO t_in(id) VALUES ({n})"))
            .expect("inserts");
        assert_eq!(wait(&con), n);
    }
    // Also within a transaction.
    let third = db.open();
    assert_eq!(one::<i64>(&third, "SELECT count(*) FROM t"), 3);
    other.execute_batch("CREATE TABLE d(x)").expect("changes");
    third.execute_batch("BEGIN").expect("begins");
    create(&third, "t", "").expect("made");
    third.execute_batch("COMMIT").expect("commits");
    assert_eq!(one::<i64>(&third, "SELECT count(*) FROM t_in"), 3);
}

/// SQLite does not report the end of the transaction to a dropped table: its rows would be neither
/// logged nor rolled back.
#[test]
fn a_table_with_uncommitted_rows_is_not_dropped() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", "");
    for (begin, end, rows) in [
        ("BEGIN; INSERT INTO t_in VALUES (1, 1)", "COMMIT", 1),
        ("BEGIN; INSERT INTO t_in VALUES (2, 1)", "ROLLBACK", 1),
        (
            "BEGIN; CREATE VIRTUAL TABLE temp.u_in USING densite_ingest(t); INSERT INTO u_in VALUES (3, 1)",
            "COMMIT",
            2,
        ),
    ] {
        con.execute_batch(begin).expect(begin);
        let dropped = if begin.contains("u_in") {
            "u_in"
        } else {
            "t_in"
        };
        let said = refusal(&con, &format!("DROP TABLE temp.{dropped}"));
        assert!(said.contains("locked"), "{said}");
        con.execute_batch(end).expect(end);
        wait(&con);
        assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), rows, "{begin}");
    }
    con.execute_batch("DROP TABLE t_in; DROP TABLE u_in")
        .expect("goes");
    create(&con, "t", "").expect("comes again");
    con.execute_batch("BEGIN; DROP TABLE t_in; ROLLBACK; INSERT INTO t_in VALUES (4, 1)")
        .expect("it is there");
    wait(&con);
    assert_eq!(all(&con, "SELECT id FROM t"), ["1", "3", "4"]);
    // A table that was only read can be dropped.
    con.execute_batch(
        "BEGIN; SELECT * FROM t_in; DROP TABLE t_in; ROLLBACK; INSERT INTO t_in VALUES (5, 1)",
    )
    .expect("it is there");
    wait(&con);
    assert_eq!(all(&con, "SELECT id FROM t_in"), ["1", "3", "4", "5"]);
    con.execute_batch("BEGIN; SELECT * FROM t_in; DROP TABLE t_in; COMMIT")
        .expect("it goes");
}

/// An UPDATE with these clauses returns an error that says so.
#[test]
fn an_update_with_a_conflict_clause_is_refused() {
    let db = Db::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v UNIQUE); INSERT INTO t VALUES (1, 1), (2, 2)",
    );
    let con = db.ingest("t", "");
    for clause in ["IGNORE", "REPLACE"] {
        let said = refusal(
            &con,
            &format!("UPDATE OR {clause} t_in SET v = 1 WHERE id = 2"),
        );
        assert!(said.contains("neither OR IGNORE nor OR REPLACE"), "{said}");
    }
    con.execute_batch("UPDATE OR ABORT t_in SET v = 3 WHERE id = 2")
        .expect("an update");
    wait(&con);
    assert_eq!(all(&con, "SELECT v FROM t"), ["1", "3"]);
}

/// `last_insert_rowid()` is that of the application's last row, and not one of Densite's own rows
/// or of a row without an id yet.
#[test]
fn the_last_row_id_is_that_of_the_last_row_with_an_id() {
    let db = Db::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE u(k TEXT PRIMARY KEY, v); CREATE TABLE other(x)",
    );
    let con = db.open();
    con.execute_batch("INSERT INTO other VALUES (1), (2), (3)")
        .expect("inserts");
    let last = |sql: &str| {
        con.execute_batch(sql).expect(sql);
        con.last_insert_rowid()
    };
    create(&con, "t", "").expect("t_in");
    create(&con, "u", "").expect("u_in");
    assert_eq!(con.last_insert_rowid(), 3);
    assert_eq!(last("INSERT INTO u_in VALUES ('a', 1), ('b', 2)"), 3);
    assert_eq!(last("SELECT * FROM u_in"), 3);
    assert_eq!(last("INSERT INTO t_in(v) VALUES (1)"), 3);
    assert_eq!(last("INSERT INTO t_in VALUES (77, 1)"), 77);
    assert_eq!(last("UPDATE t_in SET v = 2 WHERE id = 77"), 77);
    assert_eq!(last("DELETE FROM u_in"), 77);
    assert_eq!(last("INSERT INTO u_in VALUES ('c', 1)"), 77);
    assert_eq!(last("INSERT INTO other VALUES (1)"), 4);
}
