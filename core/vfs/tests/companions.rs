//! The journal and the WAL of a Densite file, and programs that know only SQLite's format.

use crate::common::{Place, assert_sound, bytes, fill, int, run, text};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;

const NO_DATABASE: &str = "file is not a database";

/// The names beside x.db.
fn beside(place: &Place) -> Vec<String> {
    let all = std::fs::read_dir(place.path("")).expect("a directory");
    let names = all.map(|entry| entry.expect("an entry").file_name().into_string());
    let mut names: Vec<String> = names.map(|name| name.expect("UTF-8")).collect();
    names.retain(|name| name.starts_with("x.db-") && name != "x.db-shm");
    names.sort();
    names
}

/// Copies the files of x.db as a killed process leaves them.
fn killed(place: &Place) -> Place {
    let copy = Place::new();
    for end in ["", "-journal", "-wal", "-djournal", "-dwal"] {
        let name = format!("x.db{end}");
        if place.path(&name).exists() {
            std::fs::copy(place.path(&name), copy.path(&name)).expect("copies");
        }
    }
    copy
}

fn all_bytes(place: &Place) -> Vec<(String, Vec<u8>)> {
    let mut names = beside(place);
    names.push("x.db".into());
    let read = |name: String| (name.clone(), bytes(&place.path(&name)));
    names.into_iter().map(read).collect()
}

/// What SQLite without the extension does to a file that somebody looks at.
fn look(path: &Path, says: &str) {
    for sql in [
        "SELECT * FROM sqlite_master",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "PRAGMA journal_mode=DELETE",
        "PRAGMA journal_mode=WAL",
        "CREATE TABLE mine(a)",
        "VACUUM",
    ] {
        let db = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), "unix");
        let done = db.and_then(|db| {
            db.busy_timeout(std::time::Duration::ZERO)?;
            db.query_row(sql, [], |_| Ok(()))
        });
        let error = done.expect_err(sql).to_string();
        assert!(error.contains(says), "{sql}: {error}");
    }
}

#[test]
fn another_program_changes_nothing_and_loses_no_transaction() {
    for mode in ["WAL", "DELETE", "PERSIST", "TRUNCATE"] {
        let place = Place::new();
        let db = place.open("x.db");
        run(&db, &format!("PRAGMA journal_mode={mode}"));
        run(&db, "PRAGMA cache_size=5; PRAGMA wal_autocheckpoint=0");
        fill(&db, 2000);
        run(&db, "BEGIN; UPDATE t SET b = 'changed' || b");
        if mode == "WAL" {
            run(&db, "COMMIT");
        }
        let own = if mode == "WAL" {
            "x.db-dwal"
        } else {
            "x.db-djournal"
        };
        assert_eq!(beside(&place), [own], "{mode}");
        let left = killed(&place);
        // A transaction that is larger than the cache keeps readers out in a rollback mode.
        let live = if mode == "WAL" { NO_DATABASE } else { "locked" };
        for (place, says) in [(&place, live), (&left, NO_DATABASE)] {
            let before = all_bytes(place);
            look(&place.path("x.db"), says);
            assert!(all_bytes(place) == before, "{mode} {says}");
        }
        for db in [&db, &left.open("x.db")] {
            let changed = "SELECT count(*) FROM t WHERE b LIKE 'changed%'";
            let want = if mode == "WAL" || !db.is_autocommit() {
                2000
            } else {
                0
            };
            assert_eq!(int(db, changed), want, "{mode}");
            assert_sound(db);
        }
    }
}

#[test]
fn plain_files_keep_the_names_of_sqlite() {
    for mode in ["WAL", "PERSIST"] {
        let place = Place::new();
        drop(place.plain("x.db"));
        let plain = Connection::open(place.path("x.db")).expect("opens");
        run(&plain, "CREATE TABLE t(a)");
        drop(plain);
        let db = place.open("x.db");
        run(&db, &format!("PRAGMA journal_mode={mode}"));
        run(&db, "INSERT INTO t VALUES (1)");
        let name = if mode == "WAL" {
            "x.db-wal"
        } else {
            "x.db-journal"
        };
        assert_eq!(beside(&place), [name]);
        let other = Connection::open(place.path("x.db")).expect("opens");
        run(&other, "INSERT INTO t VALUES (2)");
        assert_eq!(int(&db, "SELECT sum(a) FROM t"), 3);
        let off = place.try_open("off.db", "&densite=off").expect("opens");
        run(
            &off,
            &format!("PRAGMA journal_mode={mode}; CREATE TABLE t(a)"),
        );
        assert!(place.path(&name.replace("x.db", "off.db")).exists());
    }
}

