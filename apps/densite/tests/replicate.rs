//! A program ships its database by SQL functions, also one with rows in a log.

use densite_tools::Silent;
use densite_tools::replica::{At, RestoreOptions, restore};
use std::time::Duration;

#[test]
fn a_program_ships_a_database_whose_rows_come_through_a_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let (db, replica) = (dir.path().join("app.db"), dir.path().join("replica"));
    let rows = |con: &densite::rusqlite::Connection| -> i64 {
        con.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .expect("rows")
    };
    let con = densite::open(&db).expect("opens");
    con.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a INTEGER PRIMARY KEY)")
        .expect("a table");
    let sql = "SELECT densite_replicate(?, 'interval=60')";
    con.query_row(sql, [replica.to_str()], |_| Ok(()))
        .expect("started");
    let log = densite::ingest(&con, "t").expect("opens");
    log.append((0..100).map(|n| (n,))).expect("appends");
    log.wait(Some(Duration::from_secs(60))).expect("applied");
    let done: i64 = con
        .query_row("SELECT densite_replicate_wait(60)", [], |row| row.get(0))
        .expect("waits");
    assert_eq!(done, 1);
    let restored = || {
        let copy = dir.path().join("copy.db");
        let _ = std::fs::remove_file(&copy);
        let _ = std::fs::remove_dir_all(dir.path().join("copy.db-log"));
        let api = densite_linked::api().expect("the linked SQLite");
        let replica = &replica;
        restore(
            api,
            replica,
            RestoreOptions::new(At::Newest),
            &copy,
            &mut Silent,
        )
        .expect("restores");
        rows(&densite::open(&copy).expect("opens"))
    };
    assert_eq!(restored(), 100);
    // The worker of ingest, which has a connection of its own, ends with the last connection, too.
    log.append((100..200).map(|n| (n,))).expect("appends");
    log.wait(Some(Duration::from_secs(60))).expect("applied");
    drop(log);
    drop(con);
    assert_eq!(restored(), 200);
}
