//! Rule L4, observed at the VFS: the database file is synced before rows are pruned that another
//! process applied.

use crate::common::hooked;
use crate::common::storage;

use crate::common::{Db, all, api, create, functions, wait};
use densite_disk::{Dir, DirAbove, RealDir};
use densite_ingest::{FileInfo, StorageBackend};
use densite_log::LogDir;
use hooked::{Hooks, Sync};
use rusqlite::{OpenFlags, ffi};
use std::ffi::{CStr, c_char, c_int};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Syncs of main databases through the VFS `counting`.
static SYNCS: AtomicU64 = AtomicU64::new(0);
/// Number of the next syncs of main databases through the VFS `failing` that fail; counted down.
static FAILS: AtomicU64 = AtomicU64::new(0);
/// Number of the next syncs of the directory, when a journal is removed, that fail; counted down.
static DIRECTORY_FAILS: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn counting(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    SYNCS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the file belongs to the VFS whose method this is.
    unsafe { hooked::real().0(file, flags) }
}

unsafe extern "C" fn failing(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let fails = FAILS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
    // SAFETY: the file belongs to the VFS whose method this is.
    let done = unsafe { hooked::real().0(file, flags) };
    match fails {
        Ok(_) => ffi::SQLITE_IOERR_FSYNC,
        Err(_) => done,
    }
}

/// Removes a file as the default VFS does. Then the sync of its directory can fail.
unsafe extern "C" fn deleting(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    syncs_dir: c_int,
) -> c_int {
    // SAFETY: it is the default VFS, with SQLite's arguments.
    let done = unsafe {
        let host = ffi::sqlite3_vfs_find(std::ptr::null());
        (*host).xDelete.expect("a method")(host, name, syncs_dir)
    };
    let one_less = |n: u64| n.checked_sub(1);
    let fails = |n: &AtomicU64| n.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
    match done == ffi::SQLITE_OK && syncs_dir != 0 && fails(&DIRECTORY_FAILS).is_ok() {
        true => ffi::SQLITE_IOERR_DIR_FSYNC,
        false => done,
    }
}

/// A VFS whose main databases are synced by `sync`.
fn register(name: &'static CStr, sync: Sync) {
    let hooks = Hooks {
        sync: Some(sync),
        delete: Some(deleting),
        ..Hooks::default()
    };
    hooked::register(name, hooks);
}

/// A closed database without a WAL, with one row that a worker applied.
fn applied() -> Db {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    rusqlite::Connection::open(db.path())
        .expect("opens")
        .execute_batch("PRAGMA journal_mode = DELETE")
        .expect("the mode");
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in VALUES (1)")
        .expect("inserts");
    wait(&con);
    drop(con);
    db
}

/// Waits for a sync. The row must still be in the log then.
fn is_synced(syncs: &AtomicU64, con: &rusqlite::Connection) {
    let until = Instant::now() + Duration::from_secs(10);
    while syncs.load(Ordering::SeqCst) == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(syncs.load(Ordering::SeqCst) > 0);
    assert_eq!(all(con, "SELECT id FROM t"), ["1"]);
}

/// The process that applied them may not have synced: it was killed, or ran with synchronous=OFF,
/// or the file was copied into place.
#[test]
fn rows_applied_by_an_earlier_worker_are_synced_before_pruning() {
    let db = applied();
    register(c"counting", counting);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let con = rusqlite::Connection::open_with_flags_and_vfs(db.path(), flags, c"counting")
        .expect("opens");
    functions(api(), &con);
    create(&con, "t", "").expect("the ingest table");
    is_synced(&SYNCS, &con);
}

/// Inserts rows that fill some segments and applies them. Returns the number of segments then.
fn segments(db: &Db, con: &rusqlite::Connection, from: i64) -> usize {
    for i in 0..10 {
        let from = from + i * 100;
        con.execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {from} + 99) INSERT INTO t_in SELECT i, randomblob(500) FROM n"
        ))
        .expect("inserts");
    }
    db.segments()
}

/// The system can have dropped data that it could not write, and the next sync succeeds: what is on
/// the disk is unknown.
#[test]
fn a_failed_sync_stops_pruning() {
    register(c"failing", failing);
    // With a rollback journal, COMMIT syncs and gets the error.
    for (journal, fails) in [
        ("WAL", &FAILS),
        ("DELETE", &FAILS),
        ("DELETE", &DIRECTORY_FAILS),
    ] {
        nothing_is_pruned(journal, fails);
    }
}

