//! Connections, statements, functions and tables.

use crate::common;

use densite_sqlite::{
    Backup, BackupStep, Code, CompileError, Connection, Error, TxnState, Value, ValueRef,
    create_function, create_table_function, ffi,
};

fn memory() -> Connection {
    let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE | ffi::OPEN_MEMORY;
    Connection::open(common::api(), ":memory:", flags, None).expect("opens")
}

#[test]
fn values_of_every_type_round_trip() {
    let db = memory();
    db.exec("CREATE TABLE t(a)").expect("creates");
    let values = [
        Value::Null,
        Value::Integer(i64::MIN),
        Value::Real(0.5),
        Value::Text("naïve\0 text".into()),
        Value::Text(String::new()),
        Value::Blob(vec![0, 255, 7]),
        Value::Blob(vec![]),
    ];
    for value in &values {
        let mut insert = db.prepare("INSERT INTO t VALUES (?1)").expect("compiles");
        assert_eq!(insert.parameter_count(), 1);
        insert.bind(1, value).expect("binds");
        assert!(!insert.step().expect("runs"));
    }
    let mut select = db
        .prepare("SELECT a FROM t ORDER BY rowid")
        .expect("compiles");
    let mut found = Vec::new();
    while select.step().expect("runs") {
        found.push(select.column(0).to_owned());
        assert_eq!(select.column(9), ValueRef::Null);
    }
    assert_eq!(found, values);
    assert_eq!(select.column_name(0), "a");
}

#[test]
fn errors_carry_code_and_message() {
    let db = memory();
    let error = db.exec("SELECT * FROM nowhere").expect_err("no such table");
    assert_eq!(error.code, Code::ERROR);
    assert!(error.message.contains("nowhere"));
    assert_eq!(
        db.prepare("  -- nothing").expect_err("empty").code,
        Code::ERROR
    );
    let mut stmt = db.prepare("SELECT ?1").expect("compiles");
    assert_eq!(
        stmt.bind(2, &Value::Null).expect_err("no parameter 2").code,
        Code::RANGE
    );
    db.exec("CREATE TABLE u(a UNIQUE); INSERT INTO u VALUES (1)")
        .expect("runs");
    let error = db.exec("INSERT INTO u VALUES (1)").expect_err("unique");
    assert_eq!(error.code.primary(), Code::CONSTRAINT);
}

#[test]
fn opening_a_missing_file_is_an_error() {
    let error = Connection::open(
        common::api(),
        "/nowhere/at/all.db",
        ffi::OPEN_READWRITE,
        None,
    )
    .expect_err("no such directory");
    assert_eq!(error.code.primary(), Code::CANTOPEN);
    assert!(Connection::open(common::api(), "a\0b", ffi::OPEN_READWRITE, None).is_err());
}

#[test]
fn transaction_states() {
    let db = memory();
    db.exec("CREATE TABLE t(a); BEGIN").expect("runs");
    assert!(!db.is_autocommit());
    assert_eq!(db.txn_state(None), TxnState::None);
    db.exec("INSERT INTO t VALUES (1), (2)").expect("runs");
    assert_eq!(db.txn_state(Some(c"main")), TxnState::Write);
    assert_eq!(db.changes(), 2);
    db.exec("COMMIT").expect("commits");
    assert_eq!(db.query_i64("SELECT sum(a) FROM t").expect("runs"), Some(3));
    assert_eq!(db.filename(c"main").as_deref(), Some(""));
    assert_eq!(db.filename(c"other"), None);
}

#[test]
fn a_backup_copies_everything() {
    let (from, to) = (memory(), memory());
    from.exec("CREATE TABLE t(a); INSERT INTO t VALUES (randomblob(100000))")
        .expect("runs");
    let mut backup = Backup::new(&to, c"main", &from, c"main").expect("begins");
    assert_eq!(backup.step(5).expect("steps"), BackupStep::More);
    let (left, all) = backup.progress();
    assert_eq!(all - left, 5);
    assert_eq!(backup.step(-1).expect("steps"), BackupStep::Done);
    backup.finish().expect("ends");
    assert_eq!(
        to.query_i64("SELECT length(a) FROM t").expect("runs"),
        Some(100_000)
    );
    assert!(Backup::new(&to, c"main", &from, c"nowhere").is_err());
}

