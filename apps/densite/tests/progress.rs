//! The progress of an insert, and stopping it.

use densite::rusqlite::Connection;
use densite::{Columns, Error, InsertOptions, OnConflict};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

const ROWS: i64 = 200_000;

fn database() -> (tempfile::TempDir, Connection) {
    let dir = tempfile::tempdir().expect("a directory");
    let con = densite::open(dir.path().join("app.db")).expect("opens");
    con.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY)")
        .expect("a table");
    (dir, con)
}

fn count(con: &Connection) -> i64 {
    con.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
        .expect("a number of rows")
}

/// Out of order, so that they are sorted first.
fn columns() -> Columns {
    Columns::new().integers("a", (0..ROWS).rev())
}

fn stop(done: u64, _: u64) -> ControlFlow<()> {
    match done < 100_000 {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    }
}

#[test]
fn progress_counts_up_to_all_rows() {
    let (_dir, con) = database();
    let (told, seen) = mpsc::channel();
    let progress = move |done, all| {
        told.send((done, all)).expect("the test receives");
        ControlFlow::Continue(())
    };
    let rows = InsertOptions::new().insert_with(&con, "t", columns(), progress);
    assert_eq!(rows.expect("inserts"), 200_000);
    let seen: Vec<(u64, u64)> = seen.iter().collect();
    let wanted = [65_536, 131_072, 196_608, 200_000].map(|done| (done, 200_000));
    assert_eq!(seen, wanted);
}

#[test]
fn a_stopped_insert_leaves_nothing() {
    let (_dir, con) = database();
    for on_conflict in [OnConflict::Abort, OnConflict::Ignore, OnConflict::Replace] {
        let options = InsertOptions::new().on_conflict(on_conflict);
        let stopped = options.insert_with(&con, "t", columns(), stop);
        assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
        assert!(con.is_autocommit());
        assert_eq!(count(&con), 0);
    }
    assert_eq!(
        densite::insert(&con, "t", columns()).expect("inserts"),
        200_000
    );
}

#[test]
fn a_stopped_insert_leaves_the_callers_transaction() {
    let (_dir, con) = database();
    con.execute_batch("BEGIN; INSERT INTO t VALUES (-1)")
        .expect("a transaction");
    let stopped = InsertOptions::new().insert_with(&con, "t", columns(), stop);
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    assert!(!con.is_autocommit());
    con.execute_batch("COMMIT").expect("commits");
    assert_eq!(count(&con), 1);
}

#[test]
fn a_stop_after_the_last_row_counts() {
    let (_dir, con) = database();
    let few = Columns::new().integers("a", [1, 2]);
    let stopped = InsertOptions::new().insert_with(&con, "t", few, |_, _| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    assert_eq!(count(&con), 0);
}

#[test]
fn a_panic_of_progress_goes_on_after_the_rows_are_undone() {
    let (_dir, con) = database();
    let insert = || {
        let progress = |_, _| panic!("a panic of the test");
        InsertOptions::new().insert_with(&con, "t", columns(), progress)
    };
    let panic = catch_unwind(AssertUnwindSafe(insert)).expect_err("panics");
    assert_eq!(panic.downcast_ref(), Some(&"a panic of the test"));
    assert!(con.is_autocommit());
    assert_eq!(count(&con), 0);
}

#[test]
fn other_errors_stay_what_they_are() {
    let (_dir, con) = database();
    let twice = Columns::new().integers("a", [1, 1]);
    let go_on = |_, _| ControlFlow::Continue(());
    let refused = InsertOptions::new().insert_with(&con, "t", twice, go_on);
    assert!(
        matches!(refused, Err(Error::Row { row: 1, .. })),
        "{refused:?}"
    );
}
