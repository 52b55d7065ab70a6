//! What SQLite calls on an open main database file, and who answers: the store, or the host.

use crate::main_file::{Done, MainFile, State};
use crate::overwritten::reads_version;
use crate::pause;
use crate::trim::Reach;
use densite_disk::SyncKind;
use densite_sqlite::{Code, VfsFile, ffi};
use densite_store::Handle;
use std::ffi::c_void;

impl VfsFile for MainFile {
    fn close(&mut self) -> Done {
        self.close_file()
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Code> {
        let begins = reads_version(buf, offset);
        let n = self.read_contents(buf, offset, begins)?;
        // Of an empty file SQLite takes zeros, and keeps what it knew before.
        if begins && n == buf.len() {
            self.forces_reset(buf);
        }
        Ok(n)
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Done {
        self.synced = false;
        self.judge_if_pending();
        if matches!(self.state, State::Undecided) {
            self.become_store()?;
        }
        if let Some(done) = self.in_contents(false, |handle| handle.write_at(buf, offset)) {
            self.trim.wrote();
            return done;
        }
        match &self.state {
            State::Plain => self.host.write(buf, offset),
            _ => Err(self.useless()),
        }
    }

    fn truncate(&mut self, len: u64) -> Done {
        self.judge_if_pending();
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
                self.host.truncate(len)?;
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
        self.judge_if_pending();
        if let Some(done) = self.in_contents(false, Handle::len) {
            return done;
        }
        match &self.state {
            State::Undecided => Ok(0),
            State::Plain => {
                let size = self.host.file_size()?;
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
        if region == 0
            && let Err(code) = self.must_be_here()
        {
            return (code, std::ptr::null_mut());
        }
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

impl MainFile {
    /// Reads what the file has now; `begins`: a transaction begins with it.
    fn read_contents(&mut self, buf: &mut [u8], offset: u64, begins: bool) -> Result<usize, Code> {
        self.judge_if_pending();
        if begins && matches!(self.state, State::Plain) && !self.settings.keep_plain {
            self.judge_version();
        }
        if let Some(done) = self.in_contents(begins, |handle| handle.read_at(buf, offset)) {
            return done;
        }
        match &self.state {
            State::Undecided => Ok(0),
            State::Plain => {
                self.host.read(buf, offset)?;
                if self.is_plain_no_more(buf, offset) {
                    self.take_contents();
                    match &self.state {
                        State::Plain => {}
                        State::Store(_) => return self.read_contents(buf, offset, begins),
                        _ => return Err(self.useless()),
                    }
                }
                Ok(buf.len())
            }
            // SQLite looks at the header while it opens the file, before any lock. An error
            // there would be final; the file is judged again under SHARED (rule 7), and a
            // refusal is explained once the connection exists.
            State::Refused(_) => Ok(0),
            State::Broken(_) if self.level == ffi::LOCK_NONE && !self.settings.unlocked => Ok(0),
            _ => Err(self.useless()),
        }
    }
}
