//! Locks: the host's, and what must happen before they are released.

use super::MainFile;
use crate::codes::Done;
use crate::contents::State;
use crate::failpoint;
use crate::remote::RemoteFile;
use densite_sqlite::{Code, ffi};
use densite_sqlite_format::wal_index::{CHECKPOINT_LOCK, READ_LOCK_0, RECOVER_LOCK, WRITE_LOCK};
use densite_store::Error;

/// The result of a lock attempt; `None` if the lock is busy.
fn unless_busy(done: Done) -> Option<Done> {
    match done {
        Err(code) if code.primary() == Code::BUSY => None,
        done => Some(done),
    }
}

impl MainFile {
    /// xLock.
    pub(super) fn take_lock(&mut self, level: i32) -> Done {
        if matches!(self.contents.state(), State::Refused(_)) {
            return Err(Code::CANTOPEN);
        }
        let reserves = level >= ffi::LOCK_RESERVED && self.role.level() < ffi::LOCK_RESERVED;
        if reserves {
            self.must_be_here()?;
        }
        self.lock_host(level)?;
        if reserves {
            self.journal_came()?;
        }
        self.set_level(self.role.level().max(level));
        if level < ffi::LOCK_EXCLUSIVE {
            self.role.begins();
        }
        if level == ffi::LOCK_SHARED {
            if self.file.as_remote().is_some_and(RemoteFile::take_moved) {
                // A database in WAL mode keeps its change counter.
                self.contents.overwritten().keeps_pages();
            }
            failpoint::at("shared-taken");
            self.judge_under_lock();
            self.begin_shared();
        }
        if level == ffi::LOCK_RESERVED {
            // In a rollback mode, SQLite has looked for a hot journal under SHARED, or
            // `journal_came` has just done so.
            self.committed_without_wal();
        }
        Ok(())
    }

    /// Takes the host's lock. Waits for a connection that is closing (rule S3).
    fn lock_host(&self, level: i32) -> Done {
        let mut attempt = || unless_busy(self.file.host().lock(level));
        let busy = match self.file.host().lock(level) {
            Err(code) if code.primary() == Code::BUSY => code,
            done => return done,
        };
        let done = match self.role.neighbours() {
            // While a WAL is in use, only its close takes a lock. The lock shows SQLite whether it
            // is the last connection, so busy is an answer and not a reason to wait. But this
            // process's own maintenance does not count as a connection.
            Some(neighbours) if self.checkpoint.uses_wal() => {
                neighbours.after_closing(&mut attempt).or_else(attempt)
            }
            Some(neighbours) => neighbours.retry(self.role.level(), level, attempt),
            None => None,
        };
        done.unwrap_or(Err(busy))
    }

    /// Judges the file under its first lock.
    fn judge_under_lock(&mut self) {
        if self.contents.is_due_under_lock() {
            self.judge();
        }
    }

    /// SHARED was taken. Reads the newest commit, which SQLite's next read would have done.
    fn begin_shared(&mut self) {
        // The next read gets the same error and reports it.
        let newest = self.newest_at_begin().ok().flatten();
        let commit = newest.filter(|_| self.in_rollback_mode());
        self.absent.begin(commit, || self.file.place());
    }

    /// The newest commit of the current contents when a transaction begins; `None` if the file is
    /// not a Densite file.
    fn newest_at_begin(&mut self) -> Result<Option<u64>, Error> {
        match self.newest() {
            Err(Error::Overwritten) => {
                self.take_contents();
                self.newest()
            }
            done => done,
        }
    }

    fn newest(&mut self) -> Result<Option<u64>, Error> {
        let store = self.contents.store_mut();
        store
            .map(|stored| stored.handle().newest_commit())
            .transpose()
    }

    /// RESERVED was taken. If SHARED did not ask the host about the journal, this asks now. If a
    /// journal appeared that can be hot, this releases RESERVED.
    ///
    /// # Errors
    /// [`Code::BUSY`] if it can be hot; the host's error if that is unknown. RESERVED is released
    /// in both cases.
    fn journal_came(&self) -> Done {
        let asks_now = self.absent.has_answered();
        let error = match asks_now.then(|| self.file.may_be_hot()) {
            None | Some(Ok(false)) => {
                self.absent.end();
                return Ok(());
            }
            Some(Ok(true)) => Code::BUSY,
            Some(Err(e)) => e,
        };
        self.absent.forget_journal();
        self.file.host().unlock(ffi::LOCK_SHARED)?;
        Err(error)
    }

