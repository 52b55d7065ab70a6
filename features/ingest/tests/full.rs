//! A disk that was full for a moment blocks nothing afterwards.

use crate::common::storage;

use crate::common::{Db, all, create, wait};
use std::sync::atomic::Ordering;
use storage::{Faults, Own};

/// A rollback that could not be stored is stored once there is room, even if its process writes
/// nothing more. Rows of other processes behind it are hidden until then.
#[test]
fn a_rollback_that_could_not_be_stored_is_tried_again() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let faults = Faults::default();
    let open = |process| {
        let storage = Own {
            process,
            ..Own::failing(&faults)
        };
        let con = storage.connect(&db.path());
        create(&con, "t", "").expect("the ingest table");
        con
    };
    let (mut idle, other) = (open(1), open(2));
    for (con, id) in [(&idle, 1), (&other, 2), (&idle, 3)] {
        con.execute_batch(&format!("INSERT INTO t_in VALUES ({id})"))
            .expect("inserts");
        wait(con);
    }
    // SQLite calls the hook after xSync if a table of temp was written.
    idle.execute_batch("BEGIN; CREATE TABLE temp.x(x); INSERT INTO t_in VALUES (4)")
        .expect("begins");
    let full = faults.full.clone();
    idle.commit_hook(Some(move || {
        full.store(true, Ordering::SeqCst);
        true
    }))
    .expect("a hook");
    idle.execute_batch("COMMIT").expect_err("the hook says no");
    idle.commit_hook(None::<fn() -> bool>).expect("no hook");
    faults.full.store(false, Ordering::SeqCst);
    other
        .execute_batch("INSERT INTO t_in VALUES (5)")
        .expect("there is room again");
    other
        .query_row("SELECT densite_wait(NULL, 10)", [], |_| Ok(()))
        .expect("it is applied");
    assert_eq!(all(&other, "SELECT id FROM t"), ["1", "2", "3", "5"]);
    drop(idle);
}
