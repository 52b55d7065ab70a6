//! Reading table and log as one.

use crate::common::{self, Db, Held, all, create, one, wait};
use densite_disk::RealDir;
use densite_log::{Log, Options};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;

#[test]
fn unapplied_rows_are_read_at_once() {
    let db = Db::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'a'), (3, 'c'), (5, 'e')",
    );
    let con = db.ingest("t", ", on_conflict=replace");
    let other = db.ingest("t", "");
    let held = Held::new(&db);
    con.execute_batch("INSERT INTO t_in VALUES (2, 'b'), (3, 'C'), (9, 'i'); DELETE FROM t_in WHERE id = 1; UPDATE t_in SET v = v || v WHERE id = 5").expect("writes");
    for con in [&con, &other] {
        let expected = ["2|b", "3|C", "5|ee", "9|i"];
        assert_eq!(all(con, "SELECT * FROM t_in"), expected);
        assert_eq!(
            all(con, "SELECT * FROM t_in ORDER BY id DESC")
                .into_iter()
                .rev()
                .collect::<Vec<_>>(),
            expected
        );
        assert_eq!(all(con, "SELECT * FROM t_in WHERE id = 3"), ["3|C"]);
        assert_eq!(all(con, "SELECT * FROM t_in WHERE id = '3'"), ["3|C"]);
        assert_eq!(all(con, "SELECT * FROM t_in WHERE id = 1"), [""; 0]);
        assert_eq!(
            all(con, "SELECT * FROM t_in WHERE id > 2 AND id <= 5"),
            ["3|C", "5|ee"]
        );
        assert_eq!(
            all(con, "SELECT * FROM t_in WHERE id IN (9, 2, 1)  ORDER BY id"),
            ["2|b", "9|i"]
        );
        assert_eq!(
            all(
                con,
                "SELECT a.id, b.v FROM t_in a JOIN t_in b ON b.id = a.id + 1"
            ),
            ["2|C"]
        );
        assert_eq!(
            all(con, "SELECT count(*), min(id), max(id) FROM t_in"),
            ["4|2|9"]
        );
    }
    assert_eq!(all(&con, "SELECT * FROM t"), ["1|a", "3|c", "5|e"]);
    drop(held);
    wait(&con);
    assert_eq!(
        all(&con, "SELECT * FROM t"),
        all(&con, "SELECT * FROM t_in")
    );
    assert_eq!(all(&con, "SELECT * FROM t"), ["2|b", "3|C", "5|ee", "9|i"]);
}

#[test]
fn own_rows_are_seen_before_they_are_committed() {
    let db = Db::new("CREATE TABLE t(a TEXT, b INT, v, PRIMARY KEY(a, b))");
    let con = db.ingest("t", ", on_conflict=update(v)");
    let other = db.ingest("t", "");
    con.execute_batch("BEGIN; INSERT INTO t_in VALUES ('x', 1, 1), ('x', 2, 2)")
        .expect("writes");
    assert_eq!(all(&con, "SELECT * FROM t_in"), ["x|1|1", "x|2|2"]);
    assert_eq!(all(&other, "SELECT * FROM t_in"), [""; 0]);
    con.execute_batch("SAVEPOINT s; UPDATE t_in SET v = 7 WHERE a = 'x'; DELETE FROM t_in WHERE b = 2; INSERT INTO t_in VALUES ('y', 1, 1), ('x', 1, 8)").expect("writes");
    assert_eq!(all(&con, "SELECT * FROM t_in"), ["x|1|8", "y|1|1"]);
    con.execute_batch("ROLLBACK TO s").expect("goes back");
    assert_eq!(all(&con, "SELECT * FROM t_in"), ["x|1|1", "x|2|2"]);
    con.execute_batch("COMMIT").expect("commits");
    assert_eq!(all(&other, "SELECT * FROM t_in"), ["x|1|1", "x|2|2"]);
}

