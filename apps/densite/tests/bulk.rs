//! Bulk insert and bulk query.

use densite::rusqlite::types::{Value, ValueRef};
use densite::rusqlite::{Connection, named_params, params};
use densite::{Columns, Error, InsertOptions, OnConflict, Values};

fn database() -> (tempfile::TempDir, Connection) {
    let dir = tempfile::tempdir().expect("a directory");
    let con = densite::open(dir.path().join("app.db")).expect("opens");
    (dir, con)
}

fn count(con: &Connection, table: &str) -> i64 {
    con.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
        row.get(0)
    })
    .expect("a number of rows")
}

#[test]
fn all_types_are_returned_unchanged() {
    let (_dir, con) = database();
    con.execute_batch("CREATE TABLE t(i INTEGER, r REAL, s TEXT, b BLOB, v)")
        .expect("a table");
    let columns = Columns::new()
        .integers("i", vec![Some(i64::MIN), None, Some(i64::MAX)])
        .reals("r", vec![Some(-0.5), None, Some(f64::INFINITY)])
        .texts("s", vec![Some("ü\0数据"), None, Some("")])
        .blobs("b", vec![Some(vec![0u8, 255]), None, Some(Vec::new())])
        .values(
            "v",
            vec![
                Value::Text("x".into()),
                Value::Null,
                Value::Text("y".into()),
            ],
        );
    assert_eq!(densite::insert(&con, "t", columns).expect("inserts"), 3);
    let mut result = densite::query(&con, "SELECT * FROM t ORDER BY rowid", []).expect("compiles");
    assert_eq!(result.names(), ["i", "r", "s", "b", "v"]);
    let batch = result.next().expect("a batch").expect("rows");
    assert!(result.next().is_none());
    assert_eq!(batch.rows(), 3);
    let [i, r, s, b, v] = batch.columns() else {
        panic!("{batch:?}")
    };
    assert_eq!(i.integers(), Some(&[i64::MIN, 0, i64::MAX][..]));
    assert_eq!(r.reals(), Some(&[-0.5, 0.0, f64::INFINITY][..]));
    let texts = s.texts().expect("texts");
    assert_eq!(texts.iter().collect::<Vec<_>>(), ["ü\0数据", "", ""]);
    assert_eq!(b.blobs().expect("blobs").get(0), Some(&[0, 255][..]));
    assert_eq!(v.get(2), ValueRef::Text(b"y"));
    for column in batch.columns() {
        assert!(column.has_nulls() && column.len() == 3);
        let nulls: Vec<bool> = (0..4).map(|row| column.is_null(row)).collect();
        assert_eq!(nulls, [false, true, false, true], "{}", column.name());
        assert_eq!(column.get(1), ValueRef::Null);
    }
    assert_eq!(batch.column("s"), Some(s));
}

#[test]
fn a_column_keeps_the_type_of_each_value() {
    let (_dir, con) = database();
    con.execute_batch("CREATE TABLE t(v)").expect("a table");
    let values = vec![
        Value::Integer(1),
        Value::Real(0.5),
        Value::Text("x".into()),
        Value::Blob(vec![1]),
        Value::Null,
    ];
    densite::insert(&con, "t", Columns::new().values("v", values)).expect("inserts");
    let mut statement = con
        .prepare("SELECT typeof(v) FROM t ORDER BY rowid")
        .expect("compiles");
    let types = statement.query_map([], |row| row.get(0)).expect("rows");
    let types: Vec<String> = types.map(|kind| kind.expect("a type")).collect();
    assert_eq!(types, ["integer", "real", "text", "blob", "null"]);
}

#[test]
fn nan_is_null() {
    let (_dir, con) = database();
    con.execute_batch("CREATE TABLE t(r REAL)")
        .expect("a table");
    densite::insert(&con, "t", Columns::new().reals("r", [f64::NAN])).expect("inserts");
    let is_null: bool = con
        .query_row("SELECT r IS NULL FROM t", [], |row| row.get(0))
        .expect("a row");
    assert!(is_null);
}

