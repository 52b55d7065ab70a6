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
        let refused = densite(&["decompress", &b]).expect(5);
        let once = refused.err.matches("b.db").count() == 1;
        assert!(
            once && refused.err.contains("b.db is damaged: "),
            "{refused:?}"
        );
        densite(&["decompress", &b, &at(&dir, "c.db")]).expect(5);
        assert!(snapshot(dir.path()) == before, "{:?}", names(dir.path()));
    }
    assert!(found > 2, "only {found} of the flips were in use");
}

/// As in the sqlite3 shell: the rows around the damage, all other tables, and no COMMIT.
#[test]
fn a_dump_goes_on_after_damage() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let rows = |table: &str, count: u32| {
        format!(
            "CREATE TABLE {table}(n INTEGER PRIMARY KEY, a);
             WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < {count})
             INSERT INTO {table} SELECT n, hex(randomblob(30)) FROM i;"
        )
    };
    let sql = format!("{}{}{}", rows("a", 500), rows("b", 20_000), rows("c", 500));
    densite(&["sql", "--create", &db, &sql]).expect(0);
    let mut bytes = fs::read(&db).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 20_000].fill(0x55);
    fs::write(&db, &bytes).expect("write");
    let dumped = densite(&["sql", &db, ".dump"]).expect(5).says("page ").out;
    let count = |table: &str| dumped.matches(&format!("INSERT INTO \"{table}\" ")).count();
    assert_eq!((count("a"), count("c")), (500, 500));
    assert!((15_000..20_000).contains(&count("b")), "{}", count("b"));
    for n in [1, 2000, 19_999, 20_000] {
        let row = format!("INSERT INTO \"b\" VALUES({n},");
        assert_eq!(dumped.matches(&row).count(), 1, "{n}");
    }
    assert!(dumped.ends_with("ROLLBACK; -- due to errors\n"));
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
        if len >= 20_000 {
            for sql in ["SELECT 1 FROM a", "PRAGMA user_version"] {
                densite(&["sql", &b, sql])
                    .expect(5)
                    .says("the file ends before it");
            }
        }
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

/// SQLite's text of many lines becomes as many lines, of which the first twenty are printed.
#[test]
fn many_problems_are_twenty_lines_and_a_count() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let made = rusqlite::Connection::open(&db).expect("opens");
    made.execute_batch(
        "CREATE TABLE t(a); CREATE TABLE u(a);
         INSERT INTO t VALUES (zeroblob(400000)); INSERT INTO u VALUES (1);
         PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 't';",
    )
    .expect("made");
    drop(made);
    let ran = densite(&["check", &db]).expect(5);
    let lines: Vec<&str> = ran.out.lines().collect();
    let said = |start| lines.iter().filter(|l| l.starts_with(start)).count();
    assert_eq!(said("SQLite: ") + said("b-trees: "), 20, "{lines:?}");
    assert!(!ran.out.contains("^J"), "{lines:?}");
    assert_eq!(said("and "), 1, "{lines:?}");
    assert_eq!(ran.out.matches("a.db").count(), 1, "{lines:?}");
}

/// Turso's MVCC mode writes 255 as the version of the format, SQLite's wal2 branch 3.
#[test]
fn every_verb_names_a_format_that_another_program_made_of_sqlites() {
    let dir = temp();
    let db = at(&dir, "a.db");
    plain(&db, 4096, 100);
    for version in [3, 255] {
        let mut bytes = fs::read(&db).expect("read");
        bytes[18..20].fill(version);
        fs::write(&db, bytes).expect("write");
        let before = snapshot(dir.path());
        for verb in [
            &["info"][..],
            &["report", "--output", &at(&dir, "report.html")],
            &["advise"],
            &["check"],
            &["compress"],
            &["vacuum", "--yes"],
            &["publish"],
        ] {
            let mut args = verb.to_vec();
            args.push(&db);
            let to = at(&dir, "to");
            if verb == ["publish"] {
                args.push(&to);
            }
            densite(&args).expect(5).says(&format!(
                "a.db: its header has the format version {version}, "
            ));
        }
        for sql in ["SELECT * FROM t", "PRAGMA user_version"] {
            densite(&["sql", &db, sql])
                .expect(5)
                .says(&format!("format version {version}, "));
        }
        assert!(snapshot(dir.path()) == before, "{:?}", names(dir.path()));
    }
}

/// libSQL's RANDOM ROWID is no damage.
#[test]
fn a_schema_in_another_dialect_is_told_from_damage() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let made = rusqlite::Connection::open(&db).expect("opens");
    made.execute_batch(
        "CREATE TABLE t(a); CREATE TABLE u(a); INSERT INTO t VALUES (1); INSERT INTO u VALUES (2);
         PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = 'CREATE TABLE t(a) RANDOM ROWID' WHERE name = 't';",
    )
    .expect("made");
    drop(made);
    let said = densite(&["check", &db]).expect(5).out;
    assert!(said.contains("all pages and b-trees are intact"), "{said}");
    assert!(
        said.contains("open it with the program that wrote it"),
        "{said}"
    );
    // Damage of its pages is still seen.
    let mut bytes = fs::read(&db).expect("read");
    bytes[4096..4104].fill(0xff);
    fs::write(&db, bytes).expect("write");
    let said = densite(&["check", &db]).expect(5).out;
    let words = "damaged; restore it from a backup, or save what can be read (densite salvage)";
    assert!(said.contains(words), "{said}");
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
