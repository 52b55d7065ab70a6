//! A database has almost the same size however it was written: by `compress`, by VACUUM INTO, by one
//! transaction, or by many and some rest.

mod common;

use common::api;
use densite_tools::{ConvertOptions, Silent};
use rusqlite::Connection;
use std::path::Path;
use std::time::{Duration, Instant};

fn open(path: &Path, vfs: &str) -> Connection {
    api();
    Connection::open(format!("file:{}?vfs={vfs}", path.display())).expect("opens")
}

/// A table of text whose words change slowly, or one of numbers and NULLs with a key of text.
fn fill(db: &Connection, kind: &str) {
    let statements = match kind {
        "text" => {
            "CREATE TABLE t(a INTEGER PRIMARY KEY, name TEXT, body TEXT);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<40000)
             INSERT INTO t SELECT i, 'name-' || i*7919%100003,
                 (SELECT group_concat(substr('taloriniesquomiveranpedusolica',
                     1 + (i/900 + abs(i*31 + w*w*7919))%25, 3 + (i+w)%4) || w%(3+i/5000), ' ')
                  FROM (SELECT value AS w FROM generate_words))
             FROM n;
             CREATE INDEX x ON t(name);"
        }
        _ => {
            "CREATE TABLE t(key TEXT PRIMARY KEY, ts INTEGER, value REAL, note TEXT, flag INTEGER);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<60000)
             INSERT INTO t SELECT printf('%08x', i*2654435761%4294967296), 1700000000+i*7,
                 CASE WHEN i%10 THEN 20+(i*7919%1000)/100.0 END,
                 CASE WHEN i%3=0 THEN 'note ' || i%97 END, i%4 FROM n;
             CREATE INDEX x ON t(flag, ts);"
        }
    };
    db.execute_batch("CREATE TEMP TABLE generate_words(value)")
        .expect("words");
    for word in 0..12 {
        db.execute("INSERT INTO generate_words VALUES (?)", [word])
            .expect("a word");
    }
    db.execute_batch(statements).expect("fills");
}

#[test]
fn vacuum_into_and_one_transaction_are_as_small_as_compress() {
    for kind in ["text", "mixed"] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let plain = open(&path("plain.db"), "unix");
        fill(&plain, kind);
        plain
            .execute_batch(&format!(
                "VACUUM INTO 'file:{}?vfs=unix'",
                path("dense.db").display()
            ))
            .expect("a dense one");
        let dense = open(&path("dense.db"), "unix");
        dense
            .execute_batch(&format!(
                "VACUUM INTO 'file:{}?vfs=densite'",
                path("into.db").display()
            ))
            .expect("vacuums");
        // The same rows in the same order as VACUUM writes them, in one transaction.
        let copy = open(&path("copy.db"), "densite");
        let schema: Vec<String> = dense
            .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")
            .and_then(|mut rows| rows.query_map([], |row| row.get(0))?.collect())
            .expect("the schema");
        let statements =
            schema
                .join(";")
                .replacen(';', "; INSERT INTO t SELECT * FROM from_.t; ", 1);
        copy.execute_batch(&format!(
            "ATTACH 'file:{}?vfs=unix' AS from_; BEGIN; {statements}; COMMIT",
            path("dense.db").display()
        ))
        .expect("copies");
        drop(copy);
        drop(dense);
        let options = ConvertOptions::default();
        let (from, to) = (path("dense.db"), path("compressed.db"));
        densite_tools::compress(api(), &from, Some(&to), &options, &mut Silent)
            .expect("compresses");
        let len = |name: &str| std::fs::metadata(path(name)).expect("a file").len();
        let compressed = len("compressed.db");
        for written in ["into.db", "copy.db"] {
            let len = len(written);
            assert!(
                len * 100 <= compressed * 102,
                "{kind} {written}: {len} and {compressed}"
            );
            let db = open(&path(written), "densite");
            let sound: String = db
                .query_row("PRAGMA integrity_check", [], |row| row.get(0))
                .expect("checks");
            assert_eq!(sound, "ok", "{kind} {written}");
        }
    }
}

