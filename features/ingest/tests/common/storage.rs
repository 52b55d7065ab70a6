//! The host's file system, modified for tests: small segments, clustered applies of few rows,
//! failing calls. Connections with another process number share only the files with this one, as
//! those of another process.
#![allow(dead_code, reason = "each test file uses a part of it")]

use densite_disk::{
    Dir, DirAbove, Error, ErrorKind, File, FileAbove, Op, OpenMode, RealDir, Result, SyncKind,
};
use densite_ingest::{ClusteredLimits, FileInfo, StorageBackend};
use densite_log::{LogDir, LogId, Options};
use densite_sqlite::Connection;
use rusqlite::OpenFlags;
use std::ffi::CStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Clustered applies of some hundred rows, with transactions of a few.
pub(crate) const FEW: ClusteredLimits = ClusteredLimits {
    least: 40,
    most: 300,
    bytes: 1 << 20,
    together: 20,
    at_once: 2,
};

/// As [`FEW`], but slower.
pub(crate) const ONE: ClusteredLimits = ClusteredLimits { at_once: 1, ..FEW };

/// Faults of the log's files, and of syncs of a WAL beside SQLite, with counters. Copies share
/// them.
#[derive(Clone, Default)]
pub(crate) struct Faults {
    /// The next reads of the worker that panic.
    pub(crate) panics: Arc<AtomicU64>,
    /// The next syncs of a WAL beside the worker that fail.
    pub(crate) wal_syncs: Arc<AtomicU64>,
    /// No file can grow or be made.
    pub(crate) full: Arc<AtomicBool>,
    /// No file of a segment can be removed or renamed.
    pub(crate) keeps: Arc<AtomicBool>,
    /// Number of pruning calls that these two have made fail.
    pub(crate) failed: Arc<AtomicU64>,
    /// No writes are allowed.
    pub(crate) forbids: Arc<AtomicBool>,
}

/// See the module. By default it differs from the host's file system only in the process number.
#[derive(Clone)]
pub(crate) struct Own {
    pub(crate) process: u64,
    pub(crate) limits: ClusteredLimits,
    /// Bytes of the log's segments, and of the steps in which they grow.
    pub(crate) segments: Option<(u64, u64)>,
    /// Bytes of a WAL at which a checkpoint is due, in a small and in a large database.
    pub(crate) wal: (u64, u64),
    /// KiB of the worker's page cache, and of the pages that it may change in memory.
    pub(crate) cache: (u32, u32),
    pub(crate) faults: Faults,
}

impl Default for Own {
    fn default() -> Own {
        Own {
            process: 0,
            limits: ClusteredLimits::default(),
            segments: None,
            wal: (16 << 20, 512 << 20),
            cache: (96 << 10, 256 << 10),
            faults: Faults::default(),
        }
    }
}

impl Own {
    /// With these limits.
    pub(crate) fn with_limits(limits: ClusteredLimits, process: u64) -> Own {
        Own {
            process,
            limits,
            ..Own::default()
        }
    }

    /// With a log of many segments and these faults.
    pub(crate) fn failing(faults: &Faults) -> Own {
        Own {
            segments: Some((16 << 10, 4 << 10)),
            faults: faults.clone(),
            ..Own::default()
        }
    }

    /// A connection with ingest on this storage backend.
    pub(crate) fn connect(self, path: &Path) -> rusqlite::Connection {
        let con = rusqlite::Connection::open(path).expect("opens");
        con.busy_timeout(std::time::Duration::from_secs(10))
            .expect("a timeout");
        self.add(&con);
        con
    }

    /// The same through a VFS of this name.
    pub(crate) fn connect_through(self, path: &Path, vfs: &CStr) -> rusqlite::Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let con = rusqlite::Connection::open_with_flags_and_vfs(path, flags, vfs).expect("opens");
        con.busy_timeout(std::time::Duration::from_secs(10))
            .expect("a timeout");
        self.add(&con);
        con
    }

    /// Adds ingest on this storage backend to a connection.
    pub(crate) fn add(self, con: &rusqlite::Connection) {
        // SAFETY: it is an open connection of that library.
        let lent = unsafe { Connection::borrow(crate::common::api(), con.handle().cast()) };
        let lent = lent.expect("a connection");
        densite_ingest::create_functions_on(&lent, Arc::new(self)).expect("functions");
    }
}

