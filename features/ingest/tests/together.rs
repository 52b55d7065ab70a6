//! Many rows inserted by one statement: the table is as if they had been inserted one by one.

use crate::common::{Db, Held, all, one, wait};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;

/// More than one statement takes, and not a multiple of that.
const ROWS: usize = 5_003;

/// A value of any type as SQL, often one that occurred before.
fn value(random: &mut StdRng) -> String {
    let n = random.random_range(-2_000..2_000);
    match random.random_range(0..7) {
        0 => "NULL".into(),
        1 => format!("{n}.5"),
        2 => format!("'text {n} äöü'"),
        3 => "''".into(),
        4 => format!("x'{:04x}'", n & 0xffff),
        5 => format!("'{n}'"),
        _ => n.to_string(),
    }
}

fn same(of: &Connection, other: &Connection, what: &str) {
    let rows = "SELECT *, typeof(a), typeof(b) FROM t ORDER BY k, l";
    assert_eq!(all(of, rows), all(other, rows), "{what}");
    assert_eq!(one::<String>(of, "PRAGMA integrity_check"), "ok", "{what}");
}

/// Values of all types, duplicates, and sometimes a row that a constraint refuses. The table, the
/// rejects and their reasons are those of inserting each row by itself.
#[test]
fn rows_applied_together_have_the_result_of_single_inserts() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let table =
        "t(k INTEGER NOT NULL, l TEXT NOT NULL, a, b REAL, c INT CHECK (c < 5), PRIMARY KEY(k, l))";
    for ending in ["", " WITHOUT ROWID"] {
        for (policy, verb) in [("abort", "INSERT"), ("ignore", "INSERT OR IGNORE")] {
            // Refused rows in a hundred: none, few, and many.
            for refused in [0.0, 0.05, 5.0] {
                let what = format!("seed {seed}, {policy}{ending}, {refused}");
                let schema = format!("CREATE TABLE {table}{ending}; CREATE INDEX i ON t(a, c)");
                let db = Db::new(&schema);
                let plain = Connection::open_in_memory().expect("opens");
                plain.execute_batch(&schema).expect("the table");
                let con = db.ingest("t", &format!(", on_conflict={policy}"));
                let held = Held::new(&db);
                con.execute_batch("BEGIN").expect("begins");
                let mut rejects = Vec::new();
                for seq in 1..=ROWS {
                    let at_random = random.random_bool(refused / 100.0);
                    let is_refused = at_random || refused > 0.0 && seq == ROWS / 2;
                    let c = if is_refused { 9 } else { 1 };
                    // If few rows are to be refused, no key occurs twice.
                    let k = match refused < 1.0 {
                        true => seq * 7 % ROWS,
                        false => random.random_range(0..4_000),
                    };
                    let (a, b) = (value(&mut random), value(&mut random));
                    let values = format!("({k}, 'l{}', {a}, {b}, {c})", k % 3);
                    let done = plain.execute_batch(&format!("{verb} INTO t VALUES {values}"));
                    // In the log, OR IGNORE does not ignore a CHECK: such a row is rejected.
                    if c == 9 || done.is_err() {
                        rejects.push(seq.to_string());
                    }
                    con.execute_batch(&format!("INSERT INTO t_in VALUES {values}"))
                        .unwrap_or_else(|e| panic!("{what}: {values}: {e}"));
                }
                con.execute_batch("COMMIT").expect("commits");
                drop(held);
                assert_eq!(wait(&con), ROWS as i64, "{what}");
                same(&con, &plain, &what);
                let seqs = all(&con, "SELECT seq FROM densite_rejects ORDER BY seq");
                assert_eq!(seqs, rejects, "{what}");
                assert_eq!(seqs.is_empty(), refused == 0.0, "{what}");
            }
        }
    }
}

/// The table that the statement reads has a name that a table of the database can also have.
#[test]
fn a_table_of_the_same_name_is_not_read() {
    let columns: Vec<String> = (0..64).map(|i| format!("c{i}")).collect();
    let hides = format!("CREATE TABLE densite_rows_to_apply({})", columns.join(", "));
    let db = Db::new(&format!(
        "CREATE TABLE t(k INTEGER PRIMARY KEY, a, b); {hides}; INSERT INTO densite_rows_to_apply(c0, c1) VALUES (-1, 'wrong')"
    ));
    let con = db.ingest("t", ", on_conflict=ignore");
    let held = Held::new(&db);
    con.execute_batch("BEGIN").expect("begins");
    for k in 0..ROWS {
        con.execute("INSERT INTO t_in VALUES (?1, 'right', 1)", [k as i64])
            .expect("inserts");
    }
    con.execute_batch("COMMIT").expect("commits");
    drop(held);
    wait(&con);
    assert_eq!(
        all(&con, "SELECT count(*), min(k), min(a), max(a) FROM t"),
        [format!("{ROWS}|0|right|right")]
    );
    assert_eq!(all(&con, "SELECT * FROM densite_rejects"), [""; 0]);
}

/// The bytes that are collected from records are limited, and a single row can exceed the limit.
#[test]
fn long_values_among_short_ones_arrive() {
    let db = Db::new("CREATE TABLE t(k INTEGER PRIMARY KEY, a)");
    let con = db.ingest("t", "");
    let held = Held::new(&db);
    con.execute_batch("BEGIN").expect("begins");
    let length = |k: i64| if k % 100 == 50 { 9_000_000 + k } else { k };
    for k in 0..300 {
        con.execute("INSERT INTO t_in VALUES (?1, zeroblob(?2))", [k, length(k)])
            .expect("inserts");
    }
    con.execute_batch("COMMIT").expect("commits");
    drop(held);
    assert_eq!(wait(&con), 300);
    let lengths: Vec<String> = (0..300).map(|k| format!("{k}|{}", length(k))).collect();
    assert_eq!(all(&con, "SELECT k, length(a) FROM t ORDER BY k"), lengths);
}