#[test]
fn a_function_sees_its_arguments_and_connection() {
    let db = memory();
    create_function(
        &db,
        "twice",
        1,
        ffi::DETERMINISTIC,
        |connection, arguments| {
            assert_eq!(connection.query_i64("SELECT 41 + 1")?, Some(42));
            match arguments.first() {
                Some(ValueRef::Integer(n)) => Ok(Value::Integer(n * 2)),
                Some(ValueRef::Text(text)) => {
                    Ok(Value::Text(String::from_utf8_lossy(text).repeat(2)))
                }
                _ => Err(Error::new(Code::MISMATCH, "twice: 100%s a number or text")),
            }
        },
    )
    .expect("registers");
    assert_eq!(db.query_i64("SELECT twice(21)").expect("runs"), Some(42));
    assert_eq!(
        db.query_string("SELECT twice('ab')")
            .expect("runs")
            .as_deref(),
        Some("abab")
    );
    let error = db
        .query_i64("SELECT twice(NULL)")
        .expect_err("an error of ours");
    assert_eq!(error.code, Code::MISMATCH);
    assert_eq!(error.message, "twice: 100%s a number or text");
}

/// Callers tell Densite's errors apart by these codes.
#[test]
fn sqlite_passes_on_the_extended_code_of_a_function() {
    for code in [
        Code::CORRUPT.explained(),
        Code::CANTOPEN.explained(),
        Code::LOCKED,
    ] {
        let db = memory();
        create_function(&db, "refuse", 0, 0, move |_, _| Err(Error::new(code, "no")))
            .expect("registers");
        for sql in [
            "SELECT refuse()",
            "BEGIN; CREATE TABLE t AS SELECT refuse()",
        ] {
            let error = db.exec(sql).expect_err(sql);
            assert_eq!((error.code, &*error.message), (code, "no"), "{sql}");
        }
        assert_eq!(code.is_explained(), code != Code::LOCKED);
    }
    assert!(!Code::BUSY_SNAPSHOT.is_explained() && !Code::IOERR_SHMMAP.is_explained());
}

/// The messages are SQLite's own, so this test fails if a newer SQLite words them differently.
#[test]
fn sqlites_message_says_why_a_statement_does_not_compile() {
    use CompileError as E;
    let db = memory();
    db.exec("CREATE TABLE t(a, b UNIQUE); CREATE VIEW v AS SELECT * FROM main.gone")
        .expect("creates");
    for (sql, reason) in [
        ("SELECT 1 FROM gone", E::NoTable("gone")),
        ("DELETE FROM main.gone", E::NoTable("main.gone")),
        ("SELECT 1 FROM v", E::NoTable("main.gone")),
        ("SELECT c FROM t", E::NoColumn),
        ("SELECT t.c FROM t", E::NoColumn),
        ("SELECT \"c\".a FROM t", E::NoColumn),
        ("UPDATE t SET c = 1", E::NoColumn),
        ("SELECT gone(a) FROM t", E::NoFunction),
        ("SELECT abs(a, b) FROM t", E::NoFunction),
        ("CREATE INDEX i ON t(gone(a))", E::NoFunction),
        ("SELECT a COLLATE gone FROM t ORDER BY 1", E::NoCollation),
        ("CREATE VIRTUAL TABLE x USING gone", E::NoModule),
        (
            "CREATE VIRTUAL TABLE x USING fts5(a, tokenize = 'gone')",
            E::NoTokenizer,
        ),
        (
            "INSERT INTO t VALUES (1, 2) ON CONFLICT(a) DO NOTHING",
            E::NoUniqueKey,
        ),
    ] {
        let error = db.exec(sql).expect_err(sql);
        assert_eq!(error.compile_error(), Some(reason), "{sql}: {error}");
    }
    create_function(&db, "direct", 0, ffi::DIRECTONLY, |_, _| Ok(Value::Null)).expect("registers");
    let sql = "CREATE VIEW w AS SELECT direct(); SELECT * FROM w";
    let error = db.exec(sql).expect_err(sql);
    assert_eq!(error.compile_error(), Some(E::NotTrusted), "{error}");
    for sql in ["SELECT", "INSERT INTO t VALUES (1)"] {
        assert_eq!(db.exec(sql).expect_err(sql).compile_error(), None, "{sql}");
    }
    // The text of a RAISE, or of a CHECK, is the application's.
    let error = Error::new(Code::CONSTRAINT, "no such column: a");
    assert_eq!(error.compile_error(), None);
}

