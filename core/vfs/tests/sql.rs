//! SQL through the VFS works as in plain SQLite.

use crate::common::{self, Place, assert_sound, copy, figure, fill, int, run, text, wrapped};

#[test]
fn every_journal_mode_and_page_size_survives_reopening() {
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF", "WAL"] {
        for page_size in [512, 1024, 4096, 65536] {
            let place = Place::new();
            let db = place.open("x.db");
            run(
                &db,
                &format!("PRAGMA page_size={page_size}; PRAGMA cache_size=20"),
            );
            let got = text(&db, &format!("PRAGMA journal_mode={mode}"));
            assert_eq!(got, mode.to_lowercase());
            fill(&db, 500);
            run(
                &db,
                "BEGIN; DELETE FROM t WHERE a % 3 = 0; INSERT INTO t(b) VALUES ('new'); COMMIT",
            );
            if mode != "OFF" {
                run(&db, "BEGIN; DELETE FROM t; ROLLBACK");
            }
            let sum = int(&db, "SELECT sum(a) FROM t");
            drop(db);
            assert!(!place.is_plain("x.db"), "{mode} {page_size}");
            let db = place.open("x.db");
            assert_eq!(int(&db, "SELECT sum(a) FROM t"), sum, "{mode} {page_size}");
            assert_eq!(int(&db, "PRAGMA page_size"), page_size);
            assert_eq!(figure(&db, "kind"), "densite");
            assert_sound(&db);
        }
    }
}

#[test]
fn vacuum_changes_the_page_size_and_auto_vacuum_modes_work() {
    let place = Place::new();
    let db = place.open("x.db");
    run(&db, "PRAGMA page_size=1024");
    fill(&db, 2000);
    run(&db, "PRAGMA page_size=8192; VACUUM");
    assert_eq!(int(&db, "PRAGMA page_size"), 8192);
    assert_sound(&db);
    for (mode, number) in [("FULL", 1), ("INCREMENTAL", 2)] {
        run(&db, &format!("PRAGMA auto_vacuum={mode}; VACUUM"));
        assert_eq!(int(&db, "PRAGMA auto_vacuum"), number);
        run(&db, "DELETE FROM t WHERE a % 2");
        run(&db, "PRAGMA incremental_vacuum");
        assert_eq!(int(&db, "PRAGMA freelist_count"), 0);
        assert_sound(&db);
    }
}

#[test]
fn attached_databases_commit_together_in_any_mixture() {
    let place = Place::new();
    let db = place.open("a.db");
    let plain = place.path("plain.db");
    let other = place.path("b.db");
    run(
        &db,
        &format!(
            "ATTACH 'file:{}?vfs=densite' AS b; ATTACH 'file:{}?vfs=unix' AS p;
             CREATE TABLE main.t(x); CREATE TABLE b.t(x); CREATE TABLE p.t(x);
             BEGIN; INSERT INTO main.t VALUES (1); INSERT INTO b.t VALUES (2);
             INSERT INTO p.t VALUES (3); COMMIT;
             BEGIN; INSERT INTO main.t VALUES (10); INSERT INTO b.t VALUES (20); ROLLBACK;",
            other.display(),
            plain.display()
        ),
    );
    assert_eq!(
        int(
            &db,
            "SELECT sum(x) FROM (SELECT x FROM main.t UNION ALL SELECT x FROM b.t UNION ALL SELECT x FROM p.t)"
        ),
        6
    );
    drop(db);
    assert!(place.is_plain("plain.db") && !place.is_plain("a.db") && !place.is_plain("b.db"));
    assert_eq!(int(&place.open("b.db"), "SELECT x FROM t"), 2);
}

#[test]
fn backups_go_both_ways_and_vacuum_into_makes_a_store() {
    let place = Place::new();
    let (plain, store) = (place.plain("plain.db"), place.open("x.db"));
    fill(&plain, 1000);
    let sum = text(&plain, "SELECT count(*) || max(b) FROM t");
    {
        let to = place.open("copy.db");
        copy(&plain, &to);
        assert_eq!(text(&to, "SELECT count(*) || max(b) FROM t"), sum);
        assert_sound(&to);
    }
    fill(&store, 1000);
    let sum = text(&store, "SELECT count(*) || max(b) FROM t");
    let back = place.plain("back.db");
    copy(&store, &back);
    assert_eq!(text(&back, "SELECT count(*) || max(b) FROM t"), sum);
    assert!(place.is_plain("back.db") && !place.is_plain("copy.db"));
    run(
        &store,
        &format!("VACUUM INTO '{}'", place.path("into.db").display()),
    );
    assert!(!place.is_plain("into.db"));
    assert_eq!(
        text(&place.open("into.db"), "SELECT count(*) || max(b) FROM t"),
        sum
    );
}

#[test]
fn read_only_databases_can_be_read_and_not_written() {
    let place = Place::new();
    fill(&place.open("x.db"), 100);
    let before = common::bytes(&place.path("x.db"));
    for parameters in ["&mode=ro", "&immutable=1", "&mode=ro&nolock=1"] {
        let db = place.try_open("x.db", parameters).expect("opens");
        assert_eq!(int(&db, "SELECT count(*) FROM t"), 100, "{parameters}");
        assert!(db.execute_batch("DELETE FROM t").is_err(), "{parameters}");
    }
    assert!(
        common::bytes(&place.path("x.db")) == before,
        "reading changes nothing"
    );
}

