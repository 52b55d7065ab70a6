//! The background worker's locks: connections and forks wait for them.
//!
//! A pause point stops the worker in the middle of its slices, while it holds its locks. Pause
//! points are global to the process, so these tests run one at a time.

use crate::common::{self, Place, assert_sound, figure, int, run, text};
use densite_disk::sync::{Mutex, MutexGuard};
use densite_vfs::failpoint;
use rusqlite::Connection;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

static ALONE: Mutex<()> = Mutex::new(());

/// How long the worker is stopped with its locks: six times as long as a slice should take.
const HELD: Duration = Duration::from_millis(60);
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of commits that the other process must make.
const ENOUGH: u32 = 51;

/// The worker's slices, each of which takes [`HELD`].
struct Slices {
    inside: Arc<AtomicBool>,
    count: Arc<AtomicU32>,
    _alone: MutexGuard<'static, ()>,
}

impl Slices {
    fn slow() -> Slices {
        let alone = ALONE.lock();
        let (inside, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicU32>::default());
        let (flag, counter) = (Arc::clone(&inside), Arc::clone(&count));
        failpoint::arm("maintaining", move || {
            if std::thread::current().name() == Some("densite-idle") {
                flag.store(true, Ordering::SeqCst);
                std::thread::sleep(HELD);
                flag.store(false, Ordering::SeqCst);
                counter.fetch_add(1, Ordering::SeqCst);
            }
        });
        Slices {
            inside,
            count,
            _alone: alone,
        }
    }

