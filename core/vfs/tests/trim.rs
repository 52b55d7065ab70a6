//! Free pages lose their frames, but a page that a reader can still need never does.

use crate::common::{self, Place, assert_sound, copy, figure, int, run, text};
use rusqlite::Connection;

/// Fills `table` with rows of 900 bytes of distinct content.
fn rows(db: &Connection, table: &str, n: u32) {
    run(
        db,
        &format!(
            "CREATE TABLE IF NOT EXISTS {table}(a INTEGER PRIMARY KEY, b TEXT);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n})
             INSERT INTO {table} SELECT NULL, substr(hex(randomblob(460)) || i, -900) FROM n;"
        ),
    );
}

fn framed(db: &Connection) -> i64 {
    figure(db, "framed_pages").parse().expect("a number")
}

fn pages(db: &Connection) -> i64 {
    int(db, "PRAGMA page_count")
}

fn free(db: &Connection) -> i64 {
    int(db, "PRAGMA freelist_count")
}

/// A summary of everything in a table.
fn content(db: &Connection, table: &str) -> String {
    text(
        db,
        &format!(
            "SELECT count(*) || ' ' || ifnull(group_concat(substr(b, 1, 8), ''), '') FROM {table}"
        ),
    )
}

fn open(place: &Place, name: &str, journal: &str) -> Connection {
    let db = place.open(name);
    run(
        &db,
        &format!(
            "PRAGMA journal_mode={journal}; PRAGMA secure_delete=OFF; PRAGMA wal_autocheckpoint=0"
        ),
    );
    db
}

#[test]
fn a_complete_checkpoint_drops_free_pages() {
    let place = Place::new();
    let db = open(&place, "x.db", "WAL");
    rows(&db, "t", 8000);
    run(&db, "PRAGMA wal_checkpoint");
    let full = framed(&db);
    run(&db, "DELETE FROM t WHERE a > 2000");
    let left = content(&db, "t");
    run(&db, "PRAGMA wal_checkpoint");
    let free = free(&db);
    assert!(free > 1000);
    // Trunk pages stay, one in a thousand.
    let dropped = full - framed(&db);
    assert!(
        dropped >= free - 5,
        "{dropped} of {free} free pages were dropped"
    );
    assert_eq!(content(&db, "t"), left);
    assert_sound(&db);
    rows(&db, "u", 3000);
    let other = content(&db, "u");
    run(&db, "PRAGMA wal_checkpoint");
    assert_sound(&db);
    drop(db);
    let db = place.open("x.db");
    assert_eq!((content(&db, "t"), content(&db, "u")), (left, other));
    assert_sound(&db);
}

#[test]
fn after_a_partial_checkpoint_nothing_is_dropped() {
    let place = Place::new();
    let db = open(&place, "x.db", "WAL");
    rows(&db, "t", 400);
    rows(&db, "v", 40);
    run(
        &db,
        "CREATE TABLE u(a INTEGER PRIMARY KEY, b); DELETE FROM t WHERE a > 100; PRAGMA wal_checkpoint(TRUNCATE)",
    );
    // Free pages are used again, under a reader's snapshot.
    run(
        &db,
        "INSERT INTO u SELECT a, hex(randomblob(450)) FROM t LIMIT 60",
    );
    let reader = place.open("x.db");
    run(&reader, "BEGIN");
    assert_eq!(int(&reader, "SELECT count(*) FROM u"), 60);
    let was = content(&reader, "u");
    // Page 1 and the trunk change once more. The checkpoint leaves both as they were before `u` was
    // written.
    run(&db, "DELETE FROM v WHERE a > 20");
    let before = framed(&db);
    run(&db, "PRAGMA wal_checkpoint(PASSIVE)");
    assert!(
        int(
            &db,
            "SELECT wal.log > wal.checkpointed FROM (SELECT 1 AS log, 0 AS checkpointed) AS wal"
        ) == 1
    );
    assert!(framed(&db) >= before, "nothing was dropped");
    assert_eq!(content(&reader, "u"), was);
    run(&reader, "COMMIT");
    assert_eq!(content(&reader, "u"), was);
    assert_sound(&reader);
    run(&db, "PRAGMA wal_checkpoint(TRUNCATE)");
    assert_eq!(content(&reader, "u"), was);
    assert_sound(&db);
}

#[test]
fn an_old_snapshot_keeps_its_pages() {
    let place = Place::new();
    let db = open(&place, "x.db", "WAL");
    rows(&db, "t", 4000);
    run(&db, "PRAGMA wal_checkpoint(TRUNCATE)");
    let reader = place.open("x.db");
    run(&reader, "BEGIN");
    let was = content(&reader, "t");
    run(&db, "DELETE FROM t WHERE a > 100");
    for mode in ["PASSIVE", "FULL"] {
        let _: i64 = db
            .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |r| r.get(0))
            .expect("answers");
        assert_eq!(content(&reader, "t"), was, "{mode}");
    }
    run(&reader, "COMMIT");
    run(&db, "PRAGMA wal_checkpoint(TRUNCATE)");
    assert!(framed(&db) < 300);
    assert_sound(&db);
}

