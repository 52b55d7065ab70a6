//! Rows that are applied in another order than that of the log. The result is that of the log's
//! order, and readers see each row once meanwhile.

use crate::common::storage;
use crate::common::waiting;

use crate::common::{Db, all, create, one, wait};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;
use std::time::Duration;
use storage::FEW;
use waiting::{
    POLICIES, SHAPES, Shape, caught, change, expected, log, one_by_one, rows, through, waiting,
};

/// Checks during the clustered applies of one table.
const LOOKS: u64 = 30;
/// This many checks of all tables are too few.
const FEW_LOOKS: u64 = 30;

/// Random changes of each shape wait in the log and are applied by clustered applies. Sometimes
/// another connection changes the table or its schema in between. Two readers that share only the
/// files see what the model predicts at every stage.
#[test]
fn a_clustered_apply_has_the_result_of_the_log_order() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (mut caught_up, mut rounds) = (0, 0);
    // On a busy machine, clustered applies can end before a check.
    while caught_up <= FEW_LOOKS && rounds < 20 {
        rounds += 1;
        for (i, shape) in SHAPES.iter().enumerate() {
            for (policy, verb) in POLICIES {
                let what = format!("seed {seed}, shape {i}, {policy}");
                caught_up += run(&mut random, shape, policy, verb, &what);
            }
        }
    }
    assert!(
        caught_up > FEW_LOOKS,
        "clustered applies were seen on their way {caught_up} times"
    );
}

fn run(random: &mut StdRng, shape: &Shape, policy: &str, verb: &str, what: &str) -> u64 {
    let db = Db::new(shape.schema);
    let con = storage::with_limits(&db.path(), FEW, 0);
    create(&con, "t", &format!(", on_conflict={policy}")).expect("the ingest table");
    let other = storage::with_limits(&db.path(), FEW, 1);
    create(&other, "t", &format!(", on_conflict={policy}")).expect("the ingest table");
    let plain = Connection::open(db.path()).expect("opens");
    plain
        .busy_timeout(Duration::from_secs(10))
        .expect("a timeout");
    plain.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let changes: Vec<String> = (0..random.random_range(100..600))
        .map(|_| change(random, shape, verb, policy.contains("update")))
        .collect();
    let changes = log(&con, changes, what);
    let mut end = expected(&plain, shape, &changes);
    plain.execute_batch("ROLLBACK").expect("rolls back");
    let mut seen = 0;
    // The worker waits during each check, and there would be hundreds.
    while seen < LOOKS && caught(&plain, changes.len()).is_some() {
        seen += 1;
        let now = expected(&plain, shape, &changes);
        // Until then, readers see rows that the table will refuse.
        if !shape.schema.contains("CHECK") {
            assert_eq!(rows(&con, "t_in"), now, "{what}");
            assert_eq!(rows(&other, "t_in"), now, "{what}, of another process");
        }
        assert_eq!(now, end, "{what}: between");
        match random.random_range(0..4) {
            // Direct changes of the table are visible at once, and stay.
            0 => {
                let sql = change(random, shape, verb, policy.contains("update"));
                plain.execute_batch(&sql).ok();
                end = expected(&plain, shape, &changes);
                plain.execute_batch("COMMIT").expect("commits");
            }
            1 if random.random_range(0..10) == 0 => {
                let n: u32 = random.random();
                plain
                    .execute_batch(&format!(
                        "CREATE INDEX by_{n} ON t(v); CREATE TABLE more_{n}(x); COMMIT"
                    ))
                    .expect("changes");
            }
            _ => plain.execute_batch("ROLLBACK").expect("rolls back"),
        }
        std::thread::sleep(Duration::from_micros(random.random_range(0..500)));
    }
    plain.execute_batch("ROLLBACK").ok();
    wait(&con);
    assert_eq!(rows(&con, "t"), end, "{what}: the end");
    assert_eq!(rows(&other, "t_in"), end, "{what}: the end");
    assert_eq!(
        one::<i64>(&con, "SELECT count(*) FROM densite_clustered"),
        0
    );
    assert_eq!(all(&con, "PRAGMA integrity_check"), ["ok"], "{what}");
    seen
}

