//! The host is not asked again about a journal or WAL known to be absent; new ones are still
//! noticed.

use crate::common;

use common::flaky::flaky;
use common::{Place, assert_sound, fill, int, run, text};
use rusqlite::Connection;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longer than an answer is valid.
const AGED: Duration = Duration::from_millis(30);

#[test]
fn lookups_do_not_ask_for_journal_and_wal_each_time() {
    const LOOKUPS: u32 = 2000;
    let (faults, vfs) = flaky("absent");
    let place = Place::new();
    let db = place.try_open_over(&vfs, "t.db", "").expect("opens");
    fill(&db, 1000);
    let mut lookup = db.prepare("SELECT a FROM t WHERE a = ?").expect("compiles");
    let mut all = |count| {
        let before = faults.asked.load(Ordering::Relaxed);
        for i in 0..count {
            let a = lookup.query_row([i % 1000 + 1], |row| row.get::<_, u32>(0));
            assert_eq!(a, Ok(i % 1000 + 1));
        }
        faults.asked.load(Ordering::Relaxed) - before
    };
    // The number of questions depends on how long the lookups take.
    let asked = all(LOOKUPS);
    assert!(asked < 2 * LOOKUPS, "{asked} for {LOOKUPS} lookups");
    std::thread::sleep(AGED);
    assert_eq!(all(1), 2, "an expired answer is asked for again");
}

/// A database with 500 rows of value 1, and the hot journal of a transaction that overwrote all of
/// them.
fn with_journal(place: &Place) -> (Connection, Vec<u8>) {
    let db = place.open("t.db");
    fill(&db, 500);
    run(&db, "ALTER TABLE t ADD v DEFAULT 1; UPDATE t SET v = 1");
    run(&db, "PRAGMA cache_size=5; BEGIN; UPDATE t SET v = 2");
    let journal = std::fs::read(place.path("t.db-djournal")).expect("it was spilled");
    assert!(journal[0] != 0, "it is hot");
    run(&db, "ROLLBACK");
    assert!(!place.path("t.db-djournal").exists());
    (db, journal)
}

#[test]
fn a_hot_journal_changes_nothing_for_readers_and_is_rolled_back() {
    let place = Place::new();
    let (db, journal) = with_journal(&place);
    assert_eq!(int(&db, "SELECT sum(v) FROM t"), 500);
    std::fs::write(place.path("t.db-djournal"), &journal).expect("writes");
    assert_eq!(int(&db, "SELECT sum(v) FROM t"), 500);
    std::thread::sleep(AGED);
    assert_eq!(int(&db, "SELECT sum(v) FROM t"), 500);
    assert!(
        !place.path("t.db-djournal").exists(),
        "a reader soon rolls it back"
    );
    assert_sound(&db);
}

/// A hot journal appears between a read and a write of a connection. Returns whether the write was
/// busy; if the machine was too slow, SQLite itself has rolled it back.
fn journal_comes_before_a_write(mode: &str) -> bool {
    let place = Place::new();
    let (db, journal) = with_journal(&place);
    run(&db, &format!("PRAGMA journal_mode={mode}"));
    db.busy_timeout(Duration::ZERO).expect("sets it");
    assert_eq!(int(&db, "SELECT sum(v) FROM t"), 500);
    std::fs::write(place.path("t.db-djournal"), &journal).expect("writes");
    let update = "UPDATE t SET v = 3 WHERE a = 250";
    let met = db.execute_batch(update).err();
    if let Some(error) = &met {
        let code = error.sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::DatabaseBusy), "{mode}");
        run(&db, update);
    }
    let other = place.open("t.db");
    assert_eq!(int(&other, "SELECT sum(v) FROM t"), 502, "{mode}");
    assert_sound(&other);
    met.is_some()
}

/// Fails without the call of `journal_came` in `take_lock`: the next connection that opens the
/// database then rolls the write back.
#[test]
fn a_hot_journal_prevents_writes() {
    for mode in ["MEMORY", "DELETE", "PERSIST"] {
        let met = (0..50).any(|_| journal_comes_before_a_write(mode));
        assert!(met, "{mode}: the machine is too slow to provoke it");
    }
}

#[test]
fn a_change_to_wal_is_seen_at_once() {
    for _ in 0..10 {
        let place = Place::new();
        let (reader, writer) = (place.open("t.db"), place.open("t.db"));
        fill(&writer, 100);
        assert_eq!(int(&reader, "SELECT count(*) FROM t"), 100);
        assert_eq!(text(&writer, "PRAGMA journal_mode=wal"), "wal");
        run(&writer, "INSERT INTO t(b) VALUES ('more')");
        assert_eq!(int(&reader, "SELECT count(*) FROM t"), 101);
    }
}

/// SQLite's RBU renames a WAL into place beside a database in a rollback mode. It does so under
/// EXCLUSIVE, which it takes by calls of its own.
#[test]
fn a_wal_that_is_put_beside_the_database_under_an_exclusive_lock_is_seen_at_once() {
    let place = Place::new();
    // The WAL of the same database with one more row.
    let made = place.open("made.db");
    run(&made, "CREATE TABLE t(a); INSERT INTO t VALUES (1)");
    std::fs::copy(place.path("made.db"), place.path("x.db")).expect("copies");
    run(
        &made,
        "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; INSERT INTO t VALUES (2)",
    );
    let wal = std::fs::read(place.path("made.db-dwal")).expect("reads");
    let (reader, rbu) = (place.open("x.db"), place.open("x.db"));
    for _ in 0..50 {
        assert_eq!(int(&reader, "SELECT count(*) FROM t"), 1);
    }
    run(&rbu, "BEGIN EXCLUSIVE");
    std::fs::write(place.path("x.db-wal"), wal).expect("writes");
    run(&rbu, "COMMIT");
    assert_eq!(int(&reader, "SELECT count(*) FROM t"), 2);
    assert!(!place.path("x.db-wal").exists(), "it has its right name");
}
