//! UPDATE through an ingest table sets the columns that it names, to expressions of the row as it is
//! when the update is applied.

use crate::common::{Db, Held, all, create, one, refusal, wait};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;

const SCHEMA: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, n INT, \"a b\" TEXT DEFAULT 'x', state TEXT CHECK (state <> 'no'));
    INSERT INTO t VALUES (1, 0, 'a', 'open'), (2, 5, 'b', 'open'), (3, NULL, 'c', NULL)";
const ROWS: &str = "SELECT * FROM t_in";

fn run(con: &Connection, sql: &str) {
    con.execute_batch(sql)
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
}

/// Two transactions that have read the same row. Both count.
#[test]
fn expressions_count_and_columns_that_are_not_set_stay() {
    let db = Db::new(SCHEMA);
    let (one_con, other) = (db.ingest("t", ""), db.ingest("t", ""));
    let held = Held::new(&db);
    for con in [&one_con, &other] {
        run(con, "BEGIN");
        assert_eq!(all(con, "SELECT n FROM t_in WHERE id = 1"), ["0"]);
    }
    run(&one_con, "UPDATE t_in SET n = n + 1 WHERE id = 1");
    run(
        &other,
        "UPDATE temp.t_in SET \"a b\" = 'new', n = t_in.n + 10 WHERE t_in.id = 1",
    );
    assert_eq!(all(&one_con, "SELECT n FROM t_in WHERE id = 1"), ["1"]);
    assert_eq!(all(&other, "SELECT n FROM t_in WHERE id = 1"), ["10"]);
    run(
        &one_con,
        "UPDATE t_in SET state = 'shut' WHERE id = 1; COMMIT",
    );
    run(&other, "COMMIT");
    let expected = ["1|11|new|shut", "2|5|b|open", "3|NULL|c|NULL"];
    assert_eq!(all(&one_con, ROWS), expected);
    drop(held);
    wait(&one_con);
    assert_eq!(all(&one_con, "SELECT * FROM t"), expected);
    assert_eq!(
        one::<i64>(&one_con, "SELECT count(*) FROM densite_rejects"),
        0
    );
    run(&one_con, "SELECT densite_subscribe('s', 'start')");
    let log = "SELECT op, row, on_conflict FROM densite_log('s')";
    let expected = [
        r#"update|{"id":1}|update("n" = n + 1)"#,
        r#"update|{"id":1,"state":"shut"}|NULL"#,
        r#"update|{"id":1,"a b":"new"}|update("n" = n + 10)"#,
    ];
    assert_eq!(all(&one_con, log), expected);
}

