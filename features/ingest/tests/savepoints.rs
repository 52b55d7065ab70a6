//! Savepoints: rows that ROLLBACK TO removes never reach the log, whenever tables join the
//! transaction.

use crate::common::{Db, all, create, one, wait};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;

const SCHEMA: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE u(id INTEGER PRIMARY KEY, v); CREATE TABLE w(k TEXT PRIMARY KEY, v) WITHOUT ROWID";
const TABLES: [&str; 3] = ["t", "u", "w"];

/// The log's rows, and those of the table.
fn result_of(script: &str) -> Vec<String> {
    let db = Db::new(SCHEMA);
    let con = db.ingest("t", ", on_conflict=replace");
    create(&con, "u", ", on_conflict=replace").expect("u_in");
    con.execute_batch("INSERT INTO t_in VALUES (1, 'old'), (2, 'old')")
        .expect("inserts");
    wait(&con);
    con.execute_batch(script)
        .unwrap_or_else(|e| panic!("{script}: {e}"));
    let seen = all(&con, "SELECT * FROM t_in ORDER BY id");
    wait(&con);
    let rows = all(&con, "SELECT * FROM t ORDER BY id");
    assert_eq!(seen, rows, "{script}");
    assert_eq!(all(&con, "SELECT * FROM u"), [""; 0], "{script}");
    rows
}

#[test]
fn rollback_to_undoes_changes_before_an_inner_savepoint() {
    for script in [
        "BEGIN; SAVEPOINT a; INSERT INTO t_in VALUES (3, 'new'); SAVEPOINT b; ROLLBACK TO a; COMMIT",
        "BEGIN; SAVEPOINT a; INSERT INTO t_in VALUES (3, 'new'), (4, 'new'); SAVEPOINT b; ROLLBACK TO a; COMMIT",
        "BEGIN; SAVEPOINT a; UPDATE t_in SET v = 'new'; SAVEPOINT b; INSERT INTO t_in VALUES (7, 'new'); RELEASE b; SAVEPOINT c; ROLLBACK TO a; RELEASE a; COMMIT",
        "SAVEPOINT a; INSERT INTO t_in VALUES (3, 'new'); SAVEPOINT b; ROLLBACK TO a; RELEASE a",
        "SAVEPOINT a; SAVEPOINT b; INSERT INTO t_in VALUES (3, 'new'); ROLLBACK TO a; RELEASE a",
        "BEGIN; SAVEPOINT a; SAVEPOINT b; INSERT INTO t_in VALUES (3, 'new'); INSERT INTO u_in VALUES (3, 'new'); SAVEPOINT c; ROLLBACK TO a; COMMIT",
        "BEGIN; SAVEPOINT a; DELETE FROM t_in; SAVEPOINT a; INSERT INTO u_in VALUES (1, 'new'); ROLLBACK TO a; RELEASE a; ROLLBACK TO a; COMMIT",
        "BEGIN; SAVEPOINT a; SELECT * FROM t_in; INSERT INTO u_in VALUES (1, 'new'); SAVEPOINT b; ROLLBACK TO a; COMMIT",
    ] {
        assert_eq!(result_of(script), ["1|old", "2|old"], "{script}");
    }
}

/// SQLite reports only later savepoints to a table that was created within the transaction.
#[test]
fn rollback_to_undoes_the_rows_of_a_table_that_was_created_since() {
    for script in [
        "BEGIN; SAVEPOINT a; CREATE VIRTUAL TABLE temp.n USING densite_ingest(t); INSERT INTO n VALUES (3, 'new'); ROLLBACK TO a; COMMIT",
        "BEGIN; SAVEPOINT a; CREATE VIRTUAL TABLE temp.n USING densite_ingest(t); INSERT INTO n VALUES (3, 'new'); SAVEPOINT b; ROLLBACK TO a; COMMIT",
        "SAVEPOINT a; SAVEPOINT b; CREATE VIRTUAL TABLE temp.n USING densite_ingest(t); INSERT INTO n VALUES (3, 'new'), (4, 'new'); ROLLBACK TO b; RELEASE a",
        "BEGIN; SAVEPOINT a; CREATE VIRTUAL TABLE temp.n USING densite_ingest(t); DELETE FROM n WHERE id = 1; ROLLBACK TO a; CREATE VIRTUAL TABLE temp.n USING densite_ingest(t); ROLLBACK TO a; COMMIT",
        "BEGIN; SAVEPOINT a; CREATE VIRTUAL TABLE temp.n USING densite_ingest(t); INSERT INTO n VALUES (3, 'new'); ROLLBACK TO a; CREATE VIRTUAL TABLE temp.n USING densite_ingest(t); INSERT INTO n VALUES (4, 'new'); ROLLBACK TO a; COMMIT",
    ] {
        assert_eq!(result_of(script), ["1|old", "2|old"], "{script}");
    }
}

