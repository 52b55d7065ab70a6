//! Tables and indexes in `densite info`: the owner of each page, and the encodings of columns.

use crate::common::*;
use rusqlite::Connection;
use serde_json::Value;

/// Creates tables of every kind. SQLite itself reports sizes and page counts where it can.
fn every_sort(path: &str, page_size: u32, before: &str) {
    let db = Connection::open(path).expect("open");
    db.execute_batch(&format!(
        "PRAGMA page_size={page_size};
         {before}
         CREATE TABLE t(id INTEGER PRIMARY KEY, day TEXT, price REAL, kind TEXT,
            twice AS (price * 2), thrice AS (price * 3) STORED, note TEXT);
         CREATE INDEX t_kind ON t(kind, day);
         CREATE INDEX t_expr ON t(length(note));
         CREATE INDEX t_part ON t(price) WHERE price > 500;
         CREATE TABLE bare(a INTEGER, b TEXT UNIQUE);
         CREATE TABLE quirk(id INTEGER PRIMARY KEY DESC, v);
         CREATE TABLE pairs(v TEXT, b INTEGER, a INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID;
         CREATE INDEX pairs_v ON pairs(v);
         CREATE TABLE long(id INTEGER PRIMARY KEY, body BLOB);
         CREATE TABLE gone(a TEXT);
         CREATE TABLE none(x);
         CREATE VIRTUAL TABLE words USING fts5(body);
         CREATE VIEW v AS SELECT count(*) AS n FROM t;
         CREATE TRIGGER tr AFTER INSERT ON none BEGIN SELECT 1; END;
         CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<20000) SELECT i FROM n;
         INSERT INTO t(id, day, price, kind, note)
            SELECT i, date('1992-01-01', (i * 37 % 2500) || ' days'), (i * 7919 % 100000) / 100.0, 'kind ' || (i * i / 5 % 7),
            'a note that is ' || (i * 7919 % 1000) || ' words long' FROM n;
         INSERT INTO bare SELECT i % 10, 'unique ' || i FROM n;
         INSERT INTO quirk SELECT i, i FROM n WHERE i < 3000;
         INSERT INTO pairs SELECT 'value ' || (i * 31 % 977), i % 100, i / 100 FROM n;
         INSERT INTO long SELECT i, randomblob(3 * {page_size}) FROM n WHERE i <= 30;
         INSERT INTO gone SELECT 'some text that goes away ' || i FROM n WHERE i < 5000;
         INSERT INTO words SELECT 'word' || (i % 371) || ' and word' || (i * 7 % 173) FROM n WHERE i < 3000;
         DROP TABLE gone;"
    ))
    .expect("fill");
    db.close().expect("close");
}

/// The same database, plain and compressed.
fn plain_and_stored(dir: &tempfile::TempDir) -> [String; 2] {
    let (plain, stored) = (at(dir, "a.db"), at(dir, "a.den"));
    every_sort(&plain, 4096, "");
    densite(&["compress", &plain, &stored]).expect(0);
    [plain, stored]
}

fn info(path: &str) -> Value {
    densite(&["info", path, "--json"]).expect(0).json()
}

fn sum(info: &Value, field: &str) -> u64 {
    let objects = info["objects"].as_array().expect("objects");
    objects
        .iter()
        .map(|o| o[field].as_u64().expect(field))
        .sum()
}

#[track_caller]
fn object<'a>(info: &'a Value, name: &str) -> &'a Value {
    let objects = info["objects"].as_array().expect("objects");
    let mut found = objects.iter().filter(|o| o["name"] == name);
    let object = found.next().unwrap_or_else(|| panic!("no {name}"));
    assert!(found.next().is_none(), "{name} twice");
    object
}

#[track_caller]
fn rest<'a>(info: &'a Value, kind: &str) -> &'a Value {
    let objects = info["objects"].as_array().expect("objects");
    let found = objects
        .iter()
        .find(|o| o["kind"] == kind && o["name"].is_null());
    found.unwrap_or_else(|| panic!("no {kind}"))
}

fn columns(object: &Value) -> Vec<&str> {
    let columns = object["columns"].as_array().expect("columns");
    let names = columns.iter().map(|c| c["name"].as_str());
    names.map(|n| n.expect("a name")).collect()
}

