//! `densite replicate` ships the log of a database, and `densite restore` restores it: acknowledged
//! rows that were not applied are not lost.

use crate::common::shipping::Shipping;
use crate::common::{Other, at, densite, temp};
use densite_testing::Stop;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const OPEN: &str = "CREATE VIRTUAL TABLE temp.vote_in USING densite_ingest(vote);";

/// A database with a table for ingest, and a directory for its replica.
fn made(dir: &TempDir, mode: &str) -> (String, String) {
    let (db, url) = (at(dir, "a.db"), at(dir, "replica"));
    let sql = format!(
        "PRAGMA journal_mode={mode}; CREATE TABLE vote(id INTEGER PRIMARY KEY, who TEXT); {OPEN}
         INSERT INTO vote_in VALUES (1, 'ann'); SELECT densite_wait()"
    );
    densite(&["sql", "--create", &db, &sql]).expect(0);
    (db, url)
}

/// Adds rows that wait in the log.
fn add_waiting(db: &str, from: i64, to: i64) {
    let sql = format!(
        "{OPEN} SELECT densite_pause('vote'); INSERT INTO vote_in
         WITH n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {to}) SELECT i, 'bob' FROM n"
    );
    densite(&["sql", db, &sql]).expect(0);
}

/// The rows of the table, and those with the log.
#[track_caller]
fn counts(db: &str) -> (i64, i64) {
    let sql = format!("{OPEN} SELECT (SELECT count(*) FROM vote), (SELECT count(*) FROM vote_in)");
    let out = densite(&["sql", db, &sql, "--format", "csv"]).expect(0).out;
    let row = out.lines().last().expect("a row");
    let (table, all) = row.split_once(',').expect("two columns");
    (
        table.parse().expect("a count"),
        all.parse().expect("a count"),
    )
}

#[test]
fn rows_that_wait_are_restored_and_applied_then() {
    let dir = temp();
    let (db, url) = made(&dir, "WAL");
    add_waiting(&db, 2, 5001);
    densite(&["replicate", &db, &url, "--once", "--json"]).expect(0);
    // More rows, and no change of the database.
    add_waiting(&db, 5002, 6001);
    densite(&["replicate", &db, &url, "--once", "--json"]).expect(0);
    let copy = at(&dir, "restored.db");
    let report = densite(&["restore", &url, &copy, "--json"]).expect(0);
    let report = report.json();
    assert_eq!(report["has_log"], true);
    assert_eq!(report["rows_waiting"], 6000);
    assert_eq!(counts(&copy), (1, 6001));
    let resume = format!("{OPEN} SELECT densite_resume('vote'); SELECT densite_wait()");
    densite(&["sql", &copy, &resume]).expect(0);
    assert_eq!(counts(&copy), (6001, 6001));
    // The original has its own log.
    assert_eq!(counts(&db), (1, 6001));

    // The log belongs to its database: both are replaced, or none.
    densite(&["restore", &url, &copy, "--json"]).expect(1);
    let other = at(&dir, "other.db");
    std::fs::create_dir(format!("{other}-log")).expect("made");
    let refused = densite(&["restore", &url, &other, "--json"]).expect(1);
    assert!(refused.out.contains("other.db-log"), "{}", refused.out);
    densite(&["restore", &url, &copy, "--force", "--yes", "--json"]).expect(0);
    assert_eq!(counts(&copy), (1, 6001));
    densite(&["restore", &url, &copy, "--number", "0", "--force", "--yes"]).expect(0);
    assert_eq!(counts(&copy), (1, 5001));
    let verified = densite(&["restore", &url, "--verify-only", "--json"]).expect(0);
    assert_eq!(verified.json()["rows_waiting"], 6000);
    let names = std::fs::read_dir(dir.path()).expect("read");
    let names: Vec<String> = names
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into()
        })
        .collect();
    assert!(
        !names.iter().any(|name| name.contains("-densite-tmp-")),
        "{names:?}"
    );
}

