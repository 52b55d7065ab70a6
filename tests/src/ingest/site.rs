//! The place where ingest runs: one simulated disk with the database and its log, and processes on
//! it.
//!
//! An open log (with its locks, its writer slot and its worker) makes a process. So for the log and
//! ingest, a value of [`Process`] is a process of its own.

use crate::procs::subject;
use crate::simvfs::SimVfs;
use densite_disk::sync::Mutex;
use densite_disk::{File, OpenMode, Result};
use densite_ingest::{ClusteredLimits, FileInfo, StorageBackend};
use densite_log::{LogDir, LogId, Options};
use densite_sim_disk::SimDisk;
use rusqlite::{Connection, OpenFlags};
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The database of every test.
pub const PATH: &str = "/db/app.db";
/// Its log.
pub const LOG: &str = "/db/app.db-log";

/// The layers below SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Under {
    /// The simulated disk.
    Plain,
    /// Densite over the simulated disk.
    Densite,
}

/// The machine, and the VFS through which SQLite uses its disk.
pub struct Site {
    name: String,
    under: Under,
    life: Mutex<Life>,
}

/// One life of the machine, from a start to the next. Each life has its own VFSs: a process
/// identifies a file by VFS and path, and no process survives a power cut.
struct Life {
    number: u64,
    host: SimVfs,
    vfs: String,
}

/// A process; see the module.
#[derive(Clone)]
pub struct Process {
    storage: Arc<SimStorage>,
    vfs: String,
}

struct SimStorage {
    disk: SimDisk,
    process: u64,
    /// The number of the machine's life.
    life: u64,
    /// Runs once, before the log's directory is created.
    before_log: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// The options of the log: small segments, so that there are many to prune.
pub fn options(id: LogId) -> Options {
    Options {
        segment_bytes: 12 << 10,
        grow_bytes: 2 << 10,
        group_bytes_max: 4 << 10,
        ..Options::new(id)
    }
}

impl StorageBackend for SimStorage {
    fn file_info(&self, path: &str) -> Result<FileInfo> {
        let file = self.disk.open(path, OpenMode::Read)?;
        let identity = (self.process, file.identity()?.1);
        Ok(FileInfo { identity, names: 1 })
    }

    fn dir(&self, path: &Path) -> LogDir {
        Arc::new(self.disk.dir(&path.to_string_lossy()))
    }

    fn create_log_dir(&self, path: &Path, _database: &str) -> Result<LogDir> {
        let before = self.before_log.lock().take();
        if let Some(before) = before {
            before();
        }
        Ok(self.dir(path))
    }

    fn boot(&self) -> Option<String> {
        Some(format!("life {:9}", self.life))
    }

    fn options(&self, id: LogId) -> Options {
        options(id)
    }

    /// A few rows are enough for a clustered apply, and a transaction has fewer.
    fn clustered_limits(&self) -> ClusteredLimits {
        ClusteredLimits {
            least: 5,
            most: 60,
            bytes: 1 << 20,
            together: 4,
            at_once: 2,
        }
    }

    /// Small limits, so that checkpoints outside of the worker begin every few transactions.
    fn wal_bytes(&self) -> (u64, u64) {
        (16 << 10, 40 << 10)
    }
}

impl Life {
    fn begin(name: &str, number: u64, under: Under, disk: &SimDisk) -> Life {
        let vfs = format!("{name}-{number}");
        let below = match under {
            Under::Plain => vfs.clone(),
            Under::Densite => format!("{vfs}-host"),
        };
        let host = SimVfs::register(&below, disk.clone());
        if under == Under::Densite {
            let c_name = |name: &str| CString::new(name).expect("no zero");
            densite_vfs::register(subject::api(), &c_name(&vfs), Some(&c_name(&below)), false)
                .expect("register");
        }
        Life { number, host, vfs }
    }
}

impl Site {
    /// Creates a machine. `name` is the start of its VFS names.
    pub fn new(name: &str, under: Under) -> Site {
        Site {
            name: name.to_owned(),
            under,
            life: Mutex::new(Life::begin(name, 0, under, &SimDisk::new(0))),
        }
    }

    /// Starts the machine on `disk`. All earlier connections must be closed.
    ///
    /// # Panics
    /// If a file stays open for seconds.
    pub fn boot(&self, disk: &SimDisk) {
        let mut life = self.life.lock();
        let patience = Instant::now() + Duration::from_secs(10);
        while life.host.open_files() > 0 && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(life.host.open_files(), 0, "every connection is closed");
        // A VFS is never freed, and would keep the disk in memory.
        life.host.reboot(SimDisk::new(0));
        *life = Life::begin(&self.name, life.number + 1, self.under, disk);
    }

    /// See [`SimVfs::beside`].
    pub fn beside(&self) -> Vec<u64> {
        self.life.lock().host.beside()
    }

    /// Creates a process on the machine.
    pub fn process(&self) -> Process {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let life = self.life.lock();
        let storage = SimStorage {
            disk: life.host.disk(),
            process: NEXT.fetch_add(1, Ordering::Relaxed),
            life: life.number,
            before_log: Mutex::default(),
        };
        Process {
            storage: Arc::new(storage),
            vfs: life.vfs.clone(),
        }
    }
}

impl Process {
    /// A connection without ingest.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn plain(&self) -> rusqlite::Result<Connection> {
        let con = Connection::open_with_flags_and_vfs(
            format!("file:{PATH}?threads=0"),
            OpenFlags::default(),
            self.vfs.as_str(),
        )?;
        con.busy_timeout(Duration::from_secs(10))?;
        Ok(con)
    }

    /// Runs `action` when this process next creates a log: after it found that the database names
    /// none, and before it creates the directory.
    pub fn before_log(&self, action: impl FnOnce() + Send + 'static) {
        *self.storage.before_log.lock() = Some(Box::new(action));
    }

    /// A connection with the functions of ingest.
    ///
    /// # Errors
    /// Errors of SQLite.
    ///
    /// # Panics
    /// If the functions cannot be added.
    pub fn connect(&self) -> rusqlite::Result<Connection> {
        let con = self.plain()?;
        // SAFETY: the handle is that of an open connection of that library, and `con` outlives
        // `lent`.
        let lent =
            unsafe { densite_sqlite::Connection::borrow(subject::api(), con.handle().cast()) }
                .expect("a connection");
        densite_ingest::create_functions_on(&lent, self.storage.clone()).expect("functions");
        Ok(con)
    }

    /// A connection with ingest into the tables of the workload.
    ///
    /// # Errors
    /// Errors of SQLite and of ingest.
    pub fn ingest(&self) -> rusqlite::Result<Connection> {
        let con = self.connect()?;
        con.execute_batch(
            "CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t);
             CREATE VIRTUAL TABLE temp.bare_in USING densite_ingest(bare);
             CREATE VIRTUAL TABLE temp.clustered_in USING densite_ingest(clustered)",
        )?;
        Ok(con)
    }
}
