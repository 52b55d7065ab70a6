//! What the worker caches of a database, observed at the VFS.

use crate::common::hooked;
use crate::common::storage;

use crate::common::{Db, Held, create, one, wait};
use hooked::{Files, Hooks};
use rusqlite::{Connection, ffi};
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use storage::Own;

/// Rows of half a page each. Their index has them in another order.
const ROWS: i64 = 3000;
const SCHEMA: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v, fill); CREATE INDEX by_v ON t(v)";

/// Inserts these rows into a table.
fn insert(con: &Connection, into: &str) {
    con.execute_batch(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) INSERT INTO {into} SELECT i, printf('%0300d', i * 7919 % 100003), zeroblob(2000) FROM n"
    ))
    .expect("inserts");
}

/// Reads of the worker from the database's file.
static READS: AtomicU64 = AtomicU64::new(0);
/// The worker's writes to a WAL, and those that are not at its end.
static WRITES: AtomicU64 = AtomicU64::new(0);
static AGAIN: AtomicU64 = AtomicU64::new(0);
/// The end of that WAL.
static END: AtomicI64 = AtomicI64::new(0);

fn is_worker() -> bool {
    std::thread::current().name() == Some("densite-apply")
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    to: *mut c_void,
    len: c_int,
    at: i64,
) -> c_int {
    READS.fetch_add(u64::from(is_worker()), Ordering::SeqCst);
    // SAFETY: the file belongs to the VFS whose method this is, and the arguments are SQLite's.
    unsafe { hooked::real().2(file, to, len, at) }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    len: c_int,
    at: i64,
) -> c_int {
    // The WAL restarts with its header.
    let begins = at == 0;
    let end = END.swap(at + i64::from(len), Ordering::SeqCst);
    if is_worker() {
        WRITES.fetch_add(1, Ordering::SeqCst);
        AGAIN.fetch_add(u64::from(!begins && at < end), Ordering::SeqCst);
    }
    // SAFETY: the file belongs to the VFS whose method this is, and the arguments are SQLite's.
    unsafe { hooked::real().1(file, bytes, len, at) }
}

/// An ingest table through a VFS with these hooks.
fn begin(db: &Db, vfs: &'static CStr, hooks: Hooks, cache: (u32, u32)) -> Connection {
    hooked::register(vfs, hooks);
    let storage = Own {
        cache,
        ..Own::default()
    };
    let con = storage.connect_through(&db.path(), vfs);
    create(&con, "t", ", on_conflict=ignore").expect("the ingest table");
    con
}

/// Applies all rows, in one transaction or a few.
fn apply(db: &Db, con: &Connection) {
    let held = Held::new(db);
    insert(con, "t_in");
    drop(held);
    wait(con);
}

/// The rows exist already: their pages are read and not changed. They need more than SQLite's
/// default cache of 2 MiB.
#[test]
fn pages_stay_in_memory_from_one_transaction_to_the_next() {
    let db = Db::new(SCHEMA);
    insert(&Connection::open(db.path()).expect("opens"), "t");
    let read: hooked::Read = read;
    let hooks = Hooks {
        read: Some(read),
        ..Hooks::default()
    };
    let con = begin(&db, c"reading", hooks, Own::default().cache);
    apply(&db, &con);
    let before = READS.load(Ordering::SeqCst);
    assert!(before > 1000, "{before}");
    apply(&db, &con);
    let reads = READS.load(Ordering::SeqCst) - before;
    assert!(reads < 50, "{reads} more than {before}");
}

/// A transaction changes more pages than the worker caches otherwise, and some of them repeatedly.
/// Each is written once, at the commit.
#[test]
fn changed_pages_are_written_once() {
    let db = Db::new(SCHEMA);
    let write: hooked::Write = write;
    let hooks = Hooks {
        write: Some(write),
        files: Files::Wal,
        ..Hooks::default()
    };
    let con = begin(&db, c"writing", hooks, (64, 256 << 10));
    apply(&db, &con);
    let (writes, again) = (WRITES.load(Ordering::SeqCst), AGAIN.load(Ordering::SeqCst));
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), ROWS);
    assert!(writes > 0);
    assert_eq!(again, 0, "of {writes} writes");
}
