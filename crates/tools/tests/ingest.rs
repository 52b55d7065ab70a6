//! A database that is converted in a process that has it open, and the rows that come into its log.

mod common;

use common::api;
use densite_tools::{ConvertOptions, Silent};
use rusqlite::Connection;
use std::path::Path;
use std::time::Duration;

fn connect(path: &Path, vfs: &str) -> Connection {
    api();
    let con = Connection::open(format!("file:{}?vfs={vfs}", path.display())).expect("opens");
    // SAFETY: an open connection of that library.
    let lent = unsafe { densite_sqlite::Connection::borrow(api(), con.handle().cast()) };
    densite_vfs::create_functions(&lent.expect("a connection")).expect("functions");
    con
}

fn ingest(path: &Path, vfs: &str) -> Connection {
    let con = connect(path, vfs);
    con.execute_batch("CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t)")
        .expect("the ingest table");
    con
}

/// Up to which row, at most twenty seconds from now.
fn wait(con: &Connection) -> rusqlite::Result<i64> {
    con.query_row("SELECT densite_wait(NULL, 20)", [], |row| row.get(0))
}

fn ids(con: &Connection) -> String {
    con.query_row("SELECT group_concat(id) FROM t", [], |row| row.get(0))
        .expect("reads")
}

/// A database with one row, converted, and a connection that was opened before, whose worker leads.
fn converted(path: &Path, vfs: &str) -> Connection {
    let con = connect(path, vfs);
    con.execute_batch("PRAGMA journal_mode = DELETE; CREATE TABLE t(id INTEGER PRIMARY KEY)")
        .expect("a table");
    drop(con);
    let old = ingest(path, vfs);
    old.execute_batch("INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    assert_eq!(wait(&old).expect("applied"), 1);
    let options = ConvertOptions {
        wait: Duration::from_secs(10),
        ..ConvertOptions::default()
    };
    let convert = match vfs {
        "unix" => densite_tools::compress,
        _ => densite_tools::decompress,
    };
    convert(api(), path, None, &options, &mut Silent).expect("converted");
    old
}

/// The worker that leads cannot read what the file is now: it leaves that to one that can, and takes it on again when that has gone.
#[test]
fn rows_are_applied_by_who_can_read_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.db");
    let old = converted(&path, "unix");
    for (id, all) in [(2, "1,2"), (3, "1,2,3")] {
        let new = ingest(&path, "densite");
        new.execute_batch(&format!("INSERT INTO t_in VALUES ({id})"))
            .expect("inserts");
        assert_eq!(wait(&new).expect("applied"), id);
        assert_eq!(ids(&new), all);
        drop(new);
        // Nobody else is there: it is as it was before.
        std::thread::sleep(Duration::from_millis(300));
    }
    drop(old);
}

/// It would wait for ever: what is applied goes to the file that has the name now.
#[test]
fn who_has_the_old_file_open_is_told_so() {
    for vfs in ["unix", "densite"] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.db");
        let old = converted(&path, vfs);
        let new = ingest(&path, "densite");
        new.execute_batch("INSERT INTO t_in VALUES (2)")
            .expect("inserts");
        assert_eq!(wait(&new).expect("applied"), 2, "{vfs}");
        let told = wait(&old).expect_err("not for this one").to_string();
        assert!(told.contains("open the database anew"), "{vfs}: {told}");
        // Nor does it write.
        let told = old.execute_batch("INSERT INTO t_in VALUES (3)");
        let told = told.expect_err("it is not its log").to_string();
        assert!(told.contains("open the database anew"), "{vfs}: {told}");
        drop(old);
        assert_eq!(ids(&new), "1,2");
    }
}
