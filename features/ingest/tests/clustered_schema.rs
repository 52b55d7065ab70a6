//! A change of the schema near the end of a clustered apply that others will follow.

use crate::common::waiting;
use crate::common::{all, wait};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rusqlite::Connection;
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

/// The rows of the next one were appended when they could be reordered. When it begins, they
/// cannot.
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
