//! A slice of maintenance at rest: its locks, what it does under them, and the sync after it.
//!
//! No lock is held while the file is synced: a slice ends where a sync is due ([`Rest::Sync`]), and the next one goes on from there.
//!
//! Locks of a slice (rule 2):
//!
//! 1. SHARED, if SQLite does not hold it. Under it bytes 18 and 19 of page 1 tell the mode.
//! 2. In a rollback mode no journal may be hot; then RESERVED, without SHARED having gone: nobody becomes the writer meanwhile, and
//!    readers go on.
//! 3. In WAL mode the checkpoint lock. Writers and readers go on.
//! 4. With a WAL that this connection has not looked at yet, EXCLUSIVE, which proves that nobody uses it. Not the worker.

use crate::checkpoint::CHECKPOINT_LOCK;
use crate::main_file::{MainFile, State};
use crate::trim::Reach;
use densite_sqlite::ffi;
use densite_store::{Error, ReclaimBudget};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a slice moves. It holds its locks for 10 ms then, for what it moved is published under them.
const SLICE: Duration = Duration::from_millis(6);
/// How long the locks are waited for after a sync that failed.
const FAILED_SYNC_WAIT: Duration = Duration::from_secs(2);
/// Bytes of a region of the WAL's index, as SQLite maps them (`WALINDEX_PGSZ`).
const INDEX_REGION: i32 = 32 << 10;
/// Bytes that a slice moves at most.
const SLICE_BYTES: u64 = 1 << 20;

/// What a slice leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing that could be given back.
    Done,
    /// Another slice.
    More,
    /// A sync, without any lock, and another slice.
    Sync,
}

/// Which lock of a slice is held besides SHARED.
pub(crate) enum Slice {
    Reserved,
    Checkpoint,
    Exclusive,
}

impl MainFile {
    /// Takes the locks of a slice, or none.
    pub(crate) fn lock_slice(&mut self) -> Option<Slice> {
        if self.level < ffi::LOCK_SHARED && self.host.lock(ffi::LOCK_SHARED).is_err() {
            return None;
        }
        let rollback = self.in_contents(false, |handle| {
            handle.newest_commit()?;
            Ok(handle.in_rollback_mode())
        });
        let slice = match rollback {
            Some(Ok(true)) if !self.journal_may_be_hot() => self
                .host
                .lock(ffi::LOCK_RESERVED)
                .is_ok()
                .then_some(Slice::Reserved),
            Some(Ok(false)) if self.of_worker && !self.map_index() => None,
            Some(Ok(false)) if self.checkpoint.uses_wal() => self
                .host
                .shm_lock(CHECKPOINT_LOCK, 1, ffi::SHM_LOCK | ffi::SHM_EXCLUSIVE)
                .is_ok()
                .then_some(Slice::Checkpoint),
            Some(Ok(false)) => (self.host.lock(ffi::LOCK_RESERVED).is_ok()
                && self.host.lock(ffi::LOCK_EXCLUSIVE).is_ok())
            .then_some(Slice::Exclusive),
            _ => None,
        };
        match &slice {
            Some(Slice::Reserved) => self.committed_without_wal(),
            Some(Slice::Checkpoint) if self.checkpoint.is_complete() => self.is_committed(),
            Some(_) => {}
            None => self.back_to_level(),
        }
        slice
    }

    pub(crate) fn unlock_slice(&mut self, slice: &Slice) {
        if matches!(slice, Slice::Checkpoint) {
            let flags = ffi::SHM_UNLOCK | ffi::SHM_EXCLUSIVE;
            // Nothing can be done about a lock that stays; SQLite ignores the same.
            let _ = self.host.shm_lock(CHECKPOINT_LOCK, 1, flags);
        }
        self.back_to_level();
    }

    /// Gives back what a slice took beyond SQLite's own lock.
    fn back_to_level(&mut self) {
        if self.of_worker && self.checkpoint.uses_wal() {
            // Whoever closes the WAL must find nobody else there.
            self.checkpoint.forget_index();
            let _ = self.host.shm_unmap(false);
        }
        let _ = self.host.unlock(self.level);
    }

    /// Syncs what slices have published, while nobody has a lock. An error is logged, too.
    pub(crate) fn sync_unlocked(&mut self) -> Result<(), Error> {
        let State::Store(handle) = &mut self.state else {
            return Ok(());
        };
        let Err(failed) = handle.sync_published() else {
            return Ok(());
        };
        // What the disk has dropped is to be written again before others build upon it. A slow disk makes others hold their locks for long.
        let until = Instant::now() + FAILED_SYNC_WAIT;
        let lock = loop {
            let lock = self.lock_slice();
            if lock.is_some() || Instant::now() >= until {
                break lock;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let State::Store(handle) = &mut self.state else {
            return Ok(());
        };
        let error = match &lock {
            Some(_) => handle.after_failed_sync(failed),
            None => handle.leave_failed_sync(failed),
        };
        if let Some(lock) = lock {
            self.unlock_slice(&lock);
        }
        self.report(
            crate::codes::code_of(&error),
            &format!("giving space back: {error}"),
        );
        Err(error)
    }

    /// What fits into [`SLICE`], under the locks that it needs, until at most `down_to` per cent are dead or free; `begun`: unless that is so, free pages are dropped and nothing is moved below the
    /// limit at which giving back begins. An error is logged, too, and what it left pending is forgotten.
    pub(crate) fn slice(&mut self, down_to: u8, begun: bool) -> Result<Rest, Error> {
        let done = self.try_slice(down_to, begun);
        if let Err(error) = &done {
            if let State::Store(handle) = &mut self.state {
                handle.discard();
            }
            self.report(
                crate::codes::code_of(error),
                &format!("giving space back: {error}"),
            );
        }
        done
    }

    fn try_slice(&mut self, down_to: u8, begun: bool) -> Result<Rest, Error> {
        let until = Instant::now() + SLICE;
        let trimmed = self.trim_at_rest(Reach::Slice);
        let limit = self.rest_begins();
        let State::Store(handle) = &mut self.state else {
            return Ok(Rest::Done);
        };
        handle.publish()?;
        let rest = if trimmed.left && Instant::now() >= until {
            Rest::More
        } else if begun || handle.space()?.over(limit) {
            let budget = ReclaimBudget {
                bytes: SLICE_BYTES,
                dead_limit: down_to,
                stop: &|| Instant::now() >= until,
            };
            let given = handle.reclaim_unsynced(&budget)?;
            self.maintenance.damaged.extend(given.damaged);
            match (given.done, given.wants_sync) {
                (_, true) => Rest::Sync,
                (true, false) if !trimmed.left => Rest::Done,
                _ => Rest::More,
            }
        } else if trimmed.left {
            Rest::More
        } else {
            Rest::Done
        };
        self.trim_goes_on();
        Ok(rest)
    }

    /// The worker's file: maps the WAL's index for this slice, if a connection of this process has it.
    fn map_index(&mut self) -> bool {
        let used = self
            .neighbours
            .as_ref()
            .is_some_and(|n| n.idle.wal_users.load(Ordering::Acquire) > 0);
        if !used {
            return false;
        }
        let (_, address) = self.host.shm_map(0, INDEX_REGION, false);
        self.checkpoint.set_index(address, INDEX_REGION);
        if !self.checkpoint.uses_wal() {
            let _ = self.host.shm_unmap(false);
        }
        self.checkpoint.uses_wal()
    }
}
