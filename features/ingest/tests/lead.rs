//! The right to apply goes to a process that can apply.

use crate::common::hooked;
use crate::common::storage;

use crate::common::{Db, all, create, one, wait};
use hooked::{Files, Hooks};
use rusqlite::ffi;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use storage::Own;

/// The writes through the VFS `limited` have used up their quota.
static USED_UP: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn limited(
    file: *mut ffi::sqlite3_file,
    data: *const c_void,
    len: c_int,
    offset: i64,
) -> c_int {
    if USED_UP.load(Ordering::SeqCst) {
        return ffi::SQLITE_FULL;
    }
    // SAFETY: the file belongs to the VFS whose method this is, and the arguments are SQLite's.
    unsafe { hooked::real().1(file, data, len, offset) }
}

/// A quota limits one process. The other process applies the rows of both, and the limited one does
/// not report resolved errors.
#[test]
fn a_process_that_cannot_apply_leaves_it_to_another() {
    let hooks = Hooks {
        write: Some(limited),
        files: Files::Both,
        ..Hooks::default()
    };
    hooked::register(c"limited", hooks);
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let own = |process| Own {
        process,
        ..Own::default()
    };
    let poor = own(1).connect_through(&db.path(), c"limited");
    create(&poor, "t", "").expect("the ingest table");
    poor.execute_batch("INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    wait(&poor);
    USED_UP.store(true, Ordering::SeqCst);
    poor.execute_batch("INSERT INTO t_in VALUES (2)")
        .expect("it is the log that acknowledges");
    // No other process is there.
    let told = poor.query_row("SELECT densite_wait()", [], |_| Ok(()));
    let told = told.expect_err("it cannot").to_string();
    assert!(told.contains("full"), "{told}");
    let rich = own(2).connect(&db.path());
    create(&rich, "t", "").expect("the ingest table");
    let reached: i64 = one(&rich, "SELECT densite_wait(NULL, 20)");
    assert_eq!(reached, 2);
    poor.execute_batch("INSERT INTO t_in VALUES (3)")
        .expect("inserts");
    assert_eq!(wait(&poor), 3);
    assert_eq!(all(&rich, "SELECT id FROM t"), ["1", "2", "3"]);
    // It leads again when no other process does, and applies once it can.
    drop(rich);
    poor.execute_batch("INSERT INTO t_in VALUES (4)")
        .expect("inserts");
    let told = poor.query_row("SELECT densite_wait()", [], |_| Ok(()));
    told.expect_err("it cannot");
    USED_UP.store(false, Ordering::SeqCst);
    let reached = || poor.query_row("SELECT densite_wait(NULL, 20)", [], |row| row.get(0));
    // The error of an earlier attempt may be reported once more.
    let reached: i64 = reached().or_else(|_| reached()).expect("it can");
    assert_eq!(reached, 4);
    assert_eq!(all(&poor, "SELECT id FROM t"), ["1", "2", "3", "4"]);
}
