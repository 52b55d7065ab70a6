//! Pages that SQLite writes to the WAL are encoded before the checkpoint needs them.

use crate::common::{self, Place, assert_sound, fill, int, run, wrapped};
use densite_store::PreEncoded;
use rusqlite::Connection;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn preencoded_of(db: &Connection) -> Arc<PreEncoded> {
    densite_vfs::with_handle(&wrapped(db), c"main", |handle| handle.preencoded())
        .expect("answers")
        .flatten()
        .expect("a store")
}

/// A connection like the ingest worker's, which writes several frames of its WAL at once.
fn coalescing(place: &Place) -> Connection {
    let name = densite_sqlite::coalesced_vfs(common::densite(), Some(densite_vfs::NAME));
    let name = name.expect("registers").expect("the name is free");
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
    Connection::open_with_flags_and_vfs(place.path("x.db"), flags, name.as_c_str()).expect("opens")
}

/// A database with rows and a commit after which the pool can encode its pages. Its WAL has been
/// restarted, and SQLite does not checkpoint it by itself.
fn begun(rows: u32) -> (Place, Connection, Arc<PreEncoded>) {
    let place = Place::new();
    let db = place.try_open("x.db", "&threads=1").expect("opens");
    fill(&db, rows);
    run(
        &db,
        "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; UPDATE t SET b = 'first ' || b WHERE a % 500 = 0;
         PRAGMA wal_checkpoint(TRUNCATE)",
    );
    let preencoded = preencoded_of(&db);
    (place, db, preencoded)
}