/// The letter before a blob is not the column of that name. Otherwise the condition would name more
/// than the key, and the whole row would be logged.
#[test]
fn a_blob_in_a_condition_names_no_column() {
    let db = Db::new(
        "CREATE TABLE t(k BLOB PRIMARY KEY, x, v) WITHOUT ROWID; INSERT INTO t VALUES (x'01', 'kept', 0)",
    );
    let con = db.ingest("t", "");
    run(
        &con,
        "UPDATE t_in SET v = X'02' WHERE k = x'01' OR k = (SELECT x'03'); SELECT densite_subscribe('s', 'start')",
    );
    assert_eq!(
        all(&con, "SELECT row FROM densite_log('s')"),
        [r#"{"k":{"hex":"01"},"v":{"hex":"02"}}"#]
    );
}

/// The condition is checked again when the update is applied.
#[test]
fn a_condition_is_checked_again() {
    let db = Db::new(SCHEMA);
    let cons = [db.ingest("t", ""), db.ingest("t", "")];
    let held = Held::new(&db);
    let take = "UPDATE t_in SET n = n - 1 WHERE id = ?1 AND n > ?2";
    let shut = "UPDATE t_in SET state = 'shut', \"a b\" = ?2 WHERE id = ?1 AND state = 'open'";
    for con in &cons {
        run(con, "BEGIN");
        for _ in 0..3 {
            // Each transaction sees five.
            assert_eq!(con.execute(take, (2, 0)).expect("updates"), 1);
        }
        let by = format!("by {:p}", con);
        assert_eq!(con.execute(shut, (2, by)).expect("updates"), 1);
    }
    cons.iter().for_each(|con| run(con, "COMMIT"));
    let first = format!("2|0|by {:p}|shut", &cons[0]);
    let row = "SELECT * FROM t_in WHERE id = 2";
    assert_eq!(all(&cons[1], row), std::slice::from_ref(&first));
    drop(held);
    wait(&cons[1]);
    assert_eq!(all(&cons[1], "SELECT * FROM t WHERE id = 2"), [first]);
    assert_eq!(
        one::<i64>(&cons[0], "SELECT count(*) FROM densite_rejects"),
        0
    );
}

#[test]
fn what_the_table_refuses_is_rejected_and_can_be_replayed() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("t", "");
    run(
        &con,
        "UPDATE t_in SET state = substr('xno', 2), n = n + 1 WHERE id = 1 AND n < 9",
    );
    run(&con, "UPDATE t_in SET n = n + 1 WHERE id = 2");
    wait(&con);
    let reject = "SELECT op, row, on_conflict FROM densite_rejects";
    let expected = r#"update|{"id":1,"state":"no"}|update("n" = n + 1 WHERE n < 9)"#;
    assert_eq!(all(&con, reject), [expected]);
    run(
        &con,
        "UPDATE densite_rejects SET row = '{\"id\":1,\"state\":\"yes\"}'",
    );
    assert_eq!(one::<i64>(&con, "SELECT densite_replay_rejects()"), 1);
    let rows = all(&con, "SELECT * FROM t");
    assert_eq!(rows, ["1|1|a|yes", "2|6|b|open", "3|NULL|c|NULL"]);
    // Only a condition, and no expression.
    run(&con, "UPDATE t_in SET state = 'no' WHERE id = 1 AND n = 1");
    wait(&con);
    run(
        &con,
        "UPDATE densite_rejects SET row = replace(row, 'no', 'si')",
    );
    assert_eq!(one::<i64>(&con, "SELECT densite_replay_rejects()"), 1);
    assert_eq!(all(&con, "SELECT state FROM t WHERE id = 1"), ["si"]);
    let says = refusal(&con, "UPDATE t_in SET id = id + 1");
    assert!(says.contains("cannot change the primary key"), "{says}");
}

/// What cannot be evaluated again sets the value that the writer saw.
#[test]
fn other_statements_set_what_they_computed() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("t", "");
    let held = Held::new(&db);
    for sql in [
        "UPDATE t_in SET n = (SELECT max(n) FROM t_in) + n WHERE id = 2",
        "UPDATE t_in SET (n, state) = (n + 1, 'row') WHERE id = 1",
        "UPDATE t_in SET n = s.m + n FROM (SELECT 7 AS m) AS s WHERE id = 1",
        "UPDATE t_in SET n = n + 1, state = substr(hex(randomblob(1)), 3) || 'r' WHERE id = 3 OR id IN (SELECT 1)",
        "WITH w AS (SELECT 1) UPDATE t_in SET n = n * 2 WHERE id IN w",
        "UPDATE t_in SET n = 1, n = n + 1 WHERE id = 2; -- the last one counts",
        // Text for SQLite, until there is a column of that name.
        "UPDATE t_in SET n = n + (state = \"more\") WHERE id = 1",
    ] {
        run(&con, sql);
    }
    let expected = ["1|18|a|r", "2|11|b|open", "3|NULL|c|r"];
    assert_eq!(all(&con, ROWS), expected);
    run(&con, "SELECT densite_subscribe('s', 'start')");
    let text = "SELECT count(*) FROM densite_log('s') WHERE on_conflict LIKE '%more%'";
    assert_eq!(one::<i64>(&con, text), 0);
    drop(held);
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM t"), expected);
}

