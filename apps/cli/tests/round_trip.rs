//! Compressing and then decompressing gives the checkpointed source byte for byte, except for
//! unused bytes.

use crate::common::*;
use rusqlite::Connection;
use std::fs;

const PAGE_SIZES: [u32; 8] = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

#[test]
fn every_page_size_to_another_file_and_back() {
    for size in PAGE_SIZES {
        let dir = temp();
        let (a, b, c) = (at(&dir, "a.db"), at(&dir, "b.db"), at(&dir, "c.db"));
        plain(&a, size, 3000);
        let source = fs::read(&a).expect("read");
        assert!(
            !free_leaves(&source, size as usize).is_empty() || size > 16384,
            "no free pages at {size}"
        );

        let report = densite(&["compress", &a, &b, "--json"]).expect(0).json();
        assert_eq!(report["page_size"], size);
        assert_eq!(report["pages"], source.len() as u64 / u64::from(size));
        assert_eq!(
            report["free_pages_zeroed"],
            free_leaves(&source, size as usize).len() as u64
        );
        assert!(is_compressed(&b));
        assert!(fs::read(&a).expect("read") == source, "the source changed");
        assert_eq!(dump(&a), dump(&b));
        assert_eq!(
            densite(&["check", &b, "--json"]).expect(0).json()["ok"],
            true
        );

        densite(&["decompress", &b, &c]).expect(0);
        assert_same_but_unused(&source, &fs::read(&c).expect("read"));
        assert_eq!(names(dir.path()), ["a.db", "b.db", "c.db"]);
    }
}

#[test]
fn in_place_and_back() {
    for size in [512, 4096, 65536] {
        let dir = temp();
        let a = at(&dir, "a.db");
        plain(&a, size, 3000);
        let source = fs::read(&a).expect("read");
        let report = densite(&["compress", &a, "--json"]).expect(0).json();
        assert_eq!(report["in_place"], true);
        assert!(is_compressed(&a));
        densite(&["decompress", &a]).expect(0);
        assert_same_but_unused(&source, &fs::read(&a).expect("read"));
        assert_eq!(names(dir.path()), ["a.db"]);
    }
}

#[test]
fn an_archive_is_smaller_and_can_be_read_written_and_brought_back() {
    for size in [512, 4096, 65536] {
        let dir = temp();
        let (a, b, c, d) = (
            at(&dir, "a.db"),
            at(&dir, "b.db"),
            at(&dir, "c.db"),
            at(&dir, "d.db"),
        );
        plain(&a, size, 6000);
        let source = fs::read(&a).expect("read");
        densite(&["compress", &a, &b]).expect(0);
        densite(&["compress", &a, &c, "--archive"]).expect(0);
        let length = |path: &str| fs::metadata(path).expect("there").len();
        assert!(length(&c) < length(&b), "{} and {}", length(&c), length(&b));
        assert_eq!(dump(&a), dump(&c));
        densite(&["decompress", &c, &d]).expect(0);
        assert_same_but_unused(&source, &fs::read(&d).expect("read"));
        let written = "CREATE TABLE more(x); INSERT INTO more VALUES (1), (2)";
        densite(&["sql", &c, written]).expect(0);
        assert_eq!(
            densite(&["check", &c, "--json"]).expect(0).json()["ok"],
            true
        );
        let sum =
            densite(&["sql", &c, "SELECT sum(x) AS s FROM more", "--format", "csv"]).expect(0);
        assert!(sum.out.contains('3'), "{}", sum.out);
    }
}

#[test]
fn levels_threads_and_cache() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 3000);
    let source = fs::read(&a).expect("read");
    for (i, options) in [
        &["--level", "-7"][..],
        &["--level", "22"],
        &["--threads", "0"],
        &["--threads", "4", "--cache-size", "1"],
        &["--cache-size", "0"],
    ]
    .into_iter()
    .enumerate()
    {
        let (b, c) = (at(&dir, &format!("b{i}.db")), at(&dir, &format!("c{i}.db")));
        densite(&[&["compress", &*a, &*b], options].concat()).expect(0);
        densite(&["decompress", &b, &c]).expect(0);
        assert_same_but_unused(&source, &fs::read(&c).expect("read"));
    }
}