fn encodings(object: &Value, column: &str) -> String {
    let columns = object["columns"].as_array().expect("columns");
    let found = columns.iter().find(|c| c["name"] == column);
    let found = found.unwrap_or_else(|| panic!("no {column} in {object}"));
    let all = found["encodings"].as_array().expect("an array");
    let all: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
    all.join(" | ")
}

/// Pages of each b-tree as counted by SQLite's `dbstat`: (b-tree pages by name, overflow pages).
fn counted(path: &str) -> (Vec<(String, u64)>, u64) {
    let db = Connection::open(path).expect("open");
    let all = |sql: &str| -> Vec<(String, u64)> {
        let mut stmt = db.prepare(sql).expect("dbstat");
        let rows = stmt.query_map([], |r| Ok((r.get(0)?, r.get::<_, i64>(1)? as u64)));
        rows.expect("rows").map(|r| r.expect("a row")).collect()
    };
    let trees = all("SELECT name, count(*) FROM dbstat WHERE pagetype <> 'overflow' GROUP BY name");
    let overflow = all("SELECT 'overflow', count(*) FROM dbstat WHERE pagetype = 'overflow'");
    (trees, overflow.first().map_or(0, |(_, n)| *n))
}

/// Asserts the page counts of a plain copy of the database.
#[track_caller]
fn agrees(info: &Value, path: &str) {
    let (trees, overflow) = counted(path);
    assert!(trees.len() > 10, "{trees:?}");
    for (name, pages) in &trees {
        // `dbstat` uses the older name for page 1.
        let name = name.replace("sqlite_master", "sqlite_schema");
        assert_eq!(object(info, &name)["pages"], *pages, "{name}");
    }
    assert_eq!(rest(info, "overflow")["pages"], overflow);
    let named = info["objects"].as_array().expect("objects").len() - 2;
    assert_eq!(named, trees.len(), "views and virtual tables have no pages");
    assert_eq!(info["objects_broken_pages"], 0);
    assert_eq!(info["objects_problem"], Value::Null);
    assert_eq!(sum(info, "pages"), info["pages"].as_u64().expect("pages"));
    assert_eq!(
        sum(info, "raw_bytes"),
        info["logical_bytes"].as_u64().expect("bytes")
    );
}

#[test]
fn unallocated_bytes_are_those_that_sqlite_counts() {
    let dir = temp();
    let a = at(&dir, "a.db");
    every_sort(&a, 4096, "");
    let told = info(&a);
    let db = Connection::open(&a).expect("open");
    let mut stmt = db
        .prepare("SELECT name, sum(unused), count(*) FROM dbstat WHERE pagetype <> 'overflow' GROUP BY name")
        .expect("dbstat");
    let mut rows = stmt.query([]).expect("rows");
    let mut unallocated = 0;
    while let Some(row) = rows.next().expect("a row") {
        let name: String = row.get(0).expect("a name");
        let (unused, pages): (u64, u64) = (
            row.get::<_, i64>(1).expect("bytes") as u64,
            row.get::<_, i64>(2).expect("pages") as u64,
        );
        let name = name.replace("sqlite_master", "sqlite_schema");
        let ours = object(&told, &name)["unallocated_bytes"]
            .as_u64()
            .expect("bytes");
        unallocated += ours;
        // SQLite also counts the first four bytes of a freeblock as unused.
        assert!(
            ours <= unused && unused - ours <= pages * 64,
            "{name}: {ours}, {unused}"
        );
    }
    assert_eq!(told["vacuum"]["unallocated_bytes"], unallocated);
    assert_eq!(told["vacuum"]["unallocated_estimated"], false);
}

#[test]
fn every_page_belongs_to_an_object() {
    let dir = temp();
    for (i, (page_size, before)) in [
        (4096, ""),
        (512, "PRAGMA auto_vacuum=FULL;"),
        (1024, "PRAGMA auto_vacuum=INCREMENTAL;"),
        (16384, "PRAGMA journal_mode=WAL;"),
    ]
    .into_iter()
    .enumerate()
    {
        let (plain, stored) = (at(&dir, &format!("{i}.db")), at(&dir, &format!("{i}.den")));
        every_sort(&plain, page_size, before);
        let told = info(&plain);
        agrees(&told, &plain);
        assert!(object(&told, "t")["stored_bytes"].is_null());
        assert!(object(&told, "t")["ratio"].is_null());
        let free = rest(&told, "free")["pages"].as_u64().expect("pages");
        if before.contains("auto_vacuum") {
            // Pointer maps.
            let listed = told["free_pages"].as_u64().expect("pages");
            assert!(free > listed, "{free} {listed}");
        } else {
            assert_eq!(told["free_pages"], free);
            assert!(free > 0);
        }

        densite(&["compress", &plain, &stored]).expect(0);
        let told = info(&stored);
        agrees(&told, &plain);
        let frame_bytes = told["store"]["frame_bytes"].as_u64().expect("bytes");
        assert_eq!(sum(&told, "stored_bytes"), frame_bytes);
        for o in told["objects"].as_array().expect("objects") {
            let codecs = o["codecs"].as_object().expect("codecs");
            let pages: u64 = codecs.values().filter_map(Value::as_u64).sum();
            assert_eq!(o["pages"], pages, "{o}");
        }
    }
}

