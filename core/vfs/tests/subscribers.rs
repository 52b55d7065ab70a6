//! Subscribers, settings and pruning through SQL.

use crate::common::{Place, int, run, text};
use densite_disk::RealDir;
use densite_log::{Batch, Log, LogId, Op, Options, Table, Txn, Value};
use rusqlite::Connection;
use std::sync::Arc;

/// Runs a query and returns its rows as text, with a bar between columns.
fn rows(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let n = statement.column_count();
    let all = statement.query_map([], |row| {
        let value = |i| -> rusqlite::Result<String> {
            Ok(match row.get::<_, rusqlite::types::Value>(i)? {
                rusqlite::types::Value::Null => "null".to_owned(),
                rusqlite::types::Value::Integer(n) => n.to_string(),
                rusqlite::types::Value::Text(text) => text,
                other => panic!("{other:?}"),
            })
        };
        Ok((0..n).map(value).collect::<Result<Vec<_>, _>>()?.join("|"))
    });
    all.expect("runs").map(|row| row.expect("a row")).collect()
}

fn error(db: &Connection, sql: &str) -> String {
    let done = db.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0));
    done.expect_err(sql).to_string()
}

/// The log of a database, as another process would open it.
fn log_of(place: &Place, db: &Connection) -> Log {
    let id: Vec<u8> = db
        .query_row("SELECT log FROM densite_applied", [], |row| row.get(0))
        .expect("an id");
    let id = LogId(id.try_into().expect("16 bytes"));
    let options = Options {
        segment_bytes: 16 << 10,
        background: false,
        ..Options::new(id)
    };
    Log::open(Arc::new(RealDir::new(place.path("a.db-log"))), options).expect("opens")
}

