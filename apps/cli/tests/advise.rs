//! `densite advise`.

use crate::common::*;
use rusqlite::Connection;

/// The line about a subject.
fn about(json: &serde_json::Value, subject: &str) -> serde_json::Value {
    let lines = json["advice"].as_array().expect("lines");
    assert_eq!(lines.len(), 5, "{json}");
    let found = lines.iter().find(|line| line["about"] == subject);
    found.expect("a line about it").clone()
}

#[test]
fn a_plain_database_is_told_what_compressing_and_vacuuming_bring() {
    let dir = temp();
    let db = at(&dir, "a b.db");
    let made = Connection::open(&db).expect("opens");
    // More than is compressed for the estimate.
    made.execute_batch(
        "PRAGMA journal_mode=OFF; PRAGMA auto_vacuum=NONE; PRAGMA page_size=4096;
         CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, x REAL, b BLOB);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<600000)
         INSERT INTO t SELECT i, 'customer number ' || (i*7919 % 5000), i/7.0, zeroblob(60) FROM n;
         CREATE TABLE gone AS SELECT * FROM t WHERE id <= 200000; DROP TABLE gone;",
    )
    .expect("made");
    drop(made);
    let before = std::fs::read(&db).expect("read");
    let text = densite(&["advise", &db]).expect(0).out;
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(
        text.contains(&format!(": densite compress '{db}'\n")),
        "{text}"
    );
    let json = densite(&["advise", &db, "--json"]).expect(0).json();
    assert_eq!(
        std::fs::read(&db).expect("read"),
        before,
        "nothing is written"
    );
    assert!(
        about(&json, "vacuum")["saves_bytes"].as_u64() > Some(10 << 20),
        "{json}"
    );
    assert!(about(&json, "journal_mode")["command"].is_string());
    assert!(about(&json, "page_size")["command"].is_null());
    let estimated = json["compressed_bytes"].as_u64().expect("an estimate") as f64;
    let report = densite(&["compress", &db, "--json"]).expect(0).json();
    let real = report["destination_bytes"].as_u64().expect("bytes") as f64;
    assert!(
        (estimated / real - 1.0).abs() < 0.2,
        "{estimated} of {real}"
    );
    let json = densite(&["advise", &db, "--json"]).expect(0).json();
    assert!(about(&json, "compress")["command"].is_null(), "{json}");
    assert!(json["compressed_bytes"].is_null());
}

#[test]
fn other_databases_and_files() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let made = Connection::open(&db).expect("opens");
    made.execute_batch(
        "PRAGMA page_size=1024; PRAGMA auto_vacuum=FULL; PRAGMA journal_mode=WAL; CREATE TABLE t(a);",
    )
    .expect("made");
    drop(made);
    let json = densite(&["advise", &db, "--json"]).expect(0).json();
    let command = about(&json, "page_size")["command"].to_string();
    assert!(command.contains("--page-size 4096"), "{command}");
    assert!(about(&json, "journal_mode")["command"].is_null());
    densite(&["compress", "--even-if-larger", &db]).expect(0);
    let json = densite(&["advise", &db, "--json"]).expect(0).json();
    assert!(about(&json, "auto_vacuum")["command"].is_string(), "{json}");
    let empty = at(&dir, "empty.db");
    std::fs::write(&empty, "").expect("written");
    let text = densite(&["advise", &empty]).expect(0).out;
    assert_eq!(text.lines().count(), 5, "{text}");
    std::fs::write(&empty, "no database, but a text of some length").expect("written");
    densite(&["advise", &empty]).expect(5);
    densite(&["advise", &at(&dir, "none.db")]).expect(1);
}