#[test]
fn kinds_and_columns_are_those_of_the_schema() {
    let dir = temp();
    let path = at(&dir, "a.db");
    every_sort(&path, 4096, "");
    let told = info(&path);
    for (name, kind, table, wanted) in [
        (
            "sqlite_schema",
            "table",
            None,
            &["rowid", "type", "name", "tbl_name", "rootpage", "sql"][..],
        ),
        (
            "t",
            "table",
            None,
            &["id", "day", "price", "kind", "thrice", "note"],
        ),
        ("t_kind", "index", Some("t"), &["kind", "day", "rowid"]),
        ("t_expr", "index", Some("t"), &["expression", "rowid"]),
        ("t_part", "index", Some("t"), &["price", "rowid"]),
        ("bare", "table", None, &["rowid", "a", "b"]),
        (
            "sqlite_autoindex_bare_1",
            "index",
            Some("bare"),
            &["b", "rowid"],
        ),
        ("quirk", "table", None, &["rowid", "id", "v"]),
        ("pairs", "WITHOUT ROWID table", None, &["a", "b", "v"]),
        ("pairs_v", "index", Some("pairs"), &["v", "a", "b"]),
        ("words_data", "table", None, &["id", "block"]),
        (
            "words_idx",
            "WITHOUT ROWID table",
            None,
            &["segid", "term", "pgno"],
        ),
    ] {
        let o = object(&told, name);
        assert_eq!(o["kind"], kind, "{name}");
        assert_eq!(o["table"].as_str(), table, "{name}");
        assert_eq!(columns(o), wanted, "{name}");
    }
}

#[test]
fn encodings_are_shown_by_column() {
    let dir = temp();
    let [_, stored] = plain_and_stored(&dir);
    let told = info(&stored);
    let t = object(&told, "t");
    let by_model = t["model_pages"].as_u64().expect("pages");
    assert!(2 * by_model > t["pages"].as_u64().expect("pages"), "{t}");
    assert!(t["codecs"]["typed"].as_u64().expect("pages") >= by_model);
    for (column, words) in [
        ("id", "steps of 1"),
        ("day", "date: "),
        ("price", "decimals, scale 2: "),
        ("kind", "dictionary of 7 values: "),
    ] {
        let said = encodings(t, column);
        assert!(said.contains(words), "{column}: {said}");
    }
    let text = densite(&["info", &stored, "--columns"]).expect(0).out;
    for words in [
        "t (table): the model of ",
        "decimals, scale 2: ",
        "sqlite_schema",
        "(overflow)",
        "(free)",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    let text = densite(&["info", &stored]).expect(0).out;
    assert!(text.contains("more: densite info --columns"), "{text}");
    assert!(!text.contains("decimals"), "{text}");
}

#[test]
fn a_wal_is_not_counted() {
    let dir = temp();
    for db in &plain_and_stored(&dir) {
        let mut other = Other::on(db);
        other.run("PRAGMA journal_mode=WAL");
        let before = info(db);
        other.run(
            "CREATE TABLE later AS SELECT * FROM t; DROP TABLE pairs; INSERT INTO none SELECT note FROM t",
        );
        let after = info(db);
        assert!(after["wal_bytes"].as_u64() > Some(0));
        assert_eq!(before["objects"], after["objects"], "{db}");
        let text = densite(&["info", db]).expect(0).out;
        assert!(
            text.contains("These figures do not include the content of the WAL"),
            "{text}"
        );
    }
}

#[test]
fn unreadable_pages_do_not_stop_info() {
    let dir = temp();
    let path = at(&dir, "a.db");
    every_sort(&path, 1024, "");
    let root: u32 = Connection::open(&path)
        .expect("open")
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 't'",
            [],
            |r| r.get(0),
        )
        .expect("a page");
    let whole = info(&path);
    let mut bytes = std::fs::read(&path).expect("read");
    let at_root = (root as usize - 1) * 1024;
    bytes[at_root..at_root + 1024].fill(0xee);
    std::fs::write(&path, &bytes).expect("write");
    let told = info(&path);
    assert_eq!(told["objects_broken_pages"], 1);
    assert_eq!(object(&told, "t")["pages"], 1);
    assert_eq!(object(&told, "bare"), object(&whole, "bare"));
    assert_eq!(sum(&told, "pages"), sum(&whole, "pages"));
    assert!(
        densite(&["info", &path])
            .expect(0)
            .out
            .contains("Run densite check")
    );
    // Damages the schema itself.
    bytes[100..1024].fill(0xee);
    std::fs::write(&path, &bytes).expect("write");
    let told = info(&path);
    assert!(told["objects_problem"].is_string(), "{told}");
    assert_eq!(told["objects"], serde_json::json!([]));
    assert_eq!(told["pages"], whole["pages"]);
}

