//! `densite_replicate` and its companions: a program ships its database to a directory.

mod common;

use densite_testing::Stop;
use densite_tools::Silent;
use densite_tools::create_functions;
use densite_tools::replica::{At, RestoreOptions, restore};
use rusqlite::Connection;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A database, a place for its replica, and a place for copies.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        static FUNCTIONS: Once = Once::new();
        common::api();
        FUNCTIONS.call_once(|| {
            densite_linked::for_every_connection(create_functions).expect("registered");
        });
        Place {
            dir: tempfile::tempdir().expect("a directory"),
        }
    }

    fn db(&self) -> PathBuf {
        self.dir.path().join("a.db")
    }

    fn url(&self, name: &str) -> String {
        format!("file://{}", self.dir.path().join(name).display())
    }

    fn open(&self) -> Connection {
        common::open(&self.db())
    }

    /// A database with a table, in this journal mode.
    fn create(&self, mode: &str) -> Connection {
        let con = self.open();
        con.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(()))
            .expect("the mode");
        con.execute_batch("CREATE TABLE t(a)").expect("a table");
        con
    }

    /// How many rows a restored copy has.
    fn restored(&self, name: &str) -> i64 {
        let copy = self.dir.path().join("copy.db");
        let _ = std::fs::remove_file(&copy);
        let url = self.url(name);
        let url = Path::new(&url);
        restore(
            common::api(),
            url,
            RestoreOptions::new(At::Newest),
            &copy,
            &mut Silent,
        )
        .expect("restored");
        number(&common::open(&copy), "SELECT count(*) FROM t")
    }
}

fn number(con: &Connection, sql: &str) -> i64 {
    con.query_row(sql, [], |row| row.get(0)).expect(sql)
}

/// The message of a statement that fails.
fn refusal(con: &Connection, sql: &str) -> String {
    let done = con.query_row(sql, [], |_| Ok(()));
    done.expect_err(sql).to_string()
}

fn start(con: &Connection, url: &str) -> Value {
    let sql = "SELECT densite_replicate(?, 'interval=0.1')";
    let text: String = con
        .query_row(sql, [url], |row| row.get(0))
        .expect("started");
    serde_json::from_str(&text).expect("JSON")
}

fn status(con: &Connection) -> Value {
    let sql = "SELECT densite_replica_status()";
    let text: Option<String> = con.query_row(sql, [], |row| row.get(0)).expect("a status");
    text.map_or(Value::Null, |text| {
        serde_json::from_str(&text).expect("JSON")
    })
}

fn add(con: &Connection) {
    con.execute("INSERT INTO t VALUES(randomblob(500))", [])
        .expect("a row");
}

#[test]
fn what_was_committed_before_a_wait_is_in_the_bucket() {
    for mode in ["WAL", "DELETE"] {
        let place = Place::new();
        let con = place.create(mode);
        assert_eq!(status(&con), Value::Null);
        let began = start(&con, &place.url("r"));
        assert_eq!(began["shipping"], true, "{began}");
        for rows in 1..=20 {
            add(&con);
            assert_eq!(number(&con, "SELECT densite_replicate_wait(60)"), 1);
            assert_eq!(place.restored("r"), rows, "{mode}");
        }
        let status = status(&con);
        let replica = place.dir.path().join("r");
        assert_eq!(status["replica"], replica.to_str().expect("a path"));
        // The first row can be in the base.
        let n = status["restore_point"].as_u64();
        assert!(n == Some(19) || n == Some(20), "{status}");
        assert_eq!(status["role"], "shipper");
        assert_eq!(status["error"], Value::Null);
        assert!(status["lag_seconds"].as_f64() < Some(30.0), "{status}");
        assert!(status["bytes"].as_u64() > Some(1000), "{status}");
    }
}

/// After 12 seconds without changes its files are looked at by time stamps, which a quick commit
/// can leave as they were. A wait looks inside.
#[test]
fn a_wait_sees_a_commit_that_time_stamps_do_not_show() {
    let place = Place::new();
    let con = place.create("WAL");
    con.execute("INSERT INTO t VALUES(randomblob(50000))", [])
        .expect("a long WAL");
    start(&con, &place.url("r"));
    let wal = place.dir.path().join("a.db-dwal");
    let looks = || {
        [&place.db(), &wal].map(|path| {
            let file = std::fs::metadata(path).expect("the file");
            (file.len(), file.modified().expect("a time"))
        })
    };
    std::thread::sleep(Duration::from_millis(12_600));
    let before = looks();
    // It begins the WAL again.
    con.execute("INSERT INTO t VALUES(1)", [])
        .expect("a change");
    let file = std::fs::File::options().write(true).open(&wal);
    file.and_then(|file| file.set_modified(before[1].1))
        .expect("set");
    assert_eq!(looks(), before, "the test changes nothing else");
    assert_eq!(number(&con, "SELECT densite_replicate_wait(60)"), 1);
    assert_eq!(place.restored("r"), 2);
}