/// Waits until a page is ready.
fn one_is_ready(preencoded: &PreEncoded) {
    let until = Instant::now() + Duration::from_secs(20);
    while preencoded.ready() == 0 {
        assert!(Instant::now() < until, "no page is ready");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The number of ready pages once the pool is at rest. While the pool works, a checkpoint does
/// without its pages, and a restart of the WAL does not wait to forget them.
fn ready_at_rest(preencoded: &PreEncoded) -> usize {
    let mut ready = 0;
    while std::mem::replace(&mut ready, preencoded.ready()) != ready {
        std::thread::sleep(Duration::from_millis(100));
    }
    ready
}

#[test]
fn pages_of_the_wal_are_ready_at_the_checkpoint() {
    let place = Place::new();
    let db = place.try_open("x.db", "&threads=1").expect("opens");
    fill(&db, 50_000);
    run(
        &db,
        "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;
         UPDATE t SET b = 'first ' || b WHERE a % 500 = 0; PRAGMA wal_checkpoint",
    );
    let preencoded = preencoded_of(&db);
    let until = Instant::now() + Duration::from_secs(20);
    let mut k = 0;
    while preencoded.ready() < 50 {
        assert!(
            Instant::now() < until,
            "only {} pages are ready",
            preencoded.ready()
        );
        run(
            &db,
            &format!(
                "UPDATE t SET b = 'then ' || a || 'x{k}' WHERE a = {}",
                k * 97 % 50_000 + 1
            ),
        );
        k += 1;
    }
    let ready = ready_at_rest(&preencoded);
    // A second connection checkpoints the first one's pages.
    let other = place.try_open("x.db", "&threads=1").expect("opens");
    run(&other, "PRAGMA wal_checkpoint");
    assert!(
        preencoded.ready() < ready / 2,
        "the checkpoint used {ready} of them"
    );
    let want = int(&db, "SELECT count(*) FROM t WHERE b LIKE 'then %'");
    assert!(want > 50);
    drop(db);
    assert_eq!(
        int(&other, "SELECT count(*) FROM t WHERE b LIKE 'then %'"),
        want
    );
    assert_sound(&other);
    drop(other);
    let again = place.open("x.db");
    assert_eq!(
        int(&again, "SELECT count(*) FROM t WHERE b LIKE 'then %'"),
        want
    );
    assert_sound(&again);
}

/// One transaction with more pages than are kept for encoding: they are learned and encoded while
/// it goes on.
#[test]
fn a_bulk_load_finds_its_frames_ready() {
    let place = Place::new();
    let db = place.try_open("x.db", "&threads=1").expect("opens");
    run(
        &db,
        "PRAGMA journal_mode=WAL; CREATE TABLE pairs(a INTEGER, b INTEGER, PRIMARY KEY (a, b));
         PRAGMA wal_checkpoint; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-400;
         BEGIN;
         WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 599999)
         INSERT INTO pairs SELECT i / 700, i % 700 FROM n",
    );
    let preencoded = preencoded_of(&db);
    let pages = int(&db, "PRAGMA page_count") as usize;
    assert!(pages > 3000, "{pages} pages");
    // The pool can be behind; how far it has come depends on the machine.
    let until = Instant::now() + Duration::from_secs(20);
    while preencoded.ready() < pages / 4 {
        assert!(Instant::now() < until, "{} of {pages}", preencoded.ready());
        std::thread::sleep(Duration::from_millis(5));
    }
    run(&db, "COMMIT; PRAGMA wal_checkpoint(TRUNCATE)");
    let left = preencoded.ready();
    assert!(left < pages / 20, "the checkpoint left {left} of {pages}");
    assert_sound(&db);
    drop(db);
    let again = place.open("x.db");
    let sums = "SELECT count(*) + sum(a) + sum(b) FROM pairs NOT INDEXED";
    let want: i64 = (0..600_000).map(|i| 1 + i / 700 + i % 700).sum();
    assert_eq!(int(&again, sums), want);
    assert_sound(&again);
}

#[test]
fn restarting_the_wal_forgets_its_pages() {
    let place = Place::new();
    let db = place.try_open("x.db", "&threads=1").expect("opens");
    fill(&db, 50_000);
    run(
        &db,
        "PRAGMA journal_mode=WAL; PRAGMA cache_size=10; UPDATE t SET b = 'x' || b WHERE a = 1;
         PRAGMA wal_checkpoint(TRUNCATE); BEGIN; UPDATE t SET b = 'never ' || b",
    );
    let preencoded = preencoded_of(&db);
    one_is_ready(&preencoded);
    ready_at_rest(&preencoded);
    run(&db, "ROLLBACK; UPDATE t SET b = 'w' WHERE a = 1");
    assert_eq!(
        preencoded.ready(),
        0,
        "no page of the rolled back transaction stays"
    );
    assert_eq!(int(&db, "SELECT count(*) FROM t WHERE b LIKE 'never%'"), 0);
    assert_sound(&db);
}

/// The ingest worker writes frames together, 60 KiB at a time. Only the frame that commits is
/// written alone.
#[test]
fn coalesced_frames_are_ready_at_the_checkpoint() {
    const PARTS: u32 = 12;
    const ROWS: u32 = 48_000;
    let (place, db, preencoded) = begun(ROWS);
    let writer = coalescing(&place);
    run(&writer, "PRAGMA wal_autocheckpoint=0");
    for part in 0..PARTS {
        let from = part * (ROWS / PARTS);
        run(
            &writer,
            &format!(
                "UPDATE t SET b = 'many ' || b WHERE a > {from} AND a <= {from} + {}",
                ROWS / PARTS
            ),
        );
    }
    // Noting any other page wakes the worker. This is one page, and it does not become ready.
    let until = Instant::now() + Duration::from_secs(20);
    for k in 0.. {
        run(&writer, &format!("UPDATE t SET b = 'one {k}' WHERE a = 1"));
        if preencoded.ready() >= 20 * PARTS as usize {
            break;
        }
        assert!(Instant::now() < until, "{} are ready", preencoded.ready());
    }
    let ready = ready_at_rest(&preencoded);
    run(&db, "PRAGMA wal_checkpoint");
    assert!(
        preencoded.ready() < ready / 2,
        "the checkpoint used few of {ready}: {} are left",
        preencoded.ready()
    );
    let many = "SELECT count(*) FROM t WHERE b LIKE 'many %'";
    assert_eq!(int(&db, many), i64::from(ROWS) - 1);
    drop(writer);
    assert_sound(&db);
}

/// Only the WAL's own header has given the page size so far.
#[test]
fn the_first_coalesced_frames_are_noted() {
    let (place, db, preencoded) = begun(48_000);
    let writer = coalescing(&place);
    // Pages that spill, without a frame that commits.
    run(
        &writer,
        "PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=50; BEGIN; UPDATE t SET b = 'many ' || b",
    );
    one_is_ready(&preencoded);
    run(&writer, "ROLLBACK");
    drop(writer);
    assert_sound(&db);
}
