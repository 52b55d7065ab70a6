//! A database file that is moved, removed or replaced while connections have it open. The log
//! belongs to the path, and its rows are applied to the file with that name.

use crate::common::away;
use crate::common::storage;

use crate::common::{self, Db, all, create, one, open, wait};
use away::{TABLE, begun, told};
use rusqlite::Connection;
use std::fs::{remove_file, rename};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use storage::{Faults, Own};

/// The path of the file with this ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Restores a backup properly: no file of the old database stays beside the new one.
fn put_in_place(new: &Path, path: &Path) {
    for ending in ["-wal", "-shm", "-journal"] {
        remove_file(beside(path, ending)).ok();
    }
    rename(new, path).expect("renames");
}

/// Makes `path` another file, or removes it.
type Change = fn(&Path);

fn replaced_by_another_database(path: &Path) {
    let new = beside(path, ".new");
    let con = Connection::open(&new).expect("opens");
    con.execute_batch(TABLE).expect("a table");
    drop(con);
    put_in_place(&new, path);
}

/// The new database has its own log.
fn replaced_with_its_log(path: &Path) {
    let other = Db::new(TABLE);
    drop(other.ingest("t", ""));
    rename(beside(path, "-log"), beside(path, ".aside-log")).expect("renames");
    rename(other.log_dir(), beside(path, "-log")).expect("renames");
    put_in_place(&other.path(), path);
}

fn replaced_by_a_backup(path: &Path) {
    put_in_place(&beside(path, ".backup"), path);
}

fn removed_and_made_anew(path: &Path) {
    remove_file(path).expect("removes");
    replaced_by_another_database(path);
}

fn moved(path: &Path) {
    rename(path, beside(path, ".away")).expect("renames");
}

fn moved_with_its_log(path: &Path) {
    moved(path);
    rename(beside(path, "-log"), beside(path, ".away-log")).expect("renames");
}

const CHANGES: [(&str, Change); 6] = [
    ("another database", replaced_by_another_database),
    ("another database and log", replaced_with_its_log),
    ("a backup", replaced_by_a_backup),
    ("removed", removed_and_made_anew),
    ("moved", moved),
    ("moved with its log", moved_with_its_log),
];

/// A database with one row, a backup of it, and a connection with ingest.
fn backup(con: &Connection, db: &Db) {
    let to = beside(&db.path(), ".backup");
    con.execute("VACUUM INTO ?1", [to.to_str().expect("UTF-8")])
        .expect("a backup");
}

fn backed_up(mode: &str) -> (Db, Connection) {
    let (db, con) = begun(mode);
    backup(&con, &db);
    (db, con)
}

/// The file with that name can be another database, an older state, or missing. Rows in this log
/// would be applied to it or to none.
#[test]
fn a_moved_database_file_gets_no_acknowledgements() {
    for mode in ["wal", "delete"] {
        for (what, change) in CHANGES {
            let what = format!("{mode}, {what}");
            let (db, con) = backed_up(mode);
            let last = || one::<i64>(&con, "SELECT densite_log_last()");
            // One connection has inserted already, another one comes later.
            con.execute_batch("BEGIN; INSERT INTO t_in VALUES (2, 'open')")
                .expect("inserts");
            change(&db.path());
            told(con.execute_batch("COMMIT"), &what);
            assert!(con.is_autocommit(), "{what}: it is rolled back");
            told(
                con.execute_batch("INSERT INTO t_in VALUES (3, 'later')"),
                &what,
            );
            assert_eq!(last(), 1, "{what}: nothing of it is in the log");
        }
    }
}

/// Once the file has its name again, everything works as before.
#[test]
fn a_database_file_that_was_moved_back_accepts_rows() {
    for mode in ["wal", "delete"] {
        let (db, con) = backed_up(mode);
        moved(&db.path());
        told(
            con.execute_batch("INSERT INTO t_in VALUES (2, 'away')"),
            mode,
        );
        rename(beside(&db.path(), ".away"), db.path()).expect("renames");
        con.execute_batch("INSERT INTO t_in VALUES (3, 'back')")
            .expect("inserts");
        wait(&con);
        assert_eq!(all(&con, "SELECT id FROM t"), ["1", "3"], "{mode}");
    }
}

