//! A process that reads while another one applies.

use crate::common::leader;

use crate::common::{Db, all, database_log, one, wait};
use leader::Leader;
use std::time::{Duration, Instant};

/// Not a test by itself: the process that applies rows until its input ends.
#[test]
fn child() {
    leader::lead("INSERT INTO t_in VALUES (0, 0)");
}

/// Rows that it keeps for its readers, and the log's segments, are released when another process
/// has applied them.
#[test]
fn a_process_that_is_not_the_applier_frees_its_rows() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let leader = Leader::start(&db, "shared::child");
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (-1, 0)")
        .expect("inserts");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t_in"), 2);
    // More than two segments of text that does not compress.
    for i in 0..20 {
        con.execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO t_in SELECT {i} * 1000 + i, randomblob(8000) FROM n"
        ))
        .expect("inserts");
    }
    wait(&con);
    let database_log = database_log(&con);
    let until = Instant::now() + Duration::from_secs(20);
    let mut i = 0;
    while database_log.log().status().expect("a status").segments > 1 && Instant::now() < until {
        // A row to prune behind.
        i += 1;
        con.execute_batch(&format!("INSERT INTO t_in VALUES ({}, 1)", 1_000_000 + i))
            .expect("inserts");
        std::thread::sleep(Duration::from_millis(200));
    }
    let status = database_log.log().status().expect("a status");
    assert_eq!(status.segments, 1, "{status:?}");
    leader.end();
    wait(&con);
    assert_eq!(
        all(&con, "SELECT count(*) FROM t"),
        [format!("{}", 20_002 + i)]
    );
}
