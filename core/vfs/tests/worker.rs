//! Space is reclaimed by itself while a connection is open and idle.

use crate::common::{Place, assert_sound, figure, noise, run, text};
use rusqlite::Connection;
use std::time::{Duration, Instant};

/// How long the worker can take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn size(place: &Place) -> u64 {
    std::fs::metadata(place.path("x.db"))
        .expect("the file exists")
        .len()
}

fn content(db: &Connection) -> String {
    text(
        db,
        "SELECT count(*) || ' ' || ifnull(sum(a), 0) || ' ' || ifnull(group_concat(substr(b, 1, 4), ''), '') FROM t",
    )
}

fn open(place: &Place, journal: &str, parameters: &str) -> Connection {
    let db = place.try_open("x.db", parameters).expect("opens");
    run(
        &db,
        &format!("PRAGMA journal_mode={journal}; PRAGMA secure_delete=OFF"),
    );
    db
}

/// Makes a database and deletes most of it. Returns the size of the file before the delete.
fn deleted(db: &Connection, place: &Place, n: u32) -> u64 {
    noise(db, n);
    run(db, "PRAGMA wal_checkpoint");
    let full = size(place);
    run(
        db,
        &format!("DELETE FROM t WHERE a % 7 <> 0 OR a > {}", n / 2),
    );
    run(db, "PRAGMA wal_checkpoint");
    full
}

/// Waits until the file is no longer than `bytes`.
fn shrinks_to(place: &Place, bytes: u64) {
    let until = Instant::now() + PATIENCE;
    while size(place) > bytes {
        assert!(Instant::now() < until, "{} bytes, not {bytes}", size(place));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_idle_connection_reclaims_space() {
    for journal in ["DELETE", "PERSIST", "WAL"] {
        let place = Place::new();
        let db = open(&place, journal, "");
        let full = deleted(&db, &place, 40_000);
        let left = content(&db);
        shrinks_to(&place, full / 5);
        let until = Instant::now() + PATIENCE;
        loop {
            let idle: u64 = ["dead_bytes", "free_bytes"]
                .iter()
                .map(|name| figure(&db, name).parse::<u64>().expect("a number"))
                .sum();
            let is = size(&place);
            // Five per cent, and a constant for a file of any size. The reserve counts among the
            // free bytes.
            if idle <= is / 20 + (192 << 10) + (256 << 10) {
                break;
            }
            assert!(Instant::now() < until, "{journal}: {idle} of {is}");
            // Polls less often than once per second, so that the file counts as idle.
            std::thread::sleep(Duration::from_millis(1500));
        }
        assert_eq!(content(&db), left, "{journal}");
        assert_sound(&db);
        let moved: u64 = figure(&db, "moved_bytes").parse().expect("a number");
        let written: u64 = figure(&db, "written_frame_bytes")
            .parse()
            .expect("a number");
        assert!(moved > 0 && written > full / 2, "{moved} {written} {full}");
        // A second round works too.
        let full = deleted(&db, &place, 30_000);
        let left = content(&db);
        shrinks_to(&place, full / 2);
        drop(db);
        let db = place.open("x.db");
        assert_eq!(content(&db), left);
        assert_sound(&db);
    }
}

/// An application that never rests gets its space back, too.
#[test]
fn the_worker_helps_while_a_connection_writes() {
    for (journal, pause) in [("WAL", 20), ("DELETE", 400)] {
        let place = Place::new();
        let db = open(&place, journal, "");
        let full = deleted(&db, &place, 20_000);
        let left = content(&db);
        let until = Instant::now() + PATIENCE;
        while size(&place) > full / 4 {
            assert!(Instant::now() < until, "{journal}: {} bytes", size(&place));
            run(&db, "UPDATE t SET b = b WHERE a = 7");
            // Less than a second, after which the file would be idle.
            std::thread::sleep(Duration::from_millis(pause));
        }
        assert_eq!(content(&db), left, "{journal}");
        assert_sound(&db);
    }
}

#[test]
fn the_worker_does_nothing_if_it_is_off_or_the_database_stays_locked() {
    for (journal, parameters, locking) in [
        ("DELETE", "&maintain=off", "NORMAL"),
        ("WAL", "&maintain=off", "NORMAL"),
        ("DELETE", "", "EXCLUSIVE"),
        ("WAL", "", "EXCLUSIVE"),
    ] {
        let place = Place::new();
        let db = place.try_open("x.db", parameters).expect("opens");
        run(
            &db,
            &format!("PRAGMA locking_mode={locking}; PRAGMA journal_mode={journal}"),
        );
        let full = deleted(&db, &place, 8_000);
        let left = content(&db);
        std::thread::sleep(Duration::from_millis(2500));
        let is = size(&place);
        // The commit itself reclaims space too; that is not the worker's.
        assert!(
            is > full / 2,
            "{journal}{parameters} {locking}: {is} of {full}"
        );
        assert_eq!(figure(&db, "moved_bytes"), "0", "{journal} {locking}");
        assert_eq!(content(&db), left);
    }
}

#[test]
fn closing_while_it_works_loses_nothing() {
    for journal in ["DELETE", "WAL"] {
        for wait in [900, 1000, 1020, 1040, 1080, 1150, 1300] {
            let place = Place::new();
            let db = open(&place, journal, "");
            let full = deleted(&db, &place, 15_000);
            let left = content(&db);
            std::thread::sleep(Duration::from_millis(wait));
            drop(db);
            let is = size(&place);
            assert!(is < full / 2, "{journal} {wait}: {is} of {full}");
            // The worker does not make a close believe that another connection is open.
            assert!(!place.path("x.db-dwal").exists(), "{journal} {wait}");
            assert!(!place.path("x.db-shm").exists(), "{journal} {wait}");
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(size(&place), is, "no connection has it open");
            let db = place.open("x.db");
            assert_eq!(content(&db), left);
            assert_sound(&db);
        }
    }
}