/// A schema change that makes order matter can come in the middle of a clustered apply. Then the
/// remaining rows are applied in the order of the log. The same happens if rows cannot be applied
/// any more.
#[test]
fn a_schema_change_during_a_clustered_apply_ends_it() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let stop = "CREATE TRIGGER stop BEFORE INSERT ON t WHEN new.u % 3 = 1 BEGIN SELECT RAISE(ABORT, 'no'); END";
    let sooner = [
        "DELETE FROM t WHERE rowid NOT IN (SELECT min(rowid) FROM t GROUP BY s); CREATE UNIQUE INDEX one ON t(s)",
        "CREATE TABLE seen(n, s); INSERT INTO seen VALUES (0, 0); CREATE TRIGGER look AFTER INSERT ON t BEGIN UPDATE seen SET n = (n * 3 + new.u) % 1000003; UPDATE t SET v = (SELECT n FROM seen) WHERE rowid = new.rowid; END",
        stop,
        "CREATE TABLE c(p, q, FOREIGN KEY(p, q) REFERENCES t(u, s)); INSERT INTO c SELECT u, s FROM t",
        "ALTER TABLE t RENAME COLUMN v TO other",
        "ALTER TABLE t ADD COLUMN more DEFAULT 5",
        "DROP TABLE t; CREATE TABLE t(u, s, v, w, PRIMARY KEY(u, s)) WITHOUT ROWID; CREATE INDEX by_v ON t(v)",
        "DROP TABLE t",
    ];
    for sql in sooner {
        // On a busy machine it can end before the check.
        let in_the_middle = |_| {
            let (db, con, plain, changes) = waiting(&SHAPES[0], 500, &mut random);
            plain.execute_batch("ROLLBACK").expect("rolls back");
            caught(&plain, changes.len())?;
            Some((db, con, plain, changes))
        };
        let Some((_db, con, plain, changes)) = (0..20).find_map(in_the_middle) else {
            panic!("seed {seed}: it was over too soon");
        };
        plain.execute_batch(sql).expect("changes");
        let (end, rejects) = one_by_one(&plain, &changes);
        if sql == stop {
            // The worker's whole transaction is rolled back each time.
            let harder = stop.replace("ABORT", "ROLLBACK");
            plain
                .execute_batch(&format!("DROP TRIGGER stop; {harder}"))
                .expect("changes");
        }
        plain.execute_batch("COMMIT").expect("commits");
        wait(&con);
        let what = format!("seed {seed}: {sql}");
        if sql != "DROP TABLE t" {
            assert_eq!(rows(&plain, "t"), end, "{what}");
        }
        let mut found = all(&plain, "SELECT seq FROM densite_rejects");
        found.sort_unstable();
        assert_eq!(found, rejects, "{what}");
    }
}

/// The new order also has the done rows of the old one. Rows that were deleted from the table since
/// do not come back from the log.
#[test]
fn a_new_permutation_keeps_the_applied_rows() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let order = "SELECT clustered FROM densite_applied";
    let mut seen = 0;
    for _ in 0..20 {
        let (_db, con, plain, changes) = waiting(&SHAPES[0], 500, &mut random);
        plain.execute_batch("ROLLBACK").expect("rolls back");
        if caught(&plain, changes.len()).is_none() {
            continue;
        }
        let old: i64 = one(&plain, order);
        plain
            .execute_batch("DELETE FROM t")
            .expect("deletes what is done");
        let end = expected(&plain, &SHAPES[0], &changes);
        // With this change, rows of other tables could affect this one.
        plain
            .execute_batch("CREATE TABLE far(x); CREATE TRIGGER reach AFTER INSERT ON far BEGIN DELETE FROM t; END; COMMIT")
            .expect("changes");
        while seen < 5 && caught(&plain, changes.len()).is_some() {
            seen += u32::from(one::<i64>(&plain, order) != old);
            assert_eq!(expected(&plain, &SHAPES[0], &changes), end, "seed {seed}");
            assert_eq!(rows(&con, "t_in"), end, "seed {seed}: read");
            plain.execute_batch("ROLLBACK").expect("rolls back");
        }
        plain.execute_batch("ROLLBACK").ok();
        wait(&con);
        assert_eq!(rows(&plain, "t"), end, "seed {seed}: the end");
        if seen >= 5 {
            return;
        }
    }
    panic!("seed {seed}: a new order was seen {seen} times only");
}

