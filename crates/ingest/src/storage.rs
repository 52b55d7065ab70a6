//! The file system that a database and its log are in.

use crate::clustered::ClusteredLimits;
use densite_disk::{ErrorKind, Op, OpenMode, RealDir, Result, SyncKind};
use densite_log::{LogDir, LogId, Options};
use densite_sqlite::Error;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Which file a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// The same for two paths exactly if they lead to the same file; on the host's file system device and inode.
    pub identity: (u64, u64),
    /// How many names (hard links) the file has.
    pub names: u64,
}

/// A file system: the host's, or that on which a SQLite VFS of another kind has its files. The log is written through it, and it says which
/// file a database is; the database itself is only ever reached through SQLite.
pub trait StorageBackend: Send + Sync {
    /// Which file a database's path leads to. The file must not be opened for that: closing a descriptor would drop SQLite's locks.
    ///
    /// # Errors
    /// `NotFound`, `Permission`, `Io`.
    fn file_info(&self, path: &str) -> Result<FileInfo>;

    /// A directory; nothing is done until it is used.
    fn dir(&self, path: &Path) -> LogDir;

    /// The directory of a database's log. Who may use that file may use what is made there.
    fn log_dir(&self, path: &Path, _database: &str) -> LogDir {
        self.dir(path)
    }

    /// The same, made when it is missing; then its name is durable.
    ///
    /// # Errors
    /// `NotFound` when the directory above it is missing, `Permission`, `Io`.
    fn create_log_dir(&self, path: &Path, database: &str) -> Result<LogDir>;

    /// Names the time since the system was started: what it could not write and forgot is forgotten until then. `None` where that cannot be told.
    fn boot(&self) -> Option<String> {
        let told = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        told.ok().filter(|boot| !boot.is_empty())
    }

    /// How a log of this id is opened.
    fn options(&self, id: LogId) -> Options {
        Options::new(id)
    }

    /// When rows are applied in another order than that of the log.
    fn clustered_limits(&self) -> ClusteredLimits {
        ClusteredLimits::default()
    }

    /// A checkpoint is due when the WAL is as large as the database, but neither before the first nor after the second of these, in bytes.
    fn wal_bytes(&self) -> (u64, u64) {
        (16 << 20, 512 << 20)
    }

    /// SQLite's pages that the worker keeps in memory, in KiB: a transaction of a clustered apply changes some 60 MiB of them. One in the log's order may change more, and up to the second of these what it has
    /// changed stays in memory until it commits: what is written before may have to be written again.
    fn cache_kib(&self) -> (u32, u32) {
        (96 << 10, 256 << 10)
    }
}

/// The host's file system.
pub(crate) fn host() -> Arc<dyn StorageBackend> {
    Arc::new(Host)
}

struct Host;

impl StorageBackend for Host {
    fn file_info(&self, path: &str) -> Result<FileInfo> {
        let meta =
            std::fs::metadata(path).map_err(|e| densite_disk::Error::from_io(Op::Open, &e))?;
        Ok(FileInfo {
            identity: (meta.dev(), meta.ino()),
            names: meta.nlink(),
        })
    }

    fn dir(&self, path: &Path) -> LogDir {
        Arc::new(RealDir::new(path))
    }

    fn log_dir(&self, path: &Path, database: &str) -> LogDir {
        Arc::new(RealDir::new(path).like(database))
    }

    fn create_log_dir(&self, path: &Path, database: &str) -> Result<LogDir> {
        Ok(Arc::new(RealDir::new(path).like(database).made()?))
    }
}

/// Makes durable what is in the file whose name is that of a database with an ending, if there is one.
pub(crate) fn sync_beside(
    storage: &dyn StorageBackend,
    path: &str,
    ending: &str,
) -> densite_sqlite::Result<()> {
    let (parent, name) = (Path::new(path).parent(), Path::new(path).file_name());
    let (Some(parent), Some(name)) = (parent, name) else {
        return Ok(());
    };
    let name = format!("{}{ending}", name.to_string_lossy());
    let synced = match storage.dir(parent).open(&name, OpenMode::Read) {
        Err(e) if e.kind == ErrorKind::NotFound => Ok(()),
        opened => opened.and_then(|file| file.sync(SyncKind::Full)),
    };
    synced.map_err(|e| Error::new(e.op.into(), format!("{path}{ending}: {e}")))
}

/// Makes durable what was created, renamed and removed beside a database's file.
pub(crate) fn sync_parent(storage: &dyn StorageBackend, path: &str) -> densite_sqlite::Result<()> {
    let Some(parent) = Path::new(path).parent() else {
        return Ok(());
    };
    let synced = storage.dir(parent).sync();
    synced.map_err(|e| Error::new(e.op.into(), format!("{}: {e}", parent.display())))
}