#[test]
fn auto_vacuum_wal_and_reserved_settings_survive() {
    let dir = temp();
    let (a, b, c) = (at(&dir, "a.db"), at(&dir, "b.db"), at(&dir, "c.db"));
    {
        let db = Connection::open(&a).expect("open");
        db.execute_batch(
            "PRAGMA page_size=1024; PRAGMA auto_vacuum=INCREMENTAL; PRAGMA encoding='UTF-16le';",
        )
        .expect("set");
        fill(&db, 1024, 3000);
        db.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(()))
            .expect("set");
        db.execute_batch("UPDATE t SET score=-score")
            .expect("update");
    }
    let source = fs::read(&a).expect("read");
    densite(&["compress", &a, &b]).expect(0);
    assert_eq!(
        densite(&["info", &b, "--json"]).expect(0).json()["journal_mode"],
        "wal"
    );
    densite(&["decompress", &b, &c]).expect(0);
    assert_same_but_unused(&source, &fs::read(&c).expect("read"));
    assert_eq!(names(dir.path()), ["a.db", "b.db", "c.db"]);
}

#[test]
fn another_page_size() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 1024, 3000);
    let want = dump(&a);
    for (size, wal) in [(512u32, false), (4096, true), (65536, true)] {
        if wal {
            let db = Connection::open(&a).expect("open");
            db.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(()))
                .expect("set");
        }
        let b = at(&dir, &format!("b{size}.db"));
        let report = densite(&[
            "compress",
            &a,
            &b,
            "--page-size",
            &size.to_string(),
            "--json",
        ])
        .expect(0)
        .json();
        assert_eq!(report["page_size"], size);
        let info = densite(&["info", &b, "--json"]).expect(0).json();
        assert_eq!(info["page_size"], size);
        assert_eq!(info["pages"], report["pages"]);
        assert_eq!(info["journal_mode"], if wal { "wal" } else { "rollback" });
        assert_eq!(dump(&b), want);
        densite(&["check", &b]).expect(0);
        assert_eq!(
            densite(&["sql", &b, "PRAGMA user_version", "--format", "csv"]).out,
            "user_version\n42\n"
        );
    }
    let before = fs::read(&a).expect("read");
    let report = densite(&["compress", &a, "--page-size", "8192", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (&report["in_place"], &report["page_size"]),
        (&true.into(), &8192.into())
    );
    assert!(fs::read(&a).expect("read") != before && is_compressed(&a));
    assert_eq!(dump(&a), want);
    assert_eq!(
        names(dir.path()),
        ["a.db", "b4096.db", "b512.db", "b65536.db"]
    );
    // If the page size is unchanged, nothing is rewritten.
    let c = at(&dir, "c.db");
    plain(&c, 2048, 100);
    let source = fs::read(&c).expect("read");
    densite(&["compress", &c, "--page-size", "2048"]).expect(0);
    densite(&["decompress", &c]).expect(0);
    assert_same_but_unused(&source, &fs::read(&c).expect("read"));
}

#[test]
fn a_database_without_a_table() {
    let dir = temp();
    let (a, b, c) = (at(&dir, "a.db"), at(&dir, "b.db"), at(&dir, "c.db"));
    Connection::open(&a)
        .expect("open")
        .execute_batch("PRAGMA user_version=1")
        .expect("set");
    densite(&["compress", &a, &b]).expect(0);
    densite(&["decompress", &b, &c]).expect(0);
    assert!(fs::read(&a).expect("read") == fs::read(&c).expect("read"));
}

#[test]
fn special_characters_in_file_names_are_kept() {
    let dir = temp();
    let (a, b, c) = (
        at(&dir, "a ?x=1&y#%41'.db"),
        at(&dir, "b'%.db"),
        at(&dir, "c?.db"),
    );
    plain(&a, 4096, 300);
    let source = fs::read(&a).expect("read");
    densite(&["compress", &a, &b]).expect(0);
    densite(&["compress", &a, &c, "--page-size", "1024"]).expect(0);
    assert_eq!(dump(&b), dump(&c));
    densite(&["check", &b]).expect(0);
    densite(&["decompress", &b]).expect(0);
    assert_same_but_unused(&source, &fs::read(&b).expect("read"));
    assert_eq!(names(dir.path()).len(), 3);
}

#[test]
fn a_damaged_freelist_is_not_changed() {
    let dir = temp();
    let (a, b, c) = (at(&dir, "a.db"), at(&dir, "b.db"), at(&dir, "c.db"));
    plain(&a, 1024, 3000);
    let mut source = fs::read(&a).expect("read");
    // The count of free pages is one too high.
    let count = u32::from_be_bytes(source[36..40].try_into().expect("four bytes")) + 1;
    source[36..40].copy_from_slice(&count.to_be_bytes());
    fs::write(&a, &source).expect("write");
    let report = densite(&["compress", &a, &b, "--json"]).expect(0).json();
    assert_eq!(report["free_pages_zeroed"], 0);
    densite(&["decompress", &b, &c]).expect(0);
    assert_same_but_unused(&source, &fs::read(&c).expect("read"));
}