#[test]
fn a_transaction_reads_one_end_of_the_log() {
    let db =
        Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE u(id INTEGER PRIMARY KEY)");
    let con = db.ingest("t", "");
    create(&con, "u", "").expect("u_in");
    let other = db.ingest("t", "");
    create(&other, "u", "").expect("u_in");
    let count = |con: &rusqlite::Connection| {
        one::<i64>(
            con,
            "SELECT (SELECT count(*) FROM t_in) * 100 + (SELECT count(*) FROM u_in)",
        )
    };
    con.execute_batch("BEGIN").expect("begins");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t_in"), 0);
    other
        .execute_batch("BEGIN; INSERT INTO t_in VALUES (1); INSERT INTO u_in VALUES (1); COMMIT")
        .expect("writes");
    wait(&other);
    assert_eq!(count(&other), 101);
    // Neither the log nor the worker changes what this transaction sees.
    assert_eq!(count(&con), 0);
    con.execute_batch("COMMIT; BEGIN; SELECT count(*) FROM t")
        .expect("begins");
    other
        .execute_batch("INSERT INTO u_in VALUES (2)")
        .expect("writes");
    assert_eq!(count(&con), 102);
    con.execute_batch("COMMIT").expect("commits");
    assert_eq!(count(&con), 102);
}

#[test]
fn rows_without_a_key() {
    let db = Db::new(
        "CREATE TABLE bare(a); CREATE TABLE auto(id INTEGER PRIMARY KEY, v); INSERT INTO bare VALUES (1); INSERT INTO auto VALUES (1, 'a')",
    );
    let con = db.ingest("bare", "");
    create(&con, "auto", "").expect("auto_in");
    let held = Held::new(&db);
    con.execute_batch(
        "INSERT INTO bare_in VALUES (1), (2); INSERT INTO auto_in(v) VALUES ('b'), ('c')",
    )
    .expect("writes");
    assert_eq!(all(&con, "SELECT a FROM bare_in"), ["1", "1", "2"]);
    assert_eq!(
        all(&con, "SELECT * FROM auto_in ORDER BY v"),
        ["1|a", "NULL|b", "NULL|c"]
    );
    for sql in ["DELETE FROM bare_in", "UPDATE bare_in SET a = 3"] {
        let said = common::refusal(&con, sql);
        assert!(said.contains("no primary key"), "{said}");
    }
    drop(held);
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM auto_in"), ["1|a", "2|b", "3|c"]);
}

/// Random operations of several connections, read through the log at each step, and compared with a
/// plain table that gets the same operations.
#[test]
fn random_operations_read_like_a_plain_table() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for kind in 0..3 {
        let schema = match kind {
            0 => "CREATE TABLE t(a INTEGER PRIMARY KEY, b, c)",
            1 => "CREATE TABLE t(a TEXT COLLATE NOCASE, b, c, PRIMARY KEY(a, b))",
            _ => "CREATE TABLE t(a, b INT, c, PRIMARY KEY(b, a)) WITHOUT ROWID",
        };
        let db = Db::new(schema);
        let plain = rusqlite::Connection::open_in_memory().expect("opens");
        plain.execute_batch(schema).expect("the table");
        let connections = [
            db.ingest("t", ", on_conflict=replace"),
            db.ingest("t", ", on_conflict=replace"),
        ];
        let mut held = None;
        for step in 0..300 {
            let con = &connections[random.random_range(0..2)];
            let key = random.random_range(0..12);
            let a = match kind {
                0 => key.to_string(),
                1 => format!("'{}'", ["k", "K", "x", "Xy"][key % 4]),
                _ => ["1", "2.5", "'t'", "x'00'"][key % 4].to_owned(),
            };
            let b = random.random_range(0..3);
            let (verb, tail) = match random.random_range(0..10) {
                0..5 => (
                    "INSERT OR REPLACE INTO",
                    format!("VALUES ({a}, {b}, {step})"),
                ),
                5..6 => (
                    "INSERT OR IGNORE INTO",
                    format!("VALUES ({a}, {b}, {step})"),
                ),
                6..8 => (
                    "UPDATE",
                    format!("SET c = c || '+' WHERE b = {b} AND a = {a}"),
                ),
                8..9 => ("DELETE FROM", format!("WHERE a = {a} AND b <= {b}")),
                _ => (
                    "DELETE FROM",
                    format!("WHERE c = {}", random.random_range(0..300)),
                ),
            };
            plain
                .execute_batch(&format!("{verb} t {tail}"))
                .expect("plain");
            con.execute_batch(&format!("{verb} t_in {tail}"))
                .unwrap_or_else(|e| panic!("seed {seed}: {verb} {tail}: {e}"));
            match random.random_range(0..20) {
                0 => held = None,
                1 if held.is_none() => held = Some(Held::new(&db)),
                2 if held.is_none() => {
                    wait(con);
                }
                _ => {}
            }
            let ordered = "SELECT * FROM t ORDER BY a, b, c";
            let read = ordered.replace(" t ", " t_in ");
            assert_eq!(
                all(&connections[step % 2], &read),
                all(&plain, ordered),
                "seed {seed}, step {step}: {verb} {tail}"
            );
            let one = format!("SELECT * FROM t WHERE a >= {a} AND b = {b} ORDER BY a, b");
            assert_eq!(
                all(con, &one.replace(" t ", " t_in ")),
                all(&plain, &one),
                "seed {seed}, step {step}: {one}"
            );
        }
        drop(held);
        wait(&connections[0]);
        let ordered = "SELECT * FROM t ORDER BY a, b, c";
        assert_eq!(
            all(&connections[0], ordered),
            all(&plain, ordered),
            "seed {seed}"
        );
    }
}

