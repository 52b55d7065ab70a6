//! A transaction reads one end of the log, and the next one another. SQLite does not report the end
//! of a transaction that only reads.

use crate::common::{Db, Held, all, one, wait};

const COUNT: &str = "SELECT count(*) FROM t_in";

#[test]
fn each_transaction_reads_an_end_of_its_own() {
    let begins = [
        "BEGIN",
        "BEGIN IMMEDIATE",
        "SAVEPOINT s",
        "BEGIN; INSERT INTO x VALUES (1)",
        "BEGIN; SAVEPOINT s; INSERT INTO x VALUES (1); RELEASE s",
        // Writes to the log first.
        "BEGIN; DELETE FROM t_in WHERE k = 999",
    ];
    let ends = ["COMMIT", "ROLLBACK"];
    let db = Db::new("CREATE TABLE t(k INTEGER PRIMARY KEY, v)");
    let (con, other) = (db.ingest("t", ""), db.ingest("t", ""));
    con.execute_batch("CREATE TEMP TABLE x(a)")
        .expect("a table");
    let mut rows = 0;
    for first in begins {
        for (end, second) in ends.iter().flat_map(|end| begins.map(|b| (end, b))) {
            let what = format!("{first}; …; {end}; {second}");
            wait(&other);
            // BEGIN IMMEDIATE needs the write lock.
            let held = (!what.contains("IMMEDIATE")).then(|| Held::new(&db));
            let append = |rows: &mut i64| {
                *rows += 1;
                let sql = format!("INSERT INTO t_in VALUES ({rows}, 'v')");
                other.execute_batch(&sql).expect("appends");
            };
            con.execute_batch(first).expect("begins");
            assert_eq!(one::<i64>(&con, COUNT), rows, "{what}");
            append(&mut rows);
            assert_eq!(
                one::<i64>(&con, COUNT),
                rows - 1,
                "{what}: the same transaction"
            );
            con.execute_batch("INSERT INTO x VALUES (2); SAVEPOINT inner; INSERT INTO x VALUES (3); ROLLBACK TO inner; RELEASE inner")
                .expect("writes to a temporary table");
            assert_eq!(
                one::<i64>(&con, COUNT),
                rows - 1,
                "{what}: after a savepoint"
            );
            assert_eq!(
                one::<i64>(&con, "SELECT count(*) FROM t_in WHERE k > 0"),
                rows - 1
            );
            con.execute_batch(end).expect("ends");
            con.execute_batch(second).expect("begins");
            assert_eq!(
                one::<i64>(&con, COUNT),
                rows,
                "{what}: the next transaction"
            );
            append(&mut rows);
            assert_eq!(one::<i64>(&con, COUNT), rows - 1, "{what}");
            con.execute_batch("ROLLBACK").expect("ends");
            assert_eq!(one::<i64>(&con, COUNT), rows, "{what}: no transaction");
            drop(held);
        }
    }
}

/// Without the temporary table, or the right to write to it, each statement reads its own end of
/// the log.
#[test]
fn rows_are_read_if_transactions_cannot_be_marked() {
    let db = Db::new("CREATE TABLE t(k INTEGER PRIMARY KEY, v)");
    let (con, other) = (db.ingest("t", ""), db.ingest("t", ""));
    let _held = Held::new(&db);
    con.execute_batch("PRAGMA query_only = 1; BEGIN")
        .expect("begins");
    assert_eq!(one::<i64>(&con, COUNT), 0);
    other
        .execute_batch("INSERT INTO t_in VALUES (1, 'v')")
        .expect("appends");
    assert_eq!(one::<i64>(&con, COUNT), 1);
    con.execute_batch("COMMIT; PRAGMA query_only = 0; DROP TABLE temp.densite_transaction; BEGIN")
        .expect("begins");
    assert_eq!(all(&con, "SELECT v FROM t_in"), ["v"]);
    other
        .execute_batch("INSERT INTO t_in VALUES (2, 'w')")
        .expect("appends");
    assert_eq!(all(&con, "SELECT v FROM t_in"), ["v", "w"]);
    con.execute_batch("COMMIT").expect("ends");
}

/// The temporary table is rolled back and made again with the ingest table.
#[test]
fn a_table_whose_creation_was_rolled_back_is_created_again() {
    let db = Db::new("CREATE TABLE t(k INTEGER PRIMARY KEY, v)");
    let (con, other) = (db.open(), db.ingest("t", ""));
    let _held = Held::new(&db);
    let create = "CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t)";
    con.execute_batch(&format!("BEGIN; {create}; ROLLBACK; BEGIN; {create}"))
        .expect("made again");
    assert_eq!(one::<i64>(&con, COUNT), 0);
    other
        .execute_batch("INSERT INTO t_in VALUES (1, 'v')")
        .expect("appends");
    assert_eq!(one::<i64>(&con, COUNT), 0, "the same transaction");
    con.execute_batch("COMMIT").expect("ends");
    assert_eq!(one::<i64>(&con, COUNT), 1);
}
