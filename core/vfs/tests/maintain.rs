//! Space is reclaimed while writing, by `densite_maintain`, and at the last close.

use crate::common::{self, Place, assert_sound, int, noise, run, text};
use rusqlite::Connection;
use std::time::{Duration, Instant};

fn size(place: &Place, name: &str) -> u64 {
    std::fs::metadata(place.path(name))
        .expect("the file exists")
        .len()
}

fn content(db: &Connection) -> String {
    text(
        db,
        "SELECT count(*) || ' ' || sum(a) || ' ' || total(length(b)) || ' ' || group_concat(substr(b, 1, 4), '') FROM t",
    )
}

/// The size in bytes of a fresh compressed copy.
fn fresh(place: &Place, db: &Connection) -> u64 {
    let copy = place.path("fresh.db");
    let _ = std::fs::remove_file(&copy);
    run(
        db,
        &format!("VACUUM INTO 'file:{}?vfs=densite'", copy.display()),
    );
    drop(place.open("fresh.db"));
    size(place, "fresh.db")
}

fn open(place: &Place, journal: &str, parameters: &str) -> Connection {
    let db = place.try_open("x.db", parameters).expect("opens");
    run(
        &db,
        &format!("PRAGMA journal_mode={journal}; PRAGMA secure_delete=OFF"),
    );
    db
}

#[test]
fn densite_maintain_reclaims_deleted_space() {
    for journal in ["DELETE", "WAL"] {
        let place = Place::new();
        // Otherwise the worker can be faster.
        let db = open(&place, journal, "&maintain=off");
        noise(&db, 40_000);
        run(
            &db,
            "PRAGMA wal_checkpoint; DELETE FROM t WHERE a BETWEEN 10000 AND 30000; PRAGMA wal_checkpoint",
        );
        let left = content(&db);
        let (before, reader) = (size(&place, "x.db"), place.open("x.db"));
        assert_eq!(content(&reader), left);
        let gained: u64 = text(&db, "PRAGMA densite_maintain")
            .parse()
            .expect("a number");
        assert!(gained > before / 4, "{journal}: {gained} of {before}");
        assert!(size(&place, "x.db") < before - before / 4);
        assert_eq!(content(&reader), left);
        assert_sound(&reader);
        assert_eq!(
            text(&db, "PRAGMA densite_maintain"),
            "0",
            "nothing is left to do"
        );
        drop((db, reader));
        let db = place.open("x.db");
        assert_eq!(content(&db), left);
        assert_sound(&db);
        let best = fresh(&place, &db);
        let is = size(&place, "x.db");
        assert!(
            is * 100 <= best * 113 + (100 << 12),
            "{journal}: {is}, a fresh copy has {best}"
        );
    }
}

#[test]
fn the_last_close_reclaims_space_unless_it_is_off() {
    for (journal, parameters) in [("DELETE", ""), ("WAL", ""), ("DELETE", "&maintain=off")] {
        let place = Place::new();
        let db = open(&place, journal, parameters);
        noise(&db, 30_000);
        run(&db, "PRAGMA wal_checkpoint");
        let full = size(&place, "x.db");
        run(&db, "DELETE FROM t WHERE a % 2 = 0 OR a > 20000");
        let left = content(&db);
        drop(db);
        let is = size(&place, "x.db");
        if parameters.is_empty() {
            assert!(is < full * 2 / 3, "{journal}: {is} of {full}");
        } else {
            assert!(is > full * 9 / 10, "{journal}{parameters}: {is} of {full}");
        }
        let db = place.open("x.db");
        assert_eq!(content(&db), left);
        assert_sound(&db);
    }
}

