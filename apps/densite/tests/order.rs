//! Sorting before an insert never changes its result: it equals that of single statements in order.

use densite::rusqlite::types::Value;
use densite::rusqlite::{Connection, params_from_iter};
use densite::{Columns, InsertOptions, OnConflict};

const TABLES: [&str; 10] = [
    "CREATE TABLE t(a INTEGER PRIMARY KEY, b)",
    "CREATE TABLE t(a INTEGER, b, PRIMARY KEY (a DESC, b))",
    "CREATE TABLE t(a TEXT PRIMARY KEY, b) WITHOUT ROWID",
    "CREATE TABLE t(a TEXT COLLATE NOCASE PRIMARY KEY, b)",
    "CREATE TABLE t(a REAL UNIQUE, b)",
    "CREATE TABLE t(a UNIQUE, b UNIQUE)",
    "CREATE TABLE t(a NUMERIC NOT NULL DEFAULT 3 UNIQUE, b)",
    "CREATE TABLE t(a TEXT COLLATE RTRIM UNIQUE, b)",
    "CREATE TABLE t(a PRIMARY KEY, b); CREATE TRIGGER g AFTER INSERT ON t BEGIN UPDATE t SET b = b || 'x' WHERE a < new.a; END",
    "CREATE TABLE t(a ANY PRIMARY KEY, b ANY) STRICT",
];

/// A small generator of few different numbers, so that keys conflict.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((self.0 >> 33) % n).expect("small")
    }

    fn value(&mut self, kinds: u64) -> Value {
        let n = self.below(6);
        match self.below(kinds) {
            0 => Value::Integer(n),
            1 => Value::Text(
                ["1", "1.0", "a", "A", "a ", ""][usize::try_from(n).expect("an index")].to_owned(),
            ),
            2 => Value::Real(n as f64 / 2.0),
            3 => Value::Null,
            4 => Value::Integer((1 << 53) + n),
            _ => Value::Blob(vec![u8::try_from(n).expect("small")]),
        }
    }
}

fn rows(con: &Connection) -> Vec<Vec<Value>> {
    let sql = "SELECT a, typeof(a), b, typeof(b) FROM t ORDER BY typeof(a), a, typeof(b), b";
    let mut statement = con.prepare(sql).expect("compiles");
    let rows = statement.query_map([], |row| (0..4).map(|i| row.get(i)).collect());
    rows.expect("rows").map(|row| row.expect("a row")).collect()
}

#[test]
fn the_result_is_that_of_single_statements() {
    let dir = tempfile::tempdir().expect("a directory");
    let con = densite::open(dir.path().join("app.db")).expect("opens");
    con.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY")
        .expect("no syncs");
    let mut random = Random(1);
    let conflicts = [
        (OnConflict::Abort, "ABORT"),
        (OnConflict::Ignore, "IGNORE"),
        (OnConflict::Replace, "REPLACE"),
    ];
    let mut inserted = 0;
    for round in 0..20 {
        for table in TABLES {
            for (on_conflict, word) in conflicts {
                let kinds = 1 + u64::try_from(random.below(6)).expect("small");
                let count = random.below(12);
                let values: Vec<[Value; 2]> = (0..count)
                    .map(|i| [random.value(kinds), Value::Integer(i)])
                    .collect();
                con.execute_batch(table).expect("a table");

                con.execute_batch("BEGIN").expect("begins");
                let sql = format!("INSERT OR {word} INTO t VALUES (?1, ?2)");
                let one_by_one = values
                    .iter()
                    .try_for_each(|row| con.execute(&sql, params_from_iter(row)).map(drop));
                let expected = one_by_one.is_ok().then(|| rows(&con));
                con.execute_batch("ROLLBACK").expect("rolls back");

                let column = |i: usize| values.iter().map(move |row| row[i].clone());
                let columns = Columns::new().values("a", column(0)).values("b", column(1));
                let done = InsertOptions::new()
                    .on_conflict(on_conflict)
                    .insert(&con, "t", columns);
                let what = format!("round {round}: {table}, {word}: {values:?}: {done:?}");
                assert_eq!(done.is_ok(), expected.is_some(), "{what}");
                assert_eq!(rows(&con), expected.unwrap_or_default(), "{what}");
                inserted += done.unwrap_or(0);
                con.execute_batch("DROP TABLE t").expect("drops");
            }
        }
    }
    assert!(inserted > 1000, "{inserted}");
}