#[test]
fn the_next_commit_drops_free_pages_in_a_rollback_mode() {
    for journal in ["DELETE", "TRUNCATE", "PERSIST"] {
        let place = Place::new();
        let db = open(&place, "x.db", journal);
        rows(&db, "t", 4000);
        rows(&db, "u", 400);
        let left = content(&db, "u");
        let before = framed(&db);
        run(&db, "DROP TABLE t");
        let freed = free(&db);
        assert!(freed > 900);
        assert!(
            framed(&db) >= before,
            "{journal}: the journal can come back"
        );
        run(&db, "INSERT INTO u VALUES(1000, 'another row')");
        let left = left.replacen("400 ", "401 ", 1) + "another ";
        assert!(
            framed(&db) < before - freed + 10,
            "{journal}: {} of {before}",
            framed(&db)
        );
        assert_eq!(content(&db, "u"), left);
        assert_sound(&db);
        run(
            &db,
            "BEGIN; DELETE FROM u WHERE a > 100; INSERT INTO u SELECT NULL, b FROM u; ROLLBACK",
        );
        assert_eq!(content(&db, "u"), left);
        rows(&db, "w", 2000);
        run(&db, "DELETE FROM u WHERE a = 1");
        assert_sound(&db);
    }
}

#[test]
fn the_last_close_drops_free_pages() {
    for journal in ["DELETE", "WAL"] {
        let place = Place::new();
        let db = open(&place, "x.db", journal);
        rows(&db, "t", 4000);
        rows(&db, "u", 400);
        let left = content(&db, "u");
        run(&db, "DROP TABLE t");
        let freed = free(&db);
        let all = pages(&db);
        drop(db);
        let db = place.open("x.db");
        assert!(framed(&db) < all - freed + 10, "{journal}");
        assert_eq!(content(&db, "u"), left);
        assert_sound(&db);
    }
}

/// The journal of a commit is gone, but not durably: after a power cut it is back. It does not have
/// the pages that the commit freed.
#[test]
fn a_journal_that_reappears_after_a_power_cut_finds_its_pages() {
    let place = Place::new();
    let db = open(&place, "x.db", "DELETE");
    rows(&db, "t", 400);
    rows(&db, "u", 400);
    let was = (content(&db, "t"), content(&db, "u"));
    // A spill writes the journal in its final form. A second link keeps the file.
    run(
        &db,
        "PRAGMA cache_size=1; BEGIN; UPDATE t SET b = 'x' || b WHERE a = 1; DROP TABLE u; CREATE TABLE z(x)",
    );
    let journal = place.path("x.db-djournal");
    let saved = place.path("saved");
    std::fs::hard_link(&journal, &saved).expect("links");
    // This gives the state just before the commit deletes its journal: everything else has
    // happened, and the journal is synced.
    run(&db, "COMMIT");
    assert!(!journal.exists());
    for (from, to) in [("x.db", "y.db"), ("saved", "y.db-djournal")] {
        std::fs::copy(place.path(from), place.path(to)).expect("copies");
    }
    let back = place.open("y.db");
    assert_eq!((content(&back, "t"), content(&back, "u")), was);
    assert_sound(&back);
    // The next commit's journal replaces it; only then are the pages dropped.
    let before = framed(&db);
    run(&db, "DELETE FROM t WHERE a = 1");
    assert!(framed(&db) < before - 50);
}

/// A slice leaves most of a long list to the next one. Pages that another connection takes in
/// between must not be dropped.
#[test]
fn a_freelist_changed_by_others_is_read_again() {
    let place = Place::new();
    let db = place.try_open("x.db", "&maintain=off").expect("opens");
    run(
        &db,
        "PRAGMA page_size=512; PRAGMA journal_mode=DELETE; PRAGMA secure_delete=OFF;
         CREATE TABLE keeper(a INTEGER PRIMARY KEY, b TEXT)",
    );
    rows(&db, "t", 60_000);
    run(&db, "DELETE FROM t");
    assert!(free(&db) > 10_000, "{}", free(&db));
    let path = place.path("x.db");
    let taken = std::sync::atomic::AtomicBool::new(false);
    densite_vfs::failpoint::arm("between-slices", move || {
        if taken.swap(true, std::sync::atomic::Ordering::SeqCst) {
            return;
        }
        let uri = format!("file:{}?vfs=densite&maintain=off", path.display());
        let other = Connection::open(uri).expect("opens");
        run(
            &other,
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8000)
             INSERT INTO keeper SELECT i, hex(randomblob(100)) FROM n",
        );
    });
    run(&db, "PRAGMA densite_maintain");
    densite_vfs::failpoint::disarm("between-slices");
    let kept: i64 = db
        .query_row(
            "SELECT count(*) FROM keeper WHERE length(b) = 200",
            [],
            |r| r.get(0),
        )
        .expect("reads");
    assert_eq!(kept, 8000);
    assert_sound(&db);
}

#[test]
fn a_malformed_freelist_is_not_changed() {
    let place = Place::new();
    let plain = place.plain("plain.db");
    rows(&plain, "t", 2000);
    run(&plain, "CREATE TABLE u(x); DROP TABLE t");
    let count = u32::try_from(free(&plain)).expect("small");
    drop(plain);
    // The header counts one page more than the list has.
    let mut bytes = common::bytes(&place.path("plain.db"));
    bytes[36..40].copy_from_slice(&(count + 1).to_be_bytes());
    std::fs::write(place.path("plain.db"), bytes).expect("writes");
    let (plain, to) = (place.plain("plain.db"), place.open("x.db"));
    // A backup copies pages unchanged.
    copy(&plain, &to);
    let before = framed(&to);
    run(&to, "INSERT INTO u VALUES(1)");
    run(&to, "INSERT INTO u VALUES(2)");
    assert!(framed(&to) >= before, "{} of {before}", framed(&to));
    drop(to);
    let db = place.open("x.db");
    assert!(framed(&db) >= before);
}
