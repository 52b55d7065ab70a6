//! `densite salvage`: what can be read of a damaged database, and a list of what is missing.

use crate::common::*;
use rusqlite::Connection;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

/// A database with each kind of table and each other part of a schema.
const ALL: &str = r#"
CREATE TABLE plain(a, b DEFAULT 'x''y', "odd ""name""" TEXT COLLATE NOCASE);
INSERT INTO plain(a) VALUES (1), (2.5), (x'00ff'), (NULL);
INSERT INTO plain(rowid, a) VALUES (-9223372036854775808, 'least'), (70, 'most');
ALTER TABLE plain ADD COLUMN later INT DEFAULT 7;
INSERT INTO plain(a, later) VALUES ('new', 8);
CREATE TABLE shadowed(rowid, oid TEXT);
INSERT INTO shadowed VALUES (9, 'nine');
CREATE TABLE auto(id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT NOT NULL UNIQUE CHECK (length(v) > 1));
INSERT INTO auto(v) VALUES ('aa'), ('bb'), ('cc');
DELETE FROM auto WHERE id = 3;
CREATE TABLE wide(k1 TEXT, n REAL, k0 INT, PRIMARY KEY (k0, k1 DESC)) WITHOUT ROWID;
INSERT INTO wide VALUES ('a', 1, 2), ('b', 0.5, 1), ('c', NULL, 1);
CREATE TABLE computed(a INT, twice AS (a * 2) STORED, b, thrice AS (a * 3));
INSERT INTO computed(a, b) VALUES (1, 'b'), (2, NULL);
CREATE TABLE strict_one(i INTEGER, r REAL, t TEXT, b BLOB, x ANY) STRICT;
INSERT INTO strict_one VALUES (1, 2, '3', x'04', 5), (NULL, 1e300, '', x'', '005');
CREATE TABLE long(id INTEGER PRIMARY KEY, v);
WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
  INSERT INTO long SELECT i * 3, CASE WHEN i % 50 THEN printf('%.*c', i, 'v') ELSE randomblob(30000) END FROM n;
CREATE VIRTUAL TABLE words USING fts5(v, content='auto', content_rowid='id');
INSERT INTO words(words) VALUES ('rebuild');
CREATE INDEX by_v ON long(substr(v, 1, 3)) WHERE id > 10;
CREATE UNIQUE INDEX by_n ON wide(n);
CREATE VIEW seen AS SELECT a, twice FROM computed;
CREATE TRIGGER after_auto AFTER INSERT ON auto BEGIN INSERT INTO plain(a) VALUES (new.v); END;
CREATE TABLE gone(a); INSERT INTO gone SELECT randomblob(2000) FROM long; DROP TABLE gone;
ANALYZE;
PRAGMA user_version = -5; PRAGMA application_id = 77;
"#;

/// All content, with row ids and settings.
fn content(db: &str) -> String {
    let dump = densite(&["sql", db, ".dump"]).expect(0).out;
    // VACUUM puts virtual tables behind all others.
    let mut lines: Vec<&str> = dump.lines().collect();
    lines.sort_unstable();
    let mut all = lines.join("\n");
    for sql in [
        "SELECT _rowid_, quote(a) FROM plain",
        "SELECT _rowid_, * FROM shadowed",
        "SELECT * FROM sqlite_sequence",
        "SELECT * FROM wide NOT INDEXED",
        "SELECT * FROM computed",
        "SELECT rowid FROM words('bb')",
        "SELECT tbl, idx, stat FROM sqlite_stat1 ORDER BY 1, 2",
        "SELECT user_version, application_id FROM pragma_user_version, pragma_application_id",
        "SELECT page_size, auto_vacuum, encoding, journal_mode FROM pragma_page_size, pragma_auto_vacuum, pragma_encoding, pragma_journal_mode",
    ] {
        all.push_str(
            &densite(&["sql", db, sql, "--format", "quote"])
                .expect(0)
                .out,
        );
    }
    all
}

/// Fails with the first line that differs.
fn same(found: &str, wanted: &str, what: &str) {
    let first = |line: Option<&str>| line.map(|line| line.chars().take(200).collect::<String>());
    let (mut found, mut wanted) = (found.lines(), wanted.lines());
    loop {
        let pair = (found.next(), wanted.next());
        assert!(
            pair.0 == pair.1,
            "{what}: {:?}, not {:?}",
            first(pair.0),
            first(pair.1)
        );
        if pair.0.is_none() {
            return;
        }
    }
}

