//! A vacuum that is stopped at its worst moments: by other connections, a kill, an interruption, or
//! a full disk.

use crate::common::*;
use rusqlite::Connection;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// The moments between lock and end. At the first three, the database must be unchanged.
const MOMENTS: [&str; 4] = ["vacuum-locked", "vacuum-rewriting", "verified", "replaced"];

/// A vacuum that is stopped at a point.
fn stopped_at(point: &str, db: &str) -> Stopped {
    Stopped::at_point(point, &["vacuum", db, "--yes", "--json", "--timeout", "1"])
}

/// Databases of a few megabytes in every form and journal mode.
fn each(mut f: impl FnMut(&tempfile::TempDir, &str)) {
    for compressed in [false, true] {
        for mode in ["DELETE", "WAL"] {
            let dir = temp();
            let a = at(&dir, "a.db");
            plain(&a, 4096, 20_000);
            if compressed {
                densite(&["compress", &a]).expect(0);
            }
            densite(&["sql", &a, &format!("PRAGMA journal_mode={mode}")]).expect(0);
            weighted(&a);
            f(&dir, &a);
        }
    }
}

/// Makes the file larger than the result of a vacuum, because a larger file never replaces a
/// smaller one.
fn weighted(db: &str) {
    let ballast = "CREATE TABLE ballast(x); INSERT INTO ballast SELECT randomblob(200000) FROM t LIMIT 5; DROP TABLE ballast";
    densite(&["sql", &format!("file:{db}?maintain=off"), ballast]).expect(0);
}

#[test]
fn a_killed_vacuum_does_not_change_the_file() {
    each(|dir, a| {
        let rows = dump(a);
        for moment in MOMENTS {
            weighted(a);
            let before = fs::read(a).expect("read");
            stopped_at(moment, a).kill();
            let left: Vec<String> = names(dir.path())
                .into_iter()
                .filter(|n| n.contains("-densite-tmp-"))
                .collect();
            if moment == "replaced" {
                assert!(left.is_empty(), "{left:?}");
            } else {
                assert!(fs::read(a).expect("read") == before, "{moment}");
                assert_eq!(!left.is_empty(), moment != "vacuum-locked", "{left:?}");
            }
            assert_eq!(dump(a), rows, "{moment}");
            densite(&["check", a]).expect(0);
            // The next run removes these files, and succeeds.
            if moment == "verified" {
                let ran = densite(&["vacuum", a, "--yes"]).expect(0);
                assert!(ran.err.contains("; it was removed"), "{ran:?}");
                assert_eq!(dump(a), rows);
                assert!(
                    !names(dir.path())
                        .iter()
                        .any(|n| n.contains("-densite-tmp-"))
                );
            } else {
                for name in left {
                    fs::remove_file(dir.path().join(name)).expect("remove");
                }
            }
        }
    });
}

#[test]
fn an_interrupted_vacuum_removes_its_files() {
    each(|dir, a| {
        for (moment, signal) in MOMENTS.into_iter().zip(["INT", "TERM", "HUP"]) {
            let before = snapshot(dir.path());
            let stopped = stopped_at(moment, a);
            stopped.signal(signal);
            // The signal must arrive before the vacuum continues.
            std::thread::sleep(Duration::from_millis(100));
            let ran = stopped.finish();
            assert_eq!(ran.code, 130, "{moment}: {ran:?}");
            assert_eq!(ran.json()["error"]["kind"], "interrupted");
            // The shared memory of a WAL can appear and disappear.
            assert!(
                snapshot(dir.path()) == before,
                "{moment}: {:?}",
                names(dir.path())
            );
        }
    });
}

