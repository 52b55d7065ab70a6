//! The last connection ends the worker and its right to apply.

use crate::common::{Db, create, one, wait};
use densite_disk::RealDir;
use densite_log::{Log, LogDir, Options};
use std::sync::Arc;

/// Whether a process still applies, or keeps the right to.
fn is_led(db: &Db) -> bool {
    let dir: LogDir = Arc::new(RealDir::new(db.log_dir()));
    let id = densite_log::id_in(dir.clone()).expect("reads");
    let log = Log::open(dir, Options::new(id.expect("a log"))).expect("opens");
    log.try_lead().expect("asks").is_none()
}

/// If another connection changed the schema, SQLite forgets it while it makes or opens the ingest
/// table, including the table's own entry. Then SQLite never closes that table. Its log would stay
/// open, and its worker would apply until the process ends, although every connection is closed.
#[test]
fn the_worker_ends_if_the_schema_changes_while_the_table_is_created() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    drop(db.ingest("t", ""));
    assert!(!is_led(&db), "no connection is open");
    for n in 1..4 {
        let con = db.open();
        assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 2 * (n - 1));
        let change = |name: &str| {
            plain
                .execute_batch(&format!("CREATE TABLE {name}{n}(x)"))
                .expect("changes");
        };
        change("before_it_is_made");
        create(&con, "t", "").expect("made");
        con.execute_batch("INSERT INTO t_in VALUES (NULL)")
            .expect("inserts");
        change("before_it_is_met_again");
        con.execute_batch("INSERT INTO t_in VALUES (NULL)")
            .expect("inserts");
        assert_eq!(wait(&con), 2 * n);
        assert!(is_led(&db), "the worker applied");
        con.close().expect("closes");
        assert!(!is_led(&db), "the worker lives on");
    }
}
