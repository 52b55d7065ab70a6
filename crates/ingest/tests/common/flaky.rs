//! The host's file system with small segments for the log, so that there are many to prune, and with reads that panic in the worker's thread when a test wants it.

use densite_disk::{
    Dir, DirAbove, Error, ErrorKind, File, FileAbove, Op, OpenMode, RealDir, Result, SyncKind,
};
use densite_ingest::{Found, Medium};
use densite_log::{LogDir, LogId, Options};
use densite_sqlite::Connection;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many calls fail from now on; those that did are counted down.
#[derive(Clone, Default)]
pub(crate) struct Faults {
    /// Reads of the worker, which panic.
    pub(crate) panics: Arc<AtomicU64>,
    /// Syncs of a WAL beside the worker, where it is made durable while it is written.
    pub(crate) wal_syncs: Arc<AtomicU64>,
}

/// Whether this call is to fail.
fn strikes(left: &AtomicU64) -> bool {
    let one_less = |n: u64| n.checked_sub(1);
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
        .is_ok()
}

/// As large may a WAL become, in bytes, in a small database.
#[allow(dead_code, reason = "each test file uses a part of it")]
pub(crate) static WAL_LEAST: AtomicU64 = AtomicU64::new(16 << 20);

/// The medium of a database.
#[derive(Default)]
pub(crate) struct Flaky(pub(crate) Faults);

struct FlakyDir(RealDir, Faults);

struct FlakyFile(Box<dyn File>, Faults);

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
pub(crate) fn connect(path: &Path, faults: &Faults) -> rusqlite::Connection {
    let con = rusqlite::Connection::open(path).expect("opens");
    con.busy_timeout(std::time::Duration::from_secs(10))
        .expect("a timeout");
    add(&con, faults);
    con
}

/// Adds ingest on such a medium to a connection.
#[allow(dead_code, reason = "each test file uses a part of it")]
pub(crate) fn add(con: &rusqlite::Connection, faults: &Faults) {
    // SAFETY: an open connection of that library.
    let lent = unsafe { Connection::borrow(crate::common::api(), con.handle().cast()) };
    let medium = Arc::new(Flaky(faults.clone()));
    densite_ingest::create_functions_on(&lent.expect("a connection"), medium).expect("functions");
}

impl DirAbove for FlakyDir {
    fn below(&self) -> &dyn Dir {
        &self.0
    }

    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        Ok(Box::new(FlakyFile(
            self.0.open(name, mode)?,
            self.1.clone(),
        )))
    }
}

impl FileAbove for FlakyFile {
    fn below(&self) -> &dyn File {
        &*self.0
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let is_worker = std::thread::current().name() == Some("densite-apply");
        if is_worker && strikes(&self.1.panics) {
            panic!("a read that panics");
        }
        self.0.read_at(buf, offset)
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        let is_drain = std::thread::current().name() == Some("densite-drain");
        if is_drain && strikes(&self.1.wal_syncs) {
            return Err(Error::new(ErrorKind::Io, Op::Sync));
        }
        self.0.sync(kind)
    }
}