#[test]
fn fields_of_an_object_are_documented() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CLI.md"))
        .expect("docs/CLI.md");
    let table = text
        .split("| of an object | type | meaning |")
        .nth(1)
        .expect("the table");
    let table = table.split("\n\n").next().expect("its end");
    let dir = temp();
    let path = at(&dir, "a.db");
    plain(&path, 4096, 100);
    let told = info(&path);
    let fields = object(&told, "t").as_object().expect("an object");
    for field in fields.keys() {
        assert!(table.contains(&format!("| `{field}` | ")), "{field}");
    }
    let rows = table.lines().filter(|l| l.starts_with("| `")).count();
    assert_eq!(rows, fields.len());
}

/// A reader that stays open prevents the WAL from restarting. `info` names its process while it
/// reads from the WAL.
#[test]
fn readers_of_the_wal_are_named() {
    let dir = temp();
    for db in &plain_and_stored(&dir) {
        let mut writer = Other::on(db);
        writer.run("PRAGMA journal_mode=WAL; CREATE TABLE later(x)");
        assert_eq!(info(db)["wal_readers"], serde_json::json!([]), "{db}");
        let mut reader = Other::on(db);
        reader.run("BEGIN; SELECT count(*) FROM later");
        let told = info(db);
        assert_eq!(told["wal_readers"][0]["pid"], reader.pid(), "{db}");
        assert_eq!(told["wal_readers"][0]["name"], "densite", "{db}");
        let text = densite(&["info", db]).expect(0).out;
        let line = format!("process {} (densite); it cannot restart", reader.pid());
        assert!(text.contains(&line), "{text}");
        reader.run("COMMIT");
        assert_eq!(info(db)["wal_readers"], serde_json::json!([]), "{db}");
    }
}

/// A checkpoint that a kill or a full disk interrupted leaves such a file. It is not damaged: the
/// rest is in the WAL.
#[test]
fn a_file_that_needs_its_wal_is_not_reported_as_damaged() {
    let dir = temp();
    let (open, whole, half) = (
        at(&dir, "open.db"),
        at(&dir, "whole.db"),
        at(&dir, "half.db"),
    );
    let db = Connection::open(&open).expect("open");
    db.execute_batch(
        "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t(x);
         PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO t VALUES (zeroblob(100000))",
    )
    .expect("fill");
    for to in [&whole, &half] {
        std::fs::copy(&open, to).expect("copied");
        std::fs::copy(format!("{open}-wal"), format!("{to}-wal")).expect("copied");
    }
    let first = Connection::open(&whole).expect("open");
    first
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .expect("checkpoint");
    drop(first);
    // The first page is written first. It names pages that are not in the file yet.
    let page = &std::fs::read(&whole).expect("read")[..4096];
    let mut bytes = std::fs::read(&half).expect("read");
    bytes[..4096].copy_from_slice(page);
    std::fs::write(&half, bytes).expect("written");
    let told = info(&half)["objects_problem"].to_string();
    assert!(told.contains("together with the journal or WAL"), "{told}");
    assert!(!told.contains("backup"), "{told}");
    densite(&["check", &half]).expect(0);
    assert!(info(&half)["objects_problem"].is_null());
}