/// The key's index can compare in another way than its column. A UTF-16 database orders text by the
/// bytes of its encoding.
#[test]
fn base_and_log_are_merged_in_the_order_of_the_key() {
    for schema in [
        "CREATE TABLE t(k TEXT, v, PRIMARY KEY(k COLLATE NOCASE))",
        "CREATE TABLE t(k TEXT, v, PRIMARY KEY(k COLLATE NOCASE DESC))",
        "CREATE TABLE t(k TEXT COLLATE NOCASE, v, PRIMARY KEY(k COLLATE BINARY))",
        "CREATE TABLE t(k TEXT, v, PRIMARY KEY(k COLLATE RTRIM)) WITHOUT ROWID",
        "PRAGMA encoding = 'UTF-16le'; CREATE TABLE t(k TEXT PRIMARY KEY, v)",
        "PRAGMA encoding = 'UTF-16be'; CREATE TABLE t(k TEXT PRIMARY KEY, v)",
        "PRAGMA encoding = 'UTF-16le'; CREATE TABLE t(k TEXT PRIMARY KEY COLLATE NOCASE, v)",
    ] {
        let db = Db::with_schema_first(schema);
        let plain = rusqlite::Connection::open_in_memory().expect("opens");
        plain.execute_batch(schema).expect("the table");
        let con = db.ingest("t", ", on_conflict=replace");
        let both = |sql: &str| {
            plain
                .execute_batch(sql)
                .unwrap_or_else(|e| panic!("{sql}: {e}"));
            con.execute_batch(&sql.replace(" t ", " t_in "))
                .unwrap_or_else(|e| panic!("{schema}: {sql}: {e}"));
        };
        let keys = [
            "a",
            "B",
            "c",
            "D ",
            "e",
            "\u{100}",
            "\u{ff}",
            "\u{1f600}",
            "\u{ffee}",
            "Zz",
        ];
        for k in keys {
            both(&format!("INSERT OR REPLACE INTO t VALUES ('{k}', 1)"));
        }
        wait(&con);
        let held = Held::new(&db);
        for k in [
            "A",
            "b",
            "C ",
            "d",
            "\u{201}",
            "\u{ff}",
            "\u{1f600}",
            "\u{ffee}",
        ] {
            both(&format!("INSERT OR REPLACE INTO t VALUES ('{k}', 2)"));
        }
        for k in ["A", "b", "\u{ff}"] {
            both(&format!("DELETE FROM t WHERE k = '{k}'"));
        }
        both("UPDATE t SET v = 3 WHERE k = 'd'");
        let check = |moment: &str| {
            for sql in [
                "SELECT * FROM t ORDER BY k, v",
                "SELECT * FROM t ORDER BY v, hex(k)",
                "SELECT * FROM t WHERE k >= 'c' ORDER BY hex(k)",
                "SELECT * FROM t WHERE k < '\u{ff}x' ORDER BY hex(k)",
            ] {
                assert_eq!(
                    all(&con, &sql.replace(" t ", " t_in ")),
                    all(&plain, sql),
                    "{moment}: {schema}: {sql}"
                );
            }
        };
        check("before");
        drop(held);
        wait(&con);
        check("after");
        let sql = "SELECT * FROM t ORDER BY hex(k)";
        assert_eq!(all(&con, sql), all(&plain, sql), "{schema}");
    }
}