/// A search by the file's name finds files of another database: neither its log nor the open logs
/// of this process belong to this connection.
#[test]
fn a_log_is_not_found_by_the_name_of_another_file() {
    for (what, change) in CHANGES {
        let (db, con) = backed_up("wal");
        drop(con);
        let old = db.open();
        assert_eq!(all(&old, "SELECT id FROM t"), ["1"]);
        change(&db.path());
        told(create(&old, "t", ""), what);
        told(
            old.query_row("SELECT densite_subscribe('s')", [], |_| Ok(())),
            what,
        );
        if what == "a backup" {
            let new = open(&db.path());
            create(&new, "t", "").expect("the ingest table");
            new.execute_batch("INSERT INTO t_in VALUES (2, 'new')")
                .expect("inserts");
            wait(&new);
            assert_eq!(all(&new, "SELECT id FROM t"), ["1", "2"]);
        }
    }
}

/// Number of the first row in the log.
fn first(db: &Db) -> u64 {
    let dir = std::sync::Arc::new(densite_disk::RealDir::new(db.log_dir()));
    let id = densite_log::id_in(dir.clone()).expect("reads");
    let log = densite_log::Log::open_read_only(dir, id.expect("a log")).expect("opens");
    log.status().expect("a status").first
}

/// A connection with this process number, with small segments.
fn process(number: u64, db: &Db) -> Connection {
    let own = Own {
        process: number,
        ..Own::failing(&Faults::default())
    };
    let con = own.connect(&db.path());
    create(&con, "t", "").expect("the ingest table");
    con
}

fn fill(con: &Connection, from: i64) {
    con.execute_batch(&format!(
        "WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {from} + 99) INSERT INTO t_in SELECT i, randomblob(200) FROM n"
    ))
    .expect("inserts");
}

/// While rows come, the leading worker has the old file open. Rows of connections with the new file
/// belong there.
#[test]
fn the_worker_applies_to_the_file_with_the_current_name() {
    let db = Db::new(TABLE);
    let old = process(1, &db);
    fill(&old, 0);
    wait(&old);
    backup(&old, &db);
    // Its worker has the file open.
    fill(&old, 100);
    wait(&old);
    replaced_by_a_backup(&db.path());
    let new = process(2, &db);
    let begun = Instant::now();
    let mut rows = 200;
    while begun.elapsed() < Duration::from_secs(3) {
        fill(&new, rows);
        rows += 100;
        std::thread::sleep(Duration::from_millis(20));
    }
    let last: i64 = one(&new, "SELECT densite_log_last()");
    let reached: i64 = one(&new, "SELECT densite_wait(NULL, 20)");
    assert_eq!((last, reached), (rows, rows));
    // The second hundred came between the backup and its restore, and the log still had them.
    assert_eq!(one::<i64>(&new, "SELECT count(*) FROM t"), rows);
    drop(old);
}

/// What the old file holds does not show what the new one lacks.
#[test]
fn a_moved_database_file_prunes_no_rows() {
    let db = Db::new(TABLE);
    let old = process(1, &db);
    fill(&old, 0);
    wait(&old);
    backup(&old, &db);
    old.execute_batch("SELECT densite_config('auto_prune', 0)")
        .expect("set");
    fill(&old, 100);
    wait(&old);
    replaced_by_a_backup(&db.path());
    told(
        old.query_row("SELECT densite_prune()", [], |_| Ok(())),
        "densite_prune",
    );
    assert!(first(&db) <= 101);
    let new = process(2, &db);
    assert_eq!(wait(&new), 200);
    assert_eq!(one::<i64>(&new, "SELECT count(*) FROM t"), 200);
}

/// This connection would never see free room.
#[test]
fn a_writer_that_waits_for_room_in_a_moved_file_gets_an_error() {
    let (db, con) = backed_up("wal");
    let held = common::Held::new(&db);
    con.execute_batch(
        "SELECT densite_config('max_unapplied_bytes', 1); INSERT INTO t_in VALUES (2, 'waits')",
    )
    .expect("inserts");
    // A check of the unapplied bytes stays valid for a moment.
    std::thread::sleep(Duration::from_millis(100));
    let writer =
        std::thread::spawn(move || con.execute_batch("INSERT INTO t_in VALUES (3, 'no room')"));
    std::thread::sleep(Duration::from_millis(300));
    assert!(!writer.is_finished(), "it waits");
    moved(&db.path());
    told(writer.join().expect("no panic"), "a writer");
    drop(held);
}