#[test]
fn writers_are_busy_during_a_vacuum_and_lose_no_rows() {
    each(|dir, a| {
        let rows = dump(a);
        for moment in ["vacuum-rewriting", "verified"] {
            let stopped = stopped_at(moment, a);
            for sql in [
                "PRAGMA busy_timeout=20; UPDATE t SET name='lost'",
                "PRAGMA busy_timeout=20; SELECT count(*) FROM t",
                "PRAGMA busy_timeout=20; PRAGMA wal_checkpoint; INSERT INTO t(name) VALUES('lost')",
            ] {
                densite(&["sql", a, sql])
                    .expect(3)
                    .says("database is locked");
            }
            let second = densite(&["vacuum", a, "--yes", "--json", "--timeout", "0.2"])
                .expect(3)
                .says("a.db is locked by process");
            assert_eq!(second.json()["error"]["by"][0]["pid"], stopped.pid());
            densite(&["compress", a, "--timeout", "0.2"]).says("");
            let ran = stopped.finish();
            assert_eq!(ran.code, 0, "{ran:?}");
            assert_eq!(dump(a), rows, "{moment}");
            densite(&["check", a]).expect(0);
            assert_eq!(names(dir.path()), ["a.db"]);
        }
    });
}

#[test]
fn a_second_vacuum_that_waits_for_the_first_restores_no_old_rows() {
    each(|_, a| {
        let first = stopped_at("verified", a);
        let second = std::thread::scope(|scope| {
            let second = scope.spawn(|| densite(&["vacuum", a, "--yes", "--timeout", "20"]));
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(first.finish().code, 0);
            // Whatever the second vacuum does now, this update stays, or it was refused because the
            // second vacuum is running.
            let update = densite(&["sql", a, "UPDATE t SET name='new' WHERE id=1"]);
            (second.join().expect("no panic"), update)
        });
        let (second, update) = second;
        assert!(
            second.code == 0 || second.code == 3,
            "the update may be in its way: {second:?}"
        );
        let there = dump(a).lines().any(|l| l.starts_with("1,new,"));
        assert_eq!(there, update.code == 0, "{update:?} {second:?}");
        densite(&["check", a]).expect(0);
    });
}

#[test]
fn an_idle_connection_of_another_process_is_noticed_at_the_beginning_and_at_the_end() {
    each(|dir, a| {
        let rows = dump(a);
        // The connection has ended a transaction or has not begun one. In rollback mode neither
        // holds a lock.
        let mut idle = Other::on(a);
        idle.run("SELECT 1");
        let ran = densite(&["vacuum", a, "--yes", "--json", "--timeout", "0.2"]).expect(3);
        assert_eq!(ran.json()["error"]["by"][0]["pid"], idle.pid(), "{ran:?}");
        drop(idle);
        // Another connection opens the file while the new file is written, and waits.
        let stopped = stopped_at("verified", a);
        let mut late = Other::on(a);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                densite(&[
                    "sql",
                    a,
                    "PRAGMA busy_timeout=1500; UPDATE t SET name='waited' WHERE id=1",
                ])
            });
            std::thread::sleep(Duration::from_millis(200));
            let ran = stopped.finish();
            let waited = waiting.join().expect("no panic");
            // All results are right. The update must not go to a file without a name.
            assert!([0, 3].contains(&ran.code), "{ran:?}");
            let is_refused = waited.code == 1 && waited.err.contains("another file was put");
            assert!([0, 3].contains(&waited.code) || is_refused, "{waited:?}");
            let there = dump(a).lines().any(|l| l.starts_with("1,waited,"));
            assert_eq!(there, waited.code == 0, "{ran:?} {waited:?}");
        });
        late.run("SELECT count(*) FROM t");
        drop(late);
        densite(&["check", a]).expect(0);
        assert_eq!(dump(a).lines().count(), rows.lines().count());
        assert!(names(dir.path()).iter().all(|n| !n.contains("tmp")));
    });
}

#[test]
fn a_connection_that_was_opened_before_is_refused_to_write_to_the_old_file() {
    // The command cannot detect this connection: it runs as another user, who cannot inspect this
    // process.
    let dir = temp();
    let a = at(&dir, "a.db");
    for mode in ["DELETE", "WAL"] {
        let _ = fs::remove_file(&a);
        plain(&a, 4096, 3000);
        densite(&["sql", &a, &format!("PRAGMA journal_mode={mode}")]).expect(0);
        chmod(dir.path(), 0o777);
        chmod(&a, 0o666);
        let owner = fs::metadata(&a).expect("metadata");
        if std::os::unix::fs::MetadataExt::uid(&owner) != 0 {
            // Only root can run the command as another user. As any other user, it can detect all
            // connections.
            return;
        }
        std::os::unix::fs::chown(&a, Some(NOBODY), Some(NOBODY)).expect("chown");
        let db = Connection::open(&a).expect("open");
        unprivileged(&dir, &["vacuum", &a, "--yes"]).expect(0);
        // Reads return the old rows, which are the same. A write would go to a file without a name.
        let n: i64 = db
            .query_row("SELECT count(*) FROM t", [], |r| r.get(0))
            .expect("reads");
        assert_eq!(n, 2000);
        let refused = db.execute("UPDATE t SET name='lost'", []);
        let refused = refused.expect_err("refused").to_string();
        assert!(refused.contains("readonly"), "{mode}: {refused}");
        drop(db);
        densite(&["check", &a]).expect(0);
        assert!(!dump(&a).contains("lost"));
    }
}