#[test]
fn writers_keep_the_limit_of_dead_space() {
    // Without locks, the application gives the right to commit and so to move records.
    for (journal, parameters) in [("DELETE", ""), ("WAL", ""), ("DELETE", "&nolock=1")] {
        let place = Place::new();
        let db = open(&place, journal, parameters);
        run(&db, "PRAGMA wal_autocheckpoint=200");
        noise(&db, 20_000);
        let bytes = |name: &str| -> u64 { common::figure(&db, name).parse().expect("a number") };
        for round in 0..300 {
            // Scattered rows, each in its own page: every page is rewritten every 15 rounds.
            run(
                &db,
                &format!(
                    "UPDATE t SET b = hex(randomblob(150)) WHERE a % 199 = {}",
                    round % 199
                ),
            );
            if round > 100 {
                let (live, dead, stored) = (
                    bytes("live_bytes"),
                    bytes("dead_bytes"),
                    bytes("stored_bytes"),
                );
                assert!(
                    dead * 100 <= stored * 30,
                    "{journal} {round}: {dead} of {stored} are dead"
                );
                // On top come two mebibytes that wait for a slot, and the reserve.
                assert!(
                    stored * 100 <= live * 140 + (300 << 20),
                    "{journal} {round}: {stored} for {live}"
                );
            }
        }
        assert_sound(&db);
    }
}

#[test]
fn maintenance_does_not_run_during_a_transaction_a_lock_or_a_hot_journal() {
    let place = Place::new();
    let db = open(&place, "DELETE", "");
    noise(&db, 5_000);
    run(&db, "BEGIN IMMEDIATE; DELETE FROM t WHERE a > 100");
    let error = db
        .execute_batch("PRAGMA densite_maintain")
        .expect_err("a transaction is open");
    assert!(error.to_string().contains("end it first"), "{error}");
    let other = place.open("x.db");
    run(&other, "PRAGMA busy_timeout=1");
    let error = other
        .execute_batch("PRAGMA densite_maintain")
        .expect_err("it is locked");
    assert!(error.to_string().contains("locked"), "{error}");
    run(&db, "ROLLBACK");
    let was = content(&db);
    // A hot journal: RESERVED would hide it from readers.
    run(
        &db,
        "PRAGMA cache_size=1; BEGIN; UPDATE t SET b = b || 'x'; DELETE FROM t WHERE a > 100",
    );
    for (from, to) in [("x.db", "y.db"), ("x.db-djournal", "y.db-djournal")] {
        std::fs::copy(place.path(from), place.path(to)).expect("copies");
    }
    let back = place.open("y.db");
    run(&back, "PRAGMA busy_timeout=1");
    let error = back
        .execute_batch("PRAGMA densite_maintain")
        .expect_err("a journal is hot");
    assert!(error.to_string().contains("locked"), "{error}");
    assert!(
        place.path("y.db-djournal").exists(),
        "it is SQLite's to roll back"
    );
    assert_eq!(content(&back), was);
    assert_sound(&back);
    run(&back, "PRAGMA densite_maintain");
    assert_eq!(content(&back), was);
}

#[test]
fn a_reader_in_a_transaction_continues() {
    for journal in ["DELETE", "WAL"] {
        let place = Place::new();
        let db = open(&place, journal, "");
        noise(&db, 20_000);
        run(
            &db,
            "PRAGMA wal_checkpoint; DELETE FROM t WHERE a > 4000; PRAGMA wal_checkpoint; DELETE FROM t WHERE a = 1; PRAGMA wal_checkpoint",
        );
        let reader = place.open("x.db");
        run(&reader, "BEGIN");
        let was = content(&reader);
        run(&db, "PRAGMA densite_maintain");
        assert_eq!(content(&reader), was, "{journal}");
        run(&reader, "COMMIT");
        assert_eq!(int(&db, "SELECT count(*) FROM t"), 3999);
        assert_sound(&reader);
    }
}

