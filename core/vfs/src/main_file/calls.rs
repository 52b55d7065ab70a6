//! SQLite's calls on an open main database file, answered by the store or by the host.

use super::MainFile;
use crate::codes::Done;
use crate::contents::State;
use crate::failpoint;
use crate::last_error::report_not_opened;
use crate::overwritten::{begins_as_store, reads_version};
use crate::trim::Reach;
use densite_disk::SyncKind;
use densite_sqlite::{Code, VfsFile, ffi};
use densite_sqlite_format::MAGIC;
use densite_sqlite_format::header::show_rollback_mode;
use densite_store::{Kind, probe};
use std::ffi::c_void;

impl VfsFile for MainFile {
    fn close(&mut self) -> Done {
        self.close_file()
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Code> {
        let begins = reads_version(buf, offset);
        let n = self.read_contents(buf, offset, begins)?;
        if self.file.as_remote().is_some()
            && let Some(bytes) = buf.get_mut(..n)
        {
            show_rollback_mode(bytes, offset);
        }
        // An empty file reads as zeros, and SQLite keeps its cached pages.
        if begins && n == buf.len() {
            self.contents.force_reset(buf);
        }
        Ok(n)
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Done {
        self.judge_if_pending();
        if matches!(self.contents.state(), State::Undecided) {
            self.become_store()?;
        }
        if let Some(done) = self.in_contents(false, |stored| stored.write(buf, offset)) {
            return done;
        }
        if self.is_plain() {
            return self.file.host().write(buf, offset);
        }
        Err(self.contents.useless())
    }

    fn truncate(&mut self, len: u64) -> Done {
        self.judge_if_pending();
        if matches!(self.contents.state(), State::Undecided) {
            if len == 0 {
                return Ok(());
            }
            self.become_store()?;
        }
        self.checkpoint.check()?;
        if let Some(done) = self.in_store(|stored| stored.handle().set_len(len)) {
            done?;
            // The end of a complete checkpoint: readers use the database file next.
            if let Some(stored) = self.contents.store_mut()
                && self.checkpoint.is_done()
            {
                stored.is_committed();
                self.trim(Reach::Due);
                self.publish()?;
            }
            return Ok(());
        }
        if self.is_plain() {
            return self.file.host().truncate(len);
        }
        Err(self.contents.useless())
    }

    fn sync(&mut self, flags: i32) -> Done {
        self.checkpoint.check()?;
        let kind = if flags & ffi::SYNC_DATAONLY != 0 {
            SyncKind::Data
        } else {
            SyncKind::Full
        };
        failpoint::at("before-sync");
        self.file.host().set_sync_strength(flags);
        // Ingest syncs what other connections have checkpointed, without the right to write (rule
        // S1).
        let may_write = self.role.level() >= ffi::LOCK_EXCLUSIVE
            || self.settings.unlocked
            || self.checkpoint.is_under_way();
        let done = self.in_store(|stored| match may_write {
            true => stored.sync(kind),
            false => stored.handle().sync_seen(kind),
        });
        if let Some(done) = done {
            return done;
        }
        match self.contents.state() {
            State::Plain | State::Undecided => self.file.host().sync_with(flags),
            _ => Err(self.contents.useless()),
        }
    }

    fn file_size(&mut self) -> Result<u64, Code> {
        self.judge_if_pending();
        if let Some(done) = self.in_contents(false, |stored| stored.handle().len()) {
            return done;
        }
        match self.contents.state() {
            State::Undecided => Ok(0),
            State::Plain => {
                let size = self.file.host().file_size()?;
                // Within a transaction its journal has SQLite's name, and keeps it.
                let is_free = self.role.level() <= ffi::LOCK_SHARED;
                if size == 0 && is_free && !self.settings.keep_plain {
                    self.contents.plain_is_empty();
                    self.file.set_plain(false);
                }
                Ok(size)
            }
            _ => Err(self.contents.useless()),
        }
    }

    fn lock(&mut self, level: i32) -> Done {
        self.take_lock(level)
    }

    fn unlock(&mut self, level: i32) -> Done {
        self.give_lock(level)
    }

    fn check_reserved(&mut self) -> Result<bool, Code> {
        self.file.host().check_reserved()
    }

    unsafe fn file_control(&mut self, op: i32, arg: *mut c_void) -> Code {
        // SAFETY: the caller guarantees it.
        unsafe { self.control(op, arg) }
    }

    fn sector_size(&mut self) -> i32 {
        self.file.host().sector_size()
    }

    fn device_characteristics(&mut self) -> i32 {
        let host = self.file.host().device_characteristics();
        if self.is_plain() {
            return host;
        }
        // POWERSAFE_OVERWRITE: the store never overwrites live bytes, so a torn write does no more
        // harm than on the host. UNDELETABLE_WHEN_OPEN and IMMUTABLE describe the file's name and
        // its storage, not the layout of its bytes. All others (ATOMIC, SAFE_APPEND, SEQUENTIAL,
        // BATCH_ATOMIC) would be promises about single logical writes, which here become other
        // writes at other places.
        host & (ffi::IOCAP_POWERSAFE_OVERWRITE
            | ffi::IOCAP_UNDELETABLE_WHEN_OPEN
            | ffi::IOCAP_IMMUTABLE)
    }

    fn has_shm(&mut self) -> bool {
        self.file.host().has_shm()
    }

    fn shm_map(&mut self, region: i32, size: i32, extend: bool) -> (Code, *mut c_void) {
        if region == 0
            && let Err(code) = self.must_be_here()
        {
            return (code, std::ptr::null_mut());
        }
        let (code, address) = self.file.host().shm_map(region, size, extend);
        if code != Code::OK {
            let path = format!("{}-shm", self.file.path());
            report_not_opened(self.file.vfs(), &path, code);
        }
        if region == 0 {
            self.checkpoint.set_index(address, size);
            self.role.count_wal_user(self.checkpoint.uses_wal());
        }
        (code, address)
    }

    fn shm_lock(&mut self, offset: i32, n: i32, flags: i32) -> Done {
        self.lock_shm(offset, n, flags)
    }

    fn shm_barrier(&mut self) {
        self.file.host().shm_barrier();
    }

    fn shm_unmap(&mut self, delete: bool) -> Done {
        self.checkpoint.forget_index();
        self.role.count_wal_user(self.checkpoint.uses_wal());
        self.file.host().shm_unmap(delete)
    }

    fn fetch(&mut self, offset: u64, len: i32) -> Result<*mut c_void, Code> {
        if !self.is_plain() {
            // A page has no uncompressed bytes in the file to map, so SQLite reads it.
            return Ok(std::ptr::null_mut());
        }
        let at = i64::try_from(offset).map_err(|_| Code::IOERR_READ)?;
        self.file.host().fetch(at, len)
    }

    unsafe fn unfetch(&mut self, offset: u64, page: *mut c_void) -> Done {
        let at = i64::try_from(offset).map_err(|_| Code::IOERR_READ)?;
        // SAFETY: null, or a pointer that `fetch` got from the host at that offset.
        unsafe { self.file.host().unfetch(at, page) }
    }
}

impl MainFile {
    fn is_plain(&self) -> bool {
        matches!(self.contents.state(), State::Plain)
    }

    /// Reads the file's current contents. `begins`: a transaction begins with this read.
    fn read_contents(&mut self, buf: &mut [u8], offset: u64, begins: bool) -> Result<usize, Code> {
        self.judge_if_pending();
        if begins && self.is_plain() && !self.settings.keep_plain {
            self.judge_version();
        }
        if let Some(done) = self.in_contents(begins, |stored| stored.handle().read_at(buf, offset))
        {
            return done;
        }
        match self.contents.state() {
            State::Undecided => Ok(0),
            State::Plain => {
                self.file.host().read(buf, offset)?;
                // Page 1 shows whether it is still a plain file.
                if begins_as_store(buf, offset) && !self.settings.keep_plain {
                    self.take_contents();
                    match self.contents.state() {
                        State::Plain => {}
                        State::Store(_) => return self.read_contents(buf, offset, begins),
                        _ => return Err(self.contents.useless()),
                    }
                }
                Ok(buf.len())
            }
            // SQLite reads the header while it opens the file, before any lock. An error there
            // would be final. So the read is empty: the file is judged again under SHARED (rule
            // S7), and a refusal is explained once the connection exists.
            State::Refused(_) | State::Broken(_) if self.holds_no_lock() => Ok(0),
            _ => Err(self.contents.useless()),
        }
    }

    /// Judges a plain file again when SQLite reads its change counter. While we held no lock,
    /// another connection can have emptied it and made it a Densite file.
    fn judge_version(&mut self) {
        let mut magic = [0; MAGIC.len()];
        match self.file.host().read(&mut magic, 0) {
            Ok(()) if magic == *MAGIC => {}
            Ok(()) | Err(Code::IOERR_SHORT_READ) => {
                if matches!(probe(self.file.host()), Ok(Kind::Densite | Kind::Empty)) {
                    self.take_contents();
                }
            }
            // The next read gets the same error and reports it.
            Err(_) => {}
        }
    }
}