#[test]
fn a_panic_in_a_function_is_an_error_of_the_statement() {
    let db = memory();
    create_function(&db, "explode", 0, 0, |_, _| panic!("on purpose")).expect("registers");
    let error = db.query_i64("SELECT explode()").expect_err("caught");
    assert_eq!(error.code, Code::INTERNAL);
    assert_eq!(db.query_i64("SELECT 1").expect("still works"), Some(1));
}

#[test]
fn dropping_a_functions_state_with_a_panic_is_caught() {
    struct Explosive;
    impl Drop for Explosive {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let db = memory();
    let explosive = Explosive;
    create_function(&db, "holds", 0, 0, move |_, _| {
        let _ = &explosive;
        Ok(Value::Null)
    })
    .expect("registers");
    db.close().expect("closes");
}

#[test]
fn a_table_function_gets_its_arguments() {
    let db = memory();
    create_table_function(
        &db,
        "countdown",
        &["n", "text"],
        &["start", "prefix"],
        |_, given| {
            let start = match given.first() {
                Some(Some(Value::Integer(n))) => *n,
                Some(None) => 3,
                _ => return Err(Error::new(Code::MISMATCH, "countdown: start with a number")),
            };
            let prefix = match given.get(1) {
                Some(Some(Value::Text(prefix))) => prefix.clone(),
                _ => "n".to_string(),
            };
            Ok((1..=start)
                .rev()
                .map(|n| vec![Value::Integer(n), Value::Text(format!("{prefix}{n}"))])
                .collect())
        },
    )
    .expect("registers");
    let all = |sql: &str| db.query_string(sql).expect("runs").unwrap_or_default();
    assert_eq!(
        all("SELECT group_concat(text) FROM countdown(2, 'x')"),
        "x2,x1"
    );
    assert_eq!(all("SELECT group_concat(n) FROM countdown"), "3,2,1");
    assert_eq!(
        all("SELECT group_concat(text) FROM countdown WHERE prefix = 'p'"),
        "p3,p2,p1"
    );
    // Arguments from another table, in both orders of the join.
    assert_eq!(
        all("SELECT group_concat(c.n) FROM (SELECT 2 AS s) JOIN countdown(s) c"),
        "2,1"
    );
    assert_eq!(
        all("SELECT sum(c.n) || '' FROM countdown(s) c, (SELECT 2 AS s UNION ALL SELECT 3)"),
        "9"
    );
    let error = db
        .exec("SELECT * FROM countdown('x')")
        .expect_err("an error of ours");
    assert_eq!(error.message, "countdown: start with a number");
    assert!(db.exec("CREATE VIRTUAL TABLE t USING countdown").is_err());
}

#[test]
fn a_panic_in_a_table_function_is_an_error_of_the_statement() {
    let db = memory();
    create_table_function(&db, "explode", &["n"], &[], |_, _| panic!("on purpose"))
        .expect("registers");
    let error = db.exec("SELECT * FROM explode").expect_err("caught");
    assert_eq!(error.code, Code::INTERNAL);
}