/// A row that was replaced under another spelling of the key is updated and deleted by the first
/// spelling.
#[test]
fn keys_compare_by_the_collation_of_their_index() {
    let db = Db::new(
        "CREATE TABLE t(k TEXT, v, PRIMARY KEY(k COLLATE NOCASE)); INSERT INTO t VALUES ('a', 1), ('b', 1)",
    );
    let con = db.ingest("t", ", on_conflict=replace");
    let held = Held::new(&db);
    let other = db.ingest("t", ", on_conflict=replace");
    con.execute_batch("BEGIN; DELETE FROM t_in WHERE k = 'a'; UPDATE t_in SET v = 2 WHERE k = 'b'")
        .expect("writes");
    other
        .execute_batch("INSERT INTO t_in VALUES ('A', 5), ('B', 5)")
        .expect("inserts");
    con.execute_batch("COMMIT").expect("commits");
    assert_eq!(all(&other, "SELECT v FROM t_in"), ["2"]);
    drop(held);
    wait(&con);
    assert_eq!(all(&con, "SELECT v FROM t"), ["2"]);
    assert_eq!(all(&con, "SELECT error FROM densite_rejects"), [""; 0]);
}

/// The log names rows by their keys. A row without a key yet, or with NULL in it, cannot be named.
#[test]
fn rows_without_an_identity_are_not_changed() {
    let db = Db::new(
        "CREATE TABLE auto(id INTEGER PRIMARY KEY, v); INSERT INTO auto VALUES (-1, 'a'); CREATE TABLE t(a, b, c, PRIMARY KEY(a, b)); INSERT INTO t VALUES (1, NULL, 1)",
    );
    let con = db.ingest("auto", "");
    create(&con, "t", "").expect("t_in");
    let held = Held::new(&db);
    con.execute_batch("INSERT INTO auto_in(v) VALUES ('b')")
        .expect("inserts");
    for sql in [
        "DELETE FROM auto_in WHERE v = 'b'",
        "UPDATE auto_in SET v = 'c' WHERE v = 'b'",
        "DELETE FROM auto_in",
        "BEGIN; INSERT INTO auto_in(v) VALUES ('own'); DELETE FROM auto_in WHERE v = 'own'",
    ] {
        let said = common::refusal(&con, sql);
        assert!(said.contains("no id yet"), "{sql}: {said}");
        if !con.is_autocommit() {
            con.execute_batch("ROLLBACK").expect("rolls back");
        }
    }
    for sql in ["DELETE FROM t_in", "UPDATE t_in SET c = 2"] {
        let said = common::refusal(&con, sql);
        assert!(said.contains("NULL in its primary key"), "{sql}: {said}");
    }
    con.execute_batch("DELETE FROM auto_in WHERE v = 'a'")
        .expect("deletes");
    drop(held);
    wait(&con);
    assert_eq!(all(&con, "SELECT v FROM auto"), ["b"]);
    assert_eq!(all(&con, "SELECT * FROM t"), ["1|NULL|1"]);
    con.execute_batch("DELETE FROM auto_in WHERE v = 'b'")
        .expect("deletes");
    wait(&con);
    assert_eq!(all(&con, "SELECT v FROM auto"), [""; 0]);
}