#[test]
fn exclusive_locking_and_no_syncs() {
    for mode in ["DELETE", "WAL"] {
        let place = Place::new();
        let db = place.open("x.db");
        run(&db, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=OFF");
        assert_eq!(
            text(&db, &format!("PRAGMA journal_mode={mode}")),
            mode.to_lowercase()
        );
        fill(&db, 1000);
        run(&db, "PRAGMA wal_checkpoint; DELETE FROM t WHERE a > 500");
        drop(db);
        let db = place.open("x.db");
        assert_eq!(int(&db, "SELECT count(*) FROM t"), 500);
        assert_sound(&db);
    }
}

/// Rule S4: a committed transaction is in the file itself, with every locking mode and with or
/// without syncs.
#[test]
fn a_copy_of_the_files_taken_after_a_commit_has_it() {
    for setup in [
        "PRAGMA synchronous=OFF",
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=OFF",
        "PRAGMA locking_mode=EXCLUSIVE",
        "PRAGMA journal_mode=PERSIST; PRAGMA locking_mode=EXCLUSIVE",
    ] {
        let place = Place::new();
        let db = place.open("x.db");
        run(&db, setup);
        fill(&db, 100);
        run(&db, "DELETE FROM t WHERE a > 60");
        std::fs::copy(place.path("x.db"), place.path("copy.db")).expect("copies");
        let copy = place.open("copy.db");
        assert_eq!(int(&copy, "SELECT count(*) FROM t"), 60, "{setup}");
        assert_sound(&copy);
    }
}

/// A copy in the middle of a transaction that spilled its cache: the journal restores the state
/// before.
#[test]
fn a_copy_of_the_files_taken_within_a_transaction_rolls_back() {
    let place = Place::new();
    let db = place.open("x.db");
    run(&db, "PRAGMA cache_size=5; PRAGMA page_size=1024");
    fill(&db, 2000);
    let before = text(&db, "SELECT count(*) || max(b) FROM t");
    run(
        &db,
        "BEGIN; UPDATE t SET b = hex(randomblob(30)); DELETE FROM t WHERE a % 7 = 0",
    );
    for suffix in ["", "-djournal"] {
        let (from, to) = (format!("x.db{suffix}"), format!("copy.db{suffix}"));
        std::fs::copy(place.path(&from), place.path(&to)).expect("copies");
    }
    let copy = place.open("copy.db");
    assert_eq!(text(&copy, "SELECT count(*) || max(b) FROM t"), before);
    assert_sound(&copy);
    run(&db, "ROLLBACK");
    assert_eq!(text(&db, "SELECT count(*) || max(b) FROM t"), before);
    assert_sound(&db);
}

#[test]
fn the_host_side_of_the_file_is_as_designed() {
    let place = Place::new();
    let db = place.open("x.db");
    // Rule S13: a Densite file cannot be mapped.
    assert_eq!(int(&db, "PRAGMA mmap_size=1000000"), 0);
    fill(&db, 100);
    assert_eq!(int(&db, "PRAGMA mmap_size"), 0);
    let wrapped = wrapped(&db);
    assert_eq!(wrapped.vfs_name(None).as_deref(), Some("densite/unix"));
    let pages = densite_vfs::with_handle(&wrapped, c"main", |handle| {
        handle.stats().expect("readable").pages
    });
    assert_eq!(
        pages.expect("answers"),
        u64::try_from(int(&db, "PRAGMA page_count")).ok()
    );
    let none = densite_vfs::with_handle(&wrapped, c"temp", |_| ()).expect("answers");
    assert!(none.is_none());
    let error = densite_vfs::with_handle(&wrapped, c"nowhere", |_| ()).expect_err("no schema");
    assert!(error.message.contains("nowhere"));
}

#[test]
fn wal_readers_keep_their_snapshot_across_checkpoints() {
    let place = Place::new();
    let writer = place.open("x.db");
    assert_eq!(text(&writer, "PRAGMA journal_mode=WAL"), "wal");
    fill(&writer, 500);
    let reader = place.open("x.db");
    run(&reader, "BEGIN");
    let before = text(&reader, "SELECT count(*) || sum(length(b)) FROM t");
    for i in 0..5 {
        run(
            &writer,
            &format!("UPDATE t SET b = b || 'x{i}'; DELETE FROM t WHERE a % 50 = {i}"),
        );
        run(&writer, "PRAGMA wal_checkpoint(PASSIVE)");
        assert_eq!(
            text(&reader, "SELECT count(*) || sum(length(b)) FROM t"),
            before
        );
        let third = place.open("x.db");
        assert_eq!(
            text(&third, "SELECT count(*) || sum(length(b)) FROM t"),
            text(&writer, "SELECT count(*) || sum(length(b)) FROM t")
        );
    }
    run(&reader, "COMMIT");
    run(&writer, "PRAGMA wal_checkpoint(TRUNCATE)");
    assert_sound(&reader);
}
