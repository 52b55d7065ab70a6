//! The checkpoint beside the worker, observed at the VFS.

use crate::common::hooked;
use crate::common::storage;

use crate::common::{Db, all, create, one};
use hooked::Hooks;
use rusqlite::{Connection, ffi};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use storage::{Faults, Own};

/// The name of its thread.
const THREAD: &str = "densite-checkpoint";
/// A checkpoint is due when the WAL is as large as this.
const WAL: u64 = 1 << 20;

/// Pages that the checkpoint has written.
static WRITES: AtomicU64 = AtomicU64::new(0);
/// Number of its next syncs that fail; counted down.
static FAILS: AtomicU64 = AtomicU64::new(0);
/// Whether syncs fail in this test.
static FAILS_EVER: AtomicBool = AtomicBool::new(false);
/// How long its syncs take, in milliseconds.
static SLOW: AtomicU64 = AtomicU64::new(0);
/// Number of its syncs that are running.
static SYNCING: AtomicI64 = AtomicI64::new(0);
/// One test at a time, because the tests share these counters.
static ALONE: Mutex<()> = Mutex::new(());

fn is_beside() -> bool {
    std::thread::current().name() == Some(THREAD)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let fails = || FAILS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
    let fails = is_beside() && fails().is_ok();
    if is_beside() {
        SYNCING.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(SLOW.load(Ordering::SeqCst)));
    }
    // SAFETY: the file belongs to the VFS whose method this is.
    let done = unsafe { hooked::real().0(file, flags) };
    if is_beside() {
        SYNCING.fetch_sub(1, Ordering::SeqCst);
    }
    match fails {
        true => ffi::SQLITE_IOERR_FSYNC,
        false => done,
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    len: c_int,
    at: i64,
) -> c_int {
    WRITES.fetch_add(u64::from(is_beside()), Ordering::SeqCst);
    // SAFETY: the file belongs to the VFS whose method this is.
    unsafe { hooked::real().1(file, bytes, len, at) }
}

/// A database with a small WAL limit, through that VFS, without other users.
fn begin() -> (MutexGuard<'static, ()>, Db, Connection) {
    let alone = ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        let write: hooked::Write = write;
        let sync: hooked::Sync = sync;
        let hooks = Hooks {
            sync: Some(sync),
            write: Some(write),
            ..Hooks::default()
        };
        hooked::register(c"beside", hooks);
    });
    for number in [&WRITES, &FAILS, &SLOW] {
        number.store(0, Ordering::SeqCst);
    }
    FAILS_EVER.store(false, Ordering::SeqCst);
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let storage = Own {
        wal: (WAL, 512 << 20),
        ..Own::failing(&Faults::default())
    };
    let con = storage.connect_through(&db.path(), c"beside");
    create(&con, "t", ", on_conflict=replace").expect("the ingest table");
    (alone, db, con)
}

/// Rows that replace each other, applied. They are a quarter of what starts a checkpoint beside the
/// worker.
fn round(con: &Connection) {
    con.execute_batch(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 240) INSERT INTO t_in SELECT i, randomblob(450) FROM n",
    )
    .expect("inserts");
    let end = Instant::now() + Duration::from_secs(60);
    while let Err(e) = con.query_row("SELECT densite_wait()", [], |_| Ok(())) {
        // A connection that waits gets the error of a checkpoint beside the worker, and tries
        // again.
        assert!(
            FAILS_EVER.load(Ordering::SeqCst) && Instant::now() < end,
            "{e}"
        );
    }
}

/// Runs rounds until a condition is true.
fn rounds(con: &Connection, mut until: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(300);
    while !until() {
        assert!(Instant::now() < end, "it never is");
        round(con);
    }
}

/// Frames that are copied beside the worker stay in the WAL. The WAL must be reused all the same.
#[test]
fn the_wal_is_bounded_during_a_background_checkpoint() {
    let (_alone, db, con) = begin();
    let (mut largest, mut count) = (0, 0);
    rounds(&con, || {
        count += 1;
        largest = largest.max(db.wal_len());
        WRITES.load(Ordering::SeqCst) > 1000 && count > 150
    });
    assert!(largest < 2 * WAL + (1 << 20), "{largest}");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 240);
    assert_eq!(all(&con, "PRAGMA integrity_check"), ["ok"]);
}

/// Only that thread gets the error of a failed sync. From then on nothing is pruned, and rows are
/// applied as usual.
#[test]
fn a_failed_sync_of_a_background_checkpoint_is_remembered() {
    let (_alone, db, con) = begin();
    rounds(&con, || WRITES.load(Ordering::SeqCst) > 0);
    let until = Instant::now() + Duration::from_secs(20);
    while db.segments() > 2 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(db.segments() <= 2, "it prunes while syncs are well");
    FAILS_EVER.store(true, Ordering::SeqCst);
    FAILS.store(1, Ordering::SeqCst);
    rounds(&con, || FAILS.load(Ordering::SeqCst) == 0);
    // A pruning that began earlier can still be running.
    std::thread::sleep(Duration::from_millis(500));
    round(&con);
    let many = db.segments();
    assert!(many > 3, "{many}");
    round(&con);
    std::thread::sleep(Duration::from_millis(2500));
    assert!(
        db.segments() >= many,
        "{} of {many}: the log keeps them",
        db.segments()
    );
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 240);
}

/// The checkpoint ends with the worker, and leaves no open files.
#[test]
fn a_background_checkpoint_ends_with_the_worker() {
    let (_alone, db, con) = begin();
    SLOW.store(200, Ordering::SeqCst);
    rounds(&con, || SYNCING.load(Ordering::SeqCst) > 0);
    drop(con);
    assert_eq!(SYNCING.load(Ordering::SeqCst), 0);
    let plain = Connection::open(db.path()).expect("opens");
    assert_eq!(
        one::<String>(&plain, "PRAGMA journal_mode = DELETE"),
        "delete"
    );
    assert_eq!(one::<i64>(&plain, "SELECT count(*) FROM t"), 240);
}
