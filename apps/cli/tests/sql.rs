//! `densite sql`: formats, streams, errors.

use crate::common::*;
use serde_json::json;
use std::process::Command;

#[test]
fn a_missing_file_becomes_a_compressed_database() {
    let dir = temp();
    let a = at(&dir, "a.db");
    densite(&[
        "sql",
        "--create",
        &a,
        "CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'x'), (2, NULL);",
    ])
    .expect(0);
    assert!(is_compressed(&a));
    let ran = densite(&[
        "sql",
        "--create",
        &a,
        "SELECT a, b FROM t ORDER BY a",
        "--format",
        "csv",
    ])
    .expect(0);
    assert_eq!(ran.out, "a,b\n1,x\n2,\n");
    densite(&["check", &a]).expect(0);
    assert_eq!(names(dir.path()), ["a.db"]);
}

#[test]
fn a_plain_database_stays_plain() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 100);
    densite(&["sql", "--create", &a, "UPDATE t SET score=0"]).expect(0);
    assert!(!is_compressed(&a));
    let b = at(&dir, "b.db");
    densite(&[
        "sql",
        "--create",
        &format!("file:{b}?densite=off"),
        "CREATE TABLE t(a)",
    ])
    .expect(0);
    assert!(!is_compressed(&b));
}

#[test]
fn formats() {
    let dir = temp();
    let a = at(&dir, "a.db");
    let sql = "SELECT 1 AS i, 2.0 AS r, 'it''s' AS t, x'00ff' AS b, NULL AS n, '' AS e";
    let json_out = densite(&["sql", "--create", &a, sql, "--format", "json"])
        .expect(0)
        .out;
    let rows: serde_json::Value = serde_json::from_str(&json_out).expect("JSON");
    assert_eq!(
        rows,
        json!([{ "i": 1, "r": 2.0, "t": "it's", "b": { "hex": "00FF" }, "n": null, "e": "" }])
    );
    assert_eq!(
        densite(&["sql", "--create", &a, sql, "--format", "csv"]).out,
        "i,r,t,b,n,e\n1,2.0,it's,X'00FF',,\"\"\n"
    );
    let table = densite(&["sql", "--create", &a, sql]).expect(0).out;
    assert!(
        table.contains("it's") && table.contains("X'00FF'") && table.contains('│'),
        "{table}"
    );
    // Without rows only the header is printed.
    assert_eq!(
        densite(&[
            "sql",
            "--create",
            &a,
            "SELECT 1 AS i WHERE 0",
            "--format",
            "csv"
        ])
        .out,
        "i\n"
    );
    assert_eq!(
        densite(&[
            "sql",
            "--create",
            &a,
            "SELECT 1 AS i WHERE 0",
            "--format",
            "json"
        ])
        .out,
        "[]\n"
    );
}

#[test]
fn stdin_is_read_statement_by_statement() {
    let dir = temp();
    let a = at(&dir, "a.db");
    let script = "-- a comment; with a semicolon\n\
        CREATE TABLE t(a);\n\
        CREATE TRIGGER g AFTER INSERT ON t BEGIN UPDATE t SET a = a || ';' WHERE rowid = new.rowid; END;\n\
        INSERT INTO t VALUES('x\ny');\n\
        SELECT a FROM t; SELECT count(*) AS n FROM t";
    let ran = piped(
        &["sql", "--create", &a, "--format", "csv"],
        script.as_bytes(),
    )
    .expect(0);
    assert_eq!(ran.out, "a\n\"x\ny;\"\nn\n1\n");
    piped(&["sql", "--create", &a], b"SELECT '\xff';")
        .expect(1)
        .says("not UTF-8");
    piped(&["sql", &a], b"SELECT 1;\0INSERT INTO t VALUES(1);")
        .expect(1)
        .says("zero byte");
    piped(&["sql", "--create", &a], b"").expect(0);
}

#[test]
fn an_error_names_the_statement_and_stops() {
    let dir = temp();
    let a = at(&dir, "a.db");
    let script = "CREATE TABLE t(a UNIQUE);\nINSERT INTO t VALUES(1);\n\nINSERT INTO\n t VALUES(1);\nINSERT INTO t VALUES(2);\n";
    piped(&["sql", "--create", &a], script.as_bytes())
        .expect(1)
        .says("statement 3, line 4 (INSERT INTO t VALUES(1);): UNIQUE constraint failed: t.a");
    assert_eq!(
        densite(&["sql", "--create", &a, "SELECT * FROM t", "--format", "csv"]).out,
        "a\n1\n"
    );
    densite(&["sql", "--create", &a, "SELEC 1"])
        .expect(1)
        .says("statement 1, line 1 (SELEC 1): near \"SELEC\": syntax error");
    densite(&["sql", "--create", &a, "SELECT 'abc"])
        .expect(1)
        .says("unrecognized token");
    densite(&["sql", "--create", &a, "BEGIN; INSERT INTO t VALUES(5);"])
        .expect(1)
        .says("ends inside a transaction");
    assert_eq!(
        densite(&["sql", "--create", &a, "SELECT * FROM t", "--format", "csv"]).out,
        "a\n1\n"
    );
}