    /// Checks that the file's name still leads to the file, for operations that depend on it.
    ///
    /// # Errors
    /// [`Code::READONLY_DBMOVED`] if it leads to another file.
    pub(super) fn must_be_here(&self) -> Done {
        if !self.absent.is_left() {
            return Ok(());
        }
        let code = Code::READONLY_DBMOVED;
        self.report(
            code,
            &"another file was put in its place; close this connection and open it again",
        );
        Err(code)
    }

    /// xUnlock.
    pub(super) fn give_lock(&mut self, level: i32) -> Done {
        if level < self.role.level() {
            self.forget_unpublished();
            self.tell_of_wal();
            if level < ffi::LOCK_RESERVED {
                self.unmark();
            }
            if self.role.level() == ffi::LOCK_EXCLUSIVE && self.checkpoint.take_last_close() {
                // SQLite's last close of a WAL database, under its own lock.
                self.close_clean();
            }
        }
        self.absent.end();
        let done = self.file.host().unlock(level);
        if done.is_ok() {
            self.set_level(self.role.level().min(level));
        }
        done
    }

    /// xShmLock.
    pub(super) fn lock_shm(&mut self, offset: i32, n: i32, flags: i32) -> Done {
        let covers = |lock: i32| offset <= lock && lock < offset.saturating_add(n);
        if flags & ffi::SHM_UNLOCK != 0 {
            if flags & ffi::SHM_EXCLUSIVE != 0 {
                if covers(READ_LOCK_0) {
                    self.checkpoint.release_readers();
                }
                if covers(CHECKPOINT_LOCK) {
                    self.end_checkpoint();
                }
                if covers(WRITE_LOCK) {
                    // The worker reclaims what another process has left, even if no checkpoint
                    // comes.
                    self.tell_worker(false);
                }
            }
            return self.file.host().shm_lock(offset, n, flags);
        }
        let lock = || self.file.host().shm_lock(offset, n, flags);
        let mut done = lock();
        if matches!(done, Err(code) if code.primary() == Code::BUSY)
            && covers(CHECKPOINT_LOCK)
            && let Some(neighbours) = self.role.neighbours()
        {
            let patience = self.checkpoint.take_asked();
            let retried = neighbours.retry_checkpoint(patience, || unless_busy(lock()));
            done = retried.unwrap_or(done);
        }
        done?;
        if flags & ffi::SHM_SHARED != 0 && offset >= READ_LOCK_0 {
            failpoint::at("shm-lock-read-taken");
            if let Err(code) = self.begin_snapshot() {
                let flags = ffi::SHM_UNLOCK | ffi::SHM_SHARED;
                let _ = self.file.host().shm_lock(offset, n, flags);
                return Err(code);
            }
        }
        if flags & ffi::SHM_EXCLUSIVE != 0 && covers(RECOVER_LOCK) {
            self.checkpoint.rebuilds();
        }
        Ok(())
    }

    /// A snapshot of the WAL begins.
    ///
    /// # Errors
    /// The file has other contents, and SQLite could go on with cached pages of the old ones.
    fn begin_snapshot(&mut self) -> Done {
        let resets = self.checkpoint.snapshot_resets();
        if !self.contents.overwritten().is_due(resets) {
            return Ok(());
        }
        match self.newest() {
            Err(Error::Overwritten) if resets => self.take_contents(),
            Err(error @ Error::Overwritten) => return Err(self.fail(&error)),
            // The next read gets any other error again and reports it.
            _ => {}
        }
        Ok(())
    }

    /// The checkpoint lock is about to be released: no unpublished change may outlive it.
    fn end_checkpoint(&mut self) {
        // These changes are from a checkpoint that SQLite gave up. Its frames are all still in the
        // WAL, so either outcome is right.
        let _ = self.publish_or_discard();
        self.checkpoint.release_readers();
        self.checkpoint.is_over();
        // An error is no mark, and the next read reports it.
        let store = self.contents.store_mut();
        let end = store.and_then(|stored| stored.handle().mark().ok().flatten());
        self.checkpoint.ends_at(end);
        self.tell_worker_to_help();
        if let Some(stored) = self.contents.store_mut() {
            stored.handle().set_hurry(false);
        }
    }
}
