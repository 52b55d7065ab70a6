//! Pruning behind a batch (rule 4), with small segments, so that a batch fills many.

mod common;
#[path = "common/medium.rs"]
mod medium;

use common::{Db, Held, create, one, wait};
use densite_disk::RealDir;
use densite_log::Log;
use medium::{Faults, failing};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of the first row in the log.
fn first(db: &Db) -> u64 {
    let dir = Arc::new(RealDir::new(db.log_dir()));
    let id = densite_log::id_in(dir.clone())
        .expect("reads")
        .expect("a log");
    let log = Log::open_read_only(dir, id).expect("opens");
    log.status().expect("a status").first
}

/// A batch so large that a checkpoint is due right after it, which a reader keeps from completing: nothing is pruned until it goes.
#[test]
fn nothing_is_pruned_behind_a_batch_whose_checkpoint_is_incomplete() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = failing(&db.path(), &Faults::default());
    create(&con, "t", "").expect("the ingest table");
    con.execute_batch("INSERT INTO t_in VALUES (0, 0)")
        .expect("inserts");
    wait(&con);
    let reader = rusqlite::Connection::open(db.path()).expect("opens");
    reader
        .execute_batch("BEGIN; SELECT * FROM t")
        .expect("reads");
    let held = Held::new(&db);
    for i in 0..20 {
        con.execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO t_in SELECT {i} * 200 + i, randomblob(100) FROM n"
        ))
        .expect("inserts");
    }
    // Longer than from one pruning to the next.
    std::thread::sleep(Duration::from_millis(1200));
    drop(held);
    assert_eq!(wait(&con), 4001);
    let until = Instant::now() + Duration::from_millis(700);
    while Instant::now() < until {
        // The row before the reader may be there already.
        assert!(first(&db) <= 2, "the file of the database has none of it");
        std::thread::sleep(Duration::from_millis(20));
    }
    reader.execute_batch("COMMIT").expect("ends");
    con.execute_batch("INSERT INTO t_in VALUES (-1, 0)")
        .expect("inserts");
    let until = Instant::now() + Duration::from_secs(20);
    while first(&db) <= 2 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(first(&db) > 2, "pruned once it is there");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t_in"), 4002);
}
