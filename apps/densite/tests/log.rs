//! Ingest and subscribers.

use densite::rusqlite::{Connection, params};
use densite::{Columns, Error, IngestConflict, IngestOptions, OnFull, Op, Start};
use std::path::PathBuf;
use std::time::Duration;

const LONG: Option<Duration> = Some(Duration::from_secs(60));

struct Database {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn database(sql: &str) -> (Database, Connection) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("app.db");
    let con = open(&path);
    con.execute_batch(sql).expect("a schema");
    (Database { _dir: dir, path }, con)
}

fn open(path: &PathBuf) -> Connection {
    let con = densite::open(path).expect("opens");
    con.pragma_update(None, "journal_mode", "wal").expect("WAL");
    con
}

fn count(con: &Connection, table: &str) -> i64 {
    con.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
        row.get(0)
    })
    .expect("a number of rows")
}

const VOTE: &str = "CREATE TABLE vote(user INTEGER PRIMARY KEY, article INTEGER, note TEXT)";

#[test]
fn appended_rows_are_seen_at_once_and_then_in_the_table() {
    let (_database, con) = database(VOTE);
    let log = densite::ingest(&con, "vote").expect("opens");
    assert_eq!(log.name(), "vote_in");
    let seq = log
        .append([(1, 10, Some("a")), (2, 20, None)])
        .expect("appends");
    assert_eq!(count(&con, "temp.vote_in"), 2);
    assert_eq!(log.wait(LONG).expect("applies"), seq);
    assert_eq!(count(&con, "vote"), 2);
    let columns = Columns::new()
        .integers("user", [3, 4])
        .texts("note", ["x", "y"]);
    let later = log.append_columns(columns).expect("appends");
    assert_eq!(later, seq + 2);
    log.wait_for(later, LONG).expect("applies");
    assert_eq!(count(&con, "vote"), 4);
    assert!(log.rejects().expect("a list").is_empty());
}

#[test]
fn an_append_leaves_all_rows_or_none() {
    let (_database, con) = database("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT NOT NULL)");
    let log = densite::ingest(&con, "t").expect("opens");
    let error = log
        .append([(1, Some("x")), (2, None)])
        .expect_err("NOT NULL");
    assert!(matches!(error, Error::Row { row: 1, .. }), "{error:?}");
    let error = log
        .append([params![1, "x", 3]])
        .expect_err("three values for two columns");
    assert!(matches!(error, Error::Row { row: 0, .. }), "{error:?}");
    assert!(con.is_autocommit());
    assert_eq!(count(&con, "temp.t_in"), 0);
    con.execute_batch("BEGIN").expect("a transaction");
    let error = log
        .append([(1, Some("x"))])
        .expect_err("within a transaction");
    assert!(matches!(error, Error::TransactionOpen { .. }), "{error:?}");
}

#[test]
fn conflicts_and_rejects_are_reported() {
    let (_database, con) = database(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER CHECK (b < 10)); INSERT INTO t VALUES (1, 1)",
    );
    let log = densite::ingest(&con, "t").expect("opens");
    log.append([(1, 2), (2, 20), (3, 3)]).expect("appends");
    log.wait(LONG).expect("applies");
    let rejects = log.rejects().expect("a list");
    let rows: Vec<i64> = rejects
        .iter()
        .filter_map(|reject| reject.row["a"].as_i64())
        .collect();
    assert_eq!(rows, [1, 2]);
    assert!(rejects[0].error.contains("UNIQUE"), "{}", rejects[0].error);
    let update = IngestConflict::Update(vec!["b".to_owned()]);
    let log = IngestOptions::new()
        .on_conflict(update)
        .on_full(OnFull::Error)
        .name("updates")
        .ingest(&con, "t")
        .expect("opens");
    log.append([(1, 9)]).expect("appends");
    log.wait(LONG).expect("applies");
    let b: i64 = con
        .query_row("SELECT b FROM t WHERE a = 1", [], |row| row.get(0))
        .expect("a row");
    assert_eq!(b, 9);
    let counts = IngestOptions::new()
        .on_conflict(IngestConflict::Set("b = b - excluded.b".to_owned()))
        .name("counts")
        .ingest(&con, "t")
        .expect("opens");
    counts.append([(1, 1), (1, 1)]).expect("appends");
    counts.wait(LONG).expect("applies");
    let b: i64 = con
        .query_row("SELECT b FROM t WHERE a = 1", [], |row| row.get(0))
        .expect("a row");
    assert_eq!(b, 7);
    let other = IngestOptions::new().name("updates").ingest(&con, "t");
    assert!(matches!(other.expect_err("another one"), Error::Table(_)));
    assert!(densite::ingest(&con, "none").is_err());
}

