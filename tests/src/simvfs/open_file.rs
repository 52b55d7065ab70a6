//! One file that SQLite has open: its methods, in safe Rust and with SQLite's codes.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use densite_disk::{Error, ErrorKind, File, Op, OpenMode, SyncKind};
use densite_sim_disk::SimFile;
use rusqlite::ffi;

use super::locks::{Busy, Level};
use super::machine::{Machine, Node, State};

/// A SQLite result code that is not `SQLITE_OK`.
pub(super) type Code = c_int;

/// The code for a failed call of the disk.
pub(super) fn code(e: &Error) -> Code {
    match (e.kind, e.op) {
        (ErrorKind::Full, Op::Write | Op::Truncate) => ffi::SQLITE_FULL,
        (_, Op::Open) => ffi::SQLITE_CANTOPEN,
        (_, Op::Read) => ffi::SQLITE_IOERR_READ,
        (_, Op::Write) => ffi::SQLITE_IOERR_WRITE,
        (_, Op::Truncate) => ffi::SQLITE_IOERR_TRUNCATE,
        (_, Op::Sync) => ffi::SQLITE_IOERR_FSYNC,
        (_, Op::Len) => ffi::SQLITE_IOERR_FSTAT,
        (ErrorKind::NotFound, Op::Remove) => ffi::SQLITE_IOERR_DELETE_NOENT,
        (_, Op::Remove) => ffi::SQLITE_IOERR_DELETE,
        (_, Op::List) => ffi::SQLITE_IOERR_ACCESS,
        (_, Op::Rename) => ffi::SQLITE_IOERR,
        (_, Op::Lock) => ffi::SQLITE_IOERR_LOCK,
    }
}

fn busy(_: Busy) -> Code {
    ffi::SQLITE_BUSY
}

/// The directory of a path: everything before its last slash.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// A file that `xOpen` created.
#[derive(Debug)]
pub(super) struct OpenFile {
    state: Arc<State>,
    machine: Arc<Machine>,
    file: SimFile,
    path: String,
    node: Arc<Node>,
    holder: u64,
    /// The first sync also syncs the directory, because the file is a new journal.
    sync_dir: bool,
    persist_wal: bool,
}

impl OpenFile {
    /// Opens `path` (`None` for a temporary file) with the flags of `xOpen`.
    ///
    /// A journal or WAL with the create flag syncs its directory with its first sync, as in
    /// SQLite's unix VFS. No other file does.
    pub(super) fn open(
        state: &Arc<State>,
        path: Option<&str>,
        flags: c_int,
    ) -> Result<OpenFile, Code> {
        let has = |flag| flags & flag != 0;
        let machine = state.machine();
        let path = path.map_or_else(|| machine.temp_path(), str::to_owned);
        let create = has(ffi::SQLITE_OPEN_CREATE);
        let mode = if has(ffi::SQLITE_OPEN_READONLY) {
            OpenMode::Read
        } else if create && has(ffi::SQLITE_OPEN_EXCLUSIVE) {
            OpenMode::CreateNew
        } else if create {
            OpenMode::Create
        } else {
            OpenMode::Write
        };
        let file = machine.disk.open(&path, mode).map_err(|e| code(&e))?;
        if has(ffi::SQLITE_OPEN_DELETEONCLOSE) {
            machine.disk.remove(&path).map_err(|e| code(&e))?;
        }
        let journals =
            ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL | ffi::SQLITE_OPEN_WAL;
        state.open_files.fetch_add(1, Ordering::Relaxed);
        Ok(OpenFile {
            state: state.clone(),
            node: machine.node(&path),
            machine,
            file,
            path,
            holder: state.next_holder(),
            sync_dir: create && has(journals),
            persist_wal: false,
        })
    }