#[test]
fn a_disk_that_becomes_full_changes_no_file() {
    each(|dir, a| {
        let before = snapshot(dir.path());
        // A limit on file sizes acts like a disk that becomes full during a write. Shared memory
        // takes 32 KiB.
        for bytes in [40_000, 200_000] {
            let limited = run(Command::new("env")
                .args(["--ignore-signal=XFSZ", "prlimit"])
                .arg(format!("--fsize={bytes}"))
                .args([DENSITE, "vacuum", a, "--yes"]));
            limited.expect(4).says("not enough disk space");
            assert!(
                snapshot(dir.path()) == before,
                "{bytes}: {:?}",
                names(dir.path())
            );
        }
    });
}

#[test]
fn a_copy_that_differs_is_detected() {
    for compressed in [false, true] {
        // Changes a value in a table, a value in an index, the row id of a leaf's last cell, or the
        // kind of a page.
        for what in ["name 7", "index", "half"] {
            let dir = temp();
            let a = at(&dir, "a.db");
            plain(&a, 4096, 6000);
            if compressed {
                densite(&["compress", &a]).expect(0);
            }
            let before = fs::read(&a).expect("read");
            let stopped = stopped_at("vacuum-written", &a);
            let copy = names(dir.path())
                .into_iter()
                .find(|n| n.contains("-densite-tmp-"))
                .expect("a copy");
            let copy = dir.path().join(copy);
            let mut bytes = fs::read(&copy).expect("read");
            let kind = if what == "index" { 10 } else { 13 };
            let leaf = bytes
                .chunks(4096)
                .rposition(|p| p[0] == kind && p.windows(5).any(|w| w == b"name "));
            match leaf {
                Some(leaf) if what == "half" => bytes[leaf * 4096 + 2048..][..2048].fill(0),
                Some(leaf) => {
                    let page = &mut bytes[leaf * 4096..][..4096];
                    let at = page.windows(5).position(|w| w == b"name ");
                    page[at.expect("a name")] ^= 1;
                }
                // A compressed file does not show its pages, so bytes of many frames are changed. A
                // single byte could be one of a model that no page uses.
                None => {
                    let (from, to) = (bytes.len() * 3 / 8, bytes.len() * 5 / 8);
                    bytes[from..to]
                        .iter_mut()
                        .step_by(1024)
                        .for_each(|b| *b ^= 1);
                }
            }
            fs::write(&copy, bytes).expect("write");
            let ran = stopped.finish();
            assert_eq!(ran.code, 1, "{what}: {ran:?}");
            assert!(ran.err.contains("cannot verify"), "{what}: {ran:?}");
            assert!(fs::read(&a).expect("read") == before);
            assert_eq!(names(dir.path()), ["a.db"]);
        }
    }
}

#[test]
fn pages_that_sqlite_reads_but_would_not_write_are_compared_row_by_row() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 6000);
    let rows = dump(&a);
    let mut bytes = fs::read(&a).expect("read");
    let leaf = bytes
        .chunks(4096)
        .position(|p| p[0] == 13 && p.windows(5).any(|w| w == b"name "))
        .expect("a leaf");
    // More fragmented bytes than there are. SQLite checks this only when it needs space in the
    // page.
    bytes[leaf * 4096 + 7] += 9;
    fs::write(&a, bytes).expect("write");
    let said = densite(&["vacuum", &a, "--yes", "--json"]).expect(0).json();
    assert_eq!(said["rows"], 4000);
    assert_eq!(dump(&a), rows);
    densite(&["check", &a]).expect(0);
}