/// A transaction that has created the table also reads one end of the log.
#[test]
fn a_transaction_that_created_its_table_reads_one_end_of_the_log() {
    let db = Db::new(SCHEMA);
    let other = db.ingest("t", "");
    let con = db.open();
    con.execute_batch("BEGIN").expect("begins");
    create(&con, "t", "").expect("t_in");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t_in"), 0);
    other
        .execute_batch("INSERT INTO t_in VALUES (1, 1)")
        .expect("inserts");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t_in"), 0);
    con.execute_batch("COMMIT").expect("commits");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t_in"), 1);
}

/// A random statement, with `_in` behind the names of written tables.
fn statement(r: &mut StdRng, table: &str) -> String {
    let name = ["a", "b", "A", "c"][r.random_range(0..4)];
    let row = |r: &mut StdRng| format!("({}, {})", r.random_range(0..9), r.random_range(0..99));
    match r.random_range(0..16) {
        0..4 => format!("SAVEPOINT {name}"),
        4 | 5 => format!("RELEASE {name}"),
        6..9 => format!("ROLLBACK TO {name}"),
        9 | 10 => format!("INSERT OR REPLACE INTO {table}_in VALUES {}", row(r)),
        11 => format!(
            "INSERT OR REPLACE INTO {table}_in VALUES {}, {}",
            row(r),
            row(r)
        ),
        // Fails at its second row.
        12 => format!(
            "INSERT OR REPLACE INTO {table}_in SELECT {}, abs(column1) FROM (VALUES (1), (-9223372036854775808))",
            r.random_range(0..9)
        ),
        13 => format!("UPDATE {table}_in SET v = {}", r.random_range(0..99)),
        14 => format!(
            "DELETE FROM {table}_in WHERE v > {}",
            r.random_range(20..99)
        ),
        _ => format!("CREATE VIRTUAL TABLE temp.{table}_in USING densite_ingest({table})"),
    }
}

fn has(con: &Connection, table: &str) -> bool {
    let sql = format!("SELECT count(*) FROM sqlite_temp_schema WHERE name = '{table}_in'");
    one(con, &sql)
}

#[test]
fn random_savepoints_have_the_result_of_a_plain_table() {
    for seed in 0..50 {
        let r = &mut StdRng::seed_from_u64(seed);
        let db = Db::new(SCHEMA);
        // Makes the log first, because that writes to main.
        let con = db.ingest("t", "");
        let model = Connection::open_in_memory().expect("opens");
        model.execute_batch(SCHEMA).expect("the schema");
        let mut done = Vec::new();
        for _ in 0..4 {
            for table in TABLES {
                if has(&con, table) && r.random() {
                    con.execute_batch(&format!("DROP TABLE temp.{table}_in"))
                        .expect("goes");
                }
            }
            let begin = ["BEGIN", "SAVEPOINT a", "SAVEPOINT b"][r.random_range(0..3)];
            let steps = r.random_range(2..24);
            let some = r.random_range(1..=TABLES.len());
            for step in 0..=steps {
                let table = TABLES[r.random_range(0..some)];
                let sql = match step {
                    0 => begin.to_owned(),
                    _ if con.is_autocommit() => break,
                    _ => statement(r, table),
                };
                let creates = sql.starts_with("CREATE");
                if sql.contains("_in") && has(&con, table) == creates {
                    continue;
                }
                let through = con.execute_batch(&sql);
                if !creates {
                    let plain = model.execute_batch(&sql.replace("_in", ""));
                    assert_eq!(through.is_ok(), plain.is_ok(), "seed {seed}: {sql}");
                }
                done.push(sql);
                for table in TABLES.iter().filter(|t| has(&con, t)) {
                    let seen = all(&con, &format!("SELECT * FROM {table}_in ORDER BY 1"));
                    let rows = all(&model, &format!("SELECT * FROM {table} ORDER BY 1"));
                    assert_eq!(seen, rows, "seed {seed}: {table}: {done:?}");
                }
            }
            if !con.is_autocommit() {
                let end = ["COMMIT", "COMMIT", "ROLLBACK"][r.random_range(0..3)];
                con.execute_batch(end).expect(end);
                model.execute_batch(end).expect(end);
                done.push(end.to_owned());
            }
            wait(&con);
            for table in TABLES {
                let sql = format!("SELECT * FROM {table} ORDER BY 1");
                assert_eq!(
                    all(&con, &sql),
                    all(&model, &sql),
                    "seed {seed}: {table}: {done:?}"
                );
            }
        }
        assert_eq!(all(&con, "SELECT * FROM densite_rejects"), [""; 0]);
    }
}

