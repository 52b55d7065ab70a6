//! Files of earlier builds stay readable and writable. `tests/fixtures` has `v1-zstd-dict` (format
//! 1, zstd with and without dictionary) and `v1-typed` (format 1, typed frames and models). From
//! the release of a version on, none of its files is created again (docs/FORMAT.md, Versions).
//!
//! Each holds the same table of 4000 rows and an index on it: [`MADE`] with pages of 1024 bytes,
//! after VACUUM. `densite compress` and `densite-bench compress-with --codec zstd` created them.
//! Symbol tables, dictionaries of text and archives are in the fuzzer's files
//! (`fuzz/tests/replay.rs`).

use std::fs;
use std::path::{Path, PathBuf};

use densite_disk::hash::Xxh3_64;
use densite_disk::{OpenMode, RealFile};
use densite_store::{Handle, Options};
use densite_tests::model::{folder, register};
use rusqlite::{Connection, OpenFlags};

/// The files by name, with a figure of `densite_info` that is characteristic for each.
const FILES: [(&str, &str); 2] = [
    ("v1-typed", "pages_typed"),
    ("v1-zstd-dict", "pages_zstd_dict"),
];

/// The statements that create their content.
const MADE: &str = "
    CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, price NUMERIC, day TEXT);
    CREATE INDEX t_day ON t(day);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
    INSERT INTO t SELECT i, 'name of row ' || i, (i * 7919 % 10007) / 100.0, date('2020-01-01', (i % 900) || ' days') FROM n;";

/// Changes, deletes and inserts rows, and creates a new table, for which a model is trained.
const WORK: &str = "
    UPDATE t SET name = upper(name), price = price + 1 WHERE id % 3 = 0;
    DELETE FROM t WHERE id BETWEEN 1000 AND 1100;
    INSERT INTO t SELECT id + 10000, 'new ' || name, price, day FROM t WHERE id % 2 = 1;
    CREATE TABLE u AS SELECT day, count(*) AS n, sum(price) AS total, group_concat(name) AS names FROM t GROUP BY day;";

fn open(path: &Path, flags: OpenFlags) -> Connection {
    register();
    let uri = format!("file:{}?vfs=densite", path.display());
    let flags = flags | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(uri, flags).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |r| r.get(0))
        .unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// A hash of the four columns of all rows, their types included.
fn hash(db: &Connection, sql: &str) -> u64 {
    let mut hash = Xxh3_64::with_seed(0);
    let mut statement = db.prepare(sql).expect("sql");
    let mut rows = statement.query([]).expect("rows");
    while let Some(row) = rows.next().expect("a row") {
        for i in 0..4 {
            let value = row.get_ref(i).expect("a value");
            hash.update(format!("{value:?};").as_bytes());
        }
    }
    hash.digest()
}

/// A hash of all rows including their types, read from the table and again through its index.
fn content(db: &Connection) -> u64 {
    let ok: String = db
        .query_row("PRAGMA integrity_check", [], |r| r.get(0))
        .expect("a check");
    assert_eq!(ok, "ok");
    let by_key = hash(db, "SELECT * FROM t ORDER BY id");
    assert_eq!(
        hash(
            db,
            "SELECT * FROM (SELECT * FROM t INDEXED BY t_day ORDER BY day) ORDER BY id"
        ),
        by_key
    );
    by_key
}

/// Asserts that the store's own check finds no problem.
fn is_sound(path: &Path) {
    let file = RealFile::open(path, OpenMode::Read).expect("open");
    let options = Options {
        read_only: true,
        ..Options::default()
    };
    let mut handle =
        Handle::open(Box::new(file), &path.display().to_string(), options).expect("a store");
    let report = handle.check(&mut |_, _| true).expect("a check");
    assert_eq!((report.problems, report.cut), (vec![], None));
}

/// Hashes of the content of the files before and after [`WORK`], computed with plain SQLite.
fn expected() -> (u64, u64) {
    let db = Connection::open_in_memory().expect("open");
    db.execute_batch(MADE).expect("rows");
    let before = content(&db);
    db.execute_batch(WORK).expect("work");
    (before, content(&db))
}

fn fixtures() -> Vec<PathBuf> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");
    let mut all: Vec<PathBuf> = fs::read_dir(dir)
        .expect("the fixtures")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "densite"))
        .collect();
    all.sort();
    all
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[test]
fn all_are_known() {
    let names: Vec<String> = fixtures().iter().map(|path| stem(path)).collect();
    assert_eq!(names, FILES.map(|file| file.0));
}

#[test]
fn old_files_are_read() {
    let dir = folder();
    for (fixture, (_, figure)) in fixtures().iter().zip(FILES) {
        let path = dir.path().join("old.db");
        fs::copy(fixture, &path).expect("copy");
        let before = fs::read(&path).expect("read");
        let db = open(&path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        assert_eq!(number(&db, "SELECT count(*) FROM t"), 4000);
        assert!(content(&db) == expected().0, "{}", stem(fixture));
        let of_its_kind = format!("SELECT value FROM densite_info WHERE name = '{figure}'");
        assert!(number(&db, &of_its_kind) > 10, "{figure}");
        drop(db);
        assert!(
            fs::read(&path).expect("read") == before,
            "reading changed it"
        );
        is_sound(&path);
    }
}

#[test]
fn old_files_are_written() {
    let (before, after) = expected();
    for journal in ["delete", "wal"] {
        let dir = folder();
        for fixture in fixtures() {
            let path = dir.path().join(format!("{}.db", stem(&fixture)));
            fs::copy(&fixture, &path).expect("copy");
            let db = open(&path, OpenFlags::SQLITE_OPEN_READ_WRITE);
            assert!(content(&db) == before);
            let mode: String = db
                .query_row(&format!("PRAGMA journal_mode = {journal}"), [], |r| {
                    r.get(0)
                })
                .expect("a mode");
            assert_eq!(mode, journal);
            db.execute_batch(WORK).expect("work");
            assert!(content(&db) == after, "{}", stem(&fixture));
            drop(db);
            is_sound(&path);
            let db = open(&path, OpenFlags::SQLITE_OPEN_READ_ONLY);
            assert!(content(&db) == after, "{}", stem(&fixture));
            let (days, rows) = (
                number(&db, "SELECT count(*) FROM u"),
                number(&db, "SELECT sum(n) FROM u"),
            );
            assert_eq!(
                (days, rows),
                (
                    number(&db, "SELECT count(DISTINCT day) FROM t"),
                    number(&db, "SELECT count(*) FROM t")
                )
            );
        }
    }
}