fn salvage(src: &str, dst: &str) -> Ran {
    densite(&["salvage", src, dst, "--json"])
}

#[test]
fn a_whole_database_is_saved_with_everything() {
    for (settings, is_compressed) in [
        ("", true),
        (
            "PRAGMA page_size = 1024; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL",
            true,
        ),
        (
            "PRAGMA page_size = 65536; PRAGMA encoding = 'UTF-16be'; PRAGMA auto_vacuum = FULL",
            true,
        ),
        (
            "PRAGMA page_size = 512; PRAGMA encoding = 'UTF-16le'",
            false,
        ),
    ] {
        let dir = temp();
        let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
        densite(&["sql", "--create", &a, &format!("{settings}; {ALL}")]).expect(0);
        if !is_compressed {
            densite(&["decompress", &a]).expect(0);
        }
        let before = fs::read(&a).expect("read");
        let said = salvage(&a, &b).expect(0).json();
        assert_eq!(said["complete"], true, "{said}");
        assert!(fs::read(&a).expect("read") == before, "the source changed");
        same(&content(&b), &content(&a), settings);
        densite(&["check", &b]).expect(0);
        assert_eq!(names(dir.path()), ["a.db", "b.db"]);
    }
}

/// Each verb that reads a Densite file without its beginning names the one that saves it.
#[track_caller]
fn without_beginning(db: &str) {
    for args in [
        &["check", db][..],
        &["info", db],
        &["compress", db],
        &["sql", db, "SELECT * FROM long"],
    ] {
        let ran = densite(args).expect(5).says("densite salvage can read");
        assert!(ran.err.contains("its beginning is lost"), "{ran:?}");
        assert!(!ran.err.contains("not a SQLite database"), "{ran:?}");
    }
    assert_eq!(
        densite(&["info", db, "--json"]).json()["error"]["kind"],
        "damaged"
    );
}

/// Pages are found by their frames if the parts of the file that lead to them are lost.
#[test]
fn a_file_without_its_first_bytes_or_its_last_commits_is_saved() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    densite(&["sql", "--create", &a, ALL]).expect(0);
    for round in 0..4 {
        let change = format!("UPDATE long SET v = v || {round} WHERE id % 7 = {round}");
        densite(&["sql", &a, &change]).expect(0);
    }
    let (whole, wanted) = (fs::read(&a).expect("read"), content(&a));
    let lost: [(std::ops::Range<usize>, u8); 4] = [
        (0..16384, 0),
        (0..16384, 0xc3),
        (4096..16384, 0xc3),
        (24..12288, 0),
    ];
    for (range, byte) in lost {
        let mut bytes = whole.clone();
        bytes[range.clone()].fill(byte);
        fs::write(&a, bytes).expect("written");
        if range == (0..16384) {
            without_beginning(&a);
        }
        let said = salvage(&a, &b).expect(5).json();
        assert_eq!(said["by_frames"], true, "{range:?}: {said}");
        same(&content(&b), &wanted, &format!("{range:?}"));
        fs::remove_file(&b).expect("removed");
        let text = densite(&["salvage", &a, &b]).expect(5).out;
        assert!(text.contains("of an earlier moment"), "{text}");
        fs::remove_file(&b).expect("removed");
    }
    // A file of something else has no pages.
    fs::write(&a, [0x5a; 50_000]).expect("written");
    for verb in ["info", "check"] {
        densite(&[verb, &a])
            .expect(5)
            .says("is not a SQLite database");
    }
    densite(&["salvage", &a, &b])
        .expect(5)
        .says("is not a SQLite database");
    assert_eq!(names(dir.path()), ["a.db"]);
}