/// An empty database has no transaction to recover, so SQLite removes a journal or WAL beside it.
#[test]
fn an_empty_file_becomes_a_densite_file_without_what_lies_beside_it() {
    let place = Place::new();
    std::fs::write(place.path("x.db"), b"").expect("writes");
    for end in ["-journal", "-wal", "-djournal", "-dwal"] {
        std::fs::write(place.path(&format!("x.db{end}")), [0xd9; 600]).expect("writes");
    }
    let db = place.open("x.db");
    fill(&db, 100);
    drop(db);
    assert_eq!(beside(&place), [""; 0]);
    look(&place.path("x.db"), NO_DATABASE);
    assert_eq!(int(&place.open("x.db"), "SELECT count(*) FROM t"), 100);
}

/// Two connections have an empty file open, and the other one makes it a plain database.
#[test]
fn an_empty_file_that_becomes_plain_gets_the_names_of_sqlite() {
    let place = Place::new();
    let db = place.open("x.db");
    assert_eq!(int(&db, "SELECT count(*) FROM sqlite_master"), 0);
    let other = place.plain("x.db");
    run(
        &other,
        "PRAGMA journal_mode=WAL; CREATE TABLE t(a); INSERT INTO t VALUES (1)",
    );
    run(&db, "INSERT INTO t VALUES (2)");
    assert_eq!(int(&other, "SELECT sum(a) FROM t"), 3);
    assert_eq!(beside(&place), ["x.db-wal"]);
    drop(db);
    run(&other, "PRAGMA journal_mode=PERSIST; DROP TABLE t");
    drop(other);
    // It is emptied, and becomes a Densite file.
    let db = place.open("x.db");
    assert_eq!(int(&db, "SELECT count(*) FROM sqlite_master"), 0);
    std::fs::write(place.path("x.db"), b"").expect("empties");
    fill(&db, 100);
    run(
        &db,
        "PRAGMA journal_mode=PERSIST; DELETE FROM t WHERE a < 50",
    );
    assert_eq!(beside(&place), ["x.db-djournal"]);
    look(&place.path("x.db"), NO_DATABASE);
    assert_sound(&db);
}

/// It is of the database that had this name before, or an earlier build left it.
#[test]
fn a_foreign_journal_or_wal_is_never_played_into_the_file() {
    for end in ["-wal", "-journal"] {
        let place = Place::new();
        let db = place.open("x.db");
        fill(&db, 100);
        drop(db);
        let old = place.plain("old.db");
        run(&old, "PRAGMA cache_size=2");
        run(
            &old,
            if end == "-wal" {
                "PRAGMA journal_mode=WAL"
            } else {
                "SELECT 1"
            },
        );
        fill(&old, 500);
        run(&old, "BEGIN; UPDATE t SET b = 'old' || b");
        if end == "-wal" {
            run(&old, "COMMIT");
        }
        let foreign = place.path(&format!("x.db{end}"));
        std::fs::copy(place.path(&format!("old.db{end}")), &foreign).expect("copies");
        let before = all_bytes(&place);
        let error = place.try_open("x.db", "").expect_err("refused").to_string();
        let own = end.replace('-', "-d");
        for part in [
            &format!("x.db{end} is beside it"),
            &"rename it to".to_string(),
            &own,
        ] {
            assert!(error.contains(part.as_str()), "{error}");
        }
        assert!(all_bytes(&place) == before);
        std::fs::rename(&foreign, place.path("away")).expect("moves");
        assert_eq!(int(&place.open("x.db"), "SELECT count(*) FROM t"), 100);
    }
}