#[test]
fn a_row_that_is_only_in_the_log_has_the_values_that_were_written() {
    let db = Db::new(
        "CREATE TABLE t(v, a REAL, b TEXT COLLATE NOCASE, d DEFAULT 7, PRIMARY KEY(b, a));
         CREATE TABLE u(x, y INTEGER, z INTEGER, PRIMARY KEY(y, z))",
    );
    let con = db.ingest("t", "");
    common::create(&con, "u", "").expect("made");
    wait(&con);
    let held = Held::new(&db);
    con.execute_batch(
        "INSERT INTO t_in VALUES ('v', 1, 'Ab', 5), (2, 2, 'cd', NULL); INSERT INTO u_in VALUES ('x', 1, 2), ('xx', 2, 2)",
    )
    .expect("inserts");
    let t = "SELECT typeof(a) || a || b || v || d FROM t_in WHERE";
    for (query, expected) in [
        (format!("{t} a = 1 AND b = 'aB'"), "real1.0Abv5"),
        (format!("{t} a = 2.0 AND b = 'CD'"), "real2.0cd27"),
        (
            "SELECT typeof(z) || x || y || z FROM u_in WHERE y = 1.0 AND z = 2.0".to_owned(),
            "integerx12",
        ),
        (
            "SELECT typeof(z) || x || y || z FROM u_in WHERE y = 2 AND z = 2".to_owned(),
            "integerxx22",
        ),
        (
            "SELECT group_concat(x || y || z) FROM u_in WHERE z = 2".to_owned(),
            "x12,xx22",
        ),
    ] {
        assert_eq!(all(&con, &query), [expected], "{query}");
    }
    drop(held);
    wait(&con);
    assert_eq!(
        all(
            &con,
            "SELECT typeof(a) || a || b || v || d FROM t ORDER BY a"
        ),
        ["real1.0Abv5", "real2.0cd27"]
    );
}

/// In columns of integers it also is a real.
#[test]
fn a_real_equal_to_the_least_integer_stays_a_real() {
    let db = Db::new("CREATE TABLE t(a INTEGER, b INTEGER, v, PRIMARY KEY(a, b))");
    let con = db.ingest("t", "");
    let least = "-9223372036854775807 - 1";
    let held = Held::new(&db);
    con.execute_batch(&format!(
        "INSERT INTO t_in VALUES (-9223372036854775808.0, 1, 'a'), ({least}, 2, 'b'), (3, -9223372036854775808.0, 'c')"
    ))
    .expect("inserts");
    let rows = |table: &str, what: &str| {
        let sql = format!("SELECT typeof(a), a, typeof(b), b, v FROM {table} WHERE {what}");
        all(&con, &sql)
    };
    let queries = ["a", "1 = b AND a", "2 = b AND a", "3 = a AND b"];
    let queries = queries.map(|column| format!("{column} = {least}"));
    let before = queries.each_ref().map(|what| rows("t_in", what));
    drop(held);
    wait(&con);
    assert_eq!(before, queries.each_ref().map(|what| rows("t", what)));
    assert_eq!(before, queries.each_ref().map(|what| rows("t_in", what)));
    assert_eq!(before[1], ["real|-9.223372036854776e18|integer|1|a"]);
}

/// A row of the log is returned without reading the table if the table cannot change the result.
/// That depends on the policy and on the columns.
#[test]
fn a_row_of_the_log_reads_like_the_applied_row() {
    let policies = [
        ("abort", "old|o"),
        ("ignore", "old|o"),
        ("replace", "new|n"),
        ("'update(v)'", "new|o"),
    ];
    for (policy, expected) in policies {
        let db = Db::new(
            "CREATE TABLE t(id INTEGER, part TEXT COLLATE NOCASE, v, w, PRIMARY KEY(id, part));
             INSERT INTO t VALUES (1, 'A', 'old', 'o'), (2, 'A', 'old', 'o')",
        );
        let con = db.ingest("t", &format!(", on_conflict={policy}"));
        let held = Held::new(&db);
        con.execute_batch("INSERT INTO t_in VALUES (1, 'a', 'new', 'n'), (3, 'A', 'new', 'n'), (4, 'A', 'gone', 'g'); DELETE FROM t_in WHERE id = 4 AND part = 'A'").expect("writes");
        let look = |table: &str| {
            let asked = [
                "1",
                "id",
                "id || part",
                "v || '|' || w",
                "w, v, part, id",
                "v, count(*)",
                "count(*)",
            ];
            let mut found = Vec::new();
            for columns in asked {
                for id in 1..=5 {
                    let sql =
                        format!("SELECT {columns} FROM {table} WHERE id = {id} AND part = 'A'");
                    found.push(all(&con, &sql));
                }
            }
            found.push(all(
                &con,
                &format!("SELECT id, v, w FROM {table} ORDER BY id, part"),
            ));
            found.push(all(&con, &format!("SELECT a.id, b.v FROM {table} a JOIN {table} b ON b.id = a.id AND b.part = a.part ORDER BY 1")));
            found
        };
        let of_one = "SELECT v || '|' || w FROM t_in WHERE id = 1 AND part = 'A'";
        assert_eq!(all(&con, of_one), [expected], "{policy}");
        let before = look("t_in");
        drop(held);
        wait(&con);
        assert_eq!(before, look("t"), "{policy}");
        assert_eq!(before, look("t_in"), "{policy}");
    }
}