/// SQLite stores what is no valid text, and so does the copy, byte for byte.
#[test]
fn malformed_text_keeps_its_bytes() {
    for (encoding, texts) in [
        ("UTF-8", ["ff61", "c3", "efbbbfed"]),
        // A half of a surrogate pair; behind a byte order mark; two halves in the wrong order.
        ("UTF-16le", ["00d86100", "fffe00dc", "00dc00d8"]),
        ("UTF-16be", ["d8000061", "feffdc00", "dc00d800"]),
    ] {
        let dir = temp();
        let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
        let rows: Vec<String> = texts
            .iter()
            .map(|hex| format!("(CAST(x'{hex}' AS TEXT), 'valid', CAST(x'{hex}' AS TEXT))"))
            .collect();
        let sql = format!(
            "PRAGMA encoding = '{encoding}';
             CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b TEXT, c); CREATE INDEX i ON t(a);
             CREATE TABLE u(a TEXT, b TEXT, c);
             INSERT INTO t(a, b, c) VALUES {0}; INSERT INTO u VALUES {0}",
            rows.join(", ")
        );
        densite(&["sql", "--create", &a, &sql]).expect(0);
        let content = |db: &str| {
            let sql = "SELECT typeof(a), hex(CAST(a AS BLOB)), b, typeof(c), hex(CAST(c AS BLOB)) FROM t UNION ALL SELECT typeof(a), hex(CAST(a AS BLOB)), b, typeof(c), hex(CAST(c AS BLOB)) FROM u ORDER BY 2";
            densite(&["sql", db, sql, "--format", "csv"]).expect(0).out
        };
        let before = content(&a);
        for hex in texts {
            assert_eq!(before.matches(&hex.to_uppercase()).count(), 4, "{before}");
        }
        salvage(&a, &b).expect(0);
        assert_eq!(content(&b), before, "{encoding}");
        densite(&["check", &b]).expect(0);
    }
}

/// The rows of `long`, by their ids.
fn long(db: &str) -> BTreeMap<i64, String> {
    let sql = "SELECT id, quote(v) FROM long";
    let out = densite(&["sql", db, sql, "--format", "json"]).expect(0).out;
    let rows: Vec<Value> = serde_json::from_str(&out).expect("JSON");
    let row = |row: &Value| {
        let id = row["id"].as_i64().expect("an id");
        (id, row["quote(v)"].to_string())
    };
    rows.iter().map(row).collect()
}

/// Wherever bytes are wrong, the rows that are saved are right, and those that are not saved are
/// among the missing.
#[test]
fn every_row_is_saved_or_listed_wherever_bytes_are_wrong() {
    let mut saved_some = 0;
    for is_compressed in [true, false] {
        let dir = temp();
        let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
        let rows = "CREATE TABLE long(id INTEGER PRIMARY KEY, v); WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500) INSERT INTO long SELECT i * 3, CASE WHEN i % 100 THEN hex(randomblob(9 + i % 30)) ELSE randomblob(4000) END FROM n; CREATE INDEX i ON long(v)";
        let made = format!("PRAGMA page_size = 512; {rows}");
        densite(&["sql", "--create", &a, &made]).expect(0);
        if !is_compressed {
            densite(&["decompress", &a]).expect(0);
        }
        let (wanted, whole) = (long(&a), fs::read(&a).expect("read"));
        // A first page that is damaged leaves nothing to begin with.
        for n in 0..40 {
            let place = 600 + n * (whole.len() - 700) / 40;
            let mut bytes = whole.clone();
            bytes[place..place + 32].fill(0xa5);
            fs::write(&a, bytes).expect("written");
            let _ = fs::remove_file(&b);
            let ran = salvage(&a, &b);
            if ran.code == 5 && ran.out.contains("\"error\"") {
                assert_eq!(names(dir.path()), ["a.db"], "{}", ran.out);
                continue;
            }
            let said = ran.json();
            let found = long(&b);
            let table = said["tables"]
                .as_array()
                .and_then(|tables| tables.iter().find(|table| table["name"] == "long"));
            let missing = table.expect("the table")["missing"]
                .as_array()
                .expect("a list");
            let is_missing = |id: i64| {
                missing.iter().any(|missing| {
                    let end = |name: &str| missing[name].as_i64().expect("an id");
                    end("first_id") <= id && id <= end("last_id")
                })
            };
            for (id, value) in &wanted {
                match found.get(id) {
                    // A plain file has no checksums: what is wrong within a value is not seen.
                    Some(same) if is_compressed => assert_eq!(same, value, "{id} at {place}"),
                    Some(_) => {}
                    None => assert!(is_missing(*id), "{id} at {place}: {said}"),
                }
            }
            assert!(
                found.keys().all(|id| wanted.contains_key(id)) || !is_compressed,
                "{place}"
            );
            assert!(
                found.len() + 200 > wanted.len(),
                "{} at {place}: {said}",
                found.len()
            );
            densite(&["check", &b]).expect(0);
            saved_some += 1;
        }
    }
    assert!(saved_some > 60, "{saved_some}");
}

