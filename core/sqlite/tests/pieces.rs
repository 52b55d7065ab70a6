//! The coalescing VFS keeps other syncs fast: it writes only a little between two syncs of its own.

use crate::common;
use crate::common::watching;

use densite_sqlite::{Above, Code, Connection, HostFile, coalesced_vfs, ffi, wal_progress};
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use watching::watch;

/// The most bytes that a checkpoint can write without a sync, plus a page.
const MOST: u64 = (4 << 20) + 4096;

/// What was done to the database's file.
#[derive(Default)]
struct Seen {
    syncs: AtomicU64,
    since: AtomicU64,
    /// The most bytes written between two syncs.
    most: AtomicU64,
    /// The next sync fails.
    fails: AtomicBool,
}

struct Main {
    host: HostFile,
    seen: Arc<Seen>,
}

impl Above for Main {
    fn host(&self) -> &HostFile {
        &self.host
    }
    fn write(&mut self, buf: &[u8], offset: u64) -> Result<(), Code> {
        let len = buf.len() as u64;
        let since = self.seen.since.fetch_add(len, Ordering::Relaxed) + len;
        self.seen.most.fetch_max(since, Ordering::Relaxed);
        self.host.write(buf, offset)
    }
    fn sync(&mut self, flags: i32) -> Result<(), Code> {
        if self.seen.fails.swap(false, Ordering::Relaxed) {
            return Err(Code::IOERR_FSYNC);
        }
        self.seen.syncs.fetch_add(1, Ordering::Relaxed);
        self.seen.since.store(0, Ordering::Relaxed);
        self.host.sync_with(flags)
    }
}

/// A connection that coalesces writes over a watching VFS, with a database of 20 MiB in its WAL.
fn filled(name: &CStr, dir: &tempfile::TempDir) -> (Connection, Arc<Seen>) {
    let api = common::api();
    let seen = Arc::new(Seen::default());
    let shared = seen.clone();
    watch(name, ffi::OPEN_MAIN_DB, move |host| Main {
        host,
        seen: shared.clone(),
    });
    let path = dir.path().join("t.db");
    let vfs = coalesced_vfs(api, Some(name))
        .expect("a VFS")
        .expect("the VFS of this build");
    let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE | ffi::OPEN_URI;
    let con = Connection::open(api, &path.to_string_lossy(), flags, Some(&vfs)).expect("opens");
    con.exec("PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = NORMAL; CREATE TABLE t(v)")
        .expect("a table");
    con.query_string("PRAGMA journal_mode = WAL").expect("WAL");
    con.exec(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT INTO t SELECT randomblob(1000) FROM n",
    )
    .expect("rows");
    seen.since.store(0, Ordering::Relaxed);
    seen.most.store(0, Ordering::Relaxed);
    seen.syncs.store(0, Ordering::Relaxed);
    (con, seen)
}

#[test]
fn a_checkpoint_is_synced_in_pieces() {
    let dir = tempfile::tempdir().expect("a folder");
    let (con, seen) = filled(c"watch-pieces", &dir);
    let done = con
        .checkpoint(Some(c"main"), ffi::CHECKPOINT_PASSIVE)
        .expect("a checkpoint");
    assert_eq!(done.wal_frames, done.checkpointed);
    assert!(done.wal_frames > 5000, "{}", done.wal_frames);
    let most = seen.most.load(Ordering::Relaxed);
    assert!(most <= MOST, "{most}");
    assert!(seen.syncs.load(Ordering::Relaxed) >= 5);
    assert_eq!(
        seen.since.load(Ordering::Relaxed),
        0,
        "SQLite's own sync at the end"
    );
    // Other writes are synced only as SQLite requests.
    seen.syncs.store(0, Ordering::Relaxed);
    con.exec("UPDATE t SET v = randomblob(1000)").expect("rows");
    assert_eq!(seen.syncs.load(Ordering::Relaxed), 0);
}

/// If the sync of a piece fails, the checkpoint fails, and the next one writes everything again.
#[test]
fn a_piece_that_fails_is_an_error_of_the_checkpoint() {
    let dir = tempfile::tempdir().expect("a folder");
    let (con, seen) = filled(c"watch-fails", &dir);
    seen.fails.store(true, Ordering::Relaxed);
    let checkpoint = || con.checkpoint(Some(c"main"), ffi::CHECKPOINT_PASSIVE);
    let error = checkpoint().expect_err("a sync failed");
    assert_eq!(error.code, Code::IOERR_FSYNC, "{error}");
    let (before, written) = (
        con.query_i64("SELECT count(*) FROM t").expect("reads"),
        &seen.most,
    );
    written.store(0, Ordering::Relaxed);
    let done = checkpoint().expect("a checkpoint");
    assert_eq!(done.wal_frames, done.checkpointed);
    assert!(
        seen.syncs.load(Ordering::Relaxed) >= 5,
        "the checkpoint starts again"
    );
    assert_eq!(
        con.query_i64("SELECT count(*) FROM t").expect("reads"),
        before
    );
}

#[test]
fn wal_progress_reports_written_bytes() {
    let dir = tempfile::tempdir().expect("a folder");
    let (con, _) = filled(c"watch-progress", &dir);
    let rises = wal_progress(&con).expect("it coalesces writes");
    assert!(rises.wait(Duration::ZERO), "20 MiB were written");
    assert!(!rises.wait(Duration::ZERO), "nothing since");
    con.exec("INSERT INTO t VALUES (1)").expect("a row");
    assert!(!rises.wait(Duration::from_millis(1)), "too little");
    con.exec("UPDATE t SET v = randomblob(1000)").expect("rows");
    assert!(rises.wait(Duration::ZERO));
    let plain = Connection::open(common::api(), ":memory:", ffi::OPEN_READWRITE, None);
    assert!(wal_progress(&plain.expect("opens")).is_none());
}
