//! A subscriber that reads while the log is pruned behind it, also by another process that
//! acknowledges under the same name.

use crate::common::storage;

use crate::common::{Db, all, create, one, wait};
use densite_testing::Stop;
use storage::{Faults, failing};

fn numbers(con: &rusqlite::Connection, rows: i64) -> rusqlite::Result<Vec<i64>> {
    let mut statement = con.prepare("SELECT seq FROM densite_log('s', ?1)")?;
    let seen = statement.query_map([rows], |row| row.get(0))?;
    seen.collect()
}

/// Each answer is a part of the log without a gap that begins behind a position of the subscriber.
/// It is never an error about rows that were pruned in between.
#[test]
fn reading_and_pruning_at_once() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, pad)");
    let faults = Faults::default();
    let open = || failing(&db.path(), &faults);
    let con = open();
    create(&con, "t", "").expect("the ingest table");
    one::<i64>(&con, "SELECT densite_subscribe('s', 'start')");
    let over = Stop::new();
    let rows = 4000;
    std::thread::scope(|s| {
        let reads = s.spawn(|| {
            let con = open();
            let mut answers = 0;
            while !over.is_set() {
                let seen = numbers(&con, 100).expect("reads");
                assert!(seen.windows(2).all(|w| w[1] == w[0] + 1), "{seen:?}");
                answers += u64::from(!seen.is_empty());
            }
            answers
        });
        s.spawn(|| {
            let _over = over.at_end();
            let con = open();
            let mut at = 0;
            while at < rows {
                let seen = numbers(&con, 300).expect("reads");
                let Some((first, last)) = seen.first().zip(seen.last()) else {
                    continue;
                };
                assert_eq!(
                    *first,
                    at + 1,
                    "a row was pruned before it was acknowledged"
                );
                at = *last;
                one::<i64>(&con, &format!("SELECT densite_ack('s', {at})"));
                con.query_row("SELECT densite_prune()", [], |_| Ok(())).ok();
            }
        });
        for i in 0..rows / 20 {
            con.execute_batch(&format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) INSERT INTO t_in SELECT {i} * 20 + i, randomblob(100) FROM n"))
                .expect("inserts");
        }
        assert!(reads.join().expect("no panic") > 0);
    });
    wait(&con);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), rows);
    con.query_row("SELECT densite_prune()", [], |_| Ok(()))
        .expect("prunes");
    assert_eq!(db.segments(), 1, "all rows are acknowledged");
}

#[test]
fn a_row_says_whether_it_ends_its_transaction_and_what_it_does_on_a_conflict() {
    let db = Db::new("CREATE TABLE t(k INTEGER PRIMARY KEY, n INT); CREATE TABLE u(a)");
    let con = db.ingest("t", ", on_conflict='update(n = n + excluded.n)'");
    create(&con, "u", "").expect("the ingest table");
    con.execute_batch(
        "SELECT densite_subscribe('s', 'start');
         BEGIN; INSERT INTO t_in VALUES (1, 1), (2, 2); INSERT INTO u_in VALUES (1); INSERT OR IGNORE INTO t_in VALUES (3, 3); COMMIT;
         DELETE FROM t_in WHERE k = 1",
    )
    .expect("writes");
    let read = "SELECT seq, ends_transaction, on_conflict FROM densite_log('s')";
    let expected = [
        "1|0|update(\"n\" = n + excluded.n)",
        "2|0|update(\"n\" = n + excluded.n)",
        "3|0|abort",
        "4|1|ignore",
        "5|1|NULL",
    ];
    assert_eq!(all(&con, read), expected);
    assert_eq!(
        all(
            &con,
            "SELECT seq, ends_transaction FROM densite_log('s', 3)"
        ),
        ["1|0", "2|0", "3|0"]
    );
}