#[test]
fn the_same_url_changes_nothing_and_another_one_is_refused_until_shipping_stops() {
    let place = Place::new();
    let con = place.create("WAL");
    let other = place.open();
    let (r, s) = (place.url("r"), place.url("s"));
    start(&con, &r);
    assert_eq!(number(&con, "SELECT densite_replicate_wait(60)"), 1);
    // Connections share it.
    assert_eq!(start(&other, &r)["restore_point"], 0);
    let said = refusal(&other, &format!("SELECT densite_replicate('{s}')"));
    assert!(said.contains("already; stop that first"), "{said}");
    add(&con);
    let last: String = con
        .query_row("SELECT densite_replicate(NULL)", [], |row| row.get(0))
        .expect("stopped");
    let last: Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!(last["shipping"], false, "{last}");
    assert_eq!(place.restored("r"), 1, "stopping sends what is new");
    let said = refusal(&con, "SELECT densite_replicate_wait(1)");
    assert!(said.contains("nothing ships this database"), "{said}");
    start(&con, &s);
    assert_eq!(number(&con, "SELECT densite_replicate_wait(60)"), 1);
    assert_eq!(place.restored("s"), 1);
}

#[test]
fn shipping_ends_with_the_last_connection_and_sends_everything_before() {
    for mode in ["WAL", "DELETE"] {
        let place = Place::new();
        let first = place.create(mode);
        let second = place.open();
        start(&first, &place.url("r"));
        add(&first);
        drop(first);
        add(&second);
        assert_eq!(number(&second, "SELECT densite_replicate_wait(60)"), 1);
        assert_eq!(place.restored("r"), 2);
        add(&second);
        drop(second);
        assert_eq!(place.restored("r"), 3, "{mode}");
        // Nothing has the database open, and nothing is beside it but the number of this copy.
        let names = std::fs::read_dir(place.dir.path()).expect("a directory");
        let names = names.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, ["a.db", "a.db-replica", "copy.db", "r"]);
        let third = place.open();
        assert_eq!(status(&third), Value::Null);
        start(&third, &place.url("r"));
        add(&third);
        assert_eq!(number(&third, "SELECT densite_replicate_wait(60)"), 1);
        assert_eq!(place.restored("r"), 4);
    }
}

