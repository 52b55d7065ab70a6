//! Planning the next clustered apply while the current one is applied.

use crate::common::storage;
use crate::common::waiting;

use crate::common::{Db, Held, all, create, one, wait};
use densite_ingest::ClusteredLimits;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rusqlite::Connection;
use std::sync::atomic::Ordering;
use storage::{FEW, Faults, Own};
use waiting::{SHAPES, caught, one_by_one, place, rows, waiting};

/// Takes the lock in the last quarter of a clustered apply that others will follow; false if none
/// is left.
fn near_the_end(plain: &Connection, changes: usize) -> bool {
    while caught(plain, changes).is_some() {
        let (_, last, done, places) = place(plain);
        let all = places.iter().filter(|p| **p != u32::MAX).count();
        let left = (changes as i64).saturating_sub(last);
        if done as usize > all / 4 * 3 + 2 && left > 100 {
            return true;
        }
        plain.execute_batch("ROLLBACK").expect("rolls back");
    }
    false
}

/// It was planned when rows could be reordered. When it begins, they cannot any more.
#[test]
fn a_schema_change_before_a_clustered_apply_keeps_the_order_of_the_log() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for sql in [
        "CREATE TABLE seen(n); INSERT INTO seen VALUES (0); CREATE TRIGGER look AFTER INSERT ON t BEGIN UPDATE seen SET n = (n * 3 + new.u) % 1000003; UPDATE t SET v = (SELECT n FROM seen) WHERE rowid = new.rowid; END",
        "DELETE FROM t WHERE rowid NOT IN (SELECT min(rowid) FROM t GROUP BY s); CREATE UNIQUE INDEX one ON t(s)",
        "ALTER TABLE t ADD COLUMN more DEFAULT 5",
    ] {
        // On a busy machine it can end before the check.
        let in_time = |_| {
            let (db, con, plain, changes) = waiting(&SHAPES[0], 1200, &mut random);
            plain.execute_batch("ROLLBACK").expect("rolls back");
            if !near_the_end(&plain, changes.len()) {
                return None;
            }
            Some((db, con, plain, changes))
        };
        let Some((_db, con, plain, changes)) = (0..20).find_map(in_time) else {
            panic!("seed {seed}: it was over too soon");
        };
        // Planning takes at most this long.
        std::thread::sleep(std::time::Duration::from_millis(100));
        plain.execute_batch(sql).expect("changes");
        let (end, rejects) = one_by_one(&plain, &changes);
        plain.execute_batch("COMMIT").expect("commits");
        wait(&con);
        let what = format!("seed {seed}: {sql}");
        assert_eq!(rows(&plain, "t"), end, "{what}");
        let mut found = all(&plain, "SELECT seq FROM densite_rejects");
        found.sort_unstable();
        assert_eq!(found, rejects, "{what}");
    }
}

/// Number of clustered applies that are planned in advance while a reader of this process holds
/// rows in memory. `read_max` limits those rows.
fn read_beforehand(read_max: usize) -> u64 {
    const ROWS: i64 = 1200;
    let faults = Faults::default();
    let storage = Own {
        limits: ClusteredLimits { read_max, ..FEW },
        faults: faults.clone(),
        ..Own::default()
    };
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = storage.connect(&db.path());
    create(&con, "t", "").expect("the ingest table");
    let held = Held::new(&db);
    for from in (0..ROWS).step_by(100) {
        con.execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {from} + 99) INSERT INTO t_in SELECT i * 7919 % {ROWS}, i FROM n"
        ))
        .expect("inserts");
    }
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t_in"), ROWS);
    drop(held);
    wait(&con);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), ROWS);
    faults.beforehand.load(Ordering::SeqCst)
}

/// Planning takes the memory of a second clustered apply.
#[test]
fn a_clustered_apply_waits_while_readers_have_many_rows_in_memory() {
    assert!(read_beforehand(usize::MAX) > 0);
    assert_eq!(read_beforehand(50), 0);
}
