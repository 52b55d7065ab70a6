//! Other contents are written over an open file, in the same inode, as `cp` does.

use crate::common::{Place, assert_sound, bytes, int, run};
use rusqlite::Connection;
use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// Two databases that are made in the same way have the same change counter, page count and schema.
/// Only the rows differ.
fn rows(db: &Connection, mark: &str) {
    run(
        db,
        &format!(
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
             INSERT INTO t SELECT i, '{mark}' || i || hex(randomblob(60)) FROM n"
        ),
    );
}

/// The distinct marks of all rows.
fn marks(db: &Connection) -> rusqlite::Result<String> {
    db.query_row(
        "SELECT ifnull(group_concat(DISTINCT substr(b, 1, 3)), '') FROM t",
        [],
        |row| row.get(0),
    )
}

fn put(path: &Path, content: &[u8]) {
    std::fs::write(path, content).expect("writes");
}

/// The contents of a Densite or plain database whose rows have this mark.
fn contents(mark: &str, plain: bool) -> Vec<u8> {
    let (place, name) = (Place::new(), "made.db");
    let db = match plain {
        true => place.plain(name),
        false => place.open(name),
    };
    rows(&db, mark);
    drop(db);
    bytes(&place.path(name))
}

#[test]
fn new_contents_are_taken_when_a_transaction_begins() {
    for old_is_plain in [false, true] {
        for new_is_plain in [false, true] {
            let place = Place::new();
            let old = contents("old", old_is_plain);
            let new = contents("new", new_is_plain);
            let path = place.path("x.db");
            put(&path, &old);
            let what = format!("plain before: {old_is_plain}, plain after: {new_is_plain}");
            let connections = [place.open("x.db"), place.open("x.db")];
            for db in &connections {
                assert_eq!(marks(db).expect("reads"), "old", "{what}");
            }
            put(&path, &new);
            for db in &connections {
                let now = marks(db).expect("reads");
                // If neither is a Densite file, SQLite compares only the change counter and keeps
                // its pages.
                if !(old_is_plain && new_is_plain) {
                    assert_eq!(now, "new", "{what}");
                    assert_sound(db);
                }
            }
            run(&connections[0], "UPDATE t SET b = 'upd' || b");
            if !(old_is_plain && new_is_plain) {
                for db in &connections {
                    assert_eq!(marks(db).expect("reads"), "upd", "{what}");
                    assert_sound(db);
                }
            }
            put(&path, b"");
            for db in &connections {
                assert!(marks(db).is_err(), "{what}: it is empty");
                assert_eq!(int(db, "SELECT count(*) FROM sqlite_schema"), 0, "{what}");
            }
            put(&path, &old);
            for db in &connections {
                assert_eq!(marks(db).expect("reads"), "old", "{what}");
                assert_sound(db);
            }
        }
    }
}

/// A restored backup has the salt of the file, and both continue with commits of the same numbers.
#[test]
fn an_older_state_is_read_without_pages_of_the_later_one() {
    for others in 0..4 {
        let place = Place::new();
        let path = place.path("x.db");
        put(&path, &contents("one", false));
        let before = bytes(&path);
        let db = place.open("x.db");
        run(&db, "UPDATE t SET b = 'two' || b");
        run(&db, "UPDATE t SET b = 'thr' || b WHERE a > 10");
        assert_eq!(marks(&db).expect("reads"), "two,thr");
        // The backup continues on its own, as in another process: its commits have the numbers of
        // those above.
        let other = place.path("other.db");
        put(&other, &before);
        let apart = place.open("other.db");
        for n in 0..others {
            run(&apart, &format!("UPDATE t SET b = 'o{n}_' || b"));
        }
        drop(apart);
        put(&path, &bytes(&other));
        let expected = match others {
            0 => "one".to_owned(),
            n => format!("o{}_", n - 1),
        };
        assert_eq!(marks(&db).expect("reads"), expected, "{others} commits");
        assert_sound(&db);
        run(&db, "UPDATE t SET b = 'end' || b");
        assert_eq!(marks(&place.open("x.db")).expect("reads"), "end");
        drop(db);
        assert_sound(&place.open("x.db"));
    }
}

#[test]
fn a_copy_under_way_gives_an_error_and_never_a_mixture() {
    let place = Place::new();
    let (path, backup) = (place.path("x.db"), place.path("backup.db"));
    put(&path, &contents("old", false));
    std::fs::copy(&path, &backup).expect("copies");
    let apart = place.open("backup.db");
    run(&apart, "UPDATE t SET b = 'new' || b");
    run(&apart, "UPDATE t SET b = 'new' || b WHERE a % 7 = 1");
    drop(apart);
    for new in [contents("new", false), bytes(&backup)] {
        let old = contents("old", false);
        put(&path, &old);
        // Every page is read from the file.
        let open = || place.try_open("x.db", "&decoded_cache=0").expect("opens");
        let (db, reader) = (open(), open());
        assert_eq!(marks(&db).expect("reads"), "old");
        run(&reader, "PRAGMA cache_size=1; BEGIN");
        assert_eq!(int(&reader, "SELECT count(*) FROM t WHERE a < 100"), 99);
        let mut file = OpenOptions::new().write(true).open(&path).expect("opens");
        file.set_len(0).expect("cuts");
        let mut errors = 0;
        for chunk in new.chunks(new.len() / 40) {
            match marks(&db) {
                Ok(all) => assert_eq!(
                    all,
                    "new",
                    "{}",
                    file.metadata().expect("the file exists").len()
                ),
                Err(_) => errors += 1,
            }
            // An I/O error ends a transaction.
            let is_same = !reader.is_autocommit();
            match marks(&reader) {
                Ok(all) => assert_eq!(all, if is_same { "old" } else { "new" }),
                Err(_) => errors += 1,
            }
            file.seek(SeekFrom::End(0)).expect("seeks");
            file.write_all(chunk).expect("writes");
        }
        assert!(errors > 40, "{errors}");
        assert_eq!(marks(&db).expect("all is there"), "new");
        assert_sound(&db);
        assert!(reader.is_autocommit(), "its pages are gone");
        assert_eq!(marks(&reader).expect("another transaction"), "new");
        assert_sound(&reader);
    }
}

