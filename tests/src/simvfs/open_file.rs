//! One file that SQLite has open.

use super::locks::{Busy, Level};
use super::machine::{Machine, Node, State};
use densite_disk::{Error, ErrorKind, File, Op, OpenMode, SyncKind};
use densite_sim_disk::SimFile;
use densite_sqlite::{Code, VfsFile, ffi};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// The code for a failed call of the disk.
pub(super) fn code(e: &Error) -> Code {
    match (e.kind, e.op) {
        (ErrorKind::Full, Op::Write | Op::Truncate) => Code::FULL,
        (ErrorKind::NotFound, Op::Remove) => Code::IOERR_DELETE_NOENT,
        (_, op) => op.into(),
    }
}

fn busy(_: Busy) -> Code {
    Code::BUSY
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
        flags: i32,
    ) -> Result<OpenFile, Code> {
        let has = |flag| flags & flag != 0;
        let machine = state.machine();
        let path = path.map_or_else(|| machine.temp_path(), str::to_owned);
        let create = has(ffi::OPEN_CREATE);
        let mode = if has(ffi::OPEN_READONLY) {
            OpenMode::Read
        } else if create && has(ffi::OPEN_EXCLUSIVE) {
            OpenMode::CreateNew
        } else if create {
            OpenMode::Create
        } else {
            OpenMode::Write
        };
        let file = machine.disk.open(&path, mode).map_err(|e| code(&e))?;
        if has(ffi::OPEN_DELETEONCLOSE) {
            machine.disk.remove(&path).map_err(|e| code(&e))?;
        }
        let journals = ffi::OPEN_MAIN_JOURNAL | ffi::OPEN_SUPER_JOURNAL | ffi::OPEN_WAL;
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

    /// Locks fail with the disk: a dead connection must not continue from its cache.
    fn alive(&self, or: Code) -> Result<(), Code> {
        match self.machine.disk.is_dead() {
            true => Err(or),
            false => Ok(()),
        }
    }

    /// Whether the path no longer leads to a file.
    fn has_moved(&self) -> bool {
        !self.machine.disk.exists(&self.path).unwrap_or(true)
    }

    /// The answer to an operation whose argument is an int.
    fn control(&mut self, op: i32, number: &mut i32) -> Code {
        match op {
            ffi::FCNTL_LOCKSTATE => {
                let level = self.node.locks.lock().level(self.holder);
                *number = level.map_or(ffi::LOCK_NONE, |l| l as i32);
            }
            ffi::FCNTL_HAS_MOVED => *number = i32::from(self.has_moved()),
            // All connections belong to this process.
            ffi::FCNTL_EXTERNAL_READER => *number = 0,
            ffi::FCNTL_PERSIST_WAL => {
                if *number >= 0 {
                    self.persist_wal = *number != 0;
                }
                *number = i32::from(self.persist_wal);
            }
            ffi::FCNTL_POWERSAFE_OVERWRITE => {
                let psow = self.device_characteristics() & ffi::IOCAP_POWERSAFE_OVERWRITE;
                *number = i32::from(psow != 0);
            }
            _ => return Code::NOTFOUND,
        }
        Code::OK
    }
}