fn nothing_is_pruned(journal: &str, fails: &AtomicU64) {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    rusqlite::Connection::open(db.path())
        .expect("opens")
        .execute_batch(&format!("PRAGMA journal_mode = {journal}"))
        .expect("the mode");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let open = || {
        let con = rusqlite::Connection::open_with_flags_and_vfs(db.path(), flags, c"failing")
            .expect("opens");
        con.busy_timeout(Duration::from_secs(10)).expect("a time");
        storage::Own::failing(&storage::Faults::default()).add(&con);
        create(&con, "t", "").expect("the ingest table");
        con
    };
    let con = open();
    segments(&db, &con, 0);
    let until = Instant::now() + Duration::from_secs(20);
    while db.segments() > 2 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(db.segments() <= 2, "it prunes while syncs are well");
    fails.store(1, Ordering::SeqCst);
    let many = segments(&db, &con, 10_000);
    let until = Instant::now() + Duration::from_secs(20);
    while fails.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(fails.load(Ordering::SeqCst), 0, "the syncs have failed");
    let more = segments(&db, &con, 20_000);
    assert!(more > many && more > 3);
    // Rows are applied as usual.
    while all(&con, "SELECT count(*) FROM t") != ["3000"] && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(all(&con, "SELECT count(*) FROM t"), ["3000"]);
    std::thread::sleep(Duration::from_millis(2500));
    let told = con.query_row("SELECT densite_prune()", [], |_| Ok(()));
    let told = told.expect_err("nor when it is asked for").to_string();
    assert!(told.contains("a sync of the database failed"), "{told}");
    assert_eq!(db.segments(), more, "the log keeps them: {journal}");
    drop(con);
    // This also holds when the database is opened again: the system shows its cache, and not the
    // contents of the disk.
    let con = open();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(db.segments(), more, "the log keeps them: {journal}");
    drop(con);
    // It also holds in other processes, until a user who has checked the disk removes the note.
    let con = storage::with_limits(&db.path(), storage::FEW, 1);
    create(&con, "t", "").expect("the ingest table");
    wait(&con);
    con.query_row("SELECT densite_prune()", [], |_| Ok(()))
        .expect_err("told by the other");
    std::fs::remove_file(db.log_dir().join("sync_failed")).expect("it was noted");
    con.query_row("SELECT densite_prune()", [], |_| Ok(()))
        .expect("prunes");
    drop(con);
    let con = open();
    let until = Instant::now() + Duration::from_secs(20);
    while db.segments() > 2 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(db.segments() <= 2);
    drop(con);
}

/// If a file cannot be opened for a sync, that is not a failed sync.
#[test]
fn a_folder_that_is_missing_for_a_while_is_not_a_failed_sync() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", "");
    segments(&db, &con, 0);
    wait(&con);
    let here = db.path().parent().expect("a folder").to_owned();
    let away = here.with_extension("away");
    std::fs::rename(&here, &away).expect("renamed");
    let told = con.query_row("SELECT densite_prune()", [], |_| Ok(()));
    std::fs::rename(&away, &here).expect("renamed");
    let told = told.expect_err("there is no such folder").to_string();
    assert!(told.contains("no such file"), "{told}");
    con.query_row("SELECT densite_prune()", [], |_| Ok(()))
        .expect("prunes");
}

/// A thread beside the worker also syncs the WAL. It can be the only one that gets the error.
#[test]
fn a_failure_of_only_the_incremental_sync_is_remembered() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let faults = storage::Faults::default();
    let con = storage::failing(&db.path(), &faults);
    create(&con, "t", "").expect("the ingest table");
    faults.wal_syncs.store(1, Ordering::SeqCst);
    let mut rows = 0;
    let until = Instant::now() + Duration::from_secs(20);
    while faults.wal_syncs.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        segments(&db, &con, rows);
        rows += 1000;
    }
    assert_eq!(faults.wal_syncs.load(Ordering::SeqCst), 0);
    // A pruning that began earlier can still be running.
    std::thread::sleep(Duration::from_millis(500));
    let many = segments(&db, &con, rows);
    wait(&con);
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(db.segments(), many, "the log keeps them");
}

/// Counts syncs of the database's directory.
struct Watched(Arc<AtomicU64>);

struct WatchedDir(RealDir, Arc<AtomicU64>);

impl StorageBackend for Watched {
    fn file_info(&self, path: &str) -> densite_disk::Result<FileInfo> {
        let meta = std::fs::metadata(path)
            .map_err(|e| densite_disk::Error::from_io(densite_disk::Op::Open, &e))?;
        Ok(FileInfo {
            identity: (meta.dev() ^ 0x77, meta.ino()),
            names: 1,
        })
    }

    fn dir(&self, path: &Path) -> LogDir {
        match path.to_string_lossy().ends_with("-log") {
            true => Arc::new(RealDir::new(path)),
            false => Arc::new(WatchedDir(RealDir::new(path), self.0.clone())),
        }
    }

    fn create_log_dir(&self, path: &Path, _database: &str) -> densite_disk::Result<LogDir> {
        Ok(Arc::new(RealDir::create(path)?))
    }
}

impl DirAbove for WatchedDir {
    fn below(&self) -> &dyn Dir {
        &self.0
    }

    fn sync(&self) -> densite_disk::Result<()> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.sync()
    }
}

/// After a power cut, a removed rollback journal comes back unless its directory was synced. Then
/// rows of an earlier worker would be rolled back.
#[test]
fn the_directory_is_synced_before_rows_are_pruned() {
    let db = applied();
    let syncs = Arc::new(AtomicU64::new(0));
    let con = rusqlite::Connection::open(db.path()).expect("opens");
    // SAFETY: it is an open connection of that library.
    let lent = unsafe { densite_sqlite::Connection::borrow(api(), con.handle().cast()) };
    let storage = Arc::new(Watched(syncs.clone()));
    densite_ingest::create_functions_on(&lent.expect("a connection"), storage).expect("functions");
    create(&con, "t", "").expect("the ingest table");
    is_synced(&syncs, &con);
}
