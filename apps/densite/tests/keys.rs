//! Bulk query with a table of keys.

use densite::rusqlite::types::Value;
use densite::rusqlite::{self, Connection, Params};
use densite::{Columns, Error, QueryOptions};

const KEYED: &str = "SELECT k.a, k.b, t.val FROM keys k JOIN t USING (a, b)";

/// A table of `rows` rows: 100 values of `b` for each `a`.
fn filled(rows: i64) -> (tempfile::TempDir, Connection) {
    let dir = tempfile::tempdir().expect("a directory");
    let con = densite::open(dir.path().join("app.db")).expect("opens");
    con.execute_batch(
        "CREATE TABLE t(a INTEGER, b INTEGER, val REAL, PRIMARY KEY (a, b)) WITHOUT ROWID",
    )
    .expect("a table");
    let columns = Columns::new()
        .integers("a", (0..rows).map(|i| i / 100))
        .integers("b", (0..rows).map(|i| i % 100))
        .reals("val", (0..rows).map(|i| i as f64 / 4.0));
    densite::insert(&con, "t", columns).expect("inserts");
    (dir, con)
}

fn pairs(pairs: &[(i64, i64)]) -> Columns {
    Columns::new()
        .integers("a", pairs.iter().map(|(a, _)| *a))
        .integers("b", pairs.iter().map(|(_, b)| *b))
}

fn rows(con: &Connection, sql: &str, params: impl Params, keys: Columns) -> Vec<Vec<Value>> {
    let mut found = Vec::new();
    let result = QueryOptions::new().keys(keys).query(con, sql, params);
    for batch in result.expect("compiles") {
        let batch = batch.expect("rows");
        let row = |i| {
            let values = batch.columns().iter().map(|column| column.get(i));
            values
                .map(|value| value.try_into().expect("UTF-8"))
                .collect()
        };
        found.extend((0..batch.rows()).map(row));
    }
    found
}

fn refused(con: &Connection, sql: &str, keys: Columns) -> Error {
    let result = QueryOptions::new().keys(keys).query(con, sql, []);
    result.expect_err("is refused")
}

fn numbers(a: i64, b: i64, val: f64) -> Vec<Value> {
    vec![Value::Integer(a), Value::Integer(b), Value::Real(val)]
}

#[test]
fn rows_come_in_the_order_of_the_keys() {
    let (_dir, con) = filled(1000);
    let keys = pairs(&[(9, 99), (3, 7), (0, 5), (77, 1), (3, 7)]);
    let wanted = [
        numbers(0, 5, 1.25),
        numbers(3, 7, 76.75),
        numbers(3, 7, 76.75),
        numbers(9, 99, 249.75),
    ];
    assert_eq!(rows(&con, KEYED, [], keys), wanted);
}