/// While a long reader holds back the next state of the database, rows of the log are shipped.
#[test]
fn a_long_reader_does_not_hold_back_the_log() {
    let dir = temp();
    let (db, url) = made(&dir, "WAL");
    let mut shipping = Shipping::start(&db, &url, &[]);
    shipping.event("began");
    let mut reader = Other::on(&db);
    reader.run("BEGIN; SELECT count(*) FROM vote");
    add_waiting(&db, 2, 101);
    let shipped = loop {
        let shipped = shipping.event("shipped");
        if shipped["held_back"] == true {
            break shipped;
        }
    };
    let copy = at(&dir, "restored.db");
    let report = densite(&["restore", &url, &copy, "--json"])
        .expect(0)
        .json();
    assert_eq!(report["rows_waiting"], 100, "{report} {shipped}");
    assert_eq!(counts(&copy), (1, 101));
    drop(reader);
    assert_eq!(shipping.stop(), Some(0));
}

/// Each row that was acknowledged before a restore point is in it, whatever is killed.
fn under_kills(mode: &str, kills: u64, seed: u64) {
    let dir = temp();
    let (db, url) = made(&dir, mode);
    let (acknowledged, ends) = (AtomicI64::new(1), Stop::new());
    std::thread::scope(|scope| {
        let _ends = ends.at_end();
        scope.spawn(|| {
            while !ends.is_set() {
                let last = acknowledged.load(Ordering::Acquire);
                let (from, to) = (last + 1, last + 1 + last % 37);
                let sql = format!(
                    "{OPEN} INSERT INTO vote_in
                     WITH n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {to}) SELECT i, 'x' FROM n"
                );
                densite(&["sql", &db, &sql]).expect(0);
                acknowledged.store(to, Ordering::Release);
            }
        });
        for kill in 0..kills {
            let mut shipping = Shipping::start(&db, &url, &[]);
            shipping.event("began");
            let pause = (seed * 31 + kill * 17) % 90;
            std::thread::sleep(Duration::from_millis(pause));
            let before = acknowledged.load(Ordering::Acquire);
            // The second one from now on was taken after `before` was read.
            shipping.drop_events();
            shipping.event("shipped");
            shipping.event("shipped");
            shipping.kill();
            let copy = at(&dir, "restored.db");
            densite(&["restore", &url, &copy, "--force", "--yes", "--json"]).expect(0);
            let (_, all) = counts(&copy);
            assert!(all >= before, "seed {seed}: {all} rows of {before}");
            let sql = format!("{OPEN} SELECT densite_wait(); SELECT max(id) FROM vote");
            let out = densite(&["sql", &copy, &sql, "--format", "csv"])
                .expect(0)
                .out;
            assert_eq!(out.lines().last(), Some(&*all.to_string()), "seed {seed}");
        }
    });
}

#[test]
fn acknowledged_rows_survive_kills_in_wal_mode() {
    under_kills("WAL", 6, 1);
}

#[test]
fn acknowledged_rows_survive_kills_in_a_rollback_mode() {
    under_kills("DELETE", 6, 2);
}

/// A part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_shipped_logs() {
    densite_testing::long_run("kills", |seed| {
        let mode = ["WAL", "DELETE"][usize::from(seed.is_multiple_of(2))];
        under_kills(mode, 10, seed);
        10
    });
}

/// A wait within a program covers rows of ingest, which no commit of the database shows.
#[test]
fn a_wait_covers_rows_of_the_log() {
    let dir = temp();
    let (db, url) = made(&dir, "WAL");
    let mut program = Other::on(&db);
    program.run(&format!(
        "{OPEN} SELECT densite_pause('vote'); SELECT densite_replicate('{url}', 'interval=60')"
    ));
    let wait = "SELECT densite_replicate_wait(60)";
    assert!(program.ask(wait).ends_with("1\n"));
    for n in 1..=3 {
        program.run(&format!("INSERT INTO vote_in VALUES ({}, 'x')", n + 1));
        assert!(program.ask(wait).ends_with("1\n"));
        let copy = at(&dir, "restored.db");
        let restore = ["restore", &url, &copy, "--force", "--yes", "--json"];
        let report = densite(&restore).expect(0).json();
        assert_eq!(report["rows_waiting"], n, "{report}");
    }
    program.kill();
}