#[test]
fn a_table_that_is_mistyped_is_named() {
    let dir = temp();
    let db = at(&dir, "a.db");
    densite(&[
        "sql",
        "--create",
        &db,
        "CREATE TABLE page(a); CREATE VIEW visits AS SELECT 1",
    ])
    .expect(0);
    for (sql, words) in [
        (
            "SELECT * FROM pge",
            "no such table: pge; did you mean page?",
        ),
        (
            "SELECT * FROM main.Visit",
            "no such table: main.Visit; did you mean visits?",
        ),
        (
            "DELETE FROM pages",
            "no such table: pages; did you mean page?",
        ),
    ] {
        densite(&["sql", &db, sql]).expect(1).says(words);
    }
    let far = densite(&["sql", &db, "SELECT * FROM entirely_other"]).expect(1);
    assert!(
        far.err.contains("no such table: entirely_other") && !far.err.contains("mean"),
        "{far:?}"
    );
}

#[test]
fn json_output_is_always_one_object() {
    let dir = temp();
    let a = at(&dir, "a.db");
    let ok = densite(&[
        "sql",
        "--create",
        &a,
        "CREATE TABLE t(a); INSERT INTO t VALUES(1),(2); SELECT a, a FROM t; SELECT 3 AS b WHERE 0",
        "--json",
    ])
    .expect(0)
    .json();
    assert_eq!(ok["statements"], 4);
    assert_eq!(ok["changes"], 2);
    assert_eq!(
        ok["results"],
        json!([
            { "columns": ["a", "a:1"], "rows": [{ "a": 1, "a:1": 1 }, { "a": 2, "a:1": 2 }] },
            { "columns": ["b"], "rows": [] },
        ])
    );
    // Fails in the middle of a result.
    let ran = densite(&[
        "sql",
        "--create",
        &a,
        "SELECT abs(CASE a WHEN 2 THEN -9223372036854775807-1 ELSE a END) AS x FROM t",
        "--json",
    ])
    .expect(1);
    let object = ran.json();
    assert_eq!(object["error"]["kind"], "sql");
    assert_eq!(object["error"]["statement"], 1);
    assert_eq!(object["results"][0]["rows"], json!([{ "x": 1 }]));
}

#[test]
fn a_closed_output_pipe_is_no_error() {
    let dir = temp();
    let a = at(&dir, "a.db");
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<1000000) SELECT i FROM n";
    let ran = run(Command::new("sh").args([
        "-c",
        &format!("'{DENSITE}' sql --create '{a}' '{sql}' --format csv | head -n 2"),
    ]));
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "i\n1\n", "")
    );
}

#[test]
fn foreign_keys_are_off_as_in_sqlite() {
    let dir = temp();
    let ran = densite(&[
        "sql",
        "--create",
        &at(&dir, "a.db"),
        "PRAGMA foreign_keys",
        "--format",
        "csv",
    ])
    .expect(0);
    assert_eq!(ran.out, "foreign_keys\n0\n");
}

#[test]
fn a_missing_file_is_created_only_with_create() {
    let dir = temp();
    let a = at(&dir, "a.db");
    let uri = format!("file:{a}?level=9");
    for db in [&a, &uri] {
        for sql in ["SELECT 1", "CREATE TABLE t(a)", "PRAGMA journal_mode=WAL"] {
            let ran = densite(&["sql", db, sql]).expect(1);
            let word = if db == &a {
                "--create"
            } else {
                "unable to open"
            };
            ran.says(word);
            assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
        }
        let error = densite(&["sql", db, "SELECT 1", "--json"]).json();
        assert_eq!(error["error"]["exit_code"], 1, "{error}");
    }
    for db in [&a, &uri] {
        densite(&["sql", db, "CREATE TABLE t(a)", "--create"]).expect(0);
        assert!(is_compressed(&a));
        // An existing file is used unchanged.
        densite(&["sql", db, "INSERT INTO t VALUES(1)", "--create"]).expect(0);
        densite(&["sql", db, "SELECT * FROM t"]).expect(0);
        std::fs::remove_file(&a).expect("remove");
    }
    densite(&["sql", ":memory:", "CREATE TABLE t(a)"]).expect(0);
    assert!(names(dir.path()).is_empty());
}
