//! A database is converted while this process has it open, and rows come into its log.

mod common;

use common::api;
use densite_tools::{ConvertOptions, Silent};
use rusqlite::Connection;
use std::path::Path;
use std::time::Duration;

fn connect(path: &Path, vfs: &str) -> Connection {
    api();
    let con = Connection::open(format!("file:{}?vfs={vfs}", path.display())).expect("opens");
    // SAFETY: the handle is that of an open connection of that library, and `con` outlives its use
    // here.
    let lent = unsafe { densite_sqlite::Connection::borrow(api(), con.handle().cast()) };
    densite_tools::create_functions(&lent.expect("a connection")).expect("functions");
    con
}

fn ingest(path: &Path, vfs: &str) -> Connection {
    let con = connect(path, vfs);
    con.execute_batch("CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t)")
        .expect("the ingest table");
    con
}

/// Waits at most twenty seconds. Returns the last applied row.
fn wait(con: &Connection) -> rusqlite::Result<i64> {
    con.query_row("SELECT densite_wait(NULL, 20)", [], |row| row.get(0))
}

fn ids(con: &Connection) -> String {
    con.query_row("SELECT group_concat(id) FROM t", [], |row| row.get(0))
        .expect("reads")
}

/// Creates a database with one row and converts it. Returns a connection that was opened before,
/// and whose process has the applier.
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

/// The worker of the applier cannot read the converted file. It leaves the work to a process that
/// can, and takes it back when that process is gone.
#[test]
fn rows_are_applied_by_a_process_that_can_read_the_file() {
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
        // No other connection is open now: the state is the same as before.
        std::thread::sleep(Duration::from_millis(300));
    }
    drop(old);
}

/// This connection would wait forever: rows are applied to the file that now has the name.
#[test]
fn a_connection_to_the_replaced_file_gets_an_error() {
    for vfs in ["unix", "densite"] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.db");
        let old = converted(&path, vfs);
        let new = ingest(&path, "densite");
        new.execute_batch("INSERT INTO t_in VALUES (2)")
            .expect("inserts");
        assert_eq!(wait(&new).expect("applied"), 2, "{vfs}");
        let told = wait(&old).expect_err("not for this one").to_string();
        assert!(told.contains("open the database again"), "{vfs}: {told}");
        // It cannot write either.
        let told = old.execute_batch("INSERT INTO t_in VALUES (3)");
        let told = told.expect_err("it is not its log").to_string();
        assert!(told.contains("open the database again"), "{vfs}: {told}");
        drop(old);
        assert_eq!(ids(&new), "1,2");
    }
}