/// SQLite chooses the outer loop of a plain join. `keys CROSS JOIN` fixes it, and `ORDER BY` sorts the
/// rows of every plan.
#[test]
fn a_cross_join_and_order_by_keep_the_order_of_the_keys_in_every_plan() {
    let dir = tempfile::tempdir().expect("a directory");
    let con = densite::open(dir.path().join("app.db")).expect("opens");
    con.execute_batch(
        "CREATE TABLE large(a INTEGER, b INTEGER, val INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID;
         CREATE TABLE unindexed(a INTEGER, b INTEGER, val INTEGER);
         CREATE TABLE by_b(a INTEGER, b INTEGER, val INTEGER);
         CREATE TABLE by_val(a INTEGER, b INTEGER, val INTEGER);
         CREATE TABLE untyped(a, b, val, UNIQUE (b, a));
         CREATE TABLE small(a INTEGER PRIMARY KEY, b INTEGER, val INTEGER);
         CREATE INDEX is_by_b ON by_b(b DESC);
         CREATE INDEX is_by_val ON by_val(val);
         WITH n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n LIMIT 4000)
         INSERT INTO large SELECT n % 100, n / 100, n % 7 FROM n;
         INSERT INTO unindexed SELECT * FROM large ORDER BY val, b DESC, a DESC;
         INSERT INTO by_b SELECT * FROM unindexed;
         INSERT INTO by_val SELECT * FROM unindexed;
         INSERT INTO untyped SELECT * FROM unindexed;
         INSERT INTO small SELECT a, b, val FROM large WHERE b = 3 AND a % 10 = 0",
    )
    .expect("tables");
    let few: Vec<(i64, i64)> = vec![(9, 3), (20, 3), (0, 39), (77, 1), (20, 3), (9, 2), (500, 1)];
    let many: Vec<(i64, i64)> = (0..300).map(|i| (i * 37 % 100, i * 11 % 40)).collect();
    let mut reordered = 0;
    for is_analyzed in [false, true] {
        if is_analyzed {
            con.execute_batch("ANALYZE").expect("analyzed");
        }
        for keys in [&few, &many] {
            for table in ["large", "unindexed", "by_b", "by_val", "untyped", "small"] {
                for on in [
                    "t.a = k.a AND t.b = k.b",
                    "t.a = k.a",
                    "t.b = k.b",
                    "t.a = k.a AND t.val = 3",
                    "t.a = k.a AND t.a IN (20, 9) AND t.val IN (5, 2, 3)",
                ] {
                    let found = |join: &str, end: &str| -> Vec<Vec<Value>> {
                        let sql = format!("SELECT k.a, k.b FROM {join} ON {on} {end}");
                        rows(&con, &sql, [], pairs(keys))
                    };
                    for (join, end) in [
                        (format!("keys k CROSS JOIN {table} t"), ""),
                        (format!("keys k JOIN {table} t"), "ORDER BY k.a, k.b"),
                        (format!("{table} t JOIN keys k"), "ORDER BY k.a, k.b"),
                        (
                            format!("{table} t JOIN keys k"),
                            "GROUP BY k.a, k.b ORDER BY k.a, k.b",
                        ),
                    ] {
                        let found = found(&join, end);
                        assert!(is_in_order(&found), "{join} ON {on} {end}");
                    }
                    let plain = found(&format!("keys k JOIN {table} t"), "");
                    reordered += u32::from(!is_in_order(&plain));
                }
            }
        }
    }
    // Otherwise the documentation could promise the order for plain joins too.
    assert!(reordered > 0, "no plan reads another table first");
}

fn is_in_order(rows: &[Vec<Value>]) -> bool {
    let numbers = |row: &Vec<Value>| -> Vec<i64> {
        let number = |value: &Value| match value {
            Value::Integer(n) => *n,
            other => panic!("{other:?}"),
        };
        row.iter().map(number).collect()
    };
    rows.is_sorted_by_key(numbers)
}

#[test]
fn null_equals_nothing_and_comes_first() {
    let (_dir, con) = filled(1000);
    let keys = Columns::new()
        .integers("a", [Some(3), None, Some(1), None])
        .integers("b", [Some(7), Some(1), None, None]);
    let outer = "SELECT k.a, k.b, t.val FROM keys k LEFT JOIN t USING (a, b)";
    let (null, int) = (Value::Null, Value::Integer);
    let wanted = [
        vec![null.clone(), null.clone(), null.clone()],
        vec![null.clone(), int(1), null.clone()],
        vec![int(1), null.clone(), null],
        numbers(3, 7, 76.75),
    ];
    assert_eq!(rows(&con, outer, [], keys.clone()), wanted);
    assert_eq!(rows(&con, KEYED, [], keys), wanted[3..]);
}

#[test]
fn keys_take_the_affinity_of_the_column_that_they_are_compared_with() {
    let (_dir, con) = filled(1000);
    let keys = Columns::new()
        .texts("a", ["2", "two"])
        .reals("b", [3.0, 3.5]);
    let sql = "SELECT t.a, t.b, val FROM keys k JOIN t ON t.a = k.a AND t.b = k.b";
    assert_eq!(rows(&con, sql, [], keys), [numbers(2, 3, 50.75)]);
}

#[test]
fn keys_without_rows_find_nothing() {
    let (_dir, con) = filled(1000);
    assert!(rows(&con, KEYED, [], pairs(&[])).is_empty());
}

#[test]
fn statements_can_have_a_with_clause_of_their_own() {
    let (_dir, con) = filled(1000);
    for sql in [
        "WITH x AS (SELECT 1 AS n) SELECT k.a + n FROM keys k, x",
        " -- a comment with WITH\n /* and\n another */ with recursive n(n) AS
          (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 1) SELECT k.a + n FROM keys k, n",
        "SELECT a + 1 FROM keys",
    ] {
        let keys = Columns::new().integers("a", [4]);
        assert_eq!(rows(&con, sql, [], keys), [[Value::Integer(5)]], "{sql}");
    }
}