/// The number of page requests shows whether the table was searched.
#[test]
fn the_existence_of_a_key_of_the_log_needs_no_read_of_the_table() {
    let db = Db::new(
        "CREATE TABLE t(a INTEGER, b INTEGER, v, PRIMARY KEY(a, b)) WITHOUT ROWID;
         WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO t SELECT i, i, hex(randomblob(40)) FROM n",
    );
    let con = db.ingest("t", "");
    let held = Held::new(&db);
    con.execute_batch("INSERT INTO t_in VALUES (-1, 7, 'x'), (6000, 7, 'y')")
        .expect("inserts");
    let pages = |sql: &str| {
        let mut lookup = con.prepare(sql).expect("compiles");
        let mut asked = 0;
        // The first runs compile and read for the first time, and do not count.
        for _ in 0..3 {
            let (mut hits, mut high) = (0, 0);
            let status = rusqlite::ffi::SQLITE_DBSTATUS_CACHE_HIT;
            // SAFETY: the connection is open, and both arguments are valid places for numbers; the
            // counter is reset.
            let mut count = || unsafe {
                rusqlite::ffi::sqlite3_db_status(
                    con.handle(),
                    status,
                    &raw mut hits,
                    &raw mut high,
                    1,
                );
                hits
            };
            count();
            assert!(lookup.exists([]).expect("reads"), "{sql}");
            asked = count();
        }
        asked
    };
    for (a, b) in [(-1, 7), (6000, 7)] {
        let key = format!("FROM t_in WHERE a = {a} AND b = {b}");
        let (there, whole) = (
            pages(&format!("SELECT 1 {key}")),
            pages(&format!("SELECT v {key} AND v > ''")),
        );
        assert!(
            there < whole,
            "{key}: {there} pages, {whole} for all of the row"
        );
    }
    drop(held);
}

/// A repeated scan within a statement has the snapshot of the first one, and the same end of the
/// log, whatever the worker applies meanwhile. Only a statement on `densite_applied` holds it.
#[test]
fn a_statement_reads_one_state_however_often_it_scans() {
    let db = Db::new("CREATE TABLE bare(a); CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("bare", "");
    create(&con, "t", "").expect("t_in");
    let other = db.ingest("bare", "");
    create(&other, "t", "").expect("t_in");
    let held = Held::new(&db);
    other
        .execute_batch(
            "INSERT INTO bare_in VALUES (1), (2); INSERT INTO t_in VALUES (1, 'a'), (2, 'b')",
        )
        .expect("writes");
    let mut bare = con
        .prepare("SELECT k.column1, b.a FROM (VALUES (1), (2)) k CROSS JOIN bare_in b")
        .expect("prepares");
    // On another connection, because all reads of a connection hold its snapshot.
    let third = db.ingest("t", "");
    let mut keyed = third
        .prepare("SELECT k.column1, t.v FROM (VALUES (1), (2), (3)) k CROSS JOIN t_in t WHERE t.id = k.column1")
        .expect("prepares");
    let (mut bare, mut keyed) = (
        bare.query([]).expect("reads"),
        keyed.query([]).expect("reads"),
    );
    let next = |rows: &mut rusqlite::Rows<'_>| -> Option<String> {
        let row = rows.next().expect("a step")?;
        let key = row.get::<_, i64>(0).expect("a number");
        let value = row.get::<_, rusqlite::types::Value>(1).expect("a value");
        Some(match value {
            rusqlite::types::Value::Integer(n) => format!("{key}|{n}"),
            rusqlite::types::Value::Text(t) => format!("{key}|{t}"),
            other => format!("{key}|{other:?}"),
        })
    };
    assert_eq!(next(&mut bare).as_deref(), Some("1|1"));
    assert_eq!(next(&mut keyed).as_deref(), Some("1|a"));
    drop(held);
    other
        .execute_batch(
            "INSERT INTO bare_in VALUES (3); DELETE FROM t_in WHERE id = 2; INSERT INTO t_in VALUES (3, 'c')",
        )
        .expect("writes");
    wait(&other);
    let rest = |rows: &mut rusqlite::Rows<'_>| {
        let mut all = Vec::new();
        while let Some(row) = next(rows) {
            all.push(row);
        }
        all
    };
    assert_eq!(rest(&mut bare), ["1|2", "2|1", "2|2"]);
    assert_eq!(rest(&mut keyed), ["2|b"]);
    drop((bare, keyed));
    assert_eq!(
        all(&con, "SELECT a FROM bare_in UNION ALL SELECT v FROM t_in"),
        ["1", "2", "3", "a", "c"]
    );
}

