//! The file system of a database and its log.

use crate::clustered::ClusteredLimits;
use densite_disk::{ErrorKind, Op, OpenMode, RealDir, Result, SyncKind};
use densite_log::{LogDir, LogId, Options};
use densite_sqlite::{Companions, Error};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// The names of the files beside a database depend on its form, which only its VFS knows.
pub(crate) const FORMS: [Companions; 2] = [Companions::PLAIN, Companions::DENSITE];

/// The file that a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// Equal for two paths if and only if they lead to the same file; on the host's file system
    /// device and inode.
    pub identity: (u64, u64),
    /// Number of names (hard links) of the file.
    pub names: u64,
}

/// A file system: the host's, or that of another kind of SQLite VFS. The log is written through it,
/// and it identifies database files. The database itself is accessed only through SQLite.
pub trait StorageBackend: Send + Sync {
    /// The file of a database's path. It must not open the file: closing a descriptor would drop
    /// SQLite's locks.
    ///
    /// # Errors
    /// `NotFound`, `Permission`, `Io`.
    fn file_info(&self, path: &str) -> Result<FileInfo>;

    /// A directory. No call is made until it is used.
    fn dir(&self, path: &Path) -> LogDir;

    /// The directory of a database's log. Its files get permissions like those of the database
    /// file.
    fn log_dir(&self, path: &Path, _database: &str) -> LogDir {
        self.dir(path)
    }

    /// The same directory, which is made durably if it is missing.
    ///
    /// # Errors
    /// `NotFound` if its parent directory is missing, `Permission`, `Io`.
    fn create_log_dir(&self, path: &Path, database: &str) -> Result<LogDir>;

    /// Identifies the time since the system's start. What the system forgot after a failed write
    /// stays unknown until the next start. `None` if the system has no such identifier.
    fn boot(&self) -> Option<String> {
        let told = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        told.ok().filter(|boot| !boot.is_empty())
    }

    /// The options for opening a log of this id.
    fn options(&self, id: LogId) -> Options {
        Options::new(id)
    }

    /// The limits of clustered applies.
    fn clustered_limits(&self) -> ClusteredLimits {
        ClusteredLimits::default()
    }

    /// A checkpoint is due when the WAL is as large as the database, but not below the first and
    /// not above the second of these, in bytes.
    fn wal_bytes(&self) -> (u64, u64) {
        (16 << 20, 512 << 20)
    }

    /// Size of the worker's page cache, KiB. A transaction of a clustered apply changes about 60
    /// MiB of pages. One in the log's order can change more: up to the second size, changed pages
    /// stay in memory until the commit, because a page that is written earlier may have to be
    /// written twice.
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

/// Syncs the WAL of a database of either form, if it exists.
pub(crate) fn sync_wal(storage: &dyn StorageBackend, path: &str) -> densite_sqlite::Result<()> {
    let endings = FORMS.map(|companions| companions.wal);
    (endings.iter()).try_for_each(|ending| sync_beside(storage, path, ending))
}

/// Syncs the journal of a database of either form, if it exists.
pub(crate) fn sync_journal(storage: &dyn StorageBackend, path: &str) -> densite_sqlite::Result<()> {
    let endings = FORMS.map(|companions| companions.journal);
    (endings.iter()).try_for_each(|ending| sync_beside(storage, path, ending))
}

/// Syncs the file whose name is the database's name with an ending, if it exists.
fn sync_beside(
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

/// Makes created, renamed and removed files beside the database file durable.
pub(crate) fn sync_parent(storage: &dyn StorageBackend, path: &str) -> densite_sqlite::Result<()> {
    let Some(parent) = Path::new(path).parent() else {
        return Ok(());
    };
    let synced = storage.dir(parent).sync();
    synced.map_err(|e| Error::new(e.op.into(), format!("{}: {e}", parent.display())))
}
