//! A panic in the worker: waiting connections get an error, nothing is lost, and the worker begins
//! again.

use crate::common::storage;

use crate::common::{Db, all, create, one, wait};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use storage::{Faults, failing};

#[test]
fn a_panic_of_the_worker_is_reported_and_the_worker_restarts() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let faults = Faults::default();
    let con = failing(&db.path(), &faults);
    create(&con, "t", "").expect("the ingest table");
    con.execute_batch("INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    wait(&con);
    faults.panics.store(u64::MAX, Ordering::SeqCst);
    con.execute_batch("INSERT INTO t_in VALUES (2)")
        .expect("it is the log that acknowledges");
    let begun = Instant::now();
    let said = con
        .query_row("SELECT densite_wait()", [], |_| Ok(()))
        .expect_err("no process applies")
        .to_string();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(
        said.contains("panicked (a read that panics)")
            && said.contains("nothing that was acknowledged is lost"),
        "{said}"
    );
    // Writers beyond the limit get the error too, instead of waiting forever. A check of the
    // unapplied bytes stays valid for 20 ms.
    one::<i64>(&con, "SELECT densite_config('max_unapplied_bytes', 10)");
    std::thread::sleep(Duration::from_millis(30));
    con.execute_batch("INSERT INTO t_in VALUES (3)")
        .expect_err("too much is unapplied already");
    one::<i64>(&con, "SELECT densite_config('max_unapplied_bytes', 0)");
    // The worker continues by itself.
    faults.panics.store(0, Ordering::SeqCst);
    let until = Instant::now() + Duration::from_secs(20);
    while con
        .query_row("SELECT densite_wait()", [], |_| Ok(()))
        .is_err()
    {
        assert!(Instant::now() < until, "it did not begin again");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(all(&con, "SELECT id FROM t"), ["1", "2"]);
    con.execute_batch("INSERT INTO t_in VALUES (4)")
        .expect("inserts");
    wait(&con);
    assert_eq!(all(&con, "SELECT id FROM t"), ["1", "2", "4"]);
    assert_eq!(all(&con, "SELECT error FROM densite_rejects"), [""; 0]);
}