#[test]
fn rows_below_a_lost_page_are_found_again() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    let db = Connection::open(&a).expect("open");
    db.execute_batch(
        "PRAGMA page_size = 1024;
         CREATE TABLE one(id INTEGER PRIMARY KEY, v); CREATE TABLE two(id INTEGER PRIMARY KEY, v, w);
         WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
           INSERT INTO one SELECT i, 'one ' || i FROM n;
         INSERT INTO two SELECT id, v, 'two' FROM one; INSERT INTO one VALUES (5000, printf('%.*c', 9000, 'x'))",
    )
    .expect("made");
    let root = |table: &str| -> usize {
        let sql = format!("SELECT rootpage FROM sqlite_schema WHERE name = '{table}'");
        let root: i64 = db.query_row(&sql, [], |row| row.get(0)).expect("a root");
        usize::try_from(root).expect("a page")
    };
    let roots = [root("one"), root("two")];
    db.close().expect("closed");
    let whole = fs::read(&a).expect("read");
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        let out = densite(&["sql", &b, &sql, "--format", "list"])
            .expect(0)
            .out;
        out.trim().to_owned()
    };
    // With one root lost, all leaves are those of its table.
    let mut bytes = whole.clone();
    bytes[(roots[0] - 1) * 1024..roots[0] * 1024].fill(0);
    fs::write(&a, &bytes).expect("written");
    salvage(&a, &b).expect(5);
    assert_eq!((count("one"), count("two")), ("1001".into(), "1000".into()));
    // With both, rows of three values can only be of one of them.
    bytes[(roots[1] - 1) * 1024..roots[1] * 1024].fill(0);
    fs::write(&a, &bytes).expect("written");
    fs::remove_file(&b).expect("removed");
    let said = salvage(&a, &b).expect(5).json();
    assert_eq!((count("one"), count("two")), ("0".into(), "1000".into()));
    assert_eq!(
        (&said["found_table"], &said["found_rows"]),
        (&"lost_and_found".into(), &1001.into())
    );
    let sql = "SELECT id, c1 FROM lost_and_found WHERE id = 77";
    let row = densite(&["sql", &b, sql, "--format", "list"]).expect(0).out;
    assert_eq!(row, "77|one 77\n");
}

/// A connection of an application that has a collation, backwards, and a function.
fn application(path: &str) -> Connection {
    use rusqlite::functions::FunctionFlags;
    let db = Connection::open(path).expect("open");
    db.create_collation("app", |a: &str, b: &str| b.cmp(a))
        .expect("a collation");
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("app", 1, flags, |_| Ok(1))
        .expect("a function");
    db
}

#[test]
fn what_only_the_application_has_is_named() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    let db = application(&a);
    db.execute_batch(
        "CREATE TABLE t(a, b COLLATE app); INSERT INTO t VALUES (1, 'x'), (2, 'y');
         CREATE INDEX i ON t(b); CREATE INDEX j ON t(a) WHERE app(a);
         CREATE TABLE u(a TEXT COLLATE app UNIQUE, n CHECK (app(n)));
         INSERT INTO u(a, n) VALUES ('a', 1), ('b', 2);
         CREATE TABLE w(k TEXT COLLATE app PRIMARY KEY) WITHOUT ROWID;
         INSERT INTO w VALUES ('b'), ('a'), ('c')",
    )
    .expect("made");
    db.close().expect("closed");
    let said = salvage(&a, &b).expect(5).json();
    let not_made = said["not_made"].to_string();
    for what in [
        "the index i: no such collation sequence: app",
        "the index j: only the application has the function app",
        "the order of the index sqlite_autoindex_u_1",
    ] {
        assert!(not_made.contains(what), "{said}");
    }
    assert_eq!(said["found_rows"], 0, "{said}");
    densite(&["decompress", &b]).expect(0);
    let db = application(&b);
    db.execute_batch("REINDEX u").expect("reindexed");
    let one = |sql: &str| -> String { db.query_row(sql, [], |row| row.get(0)).expect(sql) };
    assert_eq!(one("PRAGMA integrity_check"), "ok");
    for (sql, wanted) in [
        ("SELECT group_concat(a || b) FROM t", "1x,2y"),
        ("SELECT group_concat(a || n) FROM u NOT INDEXED", "a1,b2"),
        ("SELECT group_concat(k) FROM w", "c,b,a"),
    ] {
        assert_eq!(one(sql), wanted, "{sql}");
    }
}

