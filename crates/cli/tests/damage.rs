//! Damaged files are reported with exit code 5, and no result is created from them.

use crate::common::*;
use std::fs;

/// A compressed database, and its bytes.
fn compressed(dir: &tempfile::TempDir) -> (String, Vec<u8>) {
    let (a, b) = (at(dir, "a.db"), at(dir, "b.db"));
    plain(&a, 4096, 3000);
    densite(&["compress", &a, &b]).expect(0);
    let bytes = fs::read(&b).expect("read");
    (b, bytes)
}

#[test]
fn a_flipped_bit_in_a_frame_is_found_and_placed() {
    let dir = temp();
    let (b, bytes) = compressed(&dir);
    let mut found = 0;
    for part in 1..8 {
        let mut bad = bytes.clone();
        let at_byte = bytes.len() * part / 8;
        bad[at_byte] ^= 0x10;
        fs::write(&b, &bad).expect("write");
        let ran = densite(&["check", &b, "--json"]);
        if ran.code == 0 {
            // This byte holds nothing.
            continue;
        }
        found += 1;
        let report = ran.expect(5).json();
        assert_eq!(report["ok"], false);
        let problem = &report["problems"][0];
        assert!(
            problem["offset"].is_u64()
                && problem["what"].is_string()
                && problem["problem"].is_string(),
            "{report}"
        );
        let text = densite(&["check", &b]).expect(5).out;
        assert!(
            text.contains("damaged: ") && text.contains(" at offset "),
            "{text}"
        );

        let before = snapshot(dir.path());
        densite(&["decompress", &b])
            .expect(5)
            .says("b.db is damaged");
        densite(&["decompress", &b, &at(&dir, "c.db")]).expect(5);
        assert!(snapshot(dir.path()) == before, "{:?}", names(dir.path()));
    }
    assert!(found > 2, "only {found} of the flips were in use");
}

#[test]
fn truncated_files() {
    let dir = temp();
    let (b, bytes) = compressed(&dir);
    for len in [10, 100, 5000, 20_000, bytes.len() / 2] {
        fs::write(&b, &bytes[..len]).expect("write");
        let before = snapshot(dir.path());
        let check = densite(&["check", &b]);
        assert_eq!(check.code, 5, "{len}: {check:?}");
        densite(&["decompress", &b]).expect(5);
        assert!(snapshot(dir.path()) == before);
    }
}

#[test]
fn a_damaged_plain_database() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 3000);
    let mut bytes = fs::read(&a).expect("read");
    bytes[5 * 4096..5 * 4096 + 8].fill(0xff);
    fs::write(&a, bytes).expect("write");
    let report = densite(&["check", &a, "--json"]).expect(5).json();
    assert_eq!(report["form"], "plain");
    assert!(
        report["integrity_check"][0]
            .as_str()
            .is_some_and(|s| s != "ok"),
        "{report}"
    );
}

#[test]
fn a_lost_tail_is_reported_and_the_state_is_one_commit() {
    let dir = temp();
    let a = at(&dir, "a.db");
    densite(&[
        "sql",
        "--create",
        &a,
        "CREATE TABLE t(a); INSERT INTO t VALUES(0)",
    ])
    .expect(0);
    let mut other = Other::on(&a);
    other.run("PRAGMA synchronous=OFF");
    for i in 1..=20 {
        other.run(&format!("UPDATE t SET a={i}"));
    }
    other.kill();
    let bytes = fs::read(&a).expect("read");
    let mut cuts = 0;
    for part in 8..16 {
        fs::write(&a, &bytes[..bytes.len() * part / 16]).expect("write");
        let ran = densite(&["check", &a, "--json"]);
        if ran.code == 5 {
            continue;
        }
        let report = ran.expect(0).json();
        let n: i64 = densite(&["sql", &a, "SELECT a FROM t", "--format", "csv"])
            .expect(0)
            .out[2..]
            .trim()
            .parse()
            .expect("a number");
        assert!((0..=20).contains(&n));
        assert!(n == 20 || report["cut"].is_string(), "{n}: {report}");
        cuts += i32::from(report["cut"].is_string());
    }
    assert!(cuts > 0, "no cut was seen");
}

/// A vacuum writes what SQLite reads, so a damaged source is found only in the new file.
#[test]
fn a_vacuum_of_a_damaged_plain_file_says_that_it_is_damaged() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let made = rusqlite::Connection::open(&db).expect("opens");
    made.execute_batch(
        "PRAGMA page_size=1024; CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); CREATE INDEX i ON t(a);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<500)
         INSERT INTO t SELECT i, 'name ' || (1000 + i) FROM n;",
    )
    .expect("made");
    drop(made);
    // The row id of a row in the middle of a page becomes 1. Before the text are the lengths of
    // payload and header, the row id, and two types.
    let mut bytes = fs::read(&db).expect("read");
    let row = (4..bytes.len() - 9)
        .find(|at| bytes[*at..].starts_with(b"name 1101") && bytes[at - 4] == 101);
    bytes[row.expect("the row") - 4] = 1;
    fs::write(&db, &bytes).expect("damaged");
    let before = fs::read(&db).expect("read");
    densite(&["vacuum", "--yes", &db])
        .expect(5)
        .says("a.db")
        .says("out of order");
    assert_eq!(fs::read(&db).expect("read"), before);
    assert_eq!(names(dir.path()), ["a.db"]);
}
