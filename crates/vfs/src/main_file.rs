//! An open main database file.
//!
//! What the file is decides who answers:
//!
//! ```text
//!               empty ──────────────▶ Undecided ──first write──▶ Store
//!               plain SQLite ───────▶ Plain (every method is the host's)
//!   xOpen ──▶   Densite ────────────▶ Store
//!               unreadable ─────────▶ Broken ──judged again──▶ any of the others
//!               a wrong setting ────▶ Refused
//! ```
//!
//! Invariant: what was judged without a lock is judged again under the first SHARED, for
//! another connection may have been writing at that moment (rule 7).
//! Invariant: an empty file is judged again whenever its size is asked, it is read or
//! written or a lock is taken, until it is empty no more.
//! Invariant: in every state locks and shared memory are the host's, unchanged.

use crate::absent::Absent;
use crate::checkpoint::Checkpoint;
use crate::codes::code_of;
use crate::last_error::report;
use crate::maintain::Maintenance;
use crate::neighbours::Neighbours;
use crate::pause;
use crate::settings::Settings;
use crate::trim::{Reach, Trim};
use densite_disk::SyncKind;
use densite_sqlite::{Api, Code, FileName, HostFile, HostVfs, VfsFile, ffi};
use densite_store::{Error, Handle};
use std::ffi::c_void;
use std::sync::Arc;

pub(crate) type Done = Result<(), Code>;

/// What the file is.
pub(crate) enum State {
    /// Empty: what it becomes is not known yet.
    Undecided,
    /// Not Densite's: passed through.
    Plain,
    /// Densite's.
    Store(Box<Handle>),
    /// It could not be judged, or is Densite's and cannot be opened.
    Broken(Error),
    /// Its URI asks for what cannot be; the file itself was not touched.
    Refused(String),
}

/// An open main database file.
pub(crate) struct MainFile {
    pub(crate) api: Api,
    /// Name of our VFS, and the VFS below.
    pub(crate) vfs_name: String,
    pub(crate) host_vfs: Option<HostVfs>,
    pub(crate) host: HostFile,
    pub(crate) state: State,
    pub(crate) settings: Settings,
    /// The path, for messages.
    pub(crate) path: String,
    /// SQLite's name, for its companions; null when refused. Lives until xClose.
    name: *const std::ffi::c_char,
    /// The lock SQLite holds through this file, `LOCK_...`.
    pub(crate) level: i32,
    /// Judged under a lock, or never locked at all.
    pub(crate) judged_locked: bool,
    /// In state `Store`: the other connections of this process on the file.
    pub(crate) neighbours: Option<Arc<Neighbours>>,
    pub(crate) checkpoint: Checkpoint,
    /// SQLite synced the file and did not write to it since.
    pub(crate) synced: bool,
    /// The WAL knows the store.
    pub(crate) announced: bool,
    pub(crate) trim: Trim,
    pub(crate) maintenance: Maintenance,
    /// Not a connection's: the background worker's own.
    pub(crate) of_worker: bool,
    /// Counted among those with a WAL index in shared memory.
    pub(crate) wal_user: bool,
    /// Its journal and its WAL, when they are known not to be there.
    pub(crate) absent: Arc<Absent>,
    /// `PRAGMA wal_checkpoint` was compiled and has not taken its lock yet.
    pub(crate) asked_for_checkpoint: bool,
}

// SAFETY: `name` points to memory of SQLite's that is constant while the file is open; all
// else is Send by itself.
unsafe impl Send for MainFile {}

impl MainFile {
    /// A file that the host opened with `flags`.
    ///
    /// # Safety
    /// `name` lives until the file is closed.
    pub(crate) unsafe fn new(
        vfs_name: &str,
        host_vfs: HostVfs,
        host: HostFile,
        name: FileName<'_>,
        flags: i32,
        settings: Settings,
    ) -> MainFile {
        // SAFETY: passed on to the caller.
        let mut file = unsafe { MainFile::unjudged(host_vfs, host, name, flags, settings) };
        file.vfs_name = vfs_name.to_string();
        file.judge();
        file
    }

    /// The background worker's own file of the database that a connection has opened as `name`.
    ///
    /// # Safety
    /// As [`MainFile::new`].
    pub(crate) unsafe fn of_worker(
        host_vfs: HostVfs,
        host: HostFile,
        name: FileName<'_>,
        flags: i32,
        settings: Settings,
    ) -> MainFile {
        // SAFETY: passed on to the caller.
        let mut file = unsafe { MainFile::unjudged(host_vfs, host, name, flags, settings) };
        file.of_worker = true;
        file.judge();
        file
    }

    /// # Safety
    /// As [`MainFile::new`].
    unsafe fn unjudged(
        host_vfs: HostVfs,
        host: HostFile,
        name: FileName<'_>,
        flags: i32,
        mut settings: Settings,
    ) -> MainFile {
        settings.options.read_only =
            flags & ffi::OPEN_READONLY != 0 || name.boolean(c"immutable", false);
        MainFile {
            api: host_vfs.api(),
            vfs_name: String::new(),
            host_vfs: Some(host_vfs),
            host,
            state: State::Undecided,
            judged_locked: settings.unlocked,
            settings,
            path: name.path().to_string_lossy().into_owned(),
            name: name.as_ptr(),
            level: ffi::LOCK_NONE,
            neighbours: None,
            checkpoint: Checkpoint::default(),
            synced: false,
            announced: false,
            trim: Trim::default(),
            maintenance: Maintenance::default(),
            of_worker: false,
            wal_user: false,
            absent: Absent::of(name),
            asked_for_checkpoint: false,
        }
    }

