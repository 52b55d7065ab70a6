//! The host's file system with small segments for the log, so that there are many to prune, and with reads that panic in the worker's thread when a test wants it.

use densite_disk::{
    Dir, Error, ErrorKind, File, LockKind, Op, OpenMode, RealDir, Result, SyncKind,
};
use densite_ingest::{Found, Medium};
use densite_log::{LogDir, LogId, Options};
use densite_sqlite::Connection;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many reads of the worker panic from now on; those that did are counted down.
pub(crate) type Panics = Arc<AtomicU64>;

/// How many syncs of a WAL fail from now on beside the worker, where it is made durable while it is written; counted down.
#[allow(dead_code, reason = "each test file uses a part of it")]
pub(crate) static WAL_SYNCS_FAIL: AtomicU64 = AtomicU64::new(0);

/// As large may a WAL become, in bytes, in a small database.
#[allow(dead_code, reason = "each test file uses a part of it")]
pub(crate) static WAL_LEAST: AtomicU64 = AtomicU64::new(16 << 20);

/// The medium of a database.
#[derive(Default)]
pub(crate) struct Flaky(pub(crate) Panics);

struct FlakyDir(RealDir, Panics);

struct FlakyFile(Box<dyn File>, Panics);

impl Medium for Flaky {
    fn find(&self, path: &str) -> Result<Found> {
        let meta = std::fs::metadata(path).expect("there");
        Ok(Found {
            // Apart from what connections on the host's own medium have open.
            identity: (meta.dev() ^ 0x5a5a, meta.ino()),
            names: meta.nlink(),
        })
    }

    fn dir(&self, path: &Path) -> LogDir {
        Arc::new(FlakyDir(RealDir::new(path), self.0.clone()))
    }

    fn create_dir(&self, path: &Path) -> Result<LogDir> {
        RealDir::create(path)?;
        Ok(self.dir(path))
    }

    fn options(&self, id: LogId) -> Options {
        Options {
            segment_bytes: 16 << 10,
            grow_bytes: 4 << 10,
            ..Options::new(id)
        }
    }

    fn wal_bytes(&self) -> (u64, u64) {
        (WAL_LEAST.load(Ordering::SeqCst), 512 << 20)
    }
}

/// A connection with ingest on such a medium.
#[allow(dead_code, reason = "each test file uses a part of it")]
pub(crate) fn connect(path: &Path, panics: &Panics) -> rusqlite::Connection {
    let con = rusqlite::Connection::open(path).expect("opens");
    con.busy_timeout(std::time::Duration::from_secs(10))
        .expect("a timeout");
    add(&con, panics);
    con
}

/// Adds ingest on such a medium to a connection.
#[allow(dead_code, reason = "each test file uses a part of it")]
pub(crate) fn add(con: &rusqlite::Connection, panics: &Panics) {
    // SAFETY: an open connection of that library.
    let lent = unsafe { Connection::borrow(crate::common::api(), con.handle().cast()) };
    let medium = Arc::new(Flaky(panics.clone()));
    densite_ingest::create_functions_on(&lent.expect("a connection"), medium).expect("functions");
}

impl Dir for FlakyDir {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        Ok(Box::new(FlakyFile(
            self.0.open(name, mode)?,
            self.1.clone(),
        )))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.0.exists(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.0.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.0.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.0.list()
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn free_space(&self) -> Result<u64> {
        self.0.free_space()
    }
}

impl File for FlakyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let is_worker = std::thread::current().name() == Some("densite-apply");
        let left = |n: u64| n.checked_sub(1);
        if is_worker
            && self
                .1
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left)
                .is_ok()
        {
            panic!("a read that panics");
        }
        self.0.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.0.write_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        let left = |n: u64| n.checked_sub(1);
        if std::thread::current().name() == Some("densite-drain")
            && WAL_SYNCS_FAIL
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left)
                .is_ok()
        {
            return Err(Error::new(ErrorKind::Io, Op::Sync));
        }
        self.0.sync(kind)
    }

    fn len(&self) -> Result<u64> {
        self.0.len()
    }

    fn lock(&self, kind: LockKind) -> Result<()> {
        self.0.lock(kind)
    }

    fn try_lock(&self, kind: LockKind) -> Result<bool> {
        self.0.try_lock(kind)
    }

    fn unlock(&self) -> Result<()> {
        self.0.unlock()
    }

    fn identity(&self) -> Result<(u64, u64)> {
        self.0.identity()
    }
}