/// Inserts rows of slowly changing text, 200 in each transaction. Returns the open database.
fn fill_by_small_commits(path: &Path, journal: &str, parameters: &str) -> Connection {
    let db = open(path, &format!("densite{parameters}"));
    let mode: String = db
        .query_row(&format!("PRAGMA journal_mode={journal}"), [], |row| {
            row.get(0)
        })
        .expect("sets the mode");
    assert_eq!(mode, journal);
    db.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, kind TEXT, body TEXT)")
        .expect("creates");
    let words = [
        "tal", "ori", "nies", "quo", "mi", "verant", "pedu", "solica",
    ];
    for first in (0..40_000u64).step_by(200) {
        db.execute_batch("BEGIN").expect("begins");
        for n in first..first + 200 {
            let drawn = |i: u64| (n * 64 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let word = |i: u64| words[((n / 4000 + drawn(i)) % 8) as usize];
            let body: Vec<String> = (1..24)
                .map(|i| format!("{}{}", word(i), n / 5000 * 37 % 100 + drawn(i) % 20))
                .collect();
            db.execute(
                "INSERT INTO t VALUES (?, ?, ?)",
                (n as i64, word(99), body.join(" ")),
            )
            .expect("inserts");
        }
        db.execute_batch("COMMIT").expect("commits");
    }
    db
}

/// A figure of `densite info`.
fn figure(path: &Path, name: &str) -> u64 {
    let info = densite_tools::info(api(), path).expect("figures");
    let figures = info.store.expect("a Densite file");
    figures
        .iter()
        .find(|(found, _)| name == *found)
        .expect("a figure")
        .1
}

#[test]
fn small_transactions_and_some_rest_are_almost_as_small_as_compress() {
    for journal in ["delete", "wal"] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let len = |name: &str| std::fs::metadata(path(name)).expect("a file").len();
        for (name, parameters) in [
            ("never.db", "&maintain=off"),
            ("closed.db", ""),
            ("asked.db", "&maintain=off"),
        ] {
            let db = fill_by_small_commits(&path(name), journal, parameters);
            db.close().expect("closes");
        }
        let idle = fill_by_small_commits(&path("idle.db"), journal, "");
        let db = open(&path("asked.db"), "densite");
        db.query_row("PRAGMA densite_maintain", [], |_| Ok(()))
            .expect("maintains");
        let sound: String = db
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .expect("checks");
        assert_eq!(sound, "ok");
        db.close().expect("closes");
        let options = ConvertOptions::default();
        let (from, to) = (path("never.db"), path("plain.db"));
        densite_tools::decompress(api(), &from, Some(&to), &options, &mut Silent)
            .expect("decompresses");
        let to = path("compressed.db");
        densite_tools::compress(api(), &path("plain.db"), Some(&to), &options, &mut Silent)
            .expect("compresses");
        let [never, closed, asked, compressed] =
            ["never.db", "closed.db", "asked.db", "compressed.db"].map(len);
        let live = |name: &str| figure(&path(name), "live_bytes");
        let text = format!("{journal}: {never} {closed} {asked} {compressed}");
        assert!(never > compressed * 120 / 100, "{text}");
        // Without folding, the entries of the map in trailers take a fourteenth of this file.
        assert!(figure(&path("compressed.db"), "map_bytes") < compressed / 50);
        // Space is won in units of 64 KiB. One more than the records need can stay: the place that
        // they would be moved to.
        let most = compressed * 103 / 100;
        assert!(live("closed.db").max(live("asked.db")) <= most, "{text}");
        assert!(
            closed.max(asked) <= most.next_multiple_of(64 << 10) + (64 << 10),
            "{text}"
        );
        // The background worker does the same beside an open connection, whose file has a reserve
        // behind its end.
        let frames = || figure(&path("idle.db"), "frame_bytes");
        let until = Instant::now() + Duration::from_secs(60);
        while frames() > most && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(200));
        }
        assert!(frames() <= most, "{text} {}", frames());
        drop(idle);
    }
}

/// The map of a database of small pages has many short nodes. Free space before them is cut off.
#[test]
fn a_compressed_database_of_small_pages_becomes_shorter_when_its_free_pages_are_dropped() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let plain = open(&path("plain.db"), "unix");
    plain
        .execute_batch(
            "PRAGMA page_size=512; CREATE TABLE t(a, b); CREATE TABLE keep(a);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
             INSERT INTO t SELECT i, replace(hex(zeroblob(12)), '00', 'row ' || i || ' ') FROM n;
             DROP TABLE t;",
        )
        .expect("fills");
    drop(plain);
    let (from, to) = (path("plain.db"), path("small.db"));
    let options = ConvertOptions::default();
    densite_tools::compress(api(), &from, Some(&to), &options, &mut Silent).expect("compresses");
    let len = || std::fs::metadata(path("small.db")).expect("a file").len();
    let compressed = len();
    let db = open(&path("small.db"), "densite");
    db.execute_batch("INSERT INTO keep VALUES (1)")
        .expect("inserts");
    // The close does the same, but not for long on a busy machine.
    db.query_row("PRAGMA densite_maintain", [], |_| Ok(()))
        .expect("maintains");
    drop(db);
    let closed = len();
    assert!(closed * 4 < compressed * 3, "{closed} of {compressed}");
}