/// A connection with ingest and these limits.
pub(crate) fn with_limits(
    path: &Path,
    limits: ClusteredLimits,
    process: u64,
) -> rusqlite::Connection {
    Own::with_limits(limits, process).connect(path)
}

/// A connection with ingest whose log has many segments.
pub(crate) fn failing(path: &Path, faults: &Faults) -> rusqlite::Connection {
    Own::failing(faults).connect(path)
}

impl StorageBackend for Own {
    fn file_info(&self, path: &str) -> Result<FileInfo> {
        let meta = std::fs::metadata(path)
            .map_err(|e| densite_disk::Error::from_io(densite_disk::Op::Open, &e))?;
        Ok(FileInfo {
            // Differs from the identity for connections on the host's own storage backend.
            identity: (meta.dev() ^ (self.process + 1) << 32, meta.ino()),
            names: meta.nlink(),
        })
    }

    fn dir(&self, path: &Path) -> LogDir {
        Arc::new(OwnDir(RealDir::new(path), self.faults.clone()))
    }

    fn log_dir(&self, path: &Path, database: &str) -> LogDir {
        let dir = RealDir::new(path).like(database);
        Arc::new(OwnDir(dir, self.faults.clone()))
    }

    fn create_log_dir(&self, path: &Path, database: &str) -> Result<LogDir> {
        RealDir::new(path).like(database).made()?;
        Ok(self.log_dir(path, database))
    }

    fn options(&self, id: LogId) -> Options {
        let usual = Options::new(id);
        match self.segments {
            None => usual,
            Some((segment_bytes, grow_bytes)) => Options {
                segment_bytes,
                grow_bytes,
                ..usual
            },
        }
    }

    fn clustered_limits(&self) -> ClusteredLimits {
        self.limits
    }

    fn wal_bytes(&self) -> (u64, u64) {
        self.wal
    }

    fn cache_kib(&self) -> (u32, u32) {
        self.cache
    }
}

struct OwnDir(RealDir, Faults);

struct OwnFile(Box<dyn File>, Faults);

/// Whether this call must fail; counts down the failures.
fn strikes(left: &AtomicU64) -> bool {
    let one_less = |n: u64| n.checked_sub(1);
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
        .is_ok()
}

impl Faults {
    fn fails(&self) {
        if is_thread("densite-prune") {
            self.failed.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn gives_back(&self, name: &str, op: Op) -> Result<()> {
        if name.ends_with(".seg") && self.keeps.load(Ordering::SeqCst) {
            self.fails();
            return Err(Error::new(ErrorKind::Io, op));
        }
        Ok(())
    }

    fn grows(&self, op: Op) -> Result<()> {
        match self.full.load(Ordering::SeqCst) {
            true => {
                self.fails();
                Err(Error::new(ErrorKind::Full, op))
            }
            false => Ok(()),
        }
    }
}

fn is_thread(name: &str) -> bool {
    std::thread::current().name() == Some(name)
}

impl DirAbove for OwnDir {
    fn below(&self) -> &dyn Dir {
        &self.0
    }

    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        if self.1.forbids.load(Ordering::SeqCst) && mode != OpenMode::Read {
            return Err(Error::new(ErrorKind::Permission, Op::Open));
        }
        let makes = matches!(mode, OpenMode::Create | OpenMode::CreateNew);
        if makes && !self.0.exists(name)? {
            self.1.grows(Op::Open)?;
        }
        let file = self.0.open(name, mode)?;
        Ok(Box::new(OwnFile(file, self.1.clone())))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.1.gives_back(name, Op::Remove)?;
        self.0.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.1.gives_back(from, Op::Rename)?;
        self.0.rename(from, to)
    }
}

impl FileAbove for OwnFile {
    fn below(&self) -> &dyn File {
        &*self.0
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        if is_thread("densite-apply") && strikes(&self.1.panics) {
            panic!("a read that panics");
        }
        self.0.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        if offset + buf.len() as u64 > self.0.len()? {
            self.1.grows(Op::Write)?;
        }
        self.0.write_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        if len > self.0.len()? {
            self.1.grows(Op::Truncate)?;
        }
        self.0.set_len(len)
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        if is_thread("densite-walsync") && strikes(&self.1.wal_syncs) {
            return Err(Error::new(ErrorKind::Io, Op::Sync));
        }
        self.0.sync(kind)
    }
}