/// Names change one after the other, so a restore can be killed in between. The next one goes on, or
/// says what to do; no log is replaced by one with fewer rows.
#[test]
fn an_interrupted_restore_is_continued_or_explained() {
    let dir = temp();
    let (db, url) = made(&dir, "WAL");
    add_waiting(&db, 2, 101);
    densite(&["replicate", &db, &url, "--once"]).expect(0);
    let copy = at(&dir, "copy.db");
    let restore = ["restore", &url, &copy, "--json"];
    densite(&restore).expect(0);
    assert_eq!(counts(&copy), (1, 101));

    // Killed when the database had two names, and its log a mark.
    let partial = format!("{copy}-densite-tmp-restore-x");
    std::fs::hard_link(&copy, &partial).expect("linked");
    std::fs::write(format!("{copy}-log/new-restore"), "").expect("written");
    densite(&restore).expect(1);
    assert!(!std::path::Path::new(&partial).exists());
    assert_eq!(counts(&copy), (1, 101));

    // Killed before the database had its name.
    std::fs::write(format!("{copy}-log/new-restore"), "").expect("written");
    std::fs::remove_file(&copy).expect("removed");
    densite(&restore).expect(0);
    assert_eq!(counts(&copy), (1, 101));

    // Killed after the log of the old database was put aside.
    let (log, aside) = (format!("{copy}-log"), format!("{copy}-log-before-restore"));
    std::fs::rename(&log, &aside).expect("renamed");
    let waiting = "SELECT densite_wait()";
    let said = densite(&["sql", &copy, waiting]).expect(1);
    said.says("run the same restore again");
    let force = ["restore", &url, &copy, "--force", "--yes"];
    densite(&force).expect(1).says("rename it to");
    std::fs::rename(&aside, &log).expect("renamed");
    assert_eq!(counts(&copy), (1, 101));

    // The rights of what is replaced stay.
    crate::common::chmod(&copy, 0o640);
    densite(&["restore", &url, &copy, "--force", "--yes"]).expect(0);
    let mode = |path: &str| {
        let meta = std::fs::metadata(path).expect("looked at");
        std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777
    };
    assert_eq!((mode(&copy), mode(&log)), (0o640, 0o750));
    assert_eq!(mode(&format!("{log}/state")), 0o640);
    assert_eq!(counts(&copy), (1, 101));
}

/// A damaged log is noticed before a new base is sent. If a replica has one, the database is restored
/// without it.
#[test]
fn a_damaged_log_stops_a_base_and_not_the_restore_of_the_database() {
    let dir = temp();
    let (db, url) = made(&dir, "WAL");
    add_waiting(&db, 2, 101);
    densite(&["replicate", &db, &url, "--once"]).expect(0);
    let segment = format!("{db}-log/000000000001.seg");
    let mut bytes = std::fs::read(&segment).expect("read");
    bytes[4200] ^= 1;
    std::fs::write(&segment, bytes).expect("written");
    let again = at(&dir, "again");
    densite(&["replicate", &db, &again, "--once"])
        .expect(1)
        .says("000000000001.seg");

    let copy = at(&dir, "copy.db");
    densite(&["restore", &url, &copy, "--without-log"]).expect(0);
    assert!(!std::path::Path::new(&format!("{copy}-log")).exists());
    let sql = ["sql", &copy, "SELECT count(*) FROM vote", "--format", "csv"];
    assert_eq!(densite(&sql).expect(0).out, "count(*)\n1\n");
}