fn append(log: &Log, op: Op, row: &[Value<'_>]) -> u64 {
    let table = Table::new("vote", ["id", "by", "photo"], 1, "").expect("a table");
    let mut batch = Batch::new(&table, op);
    batch.push(row).expect("push");
    log.append(Txn::of(log.new_txn(), &batch).expect("txn"))
        .expect("append")
        .last
}

#[test]
fn a_subscriber_reads_what_it_has_not_acknowledged() {
    for (name, open) in [("compressed", true), ("plain", false)] {
        let place = Place::new();
        let db = if open {
            place.open("a.db")
        } else {
            place.plain("a.db")
        };
        run(
            &db,
            "CREATE TABLE vote(id INTEGER PRIMARY KEY, by TEXT, photo BLOB)",
        );
        assert!(
            error(&db, "SELECT densite_ack('x', 1)").contains("has no log"),
            "{name}"
        );
        assert_eq!(int(&db, "SELECT densite_subscribe('indexer')"), 0);
        let log = log_of(&place, &db);
        append(
            &log,
            Op::Insert,
            &[Value::Int(7), Value::Text(b"ann"), Value::Blob(b"\x00\xff")],
        );
        append(&log, Op::Update, &[Value::Int(7), Value::Null, Value::Null]);
        append(&log, Op::Delete, &[Value::Int(7), Value::Null, Value::Null]);
        let first = r#"1|vote|insert|{"id":7}|{"id":7,"by":"ann","photo":{"hex":"00FF"}}|1|null"#;
        let second = r#"2|vote|update|{"id":7}|{"id":7,"by":null,"photo":null}|1|null"#;
        let third = r#"3|vote|delete|{"id":7}|null|1|null"#;
        let all = "SELECT * FROM densite_log('indexer')";
        assert_eq!(rows(&db, all), [first, second, third], "{name}");
        assert_eq!(
            rows(&db, "SELECT * FROM densite_log('indexer', 1)"),
            [first]
        );
        assert_eq!(
            rows(&db, "SELECT * FROM densite_log('indexer', 0)"),
            Vec::<String>::new()
        );
        assert_eq!(int(&db, "SELECT densite_ack('indexer', 2)"), 2);
        assert_eq!(
            int(&db, "SELECT densite_ack('indexer', 1)"),
            2,
            "an acknowledgement never goes back"
        );
        assert_eq!(rows(&db, all), [third]);
        assert_eq!(int(&db, "SELECT densite_subscribe('late', 'start')"), 0);
        assert_eq!(int(&db, "SELECT densite_subscribe('later', 'now')"), 3);
        assert_eq!(int(&db, "SELECT count(*) FROM densite_log('late')"), 3);
        assert_eq!(int(&db, "SELECT densite_unsubscribe('late') IS NULL"), 1);
        assert!(
            error(&db, "SELECT count(*) FROM densite_log('late')")
                .contains("no subscriber \"late\"")
        );
    }
}

#[test]
fn bad_arguments_are_named() {
    let place = Place::new();
    let db = place.open("a.db");
    run(&db, "SELECT densite_subscribe('s')");
    for (sql, words) in [
        ("SELECT densite_subscribe()", "wants a name"),
        (
            "SELECT densite_subscribe('t', 'yesterday')",
            "'start' or 'now'",
        ),
        (
            "SELECT densite_subscribe('s')",
            "is a subscriber \"s\" already",
        ),
        ("SELECT densite_subscribe('a b')", "\"a b\" is no name"),
        ("SELECT densite_ack('s', 'x')", "a sequence number"),
        ("SELECT densite_ack('s', -1)", "-1 is no sequence number"),
        (
            "SELECT densite_ack('s', 9)",
            "9 cannot be acknowledged: the log ends at 0",
        ),
        (
            "SELECT densite_ack('nobody', 0)",
            "no subscriber \"nobody\"",
        ),
        (
            "SELECT densite_unsubscribe(NULL)",
            "wants a subscriber's name",
        ),
        ("SELECT densite_config('colour')", "wants 'auto_prune'"),
        ("SELECT densite_config('auto_prune', 2)", "0 or 1"),
        (
            "SELECT densite_config('retain_bytes', -1)",
            "retain_bytes is a number of bytes",
        ),
        (
            "SELECT densite_config('max_unapplied_bytes', 'x')",
            "max_unapplied_bytes is a number of bytes",
        ),
        ("SELECT seq FROM densite_log", "wants a subscriber's name"),
        (
            "SELECT seq FROM densite_log('s', 'many')",
            "is no number of rows",
        ),
    ] {
        let said = error(&db, sql);
        assert!(said.contains(words), "{sql}: {said}");
    }
    run(
        &db,
        "CREATE TABLE t(a); CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT densite_prune(); END;",
    );
    let said = db
        .execute("INSERT INTO t VALUES (1)", [])
        .expect_err("refused");
    assert!(said.to_string().contains("unsafe use"), "{said}");
    let memory = Connection::open_in_memory().expect("opens");
    assert!(error(&memory, "SELECT densite_subscribe('s')").contains("in memory"));
}

#[test]
fn settings_are_kept() {
    let place = Place::new();
    let db = place.open("a.db");
    run(&db, "SELECT densite_subscribe('s')");
    let read = |db: &Connection| {
        [
            "auto_prune",
            "max_unapplied_bytes",
            "retain_bytes",
            "max_retained_bytes",
        ]
        .map(|name| int(db, &format!("SELECT densite_config('{name}')")))
    };
    assert_eq!(read(&db), [1, 0, 0, 0]);
    assert_eq!(int(&db, "SELECT densite_config('auto_prune', 0)"), 0);
    assert_eq!(
        int(&db, "SELECT densite_config('max_unapplied_bytes', 1000)"),
        1000
    );
    assert_eq!(
        int(&db, "SELECT densite_config('retain_bytes', 2000)"),
        2000
    );
    assert_eq!(
        int(&db, "SELECT densite_config('max_retained_bytes', 3000)"),
        3000
    );
    drop(db);
    assert_eq!(read(&place.open("a.db")), [0, 1000, 2000, 3000]);
}

/// Rule S4 and the rule for subscribers: pruning removes only rows that are durably applied and
/// acknowledged.
#[test]
fn pruning_waits_for_the_database_and_for_subscribers() {
    for mode in ["WAL", "DELETE"] {
        let place = Place::new();
        let db = place.open("a.db");
        text(&db, &format!("PRAGMA journal_mode = {mode}"));
        run(&db, "SELECT densite_subscribe('s')");
        let log = log_of(&place, &db);
        let payload = vec![7; 3000];
        let mut last = 0;
        while log.status().expect("status").segments < 4 {
            last = append(
                &log,
                Op::Insert,
                &[Value::Int(1), Value::Null, Value::Blob(&payload)],
            );
        }
        assert_eq!(int(&db, "SELECT densite_prune()"), 0, "{mode}: not applied");
        run(&db, &format!("UPDATE densite_applied SET seq = {last}"));
        assert_eq!(
            int(&db, "SELECT densite_prune()"),
            0,
            "{mode}: not acknowledged"
        );
        assert_eq!(
            int(&db, &format!("SELECT densite_ack('s', {last})")),
            last as i64
        );
        run(&db, "BEGIN");
        assert!(error(&db, "SELECT densite_prune()").contains("within a transaction"));
        run(&db, "ROLLBACK");
        if mode == "WAL" {
            let reader = place.open("a.db");
            run(&reader, "BEGIN");
            int(&reader, "SELECT count(*) FROM densite_applied");
            run(&db, "CREATE TABLE behind_the_reader(a)");
            assert_eq!(
                int(&db, "SELECT densite_prune()"),
                0,
                "a reader holds the WAL"
            );
        }
        assert!(int(&db, "SELECT densite_prune()") > 0, "{mode}");
        assert_eq!(log.status().expect("status").segments, 1, "{mode}");
    }
}
