//! A log's directory, or one of its segments, is moved, removed or replaced while connections have
//! it open. Rows in it would be lost, so none are acknowledged.

use crate::common::away;
use crate::common::storage;

use crate::common::{self, Db, all, create, open, wait};
use away::{TABLE, begun, told};
use std::fs;
use std::path::{Path, PathBuf};
use storage::{Faults, Own};

fn aside(log: &Path) -> PathBuf {
    log.with_extension("aside")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("made");
    for file in fs::read_dir(from).expect("a directory") {
        let file = file.expect("a file");
        fs::copy(file.path(), to.join(file.file_name())).expect("copied");
    }
}

fn move_away(log: &Path) {
    fs::rename(log, aside(log)).expect("renamed");
}

fn replace_by_copy(log: &Path) {
    move_away(log);
    copy(&aside(log), log);
}

/// A change of the log in that directory.
type Change = fn(&Path);

const CHANGES: [(&str, Change); 4] = [
    ("moved", move_away),
    ("removed", |log| {
        // The worker can be making a file there.
        while let Err(e) = fs::remove_dir_all(log) {
            assert_eq!(e.kind(), std::io::ErrorKind::DirectoryNotEmpty);
        }
    }),
    ("replaced by a copy", replace_by_copy),
    ("its segment removed", |log| {
        fs::remove_file(log.join("000000000001.seg")).expect("removed");
    }),
];

#[test]
fn a_moved_log_acknowledges_no_rows() {
    for mode in ["wal", "delete"] {
        for (what, change) in CHANGES {
            let what = format!("{mode}, {what}");
            let (db, con) = begun(mode);
            con.execute_batch("BEGIN; INSERT INTO t_in VALUES (2, 'open')")
                .expect("inserts");
            change(&db.log_dir());
            told(con.execute_batch("COMMIT"), &what);
            assert!(con.is_autocommit(), "{what}: it is rolled back");
            told(
                con.execute_batch("INSERT INTO t_in VALUES (3, 'later')"),
                &what,
            );
            drop(con);
            assert_eq!(all(&db.open(), "SELECT id FROM t"), ["1"], "{what}");
        }
    }
}

#[test]
fn a_log_that_was_moved_back_accepts_rows() {
    for mode in ["wal", "delete"] {
        let (db, con) = begun(mode);
        move_away(&db.log_dir());
        told(
            con.execute_batch("INSERT INTO t_in VALUES (2, 'away')"),
            mode,
        );
        fs::rename(aside(&db.log_dir()), db.log_dir()).expect("renames");
        con.execute_batch("INSERT INTO t_in VALUES (3, 'back')")
            .expect("inserts");
        wait(&con);
        assert_eq!(all(&con, "SELECT id FROM t"), ["1", "3"], "{mode}");
    }
}

/// Connections with the old log open do not block others from the new one, in this process or
/// another.
#[test]
fn new_connections_use_the_log_with_the_current_name() {
    let (db, old) = begun("wal");
    replace_by_copy(&db.log_dir());
    let new = open(&db.path());
    create(&new, "t", "").expect("the ingest table");
    new.execute_batch("INSERT INTO t_in VALUES (2, 'new')")
        .expect("inserts");
    told(
        old.execute_batch("INSERT INTO t_in VALUES (3, 'old')"),
        "old",
    );
    assert_eq!(wait(&new), 2);
    assert_eq!(all(&new, "SELECT id FROM t"), ["1", "2"]);
    told(
        old.query_row("SELECT densite_prune()", [], |_| Ok(())),
        "prune",
    );
    assert_eq!(all(&old, "SELECT id FROM t"), ["1", "2"]);
}

/// The worker has read rows of the old log. Meanwhile rows of the new log have got the same
/// numbers. Each row goes to the table of its own log.
#[test]
fn rows_of_a_replaced_log_are_not_mixed_with_the_new_ones() {
    let db = Db::new(TABLE);
    let process = |number| {
        let own = Own {
            process: number,
            ..Own::failing(&Faults::default())
        };
        let con = own.connect(&db.path());
        create(&con, "t", "").expect("the ingest table");
        con
    };
    let old = process(1);
    old.execute_batch("INSERT INTO t_in VALUES (1, 'first')")
        .expect("inserts");
    wait(&old);
    copy(&db.log_dir(), &aside(&db.log_dir()));
    let held = common::Held::new(&db);
    old.execute_batch("INSERT INTO t_in VALUES (2, 'old')")
        .expect("inserts");
    // Its worker has read the row and waits for the lock.
    std::thread::sleep(std::time::Duration::from_millis(300));
    fs::rename(db.log_dir(), db.log_dir().with_extension("old")).expect("renames");
    fs::rename(aside(&db.log_dir()), db.log_dir()).expect("renames");
    let new = process(2);
    new.execute_batch("INSERT INTO t_in VALUES (3, 'new')")
        .expect("inserts");
    drop(held);
    wait(&new);
    assert_eq!(all(&new, "SELECT id FROM t"), ["1", "3"]);
    // The second row of the new log is applied, and not that of the old one.
    told(
        old.query_row("SELECT densite_wait(2, 5)", [], |_| Ok(())),
        "densite_wait",
    );
}

/// This connection would never see another row.
#[test]
fn waits_and_subscribers_of_a_moved_log_get_an_error() {
    let (db, con) = begun("wal");
    let held = common::Held::new(&db);
    con.execute_batch(
        "SELECT densite_subscribe('s', 'start'); INSERT INTO t_in VALUES (2, 'waits')",
    )
    .expect("inserts");
    move_away(&db.log_dir());
    drop(held);
    let ask = |sql: &str| con.query_row(sql, [], |_| Ok(()));
    told(ask("SELECT densite_wait(2)"), "densite_wait");
    told(
        ask("SELECT count(*) FROM densite_log('s', 10)"),
        "densite_log",
    );
    told(ask("SELECT densite_ack('s', 1)"), "densite_ack");
}

/// Room is made in another log.
#[test]
fn a_writer_that_waits_for_room_in_a_replaced_log_gets_an_error() {
    let (db, con) = begun("wal");
    let held = common::Held::new(&db);
    con.execute_batch(
        "SELECT densite_config('max_unapplied_bytes', 1); INSERT INTO t_in VALUES (2, 'waits')",
    )
    .expect("inserts");
    // A check of the unapplied bytes stays valid for a moment.
    std::thread::sleep(std::time::Duration::from_millis(100));
    let writer =
        std::thread::spawn(move || con.execute_batch("INSERT INTO t_in VALUES (3, 'no room')"));
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!writer.is_finished(), "it waits");
    replace_by_copy(&db.log_dir());
    told(writer.join().expect("no panic"), "a writer");
    drop(held);
}
