//! Waits for the worker: how long they take, and their errors.

use crate::common::storage;

use crate::common::{self, Db, Held, create, functions, one, refusal, wait};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use storage::Faults;

const TABLE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, a)";

/// Ctrl-C interrupts a COMMIT that waits for room, and then none of its rows is in the log.
#[test]
fn a_writer_that_waits_for_room_can_be_interrupted() {
    let db = Db::new(TABLE);
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1, zeroblob(1000))")
        .expect("the first");
    wait(&con);
    let held = Held::new(&db);
    one::<i64>(&con, "SELECT densite_config('max_unapplied_bytes', 1)");
    con.execute_batch("INSERT INTO t_in VALUES (2, zeroblob(1000))")
        .expect("one too much may be there");
    // The check of the unapplied bytes can be 20 ms old.
    std::thread::sleep(Duration::from_millis(50));
    let handle = con.get_interrupt_handle();
    let ended = std::sync::mpsc::channel::<()>();
    let interrupting = std::thread::spawn(move || {
        // Repeatedly: an interrupt before the statement begins has no effect.
        while ended.1.recv_timeout(Duration::from_millis(100))
            == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            handle.interrupt();
        }
    });
    let said = refusal(&con, "INSERT INTO t_in VALUES (3, 1)");
    drop(ended.0);
    interrupting.join().expect("ends");
    assert!(said.contains("interrupted"), "{said}");
    drop(held);
    assert_eq!(wait(&con), 2);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 2);
}

/// Once the cause is gone, its error is not reported.
#[test]
fn resolved_errors_of_the_worker_are_not_reported() {
    let db = Db::new(TABLE);
    let con = db.ingest("t", "");
    con.create_collation("own", |a: &str, b: &str| a.cmp(b))
        .expect("a collation of the application");
    for n in 0..10 {
        // The worker does not have the collation.
        con.execute_batch("CREATE INDEX by_own ON t(a COLLATE own)")
            .expect("an index");
        con.execute_batch(&format!("INSERT INTO t_in VALUES ({n}, {n})"))
            .expect("inserts");
        let said = refusal(&con, "SELECT densite_wait()");
        assert!(said.contains("no such collation"), "{said}");
        con.execute_batch("DROP INDEX by_own").expect("drops");
        assert_eq!(wait(&con), n + 1);
    }
}

/// If the schema uses a function of the application that the worker does not have, the rows are not
/// rejected.
#[test]
fn a_function_that_only_the_application_has_stops_the_worker() {
    use rusqlite::ffi;
    unsafe extern "C" fn own(
        context: *mut ffi::sqlite3_context,
        _: std::ffi::c_int,
        _: *mut *mut ffi::sqlite3_value,
    ) {
        // SAFETY: it is the context of this call.
        unsafe { ffi::sqlite3_result_int(context, 1) };
    }
    for schema in [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE INDEX x ON t(own(a))",
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE INDEX x ON t(a) WHERE own(a) = 1",
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a CHECK (own(a)))",
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a, g AS (own(a)) STORED)",
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT own(new.a); END",
    ] {
        let db = Db::new("");
        let con = db.open();
        let how = ffi::SQLITE_UTF8 | ffi::SQLITE_DETERMINISTIC;
        // SAFETY: the connection is open, the name ends with a NUL, and the function has no data.
        let made = unsafe {
            ffi::sqlite3_create_function_v2(
                con.handle(),
                c"own".as_ptr(),
                1,
                how,
                std::ptr::null_mut(),
                Some(own),
                None,
                None,
                None,
            )
        };
        assert_eq!(made, ffi::SQLITE_OK);
        con.execute_batch(schema).expect(schema);
        create(&con, "t", "").expect("the ingest table");
        con.execute_batch("INSERT INTO t_in VALUES (1, 1)")
            .expect("inserts");
        let said = refusal(&con, "SELECT densite_wait()");
        assert!(said.contains("function"), "{schema}: {said}");
        con.execute_batch("DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
            .expect("a table without it");
        assert_eq!(wait(&con), 1);
        let rows = con.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
        assert_eq!(rows, Ok(1), "{schema}");
    }
}

/// In a rollback mode a commit blocks readers, including the worker. That is not an error for a
/// waiting connection.
#[test]
fn the_worker_waits_for_locks_without_a_busy_timeout() {
    let db = Db::new(TABLE);
    db.open()
        .execute_batch("PRAGMA journal_mode = DELETE")
        .expect("a journal");
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1, 1)")
        .expect("inserts");
    con.busy_timeout(Duration::ZERO).expect("none");
    let other = rusqlite::Connection::open(db.path()).expect("opens");
    other
        .busy_timeout(Duration::from_secs(10))
        .expect("a timeout");
    other.execute_batch("BEGIN EXCLUSIVE").expect("the lock");
    let begun = Instant::now();
    assert!(one::<i64>(&con, "SELECT densite_wait(1, 0.2)") <= 1);
    assert!(begun.elapsed() < Duration::from_secs(10));
    let releasing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        other.execute_batch("COMMIT").expect("gives it back");
    });
    assert_eq!(wait(&con), 1);
    releasing.join().expect("ends");
}

