//! Locks: the host's, with what must happen before they go.

use crate::checkpoint::{CHECKPOINT_LOCK, READ_LOCK_0, RECOVER_LOCK, WRITE_LOCK};
use crate::main_file::{Done, MainFile, State};
use crate::neighbours::Neighbours;
use crate::pause;
use densite_sqlite::{Code, ffi};
use densite_store::LockLevel;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl MainFile {
    /// xLock.
    pub(crate) fn take_lock(&mut self, level: i32) -> Done {
        if matches!(self.state, State::Refused(_)) {
            return Err(Code::CANTOPEN);
        }
        if level >= ffi::LOCK_RESERVED && self.level < ffi::LOCK_RESERVED {
            self.must_be_here()?;
        }
        self.lock_host(level)?;
        if level >= ffi::LOCK_RESERVED && self.level < ffi::LOCK_RESERVED {
            self.journal_came()?;
        }
        self.set_level(self.level.max(level));
        if level < ffi::LOCK_EXCLUSIVE {
            self.has_published = false;
        }
        if level == ffi::LOCK_SHARED {
            pause::at("shared-taken");
            self.judge_under_lock();
            self.begin_shared();
        }
        if level == ffi::LOCK_RESERVED {
            // In a rollback mode SQLite has looked for a hot journal under SHARED, or `journal_came` has just now.
            self.committed_without_wal();
        }
        Ok(())
    }

    /// Takes the host's lock; waits for a connection that is closing (rule 3).
    fn lock_host(&self, level: i32) -> Done {
        let busy = match self.host.lock(level) {
            Err(code) if code.primary() == Code::BUSY => code,
            done => return done,
        };
        let mut attempt = || match self.host.lock(level) {
            Err(code) if code.primary() == Code::BUSY => None,
            done => Some(done),
        };
        let done = match &self.neighbours {
            // While a WAL is in use only its close takes a lock, and asks by it whether it is
            // the last: "no" is an answer, not something to wait for. But this process's own maintenance is nobody.
            Some(neighbours) if self.checkpoint.uses_wal() => {
                neighbours.after_closing(&mut attempt).or_else(&mut attempt)
            }
            Some(neighbours) => neighbours.retry(self.level, level, attempt),
            None => None,
        };
        done.unwrap_or(Err(busy))
    }

    /// xUnlock.
    pub(crate) fn give_lock(&mut self, level: i32) -> Done {
        if level < self.level {
            self.give_up_unpublished();
            self.tell_of_wal();
            if self.level == ffi::LOCK_EXCLUSIVE && self.checkpoint.take_last_close() {
                // SQLite's own last close of a WAL database, under SQLite's own lock.
                self.close_clean();
            }
        }
        self.end_shared();
        let done = self.host.unlock(level);
        if done.is_ok() {
            self.set_level(self.level.min(level));
        }
        done
    }

    pub(crate) fn set_level(&mut self, level: i32) {
        if let Some(neighbours) = &self.neighbours {
            neighbours.moved(self.level, level);
        }
        self.level = level;
        if let State::Store(handle) = &mut self.state {
            handle.set_lock_level(match level {
                ffi::LOCK_NONE => LockLevel::Nothing,
                ffi::LOCK_EXCLUSIVE => LockLevel::Exclusive,
                _ => LockLevel::Shared,
            });
        }
    }

    /// Makes this connection one of those on the file, for its neighbours and the worker.
    pub(crate) fn join(&mut self, neighbours: Arc<Neighbours>) {
        if let Some(before) = self.neighbours.take() {
            before.moved(self.level, ffi::LOCK_NONE);
            self.leave(&before);
        }
        neighbours.moved(ffi::LOCK_NONE, self.level);
        if !self.of_worker {
            neighbours.idle.opened();
        }
        self.neighbours = Some(neighbours);
        self.count_wal_user();
    }

    /// Ends that, but for locks. The last one waits for the worker.
    pub(crate) fn leave(&mut self, neighbours: &Neighbours) {
        if self.of_worker {
            return;
        }
        if std::mem::take(&mut self.wal_user) {
            neighbours.idle.wal_users.fetch_sub(1, Ordering::AcqRel);
        }
        neighbours.idle.closing();
    }

    /// Tells the worker whether this connection has a WAL index in shared memory.
    pub(crate) fn count_wal_user(&mut self) {
        let uses = self.checkpoint.uses_wal();
        if self.of_worker || uses == self.wal_user {
            return;
        }
        let Some(neighbours) = &self.neighbours else {
            return;
        };
        self.wal_user = uses;
        let users = &neighbours.idle.wal_users;
        if uses {
            users.fetch_add(1, Ordering::AcqRel);
        } else {
            users.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// xShmLock.
    pub(crate) fn lock_shm(&mut self, offset: i32, n: i32, flags: i32) -> Done {
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
                    // The file is not idle between two checkpoints; and what another process has left is given back though none comes.
                    self.tell_worker();
                }
            }
            return self.host.shm_lock(offset, n, flags);
        }
        let mut done = self.host.shm_lock(offset, n, flags);
        if matches!(done, Err(code) if code.primary() == Code::BUSY)
            && covers(CHECKPOINT_LOCK)
            && let Some(neighbours) = &self.neighbours
        {
            let patience = std::mem::take(&mut self.asked_for_checkpoint);
            let retried = neighbours.retry_checkpoint(patience, || {
                let done = self.host.shm_lock(offset, n, flags);
                (!matches!(done, Err(code) if code.primary() == Code::BUSY)).then_some(done)
            });
            done = retried.unwrap_or(done);
        }
        done?;
        if flags & ffi::SHM_SHARED != 0 && offset >= READ_LOCK_0 {
            pause::at("shm-lock-read-taken");
            if let Err(code) = self.begin_snapshot() {
                let _ = self
                    .host
                    .shm_lock(offset, n, ffi::SHM_UNLOCK | ffi::SHM_SHARED);
                return Err(code);
            }
        }
        if flags & ffi::SHM_EXCLUSIVE != 0 && covers(RECOVER_LOCK) {
            self.checkpoint.rebuilds();
        }
        Ok(())
    }
}