#[test]
fn rows_come_in_batches_and_parameters_as_in_rusqlite() {
    let (_dir, con) = database();
    con.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
        .expect("a table");
    let n = 200_000;
    // Out of order: insert sorts by the key.
    let keys = (0..n).map(|i| (i * 7919) % n);
    let columns = Columns::new()
        .integers("a", keys.clone())
        .texts("b", keys.map(|i| i.to_string()));
    assert_eq!(
        densite::insert(&con, "t", columns).expect("inserts"),
        200_000
    );
    let sql = "SELECT a, b FROM t WHERE a >= :from AND a < :to AND b <> ?3 ORDER BY a";
    let by_name = named_params! { ":from": 1, ":to": n, "?3": "it's" };
    let mut seen = 0;
    let mut batches = 0;
    for batch in densite::query(&con, sql, by_name).expect("compiles") {
        let batch = batch.expect("rows");
        let [a, b] = batch.columns() else {
            panic!("two columns")
        };
        let (a, b) = (a.integers().expect("integers"), b.texts().expect("texts"));
        for (a, b) in a.iter().zip(b.iter()) {
            seen += 1;
            assert_eq!((*a, b), (seen, seen.to_string().as_str()));
        }
        batches += 1;
    }
    assert_eq!(seen, n - 1);
    assert!(batches > 1);
    let by_place = densite::query(&con, sql, params![5, 8, ""]).expect("compiles");
    assert_eq!(
        by_place
            .map(|batch| batch.expect("rows").rows())
            .sum::<usize>(),
        3
    );
    let error = densite::query(&con, sql, [1]).expect_err("too few parameters");
    assert!(matches!(error, Error::Sqlite(_)), "{error:?}");
}

#[test]
fn statements_that_do_not_read_are_refused() {
    let (_dir, con) = database();
    con.execute_batch("CREATE TABLE t(a)").expect("a table");
    for sql in [
        "INSERT INTO t VALUES (1)",
        "SELECT 1; SELECT 2",
        "SELECT nothing",
        "",
        "SELEC 1",
    ] {
        let error = densite::query(&con, sql, []).expect_err("is refused");
        assert!(matches!(error, Error::Sqlite(_)), "{sql}: {error:?}");
    }
    assert_eq!(count(&con, "t"), 0);
}

#[test]
fn a_value_that_does_not_fit_names_column_and_row() {
    let (_dir, con) = database();
    let sql = "SELECT 1 AS a UNION ALL SELECT x'00'";
    let mut result = densite::query(&con, sql, []).expect("compiles");
    let error = result
        .next()
        .expect("an error")
        .expect_err("numbers and blobs");
    assert!(
        matches!(&error, Error::Value { column, row: 0, .. } if column == "a"),
        "{error:?}"
    );
    assert!(result.next().is_none());
}

#[test]
fn only_nulls_have_no_type() {
    let (_dir, con) = database();
    let mut result = densite::query(&con, "SELECT NULL AS a", []).expect("compiles");
    let batch = result.next().expect("a batch").expect("rows");
    let column = batch.column("a").expect("a column");
    assert!(column.is_null(0), "{column:?}");
    assert!(
        densite::query(&con, "SELECT 1 WHERE 0", [])
            .expect("compiles")
            .next()
            .is_none()
    );
}

#[test]
fn a_result_can_be_dropped_before_its_end() {
    let (_dir, con) = database();
    con.execute_batch("CREATE TABLE t(a)").expect("a table");
    let numbers = Columns::new().integers("a", 0..100_000i64);
    densite::insert(&con, "t", numbers).expect("inserts");
    let mut result = densite::query(&con, "SELECT a FROM t", []).expect("compiles");
    assert!(result.next().expect("a batch").is_ok());
    drop(result);
    con.execute_batch("DROP TABLE t").expect("nothing reads it");
    con.close().expect("closes");
}