/// The row was deleted from the table itself. An update in the log alone makes no row, whether it
/// is read by key or in a scan.
#[test]
fn an_update_of_a_deleted_row_makes_no_row() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (5, 'e')");
    drop(db.ingest("t", ""));
    // This connection leads, and applies nothing.
    let dir = Arc::new(RealDir::new(db.log_dir()));
    let id = densite_log::id_in(dir.clone()).expect("reads");
    let log = Log::open(dir, Options::new(id.expect("a log"))).expect("opens");
    let lead = log.try_lead().expect("asks").expect("the right is free");
    let con = db.ingest("t", "");
    con.execute_batch("UPDATE t_in SET v = 'E' WHERE id = 5")
        .expect("updates");
    assert_eq!(all(&con, "SELECT * FROM t_in"), ["5|E"]);
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    plain.execute_batch("DELETE FROM t").expect("deletes");
    for sql in [
        "SELECT * FROM t_in",
        "SELECT * FROM t_in WHERE id = 5",
        "SELECT * FROM t_in WHERE id > 3",
    ] {
        assert_eq!(all(&con, sql), [""; 0], "{sql}");
    }
    drop(lead);
    wait(&con);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_rejects"), 1);
}

/// A statement that reads the ingest table and writes to the table itself reads the state before
/// it, and ends.
#[test]
fn a_statement_that_writes_to_the_table_does_not_read_its_own_rows() {
    for (schema, more) in [
        ("CREATE TABLE t(k INTEGER PRIMARY KEY, v)", "k * 10 + 6"),
        ("CREATE TABLE t(k TEXT PRIMARY KEY, v)", "k || 'x'"),
        (
            "CREATE TABLE t(k TEXT COLLATE NOCASE, v, PRIMARY KEY(k DESC)) WITHOUT ROWID",
            "k || 'x'",
        ),
        (
            "CREATE TABLE t(k INTEGER, v, PRIMARY KEY(v, k))",
            "k * 10 + 6",
        ),
        ("CREATE TABLE t(k, v)", "k"),
    ] {
        for condition in ["1", "v = 1", "v > 0 ORDER BY v"] {
            let db = Db::new(&format!(
                "{schema}; INSERT INTO t VALUES (1, 1), (2, 1), (3, 1)"
            ));
            let con = db.ingest("t", "");
            // A statement that does not end would fill the database.
            con.execute_batch("PRAGMA max_page_count = 200; INSERT INTO t_in VALUES (4, 1)")
                .expect("inserts");
            wait(&con);
            let insert = format!("INSERT INTO main.t SELECT {more}, v FROM t_in WHERE {condition}");
            con.execute_batch(&insert)
                .unwrap_or_else(|e| panic!("{schema}: {insert}: {e}"));
            assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 8, "{schema}");
            con.execute_batch("BEGIN IMMEDIATE; DELETE FROM t WHERE k = '1'")
                .expect("deletes");
            let columns = "quote(k), quote(v)";
            let mut seen = all(&con, &format!("SELECT {columns} FROM t_in"));
            let mut there = all(&con, &format!("SELECT {columns} FROM t"));
            seen.sort_unstable();
            there.sort_unstable();
            assert_eq!(seen, there, "{schema}");
            con.execute_batch("ROLLBACK").expect("rolls back");
        }
    }
}
