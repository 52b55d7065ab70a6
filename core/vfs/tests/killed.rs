//! Space left by killed processes is reclaimed at the next last close, or while a connection is
//! idle.
//!
//! The killed process is this test program, started again for the "test" that writes.

use crate::common::{self, Place, assert_sound, int, noise, run};
use rusqlite::Connection;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROWS: u32 = 6000;

/// The killed process: changes rows all over the database for ever, and sometimes deletes some.
#[test]
fn writes_until_it_is_killed() {
    let Some(db) = killed("changes") else { return };
    loop {
        run(
            &db,
            &format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
                 INSERT OR REPLACE INTO t SELECT abs(random()) % {ROWS}, hex(randomblob(300)) FROM n;
                 DELETE FROM t WHERE abs(random()) % 40 = 0 AND a > 1000 AND (SELECT count(*) FROM t) > {ROWS} / 2"
            ),
        );
    }
}

/// Another killed process: leaves a file that is mostly dead, and nothing in a journal or a WAL.
#[test]
fn killed_process_with_much_dead_space() {
    let Some(db) = killed("waits") else { return };
    noise(&db, ROWS);
    run(&db, "PRAGMA wal_checkpoint(TRUNCATE)");
    for _ in 0..3 {
        run(
            &db,
            "UPDATE t SET b = hex(randomblob(150)); PRAGMA wal_checkpoint(TRUNCATE)",
        );
    }
    wait();
}

/// A third killed process: leaves a file without dead bytes.
#[test]
fn killed_process_with_little_dead_space() {
    let Some(db) = killed("small") else { return };
    noise(&db, ROWS / 10);
    wait();
}

/// Signals that it has reached this point, and then does nothing.
fn wait() {
    std::fs::write(std::env::var("KILLED_DONE").expect("a path"), "").expect("writes");
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// The database of the process to be killed, if this process was started for `what`.
fn killed(what: &str) -> Option<Connection> {
    let var = |name: &str| std::env::var(name).ok();
    let (path, journal) = (var("KILLED_DB")?, var("KILLED_MODE")?);
    if var("KILLED_DOES")? != what {
        return None;
    }
    common::densite();
    let maintain = if what == "waits" { "off" } else { "on" };
    let uri = format!("file:{path}?vfs=densite&maintain={maintain}");
    let db = Connection::open(uri).expect("opens");
    run(
        &db,
        &format!(
            "PRAGMA busy_timeout=60000; PRAGMA journal_mode={journal}; PRAGMA wal_autocheckpoint=300; PRAGMA synchronous=OFF;
             CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, b)"
        ),
    );
    Some(db)
}

fn start(place: &Place, journal: &str, does: &str) -> Child {
    let test = match does {
        "waits" => "killed::killed_process_with_much_dead_space",
        "small" => "killed::killed_process_with_little_dead_space",
        _ => "killed::writes_until_it_is_killed",
    };
    Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", test])
        .env("KILLED_DB", place.path("x.db"))
        .env("KILLED_DONE", place.path("done"))
        .env("KILLED_MODE", journal)
        .env("KILLED_DOES", does)
        .stdout(Stdio::null())
        .spawn()
        .expect("starts")
}

fn kill(mut child: Child) {
    child.kill().expect("kills");
    child.wait().expect("ends");
}

/// A database left by a process that was killed while it did nothing.
fn left(journal: &str, does: &str) -> Place {
    let place = Place::new();
    let child = start(&place, journal, does);
    let until = Instant::now() + Duration::from_secs(120);
    while !place.path("done").exists() {
        assert!(
            Instant::now() < until,
            "the process did not get that far in time"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(child);
    place
}

fn size(place: &Place, name: &str) -> u64 {
    std::fs::metadata(place.path(name))
        .expect("the file exists")
        .len()
}

/// The size in bytes of a fresh compressed copy.
fn fresh(place: &Place) -> u64 {
    let db = place.open("x.db");
    let copy = place.path("fresh.db");
    let _ = std::fs::remove_file(&copy);
    run(
        &db,
        &format!("VACUUM INTO 'file:{}?vfs=densite'", copy.display()),
    );
    drop(place.open("fresh.db"));
    size(place, "fresh.db")
}

/// At most the limit is dead or free, plus a constant for a file of any size.
fn is_within_limit(place: &Place, best: u64) -> bool {
    size(place, "x.db") <= best * 4 / 3 + (192 << 10)
}

#[test]
fn the_last_close_of_a_reader_reclaims_space_of_a_killed_process() {
    for journal in ["WAL", "DELETE"] {
        let place = left(journal, "waits");
        let before = size(&place, "x.db");
        let db = place.open("x.db");
        assert_eq!(int(&db, "SELECT count(*) FROM t"), i64::from(ROWS));
        drop(db);
        let after = size(&place, "x.db");
        let best = fresh(&place);
        assert!(before > 2 * best, "{journal}: {before} beside {best}");
        assert!(
            is_within_limit(&place, best),
            "{journal}: {after} beside {best}"
        );
        assert_sound(&place.open("x.db"));
    }
}

/// A process that was killed before it published leaves its appended records after the end.
#[test]
fn records_behind_the_end_are_cut_off() {
    let place = left("DELETE", "small");
    let before = size(&place, "x.db");
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).open(place.path("x.db"));
    let file = file.expect("opens");
    file.set_len(before + (8 << 20)).expect("grows");
    drop(file);
    let db = place.open("x.db");
    assert!(int(&db, "SELECT count(*) FROM t") > 0);
    drop(db);
    let after = size(&place, "x.db");
    assert!(after <= before, "{after} of {before}");
    assert_sound(&place.open("x.db"));
}

#[test]
fn an_idle_connection_reclaims_space_of_a_killed_process() {
    for journal in ["WAL", "DELETE"] {
        let place = left(journal, "waits");
        let best = {
            let copy = Place::new();
            std::fs::copy(place.path("x.db"), copy.path("x.db")).expect("copies");
            fresh(&copy)
        };
        let db = place.open("x.db");
        run(&db, "INSERT INTO t(b) VALUES ('one more')");
        let until = Instant::now() + Duration::from_secs(120);
        while !is_within_limit(&place, best) {
            let now = size(&place, "x.db");
            assert!(Instant::now() < until, "{journal}: {now} beside {best}");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(int(&db, "SELECT count(*) FROM t"), i64::from(ROWS) + 1);
        assert_sound(&db);
    }
}

#[test]
fn the_next_last_close_reclaims_space_after_kills_at_any_moment() {
    for journal in ["WAL", "DELETE"] {
        for round in 0..4 {
            let place = Place::new();
            let children = [0; 2].map(|_| start(&place, journal, "changes"));
            std::thread::sleep(Duration::from_millis(600 + round * 170));
            children.into_iter().for_each(kill);
            let db = place.open("x.db");
            run(
                &db,
                "CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, b)",
            );
            drop(db);
            let db = place.open("x.db");
            assert_sound(&db);
            drop(db);
            let after = size(&place, "x.db");
            let best = fresh(&place);
            assert!(
                is_within_limit(&place, best),
                "{journal} {round}: {after} beside {best}"
            );
        }
    }
}