    /// Fills `buf`, with zeros past the end of the file.
    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), Code> {
        let n = self.file.read_at(buf, offset).map_err(|e| code(&e))?;
        match buf.get_mut(n..) {
            Some(rest) if !rest.is_empty() => {
                rest.fill(0);
                Err(ffi::SQLITE_IOERR_SHORT_READ)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn write(&self, buf: &[u8], offset: u64) -> Result<(), Code> {
        self.file.write_at(buf, offset).map_err(|e| code(&e))?;
        if std::thread::current().name() == Some("densite-checkpoint") {
            let change = self.machine.disk.changes();
            self.state.beside.lock().push(change);
        }
        Ok(())
    }

    pub(super) fn truncate(&self, len: u64) -> Result<(), Code> {
        self.file.set_len(len).map_err(|e| code(&e))
    }

    pub(super) fn sync(&mut self, flags: c_int) -> Result<(), Code> {
        let kind = if flags & ffi::SQLITE_SYNC_DATAONLY != 0 {
            SyncKind::Data
        } else {
            SyncKind::Full
        };
        self.file.sync(kind).map_err(|e| code(&e))?;
        if self.sync_dir {
            let synced = self.machine.disk.sync_dir(parent(&self.path));
            synced.map_err(|_| ffi::SQLITE_IOERR_DIR_FSYNC)?;
            self.sync_dir = false;
        }
        Ok(())
    }

    pub(super) fn len(&self) -> Result<u64, Code> {
        self.file.len().map_err(|e| code(&e))
    }

    // ---- locks ----

    /// Locks fail with the disk: a dead connection must not continue from its cache.
    fn alive(&self, or: Code) -> Result<(), Code> {
        if self.machine.disk.is_dead() {
            Err(or)
        } else {
            Ok(())
        }
    }

    pub(super) fn lock(&self, level: c_int) -> Result<(), Code> {
        self.alive(ffi::SQLITE_IOERR_LOCK)?;
        let Some(level) = level_of(level) else {
            return Ok(());
        };
        let mut locks = self.node.locks.lock();
        locks.lock(self.holder, level).map_err(busy)
    }

    pub(super) fn unlock(&self, level: c_int) {
        let to = level_of(level).filter(|l| *l == Level::Shared);
        self.node.locks.lock().unlock(self.holder, to);
    }

    pub(super) fn reserved(&self) -> bool {
        self.node.locks.lock().reserved()
    }

    /// The held level, as SQLite numbers it.
    pub(super) fn lock_state(&self) -> c_int {
        let level = self.node.locks.lock().level(self.holder);
        level.map_or(ffi::SQLITE_LOCK_NONE, |l| l as c_int)
    }

    // ---- shared memory ----

    /// Returns null if the region does not exist and must not be created.
    pub(super) fn shm_map(&self, index: c_int, size: c_int, make: bool) -> Result<*mut u8, Code> {
        self.alive(ffi::SQLITE_IOERR_SHMMAP)?;
        let index = usize::try_from(index).map_err(|_| ffi::SQLITE_IOERR_SHMMAP)?;
        let size = usize::try_from(size).map_err(|_| ffi::SQLITE_IOERR_SHMMAP)?;
        let mut shm = self.node.shm.lock();
        shm.join(self.holder);
        let region = shm.region(index, size, make);
        Ok(region.unwrap_or(std::ptr::null_mut()))
    }

    pub(super) fn shm_lock(&self, first: c_int, n: c_int, flags: c_int) -> Result<(), Code> {
        let first = usize::try_from(first).map_err(|_| ffi::SQLITE_IOERR_SHMLOCK)?;
        let n = usize::try_from(n).map_err(|_| ffi::SQLITE_IOERR_SHMLOCK)?;
        let mut shm = self.node.shm.lock();
        if !shm.joined(self.holder) {
            return Err(ffi::SQLITE_IOERR_SHMLOCK);
        }
        if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
            shm.unlock(self.holder, first, n);
            return Ok(());
        }
        self.alive(ffi::SQLITE_IOERR_SHMLOCK)?;
        let exclusive = flags & ffi::SQLITE_SHM_EXCLUSIVE != 0;
        shm.lock(self.holder, first, n, exclusive).map_err(busy)
    }

    pub(super) fn shm_unmap(&self) {
        self.node.shm.lock().leave(self.holder);
    }

    // ---- the rest ----

    pub(super) fn sector_size(&self) -> c_int {
        self.state.sector_size.load(Ordering::Relaxed)
    }

    pub(super) fn characteristics(&self) -> c_int {
        self.state.characteristics.load(Ordering::Relaxed)
    }

    /// Whether the path no longer leads to a file.
    pub(super) fn has_moved(&self) -> bool {
        !self.machine.disk.exists(&self.path).unwrap_or(true)
    }

    /// Sets the persist-WAL bit (0 or 1), or keeps it (negative), and returns it.
    pub(super) fn persist_wal(&mut self, set: c_int) -> c_int {
        if set >= 0 {
            self.persist_wal = set != 0;
        }
        c_int::from(self.persist_wal)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.node.locks.lock().unlock(self.holder, None);
        self.node.shm.lock().leave(self.holder);
        self.state.open_files.fetch_sub(1, Ordering::Relaxed);
    }
}

fn level_of(level: c_int) -> Option<Level> {
    match level {
        ffi::SQLITE_LOCK_SHARED => Some(Level::Shared),
        ffi::SQLITE_LOCK_RESERVED => Some(Level::Reserved),
        ffi::SQLITE_LOCK_PENDING => Some(Level::Pending),
        ffi::SQLITE_LOCK_EXCLUSIVE => Some(Level::Exclusive),
        _ => None,
    }
}