#[test]
fn nothing_is_overwritten_and_what_is_no_database_is_named() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    plain(&a, 4096, 100);
    fs::write(&b, "something").expect("written");
    densite(&["salvage", &a, &b]).expect(1).says("b.db");
    for command in [&["salvage"][..], &["compress"], &["publish", "--yes"]] {
        densite(&[command, &[&a, &a]].concat())
            .expect(1)
            .says("this is the source itself");
    }
    let (log, other) = (at(&dir, "other.db-log"), at(&dir, "other.db"));
    fs::create_dir(&log).expect("made");
    for verb in ["salvage", "compress"] {
        densite(&[verb, &a, &other]).expect(1).says("other.db-log");
    }
    assert_eq!(fs::read(&b).expect("read"), b"something");
    let c = at(&dir, "c.db");
    densite(&["salvage", &b, &c])
        .expect(5)
        .says("not a SQLite database");
    densite(&["salvage", &at(&dir, "none.db"), &c])
        .expect(1)
        .says("no such file");
    let mut bytes = fs::read(&a).expect("read");
    bytes[100..4000].fill(0);
    fs::write(&a, bytes).expect("written");
    let said = salvage(&a, &c).expect(5).json();
    assert_eq!(said["complete"], false, "{said}");
    assert_ne!(said["found_rows"], 0, "{said}");
}

#[test]
fn rows_without_row_ids_below_a_lost_page_are_found_again() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    let db = Connection::open(&a).expect("open");
    db.execute_batch(
        "PRAGMA page_size = 1024;
         CREATE TABLE tag(k INTEGER, name TEXT, n, PRIMARY KEY(k, name)) WITHOUT ROWID;
         CREATE TABLE other(id INTEGER PRIMARY KEY, v); CREATE INDEX by_v ON other(v);
         WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
           INSERT INTO tag SELECT i, 'tag ' || i, i % 7 FROM n;
         INSERT INTO other SELECT k, name FROM tag",
    )
    .expect("made");
    let root = |name: &str| -> usize {
        let sql = format!("SELECT rootpage FROM sqlite_schema WHERE name = '{name}'");
        let root: i64 = db.query_row(&sql, [], |row| row.get(0)).expect("a root");
        usize::try_from(root).expect("a page")
    };
    let (tag, index) = (root("tag"), root("by_v"));
    db.close().expect("closed");
    let mut bytes = fs::read(&a).expect("read");
    let lost = |bytes: &mut Vec<u8>, page: usize| bytes[(page - 1) * 1024..page * 1024].fill(0);
    lost(&mut bytes, tag);
    fs::write(&a, &bytes).expect("written");
    let count = |sql: &str| -> i64 {
        let out = densite(&["sql", &b, sql, "--format", "list"]).expect(0).out;
        out.trim().parse().expect("a number")
    };
    let said = salvage(&a, &b).expect(5).json();
    // The lost page has a few rows itself.
    let found = count("SELECT count(*) FROM tag WHERE name = 'tag ' || k AND n = k % 7");
    assert!((1950..2000).contains(&found), "{found}: {said}");
    assert_eq!(count("SELECT count(*) FROM other"), 2000);
    assert_eq!(said["found_rows"], 0, "{said}");
    // Of an index with as many values nothing is known: then they are kept aside.
    lost(&mut bytes, index);
    fs::write(&a, &bytes).expect("written");
    fs::remove_file(&b).expect("removed");
    let said = salvage(&a, &b).expect(5).json();
    let kept = count("SELECT count(*) FROM lost_and_found WHERE c1 = 'tag ' || c0 AND c2 = c0 % 7");
    assert_eq!(kept, found, "{said}");
}

#[test]
fn a_plain_file_that_is_cut_off_is_read_as_far_as_it_goes() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    plain(&a, 1024, 3000);
    let whole = fs::read(&a).expect("read");
    let all = rows(&a, "SELECT id FROM t").len();
    // Within the last page, some free pages, and half of the file.
    for cut in [100, 10_000, whole.len() / 2] {
        fs::write(&a, &whole[..whole.len() - cut]).expect("written");
        let _ = fs::remove_file(&b);
        let ran = salvage(&a, &b);
        if cut == whole.len() / 2 {
            let said = ran.expect(5).json().to_string();
            assert!(said.contains("the file ends before it"), "{said}");
        }
        let found = rows(&b, "SELECT id FROM t").len();
        assert!(found > all / 4 && found <= all, "{cut}: {found} of {all}");
    }
    fs::write(&a, &whole[..50]).expect("written");
    let _ = fs::remove_file(&b);
    assert_ne!(salvage(&a, &b).code, 0);
}