    /// A file whose settings are wrong. It opens, so that the connection can say why it is
    /// of no use (see `entry`), and answers every call with [`Code::CANTOPEN`].
    pub(crate) fn refused(api: Api, message: String) -> MainFile {
        MainFile {
            api,
            vfs_name: String::new(),
            host_vfs: None,
            host: HostFile::closed(api),
            state: State::Refused(message),
            settings: Settings::default(),
            path: String::new(),
            name: std::ptr::null(),
            level: ffi::LOCK_NONE,
            judged_locked: true,
            neighbours: None,
            checkpoint: Checkpoint::default(),
            synced: false,
            announced: false,
            trim: Trim::default(),
            maintenance: Maintenance::default(),
            of_worker: false,
            wal_user: false,
            absent: Arc::default(),
            asked_for_checkpoint: false,
        }
    }

    /// SQLite's name for the file.
    pub(crate) fn name(&self) -> Option<FileName<'_>> {
        // SAFETY: null, or a name that lives until the file is closed, as `new` demands.
        unsafe { FileName::from_ptr(self.api, self.name) }
    }

    /// A sentence to the log and for the person.
    pub(crate) fn report(&self, code: Code, what: &dyn std::fmt::Display) {
        if self.of_worker {
            if let Some(neighbours) = &self.neighbours {
                neighbours.idle.keep_message(code, what.to_string());
            }
            return;
        }
        report(self.api, code, &format!("{}: {what}", self.path));
    }

    /// The code for an error of the store, which is also reported when it is one that a
    /// person must act on.
    pub(crate) fn fail(&self, error: &Error) -> Code {
        let code = code_of(error);
        self.report(code, error);
        code
    }

    /// Runs an operation of the store; `None` when it is not in charge.
    pub(crate) fn in_store<T>(
        &mut self,
        body: impl FnOnce(&mut Handle) -> Result<T, Error>,
    ) -> Option<Result<T, Code>> {
        let State::Store(handle) = &mut self.state else {
            return None;
        };
        let done = body(handle);
        Some(done.map_err(|error| self.fail(&error)))
    }

    /// The code of a state that can answer nothing.
    fn useless(&self) -> Code {
        match &self.state {
            State::Broken(error) => code_of(error),
            State::Refused(_) => Code::CANTOPEN,
            State::Undecided | State::Plain | State::Store(_) => Code::INTERNAL,
        }
    }

    /// Makes all pending writes visible to everyone.
    pub(crate) fn publish(&mut self) -> Done {
        if !matches!(&self.state, State::Store(handle) if handle.has_pending()) {
            return Ok(());
        }
        pause::at("before-publish");
        let done = self.in_store(Handle::publish).unwrap_or(Ok(()));
        if done.is_ok() {
            pause::at("after-publish");
            self.announce();
            self.tell_worker();
        }
        done
    }

    /// Makes all pending writes visible or, where that fails, forgets them. For the ends
    /// of a lock: nothing unpublished may outlive the right to write.
    pub(crate) fn publish_or_discard(&mut self) -> Done {
        let done = self.publish();
        if done.is_err()
            && let State::Store(handle) = &mut self.state
        {
            handle.discard();
        }
        done
    }
}