    /// Waits until the worker has just begun a slice.
    fn await_one(&self) {
        let until = Instant::now() + PATIENCE;
        let seen = self.count.load(Ordering::SeqCst);
        while self.count.load(Ordering::SeqCst) == seen && self.inside.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        while !self.inside.load(Ordering::SeqCst) {
            assert!(Instant::now() < until, "the worker does nothing");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Slices {
    fn drop(&mut self) {
        failpoint::disarm("maintaining");
    }
}

fn open(place: &Place, journal: &str) -> Connection {
    let db = place.open("x.db");
    run(
        &db,
        &format!(
            "PRAGMA journal_mode={journal}; PRAGMA secure_delete=OFF;
             CREATE TABLE IF NOT EXISTS u(a INTEGER PRIMARY KEY, b)"
        ),
    );
    db.busy_timeout(Duration::ZERO).expect("no waiting");
    db
}

/// Makes a database that is mostly deleted, so that there is much to reclaim.
fn deleted(db: &Connection) {
    run(
        db,
        "DROP TABLE IF EXISTS t;
         CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
         INSERT INTO t SELECT NULL, hex(randomblob(150)) FROM n;
         PRAGMA wal_checkpoint;
         DELETE FROM t WHERE a % 7 <> 0;
         PRAGMA wal_checkpoint",
    );
}

#[test]
fn connections_of_its_process_wait() {
    let slices = Slices::slow();
    for journal in ["DELETE", "WAL"] {
        let place = Place::new();
        let db = open(&place, journal);
        let other = open(&place, journal);
        deleted(&db);
        slices.await_one();
        run(&other, "INSERT INTO u(b) VALUES (1)");
        slices.await_one();
        let busy = int(&db, "PRAGMA wal_checkpoint(TRUNCATE)");
        assert!(busy == 0, "{journal}: {busy}");
        deleted(&db);
        slices.await_one();
        run(&other, "BEGIN IMMEDIATE; DELETE FROM u; COMMIT");
        drop(other);
        deleted(&db);
        slices.await_one();
        if journal == "WAL" {
            // This needs EXCLUSIVE, and no other connection may be open.
            assert_eq!(text(&db, "PRAGMA journal_mode=DELETE"), "delete");
        }
        assert_sound(&db);
    }
}

#[test]
fn the_last_close_waits_and_leaves_no_wal() {
    let slices = Slices::slow();
    for journal in ["DELETE", "WAL"] {
        let place = Place::new();
        let db = open(&place, journal);
        deleted(&db);
        slices.await_one();
        drop(db);
        assert!(
            !slices.inside.load(Ordering::SeqCst),
            "{journal}: it works on"
        );
        let worked = slices.count.load(Ordering::SeqCst);
        assert!(!place.path("x.db-dwal").exists() && !place.path("x.db-shm").exists());
        std::thread::sleep(3 * HELD);
        assert_eq!(slices.count.load(Ordering::SeqCst), worked, "{journal}");
    }
}

/// The other process: writes until the test ends it, without a busy timeout.
#[test]
fn other_process() {
    let (Ok(path), Ok(end)) = (std::env::var("OTHER_DB"), std::env::var("OTHER_END")) else {
        return;
    };
    common::densite();
    let db = Connection::open_with_flags(
        format!("file:{path}?vfs=densite&maintain=off"),
        rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_URI,
    )
    .expect("opens");
    db.busy_timeout(Duration::ZERO).expect("no waiting");
    let until = Instant::now() + PATIENCE;
    let mut commits: u32 = 0;
    while Instant::now() < until && !Path::new(&end).exists() {
        run(&db, "INSERT INTO u(b) VALUES (hex(randomblob(20)))");
        commits += 1;
        if commits == ENOUGH {
            std::fs::write(format!("{end}.enough"), b"").expect("writes");
        }
        if commits.is_multiple_of(10) {
            assert_eq!(int(&db, "PRAGMA wal_checkpoint(FULL)"), 0);
        }
        std::thread::sleep(Duration::from_millis(u64::from(commits % 4)));
    }
}

fn start(path: &Path, end: &Path) -> Child {
    Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "worker_locks::other_process", "--nocapture"])
        .env("OTHER_DB", path)
        .env("OTHER_END", end)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

#[test]
fn writers_of_other_processes_wait() {
    let slices = Slices::slow();
    for journal in ["DELETE", "WAL"] {
        let place = Place::new();
        let db = open(&place, journal);
        deleted(&db);
        let before = slices.count.load(Ordering::SeqCst);
        let end = place.path("end");
        let child = start(&place.path("x.db"), &end);
        let until = Instant::now() + PATIENCE;
        // Reading the database here would disturb them.
        let enough = place.path("end.enough");
        let is_done = || slices.count.load(Ordering::SeqCst) >= before + 5 && enough.exists();
        while !is_done() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_secs(1));
        std::fs::write(&end, b"").expect("writes");
        let out = child.wait_with_output().expect("ends");
        let told = String::from_utf8_lossy(&out.stdout).into_owned();
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{journal}: {told}{error}");
        let met = slices.count.load(Ordering::SeqCst) - before;
        assert!(met >= 5, "{journal}: the worker ran {met} slices meanwhile");
        assert!(int(&db, "SELECT count(*) FROM u") >= i64::from(ENOUGH));
        assert_sound(&db);
    }
}

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

/// A process that forks while its worker is in a slice. The child opens the otherwise idle file and
/// writes.
#[test]
fn forking_process() {
    let Ok(path) = std::env::var("FORK_DB") else {
        return;
    };
    common::densite();
    let slices = Slices::slow();
    let connect = |parameters: &str| {
        let db = Connection::open_with_flags(
            format!("file:{path}?vfs=densite{parameters}"),
            rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE
                | rusqlite::OpenFlags::SQLITE_OPEN_CREATE
                | rusqlite::OpenFlags::SQLITE_OPEN_URI,
        )
        .expect("opens");
        db.busy_timeout(Duration::ZERO).expect("no waiting");
        db
    };
    let db = connect("");
    run(&db, "CREATE TABLE u(a INTEGER PRIMARY KEY, b)");
    for child in 0..3 {
        deleted(&db);
        slices.await_one();
        // SAFETY: the child runs only the code below and leaves by _exit.
        let pid = unsafe { fork() };
        if pid == 0 {
            let done = std::panic::catch_unwind(|| {
                let db = connect("&maintain=off");
                run(&db, "INSERT INTO u(b) VALUES (1)");
                assert_eq!(int(&db, "SELECT count(*) FROM t"), 60_000 / 7);
            });
            // SAFETY: ends the child at once.
            unsafe { _exit(i32::from(done.is_err())) };
        }
        let begin = Instant::now();
        let mut status = -1;
        // SAFETY: `status` is writable; 1 is WNOHANG.
        while unsafe { waitpid(pid, &raw mut status, 1) } == 0 {
            assert!(begin.elapsed() < Duration::from_secs(20), "{child} hangs");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(status, 0, "child {child}");
    }
    assert_eq!(int(&db, "SELECT count(*) FROM u"), 3);
    assert_ne!(figure(&db, "moved_bytes"), "0");
    assert_sound(&db);
}

#[test]
fn a_fork_waits_for_the_end_of_a_slice() {
    let place = Place::new();
    let out = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "worker_locks::forking_process", "--nocapture"])
        .env("FORK_DB", place.path("x.db"))
        .output()
        .expect("runs");
    let told = String::from_utf8_lossy(&out.stdout).into_owned();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{told}{error}");
}