/// Random statements give what SQLite gives, to readers of waiting rows and in the table.
#[test]
fn random_updates_give_what_sqlite_gives() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let r = &mut StdRng::seed_from_u64(seed);
    let schema = "CREATE TABLE t(k TEXT, l INT, n NUMERIC, x REAL, \"select\" TEXT, b BLOB, PRIMARY KEY(l, k)) WITHOUT ROWID;
        INSERT INTO t VALUES ('a', 1, 1, 2, 's', x'01'), ('b', 1, '7', -1.5, NULL, 3), ('a', 2, NULL, 0, '12', 'b')";
    let db = Db::new(schema);
    let con = db.ingest("t", "");
    let plain = Connection::open_in_memory().expect("opens");
    run(
        &plain,
        &schema
            .replace("TABLE t(", "TABLE t_in(")
            .replace("INTO t ", "INTO t_in "),
    );
    for round in 0..10 {
        let held = Held::new(&db);
        for _ in 0..20 {
            let column = |r: &mut StdRng| {
                ["n", "x", "\"select\"", "[b]", "t_in.n", "\"t_in\".\"x\""][r.random_range(0..6)]
            };
            let value = |r: &mut StdRng| match r.random_range(0..9) {
                0 => format!("{} + 1", column(r)),
                1 => format!("{} || 'z,('", column(r)),
                2 => format!(
                    "CASE WHEN {} > 1 AND l = 1 THEN {} ELSE 'and' END",
                    column(r),
                    column(r)
                ),
                3 => format!("max({}, l)", column(r)),
                4 => "NULL".to_owned(),
                5 => format!("coalesce({}, k)", column(r)),
                6 => format!("{} BETWEEN -1 AND {}", column(r), column(r)),
                7 => "?1".to_owned(),
                _ => format!("?1 + {}", column(r)),
            };
            let condition = |r: &mut StdRng| match r.random_range(0..7) {
                0 => String::new(),
                1 => "WHERE l = 1".to_owned(),
                2 => format!("WHERE l = 1 AND {} IS NOT NULL AND k = 'a'", column(r)),
                3 => format!("WHERE ({} > 0 OR k = 'b') AND l < 2", column(r)),
                4 => format!("WHERE {} BETWEEN 0 AND 9 AND l = 2", column(r)),
                5 => format!("WHERE k IN ('a', 'c') AND typeof({}) <> 'text'", column(r)),
                _ => format!("WHERE t_in.k = 'a' AND {} IS NULL", column(r)),
            };
            let name = |r: &mut StdRng| ["n", "x", "\"select\"", "b"][r.random_range(0..4)];
            let sets: Vec<String> = (0..r.random_range(1..4))
                .map(|_| format!("{} = {}", name(r), value(r)))
                .collect();
            let sql = format!("UPDATE t_in SET {} {}", sets.join(", "), condition(r));
            let given = r.random_range(-3..9) as f64 / 2.0;
            let mut counts = [0, 0];
            for (con, count) in [&con, &plain].iter().zip(&mut counts) {
                let mut statement = con.prepare(&sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
                *count = match statement.parameter_count() {
                    0 => statement.execute([]),
                    _ => statement.execute([given]),
                }
                .unwrap_or_else(|e| panic!("{sql}: {e}"));
            }
            let rows = |con: &Connection| {
                all(
                    con,
                    "SELECT k, l, quote(n), quote(x), quote(\"select\"), quote(b) FROM t_in ORDER BY l, k",
                )
            };
            assert_eq!(
                rows(&con),
                rows(&plain),
                "seed {seed}, round {round}: {sql}"
            );
            assert_eq!(counts[0], counts[1], "{sql}");
        }
        drop(held);
        wait(&con);
        let rows = |con: &Connection, table: &str| {
            all(
                con,
                &format!(
                    "SELECT k, l, quote(n), quote(x), quote(\"select\"), quote(b) FROM {table} ORDER BY l, k"
                ),
            )
        };
        assert_eq!(
            rows(&con, "t"),
            rows(&plain, "t_in"),
            "seed {seed}, round {round}"
        );
        assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_rejects"), 0);
    }
}

/// No increment is lost, however many connections count.
#[test]
fn concurrent_counters() {
    let db = Db::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, n INT); INSERT INTO t SELECT value, 0 FROM json_each('[0,1,2,3,4]')",
    );
    let con = db.ingest("t", "");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = &db;
            scope.spawn(move || {
                let con = db.open();
                create(&con, "t", "").expect("an ingest table");
                for i in 0..250 {
                    let sql = "UPDATE t_in SET n = n + ?1 WHERE id = ?2";
                    let by = 1 + i64::from(i % 10 == 0);
                    con.execute(sql, (by, (i + thread) % 5)).expect("counts");
                }
            });
        }
    });
    wait(&con);
    let sum = "SELECT sum(n) FROM t";
    assert_eq!(one::<i64>(&con, sum), 4 * (250 + 25));
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_rejects"), 0);
}