/// Rows that get the next id when they are applied must keep their place, and other rows must not
/// pass them.
#[test]
fn rows_without_an_id_keep_the_order_of_the_log() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE INDEX by_v ON t(v)";
    let db = Db::new(schema);
    let con = storage::with_limits(&db.path(), FEW, 0);
    create(&con, "t", "").expect("the ingest table");
    let plain = Connection::open(db.path()).expect("opens");
    plain.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let model = Connection::open_in_memory().expect("opens");
    model.execute_batch(schema).expect("the table");
    con.execute_batch("BEGIN").expect("begins");
    for i in 0..400 {
        let id = match i % 90 < 60 || random.random_bool(0.8) {
            true => random.random_range(0..5000).to_string(),
            false => "NULL".to_owned(),
        };
        let sql = format!(
            "INSERT INTO t VALUES ({id}, {})",
            random.random_range(0..99)
        );
        model.execute_batch(&sql).ok();
        con.execute_batch(&through(&sql)).expect("inserts");
        if i % 10 == 9 {
            con.execute_batch("COMMIT; BEGIN").expect("commits");
        }
    }
    con.execute_batch("COMMIT").expect("commits");
    plain.execute_batch("ROLLBACK").expect("rolls back");
    wait(&con);
    assert_eq!(rows(&plain, "t"), rows(&model, "t"), "seed {seed}");
}

/// There is no clustered apply if order matters, or if the log's order is as good. So rows get
/// their row ids in the order in which they are applied.
#[test]
fn tables_that_need_the_order_of_the_log_or_have_ascending_keys_are_not_clustered() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let tables = [
        (
            "CREATE TABLE t(k INT PRIMARY KEY, v, u UNIQUE)",
            false,
            false,
        ),
        (
            "CREATE TABLE t(k INT PRIMARY KEY, v, u); CREATE UNIQUE INDEX one ON t(u, v)",
            false,
            false,
        ),
        (
            "CREATE TABLE t(k INT PRIMARY KEY, v, u); CREATE UNIQUE INDEX one ON t(u) WHERE v > 3",
            false,
            false,
        ),
        (
            "CREATE TABLE t(k INT PRIMARY KEY, v, u); CREATE UNIQUE INDEX one ON t(v + u)",
            false,
            false,
        ),
        (
            "CREATE TABLE p(k INT PRIMARY KEY); CREATE TABLE t(k INT PRIMARY KEY, v, u REFERENCES p)",
            false,
            false,
        ),
        (
            "CREATE TABLE t(k INT PRIMARY KEY, v, u); CREATE TABLE c(k REFERENCES t)",
            false,
            false,
        ),
        (
            "CREATE TABLE t(k INT PRIMARY KEY, v, u); CREATE TABLE c(k); CREATE TRIGGER look AFTER INSERT ON c BEGIN DELETE FROM t; END",
            false,
            false,
        ),
        (
            "CREATE TABLE t(k INT PRIMARY KEY, v, u); CREATE INDEX by_v ON t(v)",
            true,
            false,
        ),
        (
            "CREATE TABLE t(k INT PRIMARY KEY, v, u); CREATE INDEX by_v ON t(v)",
            false,
            true,
        ),
    ];
    for (schema, ascends, is_applied) in tables {
        let db = Db::new(schema);
        let con = storage::with_limits(&db.path(), FEW, 0);
        create(&con, "t", "").expect("the ingest table");
        let plain = Connection::open(db.path()).expect("opens");
        plain.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        let mut logged = Vec::new();
        con.execute_batch("BEGIN").expect("begins");
        for i in 0..400i64 {
            let k = if ascends { i } else { i * 7919 % 4001 };
            let v = random.random_range(0..99);
            let u = if schema.contains("REFERENCES p") {
                "NULL".to_owned()
            } else {
                (1000 * i).to_string()
            };
            con.execute_batch(&format!("INSERT INTO t_in VALUES ({k}, {v}, {u})"))
                .expect("inserts");
            logged.push(k.to_string());
            if i % 20 == 19 {
                con.execute_batch("COMMIT; BEGIN").expect("commits");
            }
        }
        con.execute_batch("COMMIT").expect("commits");
        plain.execute_batch("ROLLBACK").expect("rolls back");
        wait(&con);
        let applied = all(&plain, "SELECT k FROM t ORDER BY rowid");
        assert_eq!(applied.len(), logged.len(), "seed {seed}: {schema}");
        assert_eq!(applied != logged, is_applied, "seed {seed}: {schema}");
    }
}