#[test]
fn a_wait_in_a_transaction_is_an_error_at_once() {
    let place = Place::new();
    let con = place.create("WAL");
    start(&con, &place.url("r"));
    add(&con);
    let wait = "SELECT densite_replicate_wait(60)";
    let begun = Instant::now();
    for (begin, sql) in [
        ("BEGIN", wait),
        ("BEGIN; SELECT * FROM t", wait),
        ("BEGIN IMMEDIATE", wait),
        (
            "PRAGMA user_version",
            "SELECT densite_replicate_wait(60) FROM t",
        ),
    ] {
        con.execute_batch(begin).expect(begin);
        let said = refusal(&con, sql);
        assert!(said.contains("has a transaction open"), "{begin}: {said}");
        let _ = con.execute_batch("ROLLBACK");
    }
    con.execute_batch("PRAGMA locking_mode=EXCLUSIVE; INSERT INTO t VALUES(1)")
        .expect("exclusive");
    let said = refusal(&con, wait);
    assert!(said.contains("keeps its locks"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(30));
    for wrong in [
        "", "NULL", "'1'", "-1", "1, -2", "1, NULL", "1, 2, 3", "9e99",
    ] {
        let said = refusal(&con, &format!("SELECT densite_replicate_wait({wrong})"));
        assert!(said.contains("takes for how many seconds"), "{said}");
    }
}

#[test]
fn a_wait_returns_0_while_a_reader_holds_back_the_restore_point() {
    let place = Place::new();
    let con = place.create("WAL");
    start(&con, &place.url("r"));
    assert_eq!(number(&con, "SELECT densite_replicate_wait(60)"), 1);
    let reader = place.open();
    reader
        .execute_batch("BEGIN; SELECT * FROM t")
        .expect("a reader");
    add(&con);
    add(&con);
    assert_eq!(number(&con, "SELECT densite_replicate_wait(1.5)"), 0);
    let held = status(&con);
    assert_eq!(held["held_back"], true, "{held}");
    assert!(held["lag_seconds"].as_f64() > Some(1.0), "{held}");
    reader.execute_batch("COMMIT").expect("the reader ends");
    assert_eq!(number(&con, "SELECT densite_replicate_wait(60)"), 1);
    assert_eq!(place.restored("r"), 2);
}

#[test]
fn a_failure_for_good_is_the_error_of_a_wait_and_a_takeover_goes_on() {
    let place = Place::new();
    let other = Place::new();
    let theirs = other.create("WAL");
    let url = place.url("r");
    start(&theirs, &url);
    assert_eq!(number(&theirs, "SELECT densite_replicate_wait(60)"), 1);
    drop(theirs);
    let con = place.create("WAL");
    start(&con, &url);
    let said = refusal(&con, "SELECT densite_replicate_wait(60)");
    assert!(said.contains("another database"), "{said}");
    assert!(said.contains(&url["file://".len()..]), "{said}");
    let failed = status(&con);
    assert_eq!(
        (&failed["failed"], &failed["shipping"]),
        (&true.into(), &false.into())
    );
    let sql = "SELECT densite_replicate(?, 'takeover=1')";
    con.query_row(sql, [&url], |_| Ok(())).expect("started");
    add(&con);
    assert_eq!(number(&con, "SELECT densite_replicate_wait(60)"), 1);
    assert_eq!(place.restored("r"), 1);
}

/// The bucket cannot be written: a wait does not end before it can.
#[test]
fn a_failure_that_passes_is_in_the_status_and_is_tried_again() {
    let place = Place::new();
    let con = place.create("WAL");
    let file = place.dir.path().join("r");
    std::fs::write(&file, "in the way").expect("a file");
    start(&con, &place.url("r"));
    add(&con);
    assert_eq!(number(&con, "SELECT densite_replicate_wait(0.5)"), 0);
    let failing = status(&con);
    assert_eq!(failing["failed"], false, "{failing}");
    let error = failing["error"].as_str().expect("an error");
    assert!(error.contains(file.to_str().expect("a path")), "{error}");
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(number(&con, "SELECT densite_replicate_wait(60)"), 1);
    assert_eq!(place.restored("r"), 1);
    assert_eq!(status(&con)["error"], Value::Null);
}

#[test]
fn what_cannot_be_shipped_is_refused_at_once() {
    let place = Place::new();
    let empty = place.open();
    let url = place.url("r");
    let sql = format!("SELECT densite_replicate('{url}')");
    assert!(refusal(&empty, &sql).contains("create a table first"));
    drop(empty);
    let con = place.create("WAL");
    for (wrong, says) in [
        ("'gs://bucket/a'", "gs:// is not known"),
        ("1", "takes a URL"),
        ("'/r', 'often=1'", "often"),
        ("''", "takes a URL"),
        ("'/r', 5", "takes a URL"),
    ] {
        let said = refusal(&con, &format!("SELECT densite_replicate({wrong})"));
        assert!(said.contains(says), "{wrong}: {said}");
        assert_eq!(status(&con), Value::Null, "{wrong}");
    }
    con.execute_batch("PRAGMA query_only=1")
        .expect("query only");
    assert!(refusal(&con, &sql).contains("can only read"));
    con.execute_batch("PRAGMA query_only=0; CREATE VIEW v AS SELECT densite_replicate(NULL)")
        .expect("a view");
    assert!(refusal(&con, "SELECT * FROM v").contains("unsafe use"));
    let name = format!("file:{}?vfs=densite&mode=ro", place.db().display());
    let reader = Connection::open(name).expect("opens");
    assert!(refusal(&reader, &sql).contains("can only read"));
    let memory = Connection::open_in_memory().expect("opens");
    assert!(refusal(&memory, &sql).contains("in memory"));
    assert_eq!(status(&memory), Value::Null);
    let plain = place.dir.path().join("plain.db");
    let plain = Connection::open(plain).expect("opens");
    plain.execute_batch("CREATE TABLE t(a)").expect("a table");
    assert!(refusal(&plain, &sql).contains("compress it first"));
    assert!(!place.dir.path().join("r").exists());
}

#[test]
fn an_interrupt_ends_a_wait() {
    let place = Place::new();
    let con = place.create("WAL");
    std::fs::write(place.dir.path().join("r"), "in the way").expect("a file");
    start(&con, &place.url("r"));
    let handle = con.get_interrupt_handle();
    let interrupt = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        handle.interrupt();
    });
    let begun = Instant::now();
    let said = refusal(&con, "SELECT densite_replicate_wait(60)");
    assert!(said.contains("interrupted"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(30));
    interrupt.join().expect("interrupted");
}

/// A wait for every commit, while other connections write without a pause, ends.
#[test]
fn a_wait_ends_while_others_write_all_the_time() {
    let place = Place::new();
    let con = place.create("WAL");
    start(&con, &place.url("r"));
    let stop = Stop::new();
    std::thread::scope(|scope| {
        let _stopping = stop.at_end();
        scope.spawn(|| {
            let writer = place.open();
            writer.busy_timeout(Duration::from_secs(60)).expect("set");
            while !stop.is_set() {
                add(&writer);
            }
        });
        con.busy_timeout(Duration::from_secs(60)).expect("set");
        for _ in 0..10 {
            let rows = number(&con, "SELECT count(*) FROM t");
            assert_eq!(number(&con, "SELECT densite_replicate_wait(60)"), 1);
            assert!(place.restored("r") >= rows);
        }
        // In steps that are too short for a round, with one ticket.
        let ticket = number(&con, "SELECT densite_replicate_ticket()");
        let step = format!("SELECT densite_replicate_wait(0.001, {ticket})");
        let begun = Instant::now();
        while number(&con, &step) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "it never ends");
        }
    });
}
