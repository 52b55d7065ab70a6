//! What the worker keeps of a database in memory, watched where SQLite meets the disk.

use crate::common::hooked;
use crate::common::storage;

use crate::common::{Db, Held, create, one, wait};
use hooked::{Files, Hooks};
use rusqlite::{Connection, ffi};
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use storage::Own;

/// Rows that have half a page each; their index has them in another order.
const ROWS: i64 = 3000;
const SCHEMA: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v, fill); CREATE INDEX by_v ON t(v)";

/// Inserts them into a table.
fn insert(con: &Connection, into: &str) {
    con.execute_batch(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) INSERT INTO {into} SELECT i, printf('%0300d', i * 7919 % 100003), zeroblob(2000) FROM n"
    ))
    .expect("inserts");
}

/// Reads of the worker from the database's file.
static READS: AtomicU64 = AtomicU64::new(0);
/// Writes of the worker to a WAL, and those that do not lie behind all others.
static WRITES: AtomicU64 = AtomicU64::new(0);
static AGAIN: AtomicU64 = AtomicU64::new(0);
/// Where that WAL ends.
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
    // SAFETY: a file of the VFS that this was taken from, and what SQLite gave us for it.
    unsafe { hooked::real().2(file, to, len, at) }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    len: c_int,
    at: i64,
) -> c_int {
    // It begins anew with its header.
    let begins = at == 0;
    let end = END.swap(at + i64::from(len), Ordering::SeqCst);
    if is_worker() {
        WRITES.fetch_add(1, Ordering::SeqCst);
        AGAIN.fetch_add(u64::from(!begins && at < end), Ordering::SeqCst);
    }
    // SAFETY: a file of the VFS that this was taken from, and what SQLite gave us for it.
    unsafe { hooked::real().1(file, bytes, len, at) }
}

/// An ingest table through such a VFS.
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

/// Rows that are there already: their pages are looked at, and not changed. They are more than SQLite keeps by itself, which is 2 MiB.
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

/// A transaction changes more pages than the worker keeps otherwise, and some again and again: they are written when it commits, once.
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