/// An earlier build gave the WAL of a Densite file SQLite's name. The message says how to go on.
#[test]
fn a_wal_of_an_earlier_build_is_taken_up_after_it_is_renamed() {
    let place = Place::new();
    let db = place.open("x.db");
    run(&db, "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0");
    fill(&db, 100);
    let left = killed(&place);
    std::fs::rename(left.path("x.db-dwal"), left.path("x.db-wal")).expect("renames");
    left.try_open("x.db", "").expect_err("refused");
    std::fs::rename(left.path("x.db-wal"), left.path("x.db-dwal")).expect("renames");
    assert_eq!(int(&left.open("x.db"), "SELECT count(*) FROM t"), 100);
}

/// The host derives the permissions of a journal or WAL from those of the database.
#[test]
fn the_journal_and_the_wal_are_as_private_as_the_database() {
    use std::os::unix::fs::PermissionsExt as _;
    for mode in ["WAL", "PERSIST"] {
        let place = Place::new();
        std::fs::write(place.path("x.db"), b"").expect("writes");
        let own = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(place.path("x.db"), own).expect("private");
        let db = place.open("x.db");
        run(&db, &format!("PRAGMA journal_mode={mode}"));
        fill(&db, 10);
        let [name] = &beside(&place)[..] else {
            panic!("{:?}", beside(&place))
        };
        let meta = std::fs::metadata(place.path(name)).expect("a file");
        assert_eq!(meta.permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
fn the_marker_of_a_killed_process_is_removed() {
    let place = Place::new();
    fill(&place.open("x.db"), 3);
    let marker = place.path("x.db-journal");
    let put = || std::fs::write(&marker, b"\0\0\0\0a path").expect("writes");
    put();
    let name = place.path("x.db");
    let uri = format!("file:{}?vfs=densite&mode=ro", name.display());
    let reader = Connection::open(&uri).expect("opens");
    assert_eq!(int(&reader, "SELECT count(*) FROM t"), 3);
    drop(reader);
    assert!(marker.exists(), "a reader removes nothing");
    assert_eq!(int(&place.open("x.db"), "SELECT count(*) FROM t"), 3);
    assert!(!marker.exists());
    // What was a marker can be another program's journal now.
    put();
    let db = place.open("x.db");
    std::fs::write(&marker, b"\xd9\xd5\x05\xf9").expect("writes");
    assert_eq!(int(&db, "SELECT count(*) FROM t"), 3);
    assert!(marker.exists());
    std::fs::remove_file(&marker).expect("removes");
    drop(db);
    // Also beside a journal, which is rolled back first.
    let left = {
        let db = place.open("x.db");
        run(&db, "PRAGMA cache_size=5");
        fill(&db, 2000);
        run(&db, "BEGIN; UPDATE t SET b = 'changed' || b");
        killed(&place)
    };
    assert_eq!(beside(&left), ["x.db-djournal"]);
    std::fs::write(left.path("x.db-journal"), b"\0\0\0\0a path").expect("writes");
    let changed = "SELECT count(*) FROM t WHERE b LIKE 'changed%'";
    assert_eq!(int(&left.open("x.db"), changed), 0);
    assert_eq!(beside(&left), Vec::<String>::new());
}

/// A journal of a killed transaction over several files names the super-journal.
#[test]
fn a_transaction_over_several_files_leaves_no_marker() {
    for mode in ["DELETE", "PERSIST", "TRUNCATE"] {
        for end in ["COMMIT", "ROLLBACK"] {
            let place = Place::new();
            let db = place.open("x.db");
            let attach = format!("ATTACH '{}' AS other", place.path("y.db").display());
            run(&db, &attach);
            run(&db, "CREATE TABLE t(a); CREATE TABLE other.t(a)");
            for schema in ["main", "other"] {
                assert_eq!(
                    text(&db, &format!("PRAGMA {schema}.journal_mode={mode}")),
                    mode.to_lowercase()
                );
            }
            run(
                &db,
                "BEGIN; INSERT INTO t VALUES (1); INSERT INTO other.t VALUES (1)",
            );
            run(&db, end);
            assert!(!place.path("x.db-journal").exists(), "{mode} {end}");
            assert!(!place.path("y.db-journal").exists(), "{mode} {end}");
        }
    }
}
