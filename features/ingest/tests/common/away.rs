//! For databases or logs whose files are moved away while connections have them open.

use crate::common::{Db, create, one, wait};
use rusqlite::Connection;

pub(crate) const TABLE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v)";

/// A database with one applied row, and a connection to it.
pub(crate) fn begun(mode: &str) -> (Db, Connection) {
    let db = Db::new(TABLE);
    let con = db.open();
    let set: String = one(&con, &format!("PRAGMA journal_mode = {mode}"));
    assert_eq!(set, mode);
    create(&con, "t", "").expect("the ingest table");
    con.execute_batch("INSERT INTO t_in VALUES (1, 'first')")
        .expect("inserts");
    wait(&con);
    (db, con)
}

/// Checks that the error is SQLite's own error for this case, and says what to do.
pub(crate) fn told(done: rusqlite::Result<()>, what: &str) {
    match done {
        Err(rusqlite::Error::SqliteFailure(e, Some(said))) => {
            assert_eq!(
                e.extended_code,
                rusqlite::ffi::SQLITE_READONLY_DBMOVED,
                "{what}: {said}"
            );
            assert!(said.contains("open the database again"), "{what}: {said}");
        }
        other => panic!("{what}: {other:?}"),
    }
}