impl VfsFile for MainFile {
    fn close(&mut self) -> Done {
        self.close_file()
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Code> {
        self.settle();
        if matches!(self.state, State::Plain) && self.reads_version(buf, offset) {
            self.judge_version();
        }
        if let Some(done) = self.in_store(|handle| handle.read_at(buf, offset)) {
            return done;
        }
        match &self.state {
            State::Undecided => Ok(0),
            State::Plain => {
                let at = i64::try_from(offset).map_err(|_| Code::IOERR_READ)?;
                self.host.read(buf, at).map(|()| buf.len())
            }
            // SQLite looks at the header while it opens the file, before any lock. An error
            // there would be final; the file is judged again under SHARED (rule 7), and a
            // refusal is explained once the connection exists.
            State::Refused(_) => Ok(0),
            State::Broken(_) if self.level == ffi::LOCK_NONE && !self.settings.unlocked => Ok(0),
            _ => Err(self.useless()),
        }
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Done {
        self.synced = false;
        self.settle();
        if matches!(self.state, State::Undecided) {
            self.become_store()?;
        }
        if let Some(done) = self.in_store(|handle| handle.write_at(buf, offset)) {
            self.trim.wrote();
            return done;
        }
        match &self.state {
            State::Plain => {
                let at = i64::try_from(offset).map_err(|_| Code::IOERR_WRITE)?;
                self.host.write(buf, at)
            }
            _ => Err(self.useless()),
        }
    }

    fn truncate(&mut self, len: u64) -> Done {
        self.settle();
        if matches!(self.state, State::Undecided) {
            if len == 0 {
                return Ok(());
            }
            self.become_store()?;
        }
        self.checkpoint.check()?;
        if let Some(done) = self.in_store(|handle| handle.set_len(len)) {
            done?;
            // The end of a complete checkpoint: readers go to the database file next.
            return if self.checkpoint.is_done() {
                self.is_committed();
                self.trim(Reach::Due);
                self.publish()
            } else {
                Ok(())
            };
        }
        match &self.state {
            State::Plain => {
                let size = i64::try_from(len).map_err(|_| Code::IOERR_TRUNCATE)?;
                self.host.truncate(size)?;
                self.plain_is_empty(len);
                Ok(())
            }
            _ => Err(self.useless()),
        }
    }

    fn sync(&mut self, flags: i32) -> Done {
        self.checkpoint.check()?;
        let kind = if flags & ffi::SYNC_DATAONLY != 0 {
            SyncKind::Data
        } else {
            SyncKind::Full
        };
        pause::at("before-sync");
        self.host.set_sync_strength(flags);
        // Ingest syncs what others have checkpointed, without the right to write (rule 1).
        let may_write = self.level >= ffi::LOCK_EXCLUSIVE
            || self.settings.unlocked
            || self.checkpoint.is_under_way();
        if !may_write && let Some(done) = self.in_store(|handle| handle.sync_seen(kind)) {
            return done;
        }
        if let Some(done) = self.in_store(|handle| handle.sync(kind)) {
            self.synced = done.is_ok();
            return done;
        }
        match &self.state {
            State::Plain | State::Undecided => self.host.sync_with(flags),
            _ => Err(self.useless()),
        }
    }

    fn file_size(&mut self) -> Result<u64, Code> {
        self.settle();
        if let Some(done) = self.in_store(Handle::len) {
            return done;
        }
        match &self.state {
            State::Undecided => Ok(0),
            State::Plain => {
                let size = self.host.file_size()?;
                let size = u64::try_from(size).map_err(|_| Code::IOERR_FSTAT)?;
                self.plain_is_empty(size);
                Ok(size)
            }
            _ => Err(self.useless()),
        }
    }

    fn lock(&mut self, level: i32) -> Done {
        self.take_lock(level)
    }

    fn unlock(&mut self, level: i32) -> Done {
        self.give_lock(level)
    }

    fn check_reserved(&mut self) -> Result<bool, Code> {
        self.host.check_reserved()
    }

    unsafe fn file_control(&mut self, op: i32, arg: *mut c_void) -> Code {
        // SAFETY: passed on to the caller.
        unsafe { self.control(op, arg) }
    }

    fn sector_size(&mut self) -> i32 {
        self.host.sector_size()
    }

    fn device_characteristics(&mut self) -> i32 {
        let host = self.host.device_characteristics();
        if matches!(self.state, State::Plain) {
            return host;
        }
        // POWERSAFE_OVERWRITE: the store never overwrites what is live, so a torn write
        // hurts no more than on the host. UNDELETABLE_WHEN_OPEN and IMMUTABLE say something
        // of the file's name and of the medium, not of how its bytes are laid out. All
        // others (ATOMIC, SAFE_APPEND, SEQUENTIAL, BATCH_ATOMIC) would be promises about
        // single logical writes, which here become other writes at other places.
        host & (ffi::IOCAP_POWERSAFE_OVERWRITE
            | ffi::IOCAP_UNDELETABLE_WHEN_OPEN
            | ffi::IOCAP_IMMUTABLE)
    }

    fn has_shm(&mut self) -> bool {
        self.host.has_shm()
    }

    fn shm_map(&mut self, region: i32, size: i32, extend: bool) -> (Code, *mut c_void) {
        let (code, address) = self.host.shm_map(region, size, extend);
        if region == 0 {
            self.checkpoint.set_index(address, size);
            self.count_wal_user();
        }
        (code, address)
    }

    fn shm_lock(&mut self, offset: i32, n: i32, flags: i32) -> Done {
        self.lock_shm(offset, n, flags)
    }

    fn shm_barrier(&mut self) {
        self.host.shm_barrier();
    }

    fn shm_unmap(&mut self, delete: bool) -> Done {
        self.checkpoint.forget_index();
        self.count_wal_user();
        self.host.shm_unmap(delete)
    }

    fn fetch(&mut self, offset: u64, len: i32) -> Result<*mut c_void, Code> {
        match self.state {
            State::Plain => {
                let at = i64::try_from(offset).map_err(|_| Code::IOERR_READ)?;
                self.host.fetch(at, len)
            }
            // There is nothing of a page to map: SQLite reads it.
            _ => Ok(std::ptr::null_mut()),
        }
    }

    unsafe fn unfetch(&mut self, offset: u64, page: *mut c_void) -> Done {
        let at = i64::try_from(offset).map_err(|_| Code::IOERR_READ)?;
        // SAFETY: null, or a pointer that `fetch` got from the host at that offset.
        unsafe { self.host.unfetch(at, page) }
    }
}
