//! The host's file system with a log of small segments, and disks that are full when a test wants it. Connections of another number share nothing with this one but the files: as if they were in another
//! process.

use crate::hooked::{self, Hooks};
use densite_disk::{
    Dir, DirAbove, Error, ErrorKind, File, FileAbove, Op, OpenMode, RealDir, Result,
};
use densite_ingest::{Found, Medium, Sweeps};
use densite_log::{LogDir, LogId, Options};
use densite_sqlite::Connection;
use rusqlite::{OpenFlags, ffi};
use std::ffi::{c_int, c_void};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

/// No file of the log may grow.
pub(crate) static LOG_IS_FULL: AtomicBool = AtomicBool::new(false);
/// Neither the database nor its WAL may grow, where ingest writes them.
#[allow(dead_code, reason = "each test file uses a part of it")]
pub(crate) static DATABASE_IS_FULL: AtomicBool = AtomicBool::new(false);

struct Tight {
    sweeps: Sweeps,
    process: u64,
}

struct TightDir(RealDir);

struct TightFile(Box<dyn File>);

impl Medium for Tight {
    fn find(&self, path: &str) -> Result<Found> {
        let meta = std::fs::metadata(path).expect("there");
        Ok(Found {
            identity: (meta.dev() ^ (self.process + 1) << 32, meta.ino()),
            names: meta.nlink(),
        })
    }

    fn dir(&self, path: &Path) -> LogDir {
        Arc::new(TightDir(RealDir::new(path)))
    }

    fn create_dir(&self, path: &Path) -> Result<LogDir> {
        RealDir::create(path)?;
        Ok(self.dir(path))
    }

    fn options(&self, id: LogId) -> Options {
        Options {
            segment_bytes: 16 << 10,
            grow_bytes: 1 << 10,
            ..Options::new(id)
        }
    }

    fn sweeps(&self) -> Sweeps {
        self.sweeps
    }

    fn wal_bytes(&self) -> (u64, u64) {
        (256 << 10, 1 << 20)
    }
}

fn full(op: Op) -> Result<()> {
    match LOG_IS_FULL.load(Ordering::SeqCst) {
        true => Err(Error::new(ErrorKind::Full, op)),
        false => Ok(()),
    }
}

impl DirAbove for TightDir {
    fn below(&self) -> &dyn Dir {
        &self.0
    }

    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        let makes = matches!(mode, OpenMode::Create | OpenMode::CreateNew);
        if makes && !self.0.exists(name)? {
            full(Op::Open)?;
        }
        Ok(Box::new(TightFile(self.0.open(name, mode)?)))
    }
}

impl FileAbove for TightFile {
    fn below(&self) -> &dyn File {
        &*self.0
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        if offset + buf.len() as u64 > self.0.len()? {
            full(Op::Write)?;
        }
        self.0.write_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        if len > self.0.len()? {
            full(Op::Truncate)?;
        }
        self.0.set_len(len)
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    len: c_int,
    at: i64,
) -> c_int {
    // SAFETY: an open file, whose methods are the default VFS's but for this one and another; a place for a number.
    unsafe {
        if DATABASE_IS_FULL.load(Ordering::SeqCst) {
            let mut size = 0;
            let of_size = (*(*file).pMethods).xFileSize.expect("a method");
            let told = of_size(file, &raw mut size);
            if told != ffi::SQLITE_OK || at + i64::from(len) > size {
                return ffi::SQLITE_FULL;
            }
        }
        hooked::real().1(file, bytes, len, at)
    }
}

/// A connection with ingest there.
pub(crate) fn connect(path: &Path, sweeps: Sweeps, process: u64) -> rusqlite::Connection {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let write: hooked::Write = write;
        let hooks = Hooks {
            write: Some(write),
            wal: true,
            ..Hooks::default()
        };
        hooked::register(c"tight", hooks);
    });
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let con = rusqlite::Connection::open_with_flags_and_vfs(path, flags, c"tight").expect("opens");
    con.busy_timeout(std::time::Duration::from_secs(10))
        .expect("a timeout");
    // SAFETY: an open connection of that library.
    let lent = unsafe { Connection::borrow(crate::common::api(), con.handle().cast()) };
    let medium = Arc::new(Tight { sweeps, process });
    densite_ingest::create_functions_on(&lent.expect("a connection"), medium).expect("functions");
    con
}
