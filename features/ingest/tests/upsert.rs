//! `on_conflict='update(n = n + excluded.n)'`: expressions as in SQLite's UPSERT.

use crate::common::{self, Db, Held, all, one, refusal, wait};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

#[test]
fn concurrent_counters_lose_no_increment() {
    let db = Db::new("CREATE TABLE page(name TEXT PRIMARY KEY, n INT, at REAL)");
    const POLICY: &str = ", on_conflict='update(n = n + excluded.n, at = max(at, excluded.at))'";
    db.ingest("page", POLICY);
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let path = db.path();
            std::thread::spawn(move || {
                let con = common::open(&path);
                common::create(&con, "page", POLICY).expect("the ingest table");
                for i in 0..250 {
                    let name = format!("page {}", i % 5);
                    con.execute(
                        "INSERT INTO page_in VALUES (?1, 1, ?2)",
                        (name, f64::from(writer * 1000 + i)),
                    )
                    .expect("inserts");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("writes");
    }
    let con = db.ingest("page", POLICY);
    let expected: Vec<String> = (0..5)
        .map(|i| format!("page {i}|200|{:?}", f64::from(3245 + i)))
        .collect();
    assert_eq!(all(&con, "SELECT * FROM page_in"), expected);
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM page"), expected);
}

/// Columns of each affinity, collations, defaults, and values that do not fit the affinity.
const TABLE: &str = "(k INTEGER PRIMARY KEY, i INT, t TEXT COLLATE NOCASE, r REAL, b, n NUMERIC NOT NULL DEFAULT 3)";

/// Expressions whose value depends on affinity, collation or NULL.
const POLICIES: [&str; 8] = [
    "i = i + excluded.i, t = t || '+', b = excluded.t = t",
    "i = max(i, excluded.i), t = min(t, excluded.t) WHERE excluded.r > r OR r IS NULL",
    "i, b = i > '5', n = excluded.i || '7'",
    "b = t.t IN ('A', 'b', excluded.t), r = excluded.i, t = NULL",
    "n = excluded.b",
    "i = CASE WHEN excluded.t LIKE 'a%' THEN 'text' ELSE coalesce(excluded.i, i) END",
    "b = json_set('{}', '$.a', excluded.i) ->> '$.a', r = round(r + 0.25, 1)",
    "t = excluded.t WHERE n = '3'",
];

fn insert(random: &mut StdRng) -> String {
    let k = random.random_range(0..6);
    let mut value = |of: &[&'static str]| of[random.random_range(0..of.len())];
    let i = value(&["1", "6", "'x'", "NULL", "-2.5", "9"]);
    let t = value(&["'a'", "'A'", "'b'", "NULL", "5", "'Zz'"]);
    let r = value(&["1", "2.5", "NULL", "'3'", "-1", "-0.0", "'-0'"]);
    let b = value(&["1", "'1'", "NULL", "x'01'", "2.0"]);
    let n = value(&["3", "'4'", "7.5", "3"]);
    format!("(k, i, t, r, b, n) VALUES ({k}, {i}, {t}, {r}, {b}, {n})")
}

#[test]
fn readers_and_the_table_agree_with_sqlite() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for policy in POLICIES {
        let db = Db::new(&format!("CREATE TABLE t{TABLE}"));
        let con = db.ingest(
            "t",
            &format!(", on_conflict='update({})'", policy.replace('\'', "''")),
        );
        let plain = rusqlite::Connection::open_in_memory().expect("opens");
        plain
            .execute_batch(&format!("CREATE TABLE t{TABLE}"))
            .expect("the table");
        let rows = |con: &rusqlite::Connection, table: &str| {
            all(
                con,
                &format!(
                    "SELECT k, i, typeof(i), t, typeof(t), r, typeof(r), b, typeof(b), n, typeof(n) FROM {table} ORDER BY k"
                ),
            )
        };
        let statement = policy.split(" WHERE ").next().expect("a part");
        let statement = statement.replacen(
            "i,",
            "i = excluded.i,",
            if statement.starts_with("i,") { 1 } else { 0 },
        );
        let only_if = policy.split(" WHERE ").nth(1);
        let only_if = only_if.map_or(String::new(), |w| format!(" WHERE {w}"));
        for round in 0..3 {
            let held = Held::new(&db);
            for _ in 0..40 {
                let row = insert(&mut random);
                con.execute_batch(&format!("INSERT INTO t_in{row}"))
                    .expect("inserts");
                // A row that SQLite refuses changes nothing.
                plain
                    .execute_batch(&format!(
                        "INSERT INTO t{row} ON CONFLICT(k) DO UPDATE SET {statement}{only_if}"
                    ))
                    .ok();
            }
            let expected = rows(&plain, "t");
            assert_eq!(
                rows(&con, "t_in"),
                expected,
                "{policy}, seed {seed}, {round}"
            );
            let key = expected
                .first()
                .map_or("0", |row| row.split('|').next().expect("a key"));
            let one_row = all(&con, &format!("SELECT b, n FROM t_in WHERE k = {key}"));
            assert_eq!(
                one_row,
                all(&plain, &format!("SELECT b, n FROM t WHERE k = {key}")),
                "{policy}, seed {seed}"
            );
            drop(held);
            wait(&con);
            assert_eq!(rows(&con, "t"), expected, "{policy}, seed {seed}, {round}");
            assert_eq!(
                rows(&con, "t_in"),
                expected,
                "{policy}, seed {seed}, {round}"
            );
        }
    }
}

/// The row is rejected when it is applied. Until then, readers see the row that it meets.
#[test]
fn an_expression_that_fails_stops_no_other_statement() {
    let db = Db::new("CREATE TABLE t(k INTEGER PRIMARY KEY, n INT)");
    let con = db.ingest("t", ", on_conflict='update(n = abs(n) + excluded.n)'");
    con.execute_batch("INSERT INTO t VALUES (1, -9223372036854775807 - 1), (2, 5)")
        .expect("rows");
    one::<i64>(&con, "SELECT densite_pause('t')");
    con.execute_batch("INSERT INTO t_in VALUES (1, 1); INSERT INTO t_in VALUES (2, 1)")
        .expect("rows that wait");
    let waiting = ["1|-9223372036854775808", "2|6"];
    assert_eq!(all(&con, "SELECT * FROM t_in"), waiting);
    assert_eq!(all(&con, "SELECT count(*) FROM t_in"), ["2"]);
    con.execute_batch("UPDATE t_in SET n = n + 1 WHERE k = 2; DELETE FROM t_in WHERE k = 1")
        .expect("changes");
    one::<i64>(&con, "SELECT densite_resume('t')");
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM t"), ["2|7"]);
    let rejects = "SELECT op, row, error FROM densite_rejects";
    let rejected = r#"insert|{"k":1,"n":1}|integer overflow"#;
    assert_eq!(all(&con, rejects), [rejected]);
}

#[test]
fn expressions_that_cannot_be_evaluated_twice_are_refused() {
    let db = Db::new(
        "CREATE TABLE t(k INTEGER PRIMARY KEY, n INT, g INT AS (n * 2)); CREATE TABLE other(a)",
    );
    let con = db.open();
    for (policy, part) in [
        ("n = random()", "the function random is not allowed"),
        ("n = (SELECT max(a) FROM other)", "SELECT is not allowed"),
        ("n = m + 1", "no such column: m"),
        ("m = 1", "no such column: m"),
        ("k = excluded.n", "a column of the primary key"),
        ("n = n +", "incomplete input"),
        ("n = 1 WHERE", "missing"),
        ("n = n + g", "a generated column"),
        ("n = n + 1 WHERE g < 5", "a generated column"),
        ("(n, k) = (1, 2)", "no such column"),
        ("n = n + 1 RETURNING k", "RETURNING is not allowed"),
        ("n = CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP is not allowed"),
    ] {
        let sql = format!(
            "CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t, on_conflict='update({policy})')"
        );
        let refused = refusal(&con, &sql);
        assert!(refused.contains(part), "{policy}: {refused}");
    }
}

#[test]
fn a_column_that_is_dropped_rejects_the_rows() {
    let db = Db::new(
        "CREATE TABLE t(k INTEGER PRIMARY KEY, n INT, m INT); INSERT INTO t VALUES (1, 1, 1)",
    );
    let con = db.ingest("t", ", on_conflict='update(n = n + m)'");
    one::<i64>(&con, "SELECT densite_pause('t')");
    con.execute_batch("INSERT INTO t_in VALUES (1, 5, 5)")
        .expect("inserts");
    assert_eq!(all(&con, "SELECT * FROM t_in"), ["1|2|1"]);
    con.execute_batch("ALTER TABLE t DROP COLUMN m; SELECT densite_resume('t')")
        .expect("alters");
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM t"), ["1|1"]);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_rejects"), 1);
    con.execute_batch("DROP TABLE temp.t_in")
        .expect("drops an ingest table whose policy no longer fits");
}