#[test]
fn a_refused_row_is_named_and_nothing_is_inserted() {
    let (_dir, con) = database();
    con.execute_batch(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT NOT NULL, c INTEGER CHECK (c < 10));
         INSERT INTO t VALUES (7, 'x', 1)",
    )
    .expect("a table");
    let columns = |a: [i64; 3], b: [Option<&str>; 3], c: [i64; 3]| {
        Columns::new()
            .integers("a", a)
            .texts("b", b)
            .integers("c", c)
    };
    let all = [Some("p"), Some("q"), Some("r")];
    let cases = [
        (
            columns([9, 7, 1], all, [1, 2, 3]),
            1,
            "UNIQUE constraint failed: t.a; a is 7",
        ),
        (
            columns([3, 2, 1], [Some("p"), None, Some("r")], [1; 3]),
            1,
            "NOT NULL constraint failed: t.b; b is NULL",
        ),
        (
            columns([3, 2, 1], all, [10, 1, 2]),
            0,
            "CHECK constraint failed: c < 10; a is 3, b is",
        ),
    ];
    for (columns, expected, words) in cases {
        match densite::insert(&con, "t", columns).expect_err("is refused") {
            Error::Row { row, message, .. } => {
                assert_eq!(row, expected, "{message}");
                assert!(message.starts_with(words), "{message}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(count(&con, "t"), 1);
        assert!(con.is_autocommit());
    }
    let wrong = Columns::new().texts("a", ["no number"]).texts("b", ["x"]);
    let error = densite::insert(&con, "t", wrong).expect_err("no number");
    let said = error.to_string();
    assert!(said.contains("a is ") && !said.contains("b is "), "{said}");
}

#[test]
fn a_failed_insert_leaves_the_callers_transaction() {
    let (_dir, con) = database();
    con.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY); BEGIN; INSERT INTO t VALUES (1)")
        .expect("a transaction");
    densite::insert(&con, "t", Columns::new().integers("a", [2, 1])).expect_err("1 is there");
    densite::insert(&con, "t", Columns::new().integers("a", [2, 3])).expect("inserts");
    assert!(!con.is_autocommit());
    con.execute_batch("COMMIT").expect("commits");
    assert_eq!(count(&con, "t"), 3);
}

#[test]
fn conflicts_are_resolved_as_asked() {
    let (_dir, con) = database();
    con.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER)")
        .expect("a table");
    let columns = Columns::new()
        .integers("a", [2, 1, 2])
        .integers("b", [1, 2, 3]);
    let insert = |on_conflict| {
        con.execute_batch("DELETE FROM t").expect("empty");
        let rows = InsertOptions::new()
            .on_conflict(on_conflict)
            .insert(&con, "t", columns.clone());
        let kept = || {
            con.query_row("SELECT b FROM t WHERE a = 2", [], |row| {
                row.get::<_, i64>(0)
            })
        };
        rows.map(|rows| (rows, kept().expect("a row")))
    };
    assert!(matches!(
        insert(OnConflict::Abort),
        Err(Error::Row { row: 2, .. })
    ));
    assert_eq!(insert(OnConflict::Ignore).expect("skips"), (2, 1));
    assert_eq!(insert(OnConflict::Replace).expect("replaces"), (3, 3));
}

#[test]
fn columns_that_do_not_fit_are_named() {
    let (_dir, con) = database();
    con.execute_batch("CREATE TABLE t(a, b); CREATE TEMP TABLE other(a)")
        .expect("tables");
    let text = |table: &str, columns| {
        let error = densite::insert(&con, table, columns).expect_err("does not fit");
        assert!(
            matches!(error, Error::Columns(_) | Error::Table(_)),
            "{error:?}"
        );
        error.to_string()
    };
    let one = || Columns::new().integers("a", [1]);
    assert_eq!(
        text("t", one().integers("c", [1])),
        "table t has no column c; its columns are a, b"
    );
    assert!(text("t", one().integers("A", [1])).contains("given twice"));
    assert!(text("t", one().integers("b", [1, 2])).contains("one length"));
    assert!(text("none", one()).contains("no such table: main.none; create it first"));
    assert!(text("other", one()).contains("the schema temp has one"));
    let temp = InsertOptions::new()
        .schema("temp")
        .insert(&con, "other", one());
    assert_eq!(temp.expect("inserts"), 1);
    assert_eq!(
        densite::insert(&con, "t", Columns::new()).expect("nothing to do"),
        0
    );
    assert_eq!(count(&con, "t"), 0);
}

#[test]
fn names_of_tables_and_columns_can_be_any() {
    let (_dir, con) = database();
    con.execute_batch(r#"CREATE TABLE "a ""b"" ü?"("c d" INTEGER, "e""f" TEXT, g DEFAULT 5)"#)
        .expect("a table");
    let columns = Columns::new().integers("c d", [1]).texts("e\"f", ["x"]);
    assert_eq!(
        densite::insert(&con, "a \"b\" ü?", columns).expect("inserts"),
        1
    );
    let sql = r#"SELECT g FROM "a ""b"" ü?" WHERE "c d" = 1"#;
    let given: i64 = con.query_row(sql, [], |row| row.get(0)).expect("a row");
    assert_eq!(given, 5);
}

#[test]
fn many_columns_can_be_inserted() {
    let (_dir, con) = database();
    let names: Vec<String> = (0..40).map(|i| format!("c{i}")).collect();
    con.execute_batch(&format!("CREATE TABLE t({})", names.join(", ")))
        .expect("a table");
    let columns = names.iter().fold(Columns::new(), |columns, name| {
        columns.integers(name, [1, 2])
    });
    assert_eq!(densite::insert(&con, "t", columns).expect("inserts"), 2);
    let mut result = densite::query(&con, "SELECT * FROM t", []).expect("compiles");
    let batch = result.next().expect("a batch").expect("rows");
    assert!(
        batch
            .columns()
            .iter()
            .all(|column| *column.values() == Values::Integers(vec![1, 2]))
    );
}