/// A statement of many rows, so that batches are encoded before the transaction ends.
fn many(r: &mut StdRng) -> String {
    let from = r.random_range(0..40_000);
    let some = |n| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {from} + {n})"
        )
    };
    let name = ["x", "y", "z"][r.random_range(0..3)];
    match r.random_range(0..12) {
        0..4 => format!(
            "{} INSERT OR REPLACE INTO t_in SELECT i, i % 100 FROM n",
            some(r.random_range(1..20_000))
        ),
        // As long as a batch, and longer.
        4 => format!(
            "{} INSERT OR REPLACE INTO t_in SELECT i, zeroblob(700000 + i) FROM n",
            some(8)
        ),
        5 => format!("INSERT OR REPLACE INTO t_in VALUES ({from}, zeroblob(4200000))"),
        6 => format!("SAVEPOINT {name}"),
        7 => format!("ROLLBACK TO {name}"),
        8 => format!("RELEASE {name}"),
        9 => format!("UPDATE t_in SET v = {from} WHERE id BETWEEN {from} AND {from} + 3000"),
        10 => format!("DELETE FROM t_in WHERE id = {from} OR id BETWEEN 100 AND 900"),
        _ => format!("UPDATE t_in SET v = {from} WHERE id % 1000 = 1 OR id = {from}"),
    }
}

#[test]
fn savepoints_within_encoded_batches_have_the_result_of_a_plain_table() {
    const SEEN: &str = "SELECT count(*), sum(id), sum(id * coalesce(length(v), 0)), sum(CASE typeof(v) WHEN 'integer' THEN v * id END) FROM";
    for seed in 0..6 {
        let r = &mut StdRng::seed_from_u64(seed);
        let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
        let con = db.ingest("t", "");
        let model = Connection::open_in_memory().expect("opens");
        model
            .execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
            .expect("the schema");
        let mut done = Vec::new();
        for _ in 0..3 {
            let steps = r.random_range(5..25);
            for step in 0..steps {
                let sql = match step {
                    0 => "BEGIN".to_owned(),
                    1 => "SAVEPOINT x".to_owned(),
                    _ => many(r),
                };
                let through = con.execute_batch(&sql);
                let plain = model.execute_batch(&sql.replace("_in", ""));
                assert_eq!(through.is_ok(), plain.is_ok(), "seed {seed}: {sql}");
                done.push(sql);
                let (seen, rows) = (format!("{SEEN} t_in"), format!("{SEEN} t"));
                if r.random() {
                    assert_eq!(
                        all(&con, &seen),
                        all(&model, &rows),
                        "seed {seed}: {done:?}"
                    );
                }
            }
            con.execute_batch("COMMIT").expect("commits");
            model.execute_batch("COMMIT").expect("commits");
            wait(&con);
            let rows = format!("{SEEN} t");
            assert_eq!(
                all(&con, &rows),
                all(&model, &rows),
                "seed {seed}: {done:?}"
            );
        }
        assert_eq!(all(&con, "SELECT * FROM densite_rejects"), [""; 0]);
    }
}
