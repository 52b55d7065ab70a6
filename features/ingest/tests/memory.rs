//! The memory of the worker beside SQLite's: bytes that this program has allocated. It is the only
//! test in this program.

#[allow(dead_code, reason = "it shares a part with the other tests")]
mod common;

use common::{Db, create, one, wait};
use densite_ingest::ClusteredLimits;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocated bytes, and their maximum since it was reset.
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls go to the system's allocator, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::SeqCst) + layout.size();
        MOST.fetch_max(now, Ordering::SeqCst);
        // SAFETY: the caller guarantees the same conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::SeqCst);
        // SAFETY: the caller guarantees the same conditions.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Rows of a clustered apply.
const ROWS: usize = 200_000;

/// Bytes for a row of 16 bytes: the row itself; its number and place while it is applied; its
/// bucket and a share of the search for rows of its key while it is ordered.
const BYTES: usize = 16 + 8 + 7;

/// The log's buffers, a transaction's values, and other memory.
const BESIDE: usize = 3 << 20;

#[test]
fn a_clustered_apply_takes_few_bytes_a_row() {
    let mut random = StdRng::seed_from_u64(1);
    let schema = "CREATE TABLE t(u INTEGER NOT NULL, s INTEGER NOT NULL, PRIMARY KEY(u, s)) WITHOUT ROWID; CREATE INDEX by_s ON t(s)";
    let db = Db::new(schema);
    let limits = ClusteredLimits {
        least: ROWS / 2,
        most: ROWS,
        bytes: 1 << 30,
        together: 5000,
        at_once: 5000,
    };
    let con = common::storage::with_limits(&db.path(), limits, 0);
    create(&con, "t", "").expect("the ingest table");
    let before = NOW.load(Ordering::SeqCst);
    MOST.store(before, Ordering::SeqCst);
    let plain = Connection::open(db.path()).expect("opens");
    plain.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let mut insert = con
        .prepare("INSERT INTO t_in VALUES (?1, ?2)")
        .expect("compiles");
    for i in 0..2 * ROWS {
        if i % 5000 == 0 {
            con.execute_batch("BEGIN").expect("begins");
        }
        let row: [i64; 2] = random.random();
        insert.execute(row).expect("inserts");
        if i % 5000 == 4999 {
            con.execute_batch("COMMIT").expect("commits");
        }
    }
    plain.execute_batch("ROLLBACK").expect("rolls back");
    wait(&con);
    let most = MOST.load(Ordering::SeqCst) - before;
    let count = one::<i64>(&plain, "SELECT count(*) FROM t");
    assert_eq!(count, 2 * ROWS as i64);
    println!("{most} bytes, {} a row of a clustered apply", most / ROWS);
    assert!(
        most > ROWS * 24,
        "there was no clustered apply: {most} bytes"
    );
    assert!(most < ROWS * BYTES + BESIDE, "{most} bytes");
}