/// A connection that can only read, with ingest.
fn reader(db: &Db, faults: Option<&Faults>) -> rusqlite::Connection {
    let uri = format!("file:{}?mode=ro", db.path().display());
    let reader = rusqlite::Connection::open(uri).expect("opens");
    reader
        .busy_timeout(Duration::from_secs(10))
        .expect("a timeout");
    match faults {
        None => functions(common::api(), &reader),
        Some(faults) => storage::Own::failing(faults).add(&reader),
    }
    create(&reader, "t", "").expect("a table to read from");
    reader
}

/// A connection for reading only reads through ingest, and writes nothing.
#[test]
fn a_connection_that_only_reads_writes_nothing() {
    let db = Db::new(TABLE);
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1, 1)")
        .expect("inserts");
    let reader = reader(&db, None);
    assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t_in"), 1);
    for sql in [
        "INSERT INTO t_in VALUES (2, 2)",
        "UPDATE t_in SET a = 2",
        "DELETE FROM t_in",
    ] {
        let said = refusal(&reader, sql);
        assert!(said.contains("for reading only"), "{sql}: {said}");
    }
    assert_eq!(one::<i64>(&con, "SELECT densite_log_last()"), 1);
}

/// Its process does not write by itself either. Waiting rows are read and reported, and applied
/// once a process with write access is there.
#[test]
fn a_process_that_only_reads_applies_nothing() {
    let db = Db::new(TABLE);
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1, 1)")
        .expect("inserts");
    wait(&con);
    let held = Held::new(&db);
    con.execute_batch("INSERT INTO t_in VALUES (2, 2)")
        .expect("inserts");
    // Its worker ends while it cannot apply anything.
    drop(con);
    drop(held);
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    let alone = |reader: &rusqlite::Connection| {
        assert_eq!(one::<i64>(reader, "SELECT count(*) FROM t_in"), 2);
        let begun = Instant::now();
        let said = refusal(reader, "SELECT densite_wait()");
        assert!(said.contains("for reading only"), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert_eq!(one::<i64>(reader, "SELECT densite_wait(1)"), 1);
        assert_eq!(one::<i64>(&plain, "SELECT seq FROM densite_applied"), 1);
    };
    // If the log cannot be written either, it is only read.
    let faults = Faults::default();
    faults.forbids.store(true, Ordering::SeqCst);
    alone(&reader(&db, Some(&faults)));
    let reader = reader(&db, None);
    alone(&reader);
    // Another connection of the same process.
    let con = db.ingest("t", "");
    assert_eq!(wait(&reader), 2);
    assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t"), 2);
    drop(con);
    assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t_in"), 2);
}

/// A reader sees what another process applies, and waits for it.
#[test]
fn a_reader_waits_for_rows_that_another_process_applies() {
    let db = Db::new(TABLE);
    let con = db.ingest("t", "");
    // On another storage backend, as if it were another process.
    let reader = reader(&db, Some(&Faults::default()));
    let held = Held::new(&db);
    for n in 1..=3 {
        con.execute_batch(&format!("INSERT INTO t_in VALUES ({n}, {n})"))
            .expect("inserts");
    }
    assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t_in"), 3);
    let releasing = std::thread::spawn(move || {
        // Longer than it takes to find out that no process applies.
        std::thread::sleep(Duration::from_millis(1500));
        drop(held);
    });
    assert_eq!(wait(&reader), 3);
    releasing.join().expect("ends");
    assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t"), 3);
    assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t_in"), 3);
}

/// A connection that keeps its locks blocks the worker. Only its locking mode shows that.
#[test]
fn a_wait_that_blocks_the_worker_ends_with_an_error() {
    let db = Db::new("PRAGMA journal_mode = DELETE; CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let con = db.ingest("t", "");
    let read = |mode: &str| {
        con.execute_batch(&format!("PRAGMA locking_mode = {mode}"))
            .expect("a mode");
        one::<i64>(&con, "SELECT count(*) FROM t")
    };
    read("EXCLUSIVE");
    con.execute_batch("INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    let said = con.query_row("SELECT densite_wait()", [], |_| Ok(()));
    let said = said.expect_err("an error").to_string();
    assert!(said.contains("keeps its locks"), "{said}");
    one::<i64>(
        &con,
        "SELECT length(densite_config('max_unapplied_bytes', 1))",
    );
    let said = refusal(&con, "INSERT INTO t_in VALUES (2)");
    assert!(said.contains("keeps its locks"), "{said}");
    read("NORMAL");
    one::<i64>(&con, "SELECT densite_wait()");
    assert_eq!(read("NORMAL"), 1);
}