#[test]
fn parameters_are_those_of_the_statement() {
    let (_dir, con) = filled(1000);
    let keys = || Columns::new().integers("a", [2]);
    let by_place = "SELECT val FROM t JOIN keys USING (a) WHERE b = ?";
    let by_name = "SELECT val FROM t JOIN keys USING (a) WHERE b = :b";
    let wanted = [[Value::Real(50.75)]];
    assert_eq!(rows(&con, by_place, [3], keys()), wanted);
    assert_eq!(rows(&con, by_name, &[(":b", &3)], keys()), wanted);
}

#[test]
fn few_and_many_columns_and_any_name() {
    let (_dir, con) = filled(100);
    for count in [1, 16, 17, 999] {
        let names: Vec<String> = (0..count).map(|i| format!("k \"{i}\"")).collect();
        let keys = names
            .iter()
            .fold(Columns::new(), |keys, name| keys.integers(name, [7, 5]));
        let found = rows(&con, "SELECT * FROM keys", [], keys);
        let wanted = [
            vec![Value::Integer(5); count],
            vec![Value::Integer(7); count],
        ];
        assert_eq!(found, wanted, "{count} columns");
    }
}

#[test]
fn keys_that_do_not_fit_are_refused() {
    let (_dir, con) = filled(100);
    let text = |keys| {
        let error = refused(&con, KEYED, keys);
        assert!(matches!(error, Error::Columns(_)), "{error:?}");
        error.to_string()
    };
    let one = || Columns::new().integers("a", [1]);
    assert!(text(Columns::new()).starts_with("keys has no columns"));
    assert!(text(one().integers("A", [1])).starts_with("keys has a column twice: a, A"));
    assert!(text(one().integers("b", [1, 2])).contains("one length"));
    let many = (0..1000).fold(Columns::new(), |keys, i| {
        keys.integers(format!("k{i}"), [1])
    });
    assert!(text(many).contains("999 columns at most"));
}

#[test]
fn an_unknown_column_names_those_of_keys() {
    let (_dir, con) = filled(100);
    let keys = || Columns::new().integers("a", [1]).integers("x", [1]);
    for sql in [
        "SELECT k.b FROM keys k JOIN t ON t.a = k.a",
        "WITH n AS (SELECT 1) SELECT k.b FROM keys k JOIN t ON t.a = k.a",
    ] {
        let Error::Sqlite(rusqlite::Error::SqlInputError {
            msg,
            sql: shown,
            offset,
            ..
        }) = refused(&con, sql, keys())
        else {
            panic!("an error of the statement's text");
        };
        assert_eq!(msg, "no such column: k.b; keys has the columns a, x");
        // Its place is that in the statement as it was passed.
        assert_eq!(shown, sql);
        let offset = usize::try_from(offset).expect("a place");
        assert_eq!(Some(offset), sql.find("k.b"));
    }
}

#[test]
fn statements_that_do_not_read_are_refused_with_keys_too() {
    let (_dir, con) = filled(100);
    for sql in [
        "DELETE FROM t WHERE a IN (SELECT a FROM keys)",
        "SELECT a FROM keys; SELECT 2",
        "SELEC 1",
    ] {
        let error = refused(&con, sql, Columns::new().integers("a", [0]));
        assert!(matches!(error, Error::Sqlite(_)), "{sql}: {error:?}");
    }
    let left: i64 = con
        .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
        .expect("a number");
    assert_eq!(left, 100);
}

#[test]
fn a_result_with_keys_can_be_dropped_before_its_end() {
    let (_dir, con) = filled(100_000);
    let keys = Columns::new().integers("a", 0..1000i64);
    let sql = "SELECT t.b FROM keys JOIN t USING (a)";
    let mut result = QueryOptions::new()
        .keys(keys)
        .query(&con, sql, [])
        .expect("compiles");
    assert_eq!(
        result.next().expect("a batch").expect("rows").rows(),
        65_536
    );
    drop(result);
    con.execute_batch("DROP TABLE t").expect("nothing reads it");
    con.close().expect("closes");
}

#[test]
fn a_connection_that_reads_only_takes_keys() {
    let (dir, con) = filled(1000);
    drop(con);
    let con = densite::OpenOptions::new()
        .read_only(true)
        .open(dir.path().join("app.db"))
        .expect("opens");
    let found = rows(&con, KEYED, [], pairs(&[(2, 3)]));
    assert_eq!(found, [numbers(2, 3, 50.75)]);
}