/// Pending writes of a transaction are not published over contents that they do not belong to.
#[test]
fn a_transaction_does_not_write_over_new_contents() {
    for new_is_plain in [false, true] {
        let place = Place::new();
        let path = place.path("x.db");
        let old = contents("old", false);
        let new = contents("new", new_is_plain);
        put(&path, &old);
        let db = place.open("x.db");
        run(
            &db,
            "PRAGMA journal_mode=MEMORY; BEGIN; UPDATE t SET b = 'mix' WHERE a < 50",
        );
        put(&path, &new);
        assert!(db.execute_batch("COMMIT").is_err());
        let _ = db.execute_batch("ROLLBACK");
        assert!(bytes(&path) == new, "plain: {new_is_plain}");
        assert_eq!(marks(&db).expect("reads"), "new");
        drop(db);
        assert_sound(&place.open("x.db"));
    }
}

/// What SQLite's own superlock demonstration does: under all locks it exchanges database and WAL of
/// two files, and invalidates the WAL's index.
#[test]
fn in_wal_mode_database_and_wal_are_exchanged() {
    let place = Place::new();
    let new = in_wal_mode(&place, "new.db", "new", false);
    let db = in_wal_mode(&place, "x.db", "old", false);
    let second = place.open("x.db");
    assert_eq!(marks(&second).expect("reads"), "old");
    let files = |name: &str| ["", "-dwal"].map(|s| bytes(&place.path(&format!("{name}{s}"))));
    let was = files("x.db");
    for (with, mark) in [(files("new.db"), "new"), (was, "old")] {
        exchange(&place, &with, "-dwal");
        for db in [&db, &second] {
            assert_eq!(marks(db).expect("reads"), mark);
            assert_sound(db);
        }
    }
    drop((db, second, new));
    let db = place.open("x.db");
    assert_eq!(marks(&db).expect("reads"), "old");
    assert_sound(&db);
}

/// The WAL of a plain database has another name than the one that open connections have, and shares
/// its index.
#[test]
fn in_wal_mode_a_plain_database_in_the_place_of_a_densite_file_is_an_error() {
    let place = Place::new();
    let new = in_wal_mode(&place, "new.db", "new", true);
    let db = in_wal_mode(&place, "x.db", "old", false);
    let files = ["", "-wal"].map(|s| bytes(&place.path(&format!("new.db{s}"))));
    exchange(&place, &files, "-wal");
    let error = marks(&db).expect_err("it has the other WAL open");
    assert!(error.to_string().contains("unable to open"), "{error}");
    let message = densite_vfs::take_last_error().expect("a message");
    assert!(message.contains("close this connection"), "{message}");
    assert!(db.execute_batch("INSERT INTO t(b) VALUES ('x')").is_err());
    drop((db, new));
    let db = place.open("x.db");
    assert_eq!(marks(&db).expect("reads"), "new");
    assert_sound(&db);
}

/// A database in WAL mode whose WAL has newer rows than its file.
fn in_wal_mode(place: &Place, name: &str, mark: &str, plain: bool) -> Connection {
    let db = match plain {
        true => place.plain(name),
        false => place.open(name),
    };
    run(&db, "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0");
    rows(&db, mark);
    run(&db, "PRAGMA wal_checkpoint");
    run(&db, &format!("UPDATE t SET b = '{mark}' WHERE a % 3 = 0"));
    db
}

/// Puts a database and its WAL in the place of x.db.
fn exchange(place: &Place, with: &[Vec<u8>; 2], wal: &str) {
    put(&place.path("x.db"), &with[0]);
    put(&place.path(&format!("x.db{wal}")), &with[1]);
    let shm = OpenOptions::new().write(true).open(place.path("x.db-shm"));
    shm.expect("opens")
        .write_all(&[0; 96])
        .expect("invalidated");
}

/// If only the database of a WAL is overwritten, SQLite would go on with cached pages of unknown
/// origin.
#[test]
fn in_wal_mode_a_database_that_is_overwritten_alone_is_an_error() {
    let place = Place::new();
    let path = place.path("x.db");
    let new = contents("new", false);
    put(&path, &contents("old", false));
    let db = place.open("x.db");
    run(&db, "PRAGMA journal_mode=WAL; PRAGMA cache_size=1");
    assert_eq!(marks(&db).expect("reads"), "old");
    put(&path, &new);
    std::thread::sleep(std::time::Duration::from_millis(20));
    let error = marks(&db).expect_err("neither old nor a mixture");
    assert!(error.to_string().contains("disk I/O error"), "{error}");
    let said = densite_vfs::take_last_error().expect("a message");
    assert!(said.contains("written over"), "{said}");
    drop(db);
    assert_eq!(marks(&place.open("x.db")).expect("reads"), "new");
}
