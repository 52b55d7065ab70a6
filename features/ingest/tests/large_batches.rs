//! Rows of large batches, whose keys are stored once: reads before they are applied match the table
//! afterwards.

use crate::common::{Db, Held, all, one, wait};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const BATCHES: usize = 3;
const ROWS: usize = 1_200;

/// Integers near all bounds of a code.
fn integer(random: &mut StdRng) -> i64 {
    let edges = [0, 1 << 53, 1 << 59, -(1 << 59), 1 << 62, i64::MAX, i64::MIN];
    let edge = edges[random.random_range(0..edges.len())];
    edge.saturating_add(random.random_range(-300..300))
}

/// A value as SQL. About one in `odd` is not an integer.
fn value(random: &mut StdRng, odd: u32) -> String {
    let n = integer(random);
    if odd == 0 || random.random_range(0..odd) > 0 {
        // The least integer has no literal.
        return match n {
            i64::MIN => "-9223372036854775807 - 1".into(),
            n => n.to_string(),
        };
    }
    match random.random_range(0..4) {
        0 => format!("{:?}", n as f64),
        1 => format!("{}.5", n % 1000),
        2 => format!("'{n}'"),
        _ => format!("'text {n}'"),
    }
}

#[test]
fn rows_of_large_batches_are_read_like_those_of_the_table() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for (columns, is_rowid) in [
        ("k INTEGER PRIMARY KEY, l INTEGER NOT NULL, v", true),
        (
            "k INTEGER NOT NULL, l INTEGER NOT NULL, v, PRIMARY KEY(k, l)",
            false,
        ),
        (
            "k NUMERIC NOT NULL, l NOT NULL, v, PRIMARY KEY(k, l)) WITHOUT ROWID --",
            false,
        ),
        ("k NOT NULL, l REAL NOT NULL, v, PRIMARY KEY(k, l)", false),
        (
            "k TEXT NOT NULL, l INT NOT NULL, v, PRIMARY KEY(l, k)",
            false,
        ),
    ] {
        for odd in [0, 3, 500] {
            let what = format!("seed {seed}, {columns}, {odd}");
            let db = Db::new(&format!("CREATE TABLE t({columns}\n)").replace("--\n)", ""));
            let con = db.ingest("t", ", on_conflict=replace");
            let held = Held::new(&db);
            let mut keys = Vec::new();
            for batch in 0..BATCHES {
                con.execute_batch("BEGIN").expect("begins");
                for row in 0..ROWS {
                    let k = value(&mut random, if is_rowid { 0 } else { odd });
                    let l = value(&mut random, odd);
                    let sql = format!("INSERT INTO t_in VALUES ({k}, {l}, {})", batch * ROWS + row);
                    con.execute_batch(&sql)
                        .unwrap_or_else(|e| panic!("{what}: {sql}: {e}"));
                    keys.push((k, l));
                }
                con.execute_batch("COMMIT").expect("commits");
            }
            let rows = |table: &str, ending: &str| {
                let values = "typeof(k), k, typeof(l), l, v";
                all(&con, &format!("SELECT {values} FROM {table} {ending}"))
            };
            let endings: Vec<String> = (0..100)
                .map(|_| {
                    let (k, l) = &keys[random.random_range(0..keys.len())];
                    match random.random_range(0..3) {
                        0 => format!("WHERE k = {k} AND l = {l}"),
                        1 => format!("WHERE k = {k} ORDER BY l, v"),
                        _ => format!("WHERE k > {k} AND l >= {l} ORDER BY k, l, v LIMIT 9"),
                    }
                })
                .chain(["ORDER BY k, l, v".to_owned()])
                .collect();
            let before: Vec<Vec<String>> = endings.iter().map(|e| rows("t_in", e)).collect();
            assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 0, "{what}");
            drop(held);
            wait(&con);
            for (ending, before) in endings.iter().zip(before) {
                let after = rows("t", ending);
                let differ: Vec<_> = before.iter().zip(&after).filter(|(b, a)| a != b).collect();
                assert_eq!(before, after, "{what}: {ending}: {differ:?}");
            }
        }
    }
}
