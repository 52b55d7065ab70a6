//! An insert that a foreign key refuses names the row and its reference.

use densite::rusqlite::Connection;
use densite::rusqlite::types::Value;
use densite::{Columns, Error, InsertOptions, MissingParent};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A table `p`, and a table that refers to it.
fn database(child: &str) -> (tempfile::TempDir, Connection) {
    let dir = tempfile::tempdir().expect("a directory");
    let con = densite::open(dir.path().join("app.db")).expect("opens");
    con.execute_batch(
        "PRAGMA foreign_keys = ON;
         CREATE TABLE p(x INTEGER PRIMARY KEY, y, z, UNIQUE (y, z));
         INSERT INTO p VALUES (1, 'a', 2), (2, 'b', 3)",
    )
    .expect("a parent");
    con.execute_batch(child).expect("a child");
    (dir, con)
}

/// The refused row and its reference.
fn refused(con: &Connection, columns: Columns) -> (u64, MissingParent) {
    let error = densite::insert(con, "t", columns).expect_err("is refused");
    let left: i64 = con
        .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
        .expect("a number");
    assert_eq!((left, con.is_autocommit()), (0, true));
    assert_eq!(
        error.sqlite_code(),
        Some(densite::rusqlite::ErrorCode::ConstraintViolation)
    );
    match error {
        Error::ForeignKey { row, missing, .. } => (row, *missing),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_row_and_its_reference_are_named() {
    let (_dir, con) = database("CREATE TABLE t(a INTEGER PRIMARY KEY, r REFERENCES p)");
    // They are sorted by `a`, but the number is the caller's.
    let columns = || {
        Columns::new()
            .integers("a", [9, 8, 7])
            .integers("r", [Some(1), Some(7), None])
    };
    let (row, missing) = refused(&con, columns());
    assert_eq!(row, 1);
    assert_eq!(missing.columns, ["r"]);
    assert_eq!(missing.values, [Value::Integer(7)]);
    assert_eq!(missing.parent, "p");
    assert_eq!(missing.parent_columns, ["x"]);
    let error = densite::insert(&con, "t", columns()).expect_err("is refused");
    assert_eq!(error.row(), Some(1));
    assert_eq!(
        error.to_string(),
        "row 1: FOREIGN KEY constraint failed; r is 7, which p does not have as x"
    );
}

#[test]
fn a_key_of_several_columns_is_named_as_one() {
    let (_dir, con) = database(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, m, n, FOREIGN KEY (m, n) REFERENCES p (y, z))",
    );
    let columns = Columns::new()
        .integers("a", [9, 8, 7])
        .texts("m", [Some("a"), None, Some("a")])
        .integers("n", [2, 5, 3]);
    let (row, missing) = refused(&con, columns);
    assert_eq!(row, 2);
    assert_eq!(
        missing.to_string(),
        "m is \"a\", n is 3, which p does not have as y, z"
    );
}

#[test]
fn the_parent_can_be_another_of_the_rows() {
    let (_dir, con) = database("CREATE TABLE t(a INTEGER PRIMARY KEY, up REFERENCES t(a))");
    let columns = |up: [i64; 3]| Columns::new().integers("a", [9, 8, 7]).integers("up", up);
    let (row, missing) = refused(&con, columns([5, 9, 8]));
    assert_eq!((row, missing.parent.as_str()), (0, "t"));
    let inserted = densite::insert(&con, "t", columns([8, 9, 8]));
    assert_eq!(inserted.expect("inserts"), 3);
}

#[test]
fn the_second_of_two_foreign_keys_is_found() {
    let (_dir, con) = database(
        "CREATE TABLE q(x PRIMARY KEY);
         CREATE TABLE t(a INTEGER PRIMARY KEY, r REFERENCES p, s REFERENCES q)",
    );
    let columns = Columns::new()
        .integers("a", [1, 2])
        .integers("r", [1, 2])
        .integers("s", [None, Some(3)]);
    let (row, missing) = refused(&con, columns);
    assert_eq!((row, missing.parent.as_str()), (1, "q"));
}

#[test]
fn a_trigger_does_not_hide_the_row() {
    let (_dir, con) = database(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, r REFERENCES p);
         CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",
    );
    let columns = Columns::new().integers("a", [9, 8]).integers("r", [1, 7]);
    assert_eq!(refused(&con, columns).0, 1);
}

#[test]
fn sqlites_error_stays_if_the_row_is_not_known() {
    let cases = [
        // The commit checks it.
        "CREATE TABLE t(a INTEGER PRIMARY KEY, r REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
        // A default is not among the rows.
        "CREATE TABLE t(r, d DEFAULT 5 REFERENCES p)",
        // The trigger's row refers to the missing one.
        "CREATE TABLE t(r); CREATE TABLE o(r REFERENCES p);
         CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO o VALUES (new.r); END",
    ];
    for child in cases {
        let (_dir, con) = database(child);
        let columns = Columns::new().integers("r", [7]);
        let error = densite::insert(&con, "t", columns).expect_err("is refused");
        assert!(matches!(error, Error::Sqlite(_)), "{child}: {error:?}");
        assert_eq!(error.to_string(), "FOREIGN KEY constraint failed");
        assert_eq!((error.row(), con.is_autocommit()), (None, true));
    }
}

#[test]
fn a_missing_parent_table_is_sqlites_error() {
    let (_dir, con) = database("CREATE TABLE t(r REFERENCES gone(x))");
    let columns = Columns::new().integers("r", [7]);
    let error = densite::insert(&con, "t", columns).expect_err("is refused");
    assert!(error.to_string().contains("gone"), "{error}");
}

#[test]
fn the_search_for_the_row_is_no_progress() {
    let (_dir, con) = database(
        "CREATE TABLE q(x PRIMARY KEY);
         CREATE TABLE t(r REFERENCES p, s REFERENCES q)",
    );
    let calls = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&calls);
    let progress = move |_, _| match seen.fetch_add(1, Ordering::Relaxed) {
        0 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    // The search by the first key reads all rows and finds none.
    let columns = Columns::new()
        .integers("r", [1, 2])
        .integers("s", [None, Some(7)]);
    let refused = InsertOptions::new().insert_with(&con, "t", columns, progress);
    assert!(
        matches!(refused, Err(Error::ForeignKey { row: 1, .. })),
        "{refused:?}"
    );
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}