impl VfsFile for OpenFile {
    fn close(&mut self) -> Result<(), Code> {
        Ok(())
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Code> {
        self.file.read_at(buf, offset).map_err(|e| code(&e))
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Result<(), Code> {
        self.file.write_at(buf, offset).map_err(|e| code(&e))?;
        if std::thread::current().name() == Some("densite-checkpoint") {
            let change = self.machine.disk.changes();
            self.state.beside.lock().push(change);
        }
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> Result<(), Code> {
        self.file.set_len(len).map_err(|e| code(&e))
    }

    fn sync(&mut self, flags: i32) -> Result<(), Code> {
        let kind = match flags & ffi::SYNC_DATAONLY {
            0 => SyncKind::Full,
            _ => SyncKind::Data,
        };
        self.file.sync(kind).map_err(|e| code(&e))?;
        if self.sync_dir {
            let synced = self.machine.disk.sync_dir(parent(&self.path));
            synced.map_err(|_| Code::IOERR_DIR_FSYNC)?;
            self.sync_dir = false;
        }
        Ok(())
    }

    fn file_size(&mut self) -> Result<u64, Code> {
        self.file.len().map_err(|e| code(&e))
    }

    fn lock(&mut self, level: i32) -> Result<(), Code> {
        self.alive(Code::IOERR_LOCK)?;
        let Some(level) = level_of(level) else {
            return Ok(());
        };
        let mut locks = self.node.locks.lock();
        locks.lock(self.holder, level).map_err(busy)
    }

    fn unlock(&mut self, level: i32) -> Result<(), Code> {
        let to = level_of(level).filter(|l| *l == Level::Shared);
        self.node.locks.lock().unlock(self.holder, to);
        Ok(())
    }

    fn check_reserved(&mut self) -> Result<bool, Code> {
        Ok(self.node.locks.lock().reserved())
    }

    unsafe fn file_control(&mut self, op: i32, arg: *mut c_void) -> Code {
        match op {
            ffi::FCNTL_SIZE_HINT | ffi::FCNTL_CHUNK_SIZE => Code::OK,
            ffi::FCNTL_LOCKSTATE
            | ffi::FCNTL_HAS_MOVED
            | ffi::FCNTL_EXTERNAL_READER
            | ffi::FCNTL_PERSIST_WAL
            | ffi::FCNTL_POWERSAFE_OVERWRITE => {
                // SAFETY: the argument of these operations is an int.
                self.control(op, unsafe { &mut *arg.cast::<i32>() })
            }
            _ => Code::NOTFOUND,
        }
    }

    fn sector_size(&mut self) -> i32 {
        self.state.sector_size.load(Ordering::Relaxed)
    }

    fn device_characteristics(&mut self) -> i32 {
        self.state.characteristics.load(Ordering::Relaxed)
    }

    fn has_shm(&mut self) -> bool {
        true
    }

    fn shm_map(&mut self, region: i32, size: i32, extend: bool) -> (Code, *mut c_void) {
        let none = (Code::IOERR_SHMMAP, std::ptr::null_mut());
        let (Ok(region), Ok(size)) = (usize::try_from(region), usize::try_from(size)) else {
            return none;
        };
        if self.alive(Code::IOERR_SHMMAP).is_err() {
            return none;
        }
        let mut shm = self.node.shm.lock();
        shm.join(self.holder);
        // It lives until this file leaves the shared memory. SQLite does not use it afterwards.
        let start = shm.region(region, size, extend);
        (
            Code::OK,
            start.map_or(std::ptr::null_mut(), |at| at.cast::<c_void>()),
        )
    }

    fn shm_lock(&mut self, offset: i32, n: i32, flags: i32) -> Result<(), Code> {
        let first = usize::try_from(offset).map_err(|_| Code::IOERR_SHMLOCK)?;
        let n = usize::try_from(n).map_err(|_| Code::IOERR_SHMLOCK)?;
        let mut shm = self.node.shm.lock();
        if !shm.joined(self.holder) {
            return Err(Code::IOERR_SHMLOCK);
        }
        if flags & ffi::SHM_UNLOCK != 0 {
            shm.unlock(self.holder, first, n);
            return Ok(());
        }
        self.alive(Code::IOERR_SHMLOCK)?;
        let exclusive = flags & ffi::SHM_EXCLUSIVE != 0;
        shm.lock(self.holder, first, n, exclusive).map_err(busy)
    }

    fn shm_barrier(&mut self) {
        fence(Ordering::SeqCst);
    }

    fn shm_unmap(&mut self, _delete: bool) -> Result<(), Code> {
        self.node.shm.lock().leave(self.holder);
        Ok(())
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.node.locks.lock().unlock(self.holder, None);
        self.node.shm.lock().leave(self.holder);
        self.state.open_files.fetch_sub(1, Ordering::Relaxed);
    }
}

fn level_of(level: i32) -> Option<Level> {
    match level {
        ffi::LOCK_SHARED => Some(Level::Shared),
        ffi::LOCK_RESERVED => Some(Level::Reserved),
        ffi::LOCK_PENDING => Some(Level::Pending),
        ffi::LOCK_EXCLUSIVE => Some(Level::Exclusive),
        _ => None,
    }
}