#[test]
fn maintenance_runs_in_transactions_that_do_not_change_the_file() {
    for (journal, first) in [
        ("DELETE", "SELECT count(*) FROM t"),
        ("WAL", "SELECT count(*) FROM t"),
        ("WAL", "UPDATE t SET b = 'x' WHERE a = 1"),
    ] {
        let place = Place::new();
        let db = open(&place, journal, "&maintain=off");
        noise(&db, 5_000);
        run(&db, "DELETE FROM t WHERE a > 100; PRAGMA wal_checkpoint");
        run(&db, "BEGIN");
        run(&db, first);
        let was = content(&db);
        let given: u64 = text(&db, "PRAGMA densite_maintain").parse().expect("bytes");
        assert_ne!(given, 0, "{journal}: {first}");
        assert_eq!(content(&db), was, "{journal}: {first}");
        run(&db, "COMMIT");
        assert_eq!(content(&db), was, "{journal}: {first}");
        assert_sound(&db);
    }
}

#[test]
fn the_limit_is_a_pragma() {
    let place = Place::new();
    let db = open(&place, "DELETE", "");
    assert_eq!(text(&db, "PRAGMA densite_dead_limit"), "25");
    assert_eq!(text(&db, "PRAGMA densite_dead_limit=40"), "40");
    assert_eq!(text(&db, "PRAGMA densite_dead_limit"), "40");
    for wrong in ["0", "91", "many", "-3"] {
        let error = db
            .execute_batch(&format!("PRAGMA densite_dead_limit='{wrong}'"))
            .expect_err("out of range");
        let message = error.to_string();
        assert!(
            message.contains(wrong) && message.contains("1 to 90"),
            "{message}"
        );
    }
}

#[test]
fn densite_maintain_names_damage_and_reclaims_everything_else() {
    let place = Place::new();
    let db = open(&place, "DELETE", "&maintain=off");
    noise(&db, 40_000);
    run(&db, "DELETE FROM t WHERE a / 60 % 2 = 1");
    drop(db);
    let path = place.path("x.db");
    let before = size(&place, "x.db");
    // Damages leaves all over a unit in the middle of what was loaded.
    let mut bytes = std::fs::read(&path).expect("reads");
    let middle = bytes.len() / 3;
    for byte in bytes[middle..middle + 65536].iter_mut().step_by(100) {
        *byte ^= 1;
    }
    std::fs::write(&path, bytes).expect("writes");
    let db = open(&place, "DELETE", "&maintain=off");
    let error = db
        .execute_batch("PRAGMA densite_maintain")
        .expect_err("a frame is damaged");
    assert!(
        error.to_string().contains("damaged") && error.to_string().contains("densite check"),
        "{error}"
    );
    let after = size(&place, "x.db");
    assert!(after < before * 2 / 3, "{before} {after}");
    let readable = int(&db, "SELECT count(*) FROM t WHERE a < 60");
    assert_eq!(readable, 59);
}

#[test]
fn densite_maintain_waits_for_the_busy_timeout_and_then_is_busy() {
    let place = Place::new();
    let db = open(&place, "DELETE", "");
    noise(&db, 100);
    let asks = place.open("x.db");
    assert_eq!(int(&asks, "SELECT count(*) FROM t"), 100);
    run(&db, "BEGIN IMMEDIATE");
    let refused = || {
        let begin = Instant::now();
        let error = asks
            .execute_batch("PRAGMA densite_maintain")
            .expect_err("it is locked");
        let code = error.sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::DatabaseBusy), "{error}");
        assert!(error.to_string().contains("densite_maintain"), "{error}");
        begin.elapsed()
    };
    run(&asks, "PRAGMA busy_timeout=700");
    // The second time too, although SQLite's handler has counted to its end.
    for _ in 0..2 {
        let waited = refused();
        assert!(waited >= Duration::from_millis(700), "{waited:?}");
    }
    run(&asks, "PRAGMA busy_timeout=0");
    refused();
    run(&asks, "PRAGMA busy_timeout=60000");
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || run(&asks, "PRAGMA densite_maintain"));
        std::thread::sleep(Duration::from_millis(500));
        assert!(!waits.is_finished());
        run(&db, "ROLLBACK");
        waits.join().expect("it gets the lock");
    });
}