#[test]
fn any_table_name_is_ingested() {
    let (_database, con) =
        database(r#"CREATE TABLE "it's a ""t"" ü"("k y" INTEGER PRIMARY KEY, "v'" TEXT)"#);
    let options = IngestOptions::new().on_conflict(IngestConflict::Update(vec!["v'".to_owned()]));
    let log = options.ingest(&con, "it's a \"t\" ü").expect("opens");
    options.ingest(&con, "it's a \"t\" ü").expect("opens again");
    log.append([(1, "x")]).expect("appends");
    log.append([(1, "y")]).expect("appends");
    log.wait(LONG).expect("applies");
    let v: String = con
        .query_row(r#"SELECT "v'" FROM "it's a ""t"" ü""#, [], |row| {
            row.get(0)
        })
        .expect("a row");
    assert_eq!(v, "y");
}

#[test]
fn a_wait_ends_after_its_timeout() {
    let (database, con) = database(VOTE);
    let log = densite::ingest(&con, "vote").expect("opens");
    log.append([(1, 1, "")]).expect("appends");
    log.wait(LONG).expect("applies");
    let other = open(&database.path);
    other
        .execute_batch("BEGIN IMMEDIATE")
        .expect("the write lock");
    let seq = log.append([(2, 2, "")]).expect("appends beside the lock");
    let error = log
        .wait(Some(Duration::from_millis(100)))
        .expect_err("locked");
    assert!(error.is_locked(), "{error:?}");
    assert!(matches!(error, Error::Timeout { wanted, .. } if wanted == seq));
    other.execute_batch("COMMIT").expect("gives the lock back");
    log.wait(LONG).expect("applies");
}

#[test]
fn a_subscriber_sees_every_change_and_continues_at_its_position() {
    let (database, con) = database("CREATE TABLE t(k TEXT PRIMARY KEY, v, b BLOB) WITHOUT ROWID");
    let log = densite::ingest(&con, "t").expect("opens");
    log.append([
        params!["a", 1, [0u8, 255]],
        params!["b", 0.5, None::<Vec<u8>>],
    ])
    .expect("appends");
    con.execute("UPDATE temp.t_in SET v = 2 WHERE k = 'a'", [])
        .expect("updates");
    con.execute("DELETE FROM temp.t_in WHERE k = 'b'", [])
        .expect("deletes");
    let reader = open(&database.path);
    let mut sub = densite::subscribe(&reader, "indexer", Start::Beginning)
        .expect("subscribes")
        .max_rows(3);
    let batch = sub.next(LONG).expect("reads").expect("rows");
    assert_eq!(batch.changes.len(), 3);
    assert_eq!(batch.seq, batch.changes[2].seq);
    let [first, second, third] = batch.changes.as_slice() else {
        panic!("{batch:?}")
    };
    assert_eq!(
        (first.op, second.op, third.op),
        (Op::Insert, Op::Insert, Op::Update)
    );
    assert_eq!(first.table, "t");
    assert_eq!(first.key["k"], "a");
    let row = first.row.as_ref().expect("a row");
    assert_eq!(row["b"]["hex"], "00FF");
    assert_eq!(second.row.as_ref().expect("a row")["v"], 0.5);
    sub.ack(second.seq).expect("acknowledges");
    let last = sub.next(LONG).expect("reads").expect("rows");
    assert_eq!(
        (last.changes[0].op, &last.changes[0].row),
        (Op::Delete, &None)
    );
    assert_eq!(sub.next(Some(Duration::ZERO)).expect("looks"), None);
    drop(sub);
    // Unacknowledged rows come again, and `start` has no effect.
    let mut sub = densite::subscribe(&reader, "indexer", Start::Now).expect("goes on");
    let again = sub
        .next(Some(Duration::ZERO))
        .expect("reads")
        .expect("rows");
    assert_eq!(again.changes[0], *third);
    assert_eq!(sub.ack(again.seq).expect("acknowledges"), again.seq);
    sub.unsubscribe().expect("ends");
    let mut new = densite::subscribe(&reader, "indexer", Start::Now).expect("subscribes");
    assert_eq!(
        new.next(Some(Duration::from_millis(50))).expect("waits"),
        None
    );
}

#[test]
fn a_row_ends_the_wait_of_a_subscriber() {
    let (database, con) = database(VOTE);
    let log = densite::ingest(&con, "vote").expect("opens");
    let waiting = std::thread::spawn({
        let path = database.path.clone();
        move || {
            let con = open(&path);
            let mut sub =
                densite::subscribe(&con, "waiting", Start::Beginning).expect("subscribes");
            sub.next(LONG).expect("waits").expect("a row").changes.len()
        }
    });
    std::thread::sleep(Duration::from_millis(200));
    log.append([(1, 1, "")]).expect("appends");
    assert_eq!(waiting.join().expect("ends"), 1);
}

#[test]
fn wrong_names_and_open_transactions_are_refused() {
    let (_database, con) = database(VOTE);
    assert!(densite::subscribe(&con, "no name", Start::Now).is_err());
    assert!(con.is_autocommit());
    con.execute_batch("BEGIN").expect("a transaction");
    let refused =
        |error: Error| assert!(matches!(error, Error::TransactionOpen { .. }), "{error:?}");
    refused(densite::subscribe(&con, "x", Start::Now).expect_err("within a transaction"));
    refused(densite::ingest(&con, "vote").expect_err("within a transaction"));
}
