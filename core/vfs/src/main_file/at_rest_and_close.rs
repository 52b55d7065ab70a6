//! Maintenance of a file at rest, and its close.
//!
//! The last close makes a slot durable that names the tip (rule S10). In a rollback mode, SQLite
//! holds no lock at xClose. So this takes SHARED, checks that no journal is hot (rule S2), and
//! takes RESERVED and EXCLUSIVE; docs/decisions/sqlite-calls.md has the reasons. If a lock is busy,
//! the close continues without a slot. A connection that finds this lock waits for it
//! (`neighbours`, rule S3). For what is reclaimed and when, see `maintain`.

use super::MainFile;
use crate::codes::{Done, code_of};
use crate::failpoint;
use crate::maintain::Occasion;
use crate::slice::{Rest, Slice};
use crate::trim::{Reach, Trimmed};
use densite_disk::wait::{self, Retry};
use densite_sqlite::{Code, ffi};
use densite_store::{Error, ReclaimNext};
use std::time::{Duration, Instant};

/// How long a slice moves records. It then holds its locks for 10 ms, because it also publishes
/// under them.
const SLICE: Duration = Duration::from_millis(6);
/// How long to wait for the locks after a failed sync.
const FAILED_SYNC_WAIT: Duration = Duration::from_secs(2);
/// How long the last close goes on reclaiming space.
const CLOSE_TIME: Duration = Duration::from_secs(2);
/// How long to wait for training without a lock.
const TRAINING_PAUSE: Duration = Duration::from_millis(5);
/// How often, and after which pause, the last close tries again to get its locks. If two processes
/// close at the same time, each can find the other's lock.
const CLOSE_TRIES: u32 = 3;
const CLOSE_PAUSE: Duration = Duration::from_millis(1);

impl MainFile {
    /// xClose. Errors on the way are logged; the file is closed in any case.
    pub(super) fn close_file(&mut self) -> Done {
        self.forget_unpublished();
        self.tell_of_wal();
        if self.role.open_file().is_some() {
            self.role.leave();
            self.tell_messages();
        }
        self.close_clean_alone();
        if self.restless() {
            self.rest_before_close();
            self.close_clean_alone();
        }
        // The store's clone of the file is closed first.
        self.contents.close();
        self.set_level(ffi::LOCK_NONE);
        self.file.host().close()
    }

    /// EXCLUSIVE is about to be released, by SQLite's unlock or close. If nothing was published
    /// under it, the database is in a rollback mode and yet a WAL was put beside it (by RBU), this
    /// makes a commit that changes nothing. It makes other connections ask for the WAL (`absent`).
    pub(super) fn tell_of_wal(&mut self) {
        if self.role.level() < ffi::LOCK_EXCLUSIVE
            || self.role.has_published()
            || self.settings.options.read_only
        {
            return;
        }
        if self.in_rollback_mode() && self.file.adopt_wal() {
            // A failure is reported. Other connections still ask once their cached answers expire.
            let _ = self.in_store(|stored| stored.handle().publish_nothing());
        }
    }

    /// Writes a slot that names the tip. The caller has the right to write.
    pub(super) fn close_clean(&mut self) {
        if !self.wants_slot() {
            return;
        }
        self.trim_at_rest(Reach::All);
        if let Some(stored) = self.contents.store_mut()
            && let Err(error) = stored.handle().close_clean()
        {
            let message = format!("densite: {}: closing: {error}", self.file.path());
            self.file.api().log(code_of(&error), &message);
        }
    }

    /// Does the same under a lock of our own, if no other connection has the file open.
    fn close_clean_alone(&mut self) {
        let level = self.role.level();
        if !self.wants_slot() || self.settings.unlocked || level > ffi::LOCK_SHARED {
            return;
        }
        let Some(file) = self.role.open_file().cloned() else {
            return;
        };
        if file.neighbours().others_hold(level) {
            return;
        }
        let Some(closing) = file.neighbours().begin_closing() else {
            return;
        };
        if self.file.lock_alone(level) {
            failpoint::at("closing-locked");
            // No other connection has the file open, and no journal is hot.
            self.committed_without_wal();
            self.close_clean();
        }
        self.unlock_all();
        drop(closing);
    }

    fn wants_slot(&self) -> bool {
        let store = self.contents.store();
        !self.settings.options.read_only && store.is_some_and(|s| s.view().unslotted())
    }

    /// Releases the locks of a close. SQLite's own lock, at most SHARED, goes with them.
    fn unlock_all(&mut self) {
        if self.file.host().unlock(ffi::LOCK_NONE).is_ok() {
            self.set_level(ffi::LOCK_NONE);
        }
    }

    /// Tells the trimmer that the newest commit is a committed state of SQLite, if the database is
    /// in a rollback mode. The caller knows why that is so.
    pub(super) fn committed_without_wal(&mut self) {
        if let Some(stored) = self.contents.store_mut() {
            stored.committed_without_wal();
        }
    }

    /// Drops the frames of free pages; the next publish includes that. An error is logged: the
    /// frames stay, and nothing is lost.
    pub(super) fn trim(&mut self, reach: Reach) -> Trimmed {
        let Some(stored) = self.contents.store_mut() else {
            return Trimmed::default();
        };
        match stored.trim(reach) {
            Ok(trimmed) => trimmed,
            Err(error) => {
                self.report(code_of(&error), &format!("trimming: {error}"));
                Trimmed::default()
            }
        }
    }

    /// Does the same at rest. In a rollback mode it first makes the end of the last journal
    /// durable.
    fn trim_at_rest(&mut self, reach: Reach) -> Trimmed {
        let trimmed = self.trim(reach);
        match self.contents.store_mut() {
            Some(stored) => stored.keep_trimmed(trimmed, &self.file),
            None => trimmed,
        }
    }

    /// A commit in a rollback mode, or a checkpoint, is over, and the right to write is still held.
    /// An error is logged, and nothing has changed.
    pub(super) fn maintain_a_little(&mut self) {
        if self.settings.maintain_off || self.settings.options.read_only {
            return;
        }
        // In WAL mode, a connection that commits has no right to write here; one that checkpoints
        // has. Without locks, the application gives the right.
        let right = self.role.level() == ffi::LOCK_EXCLUSIVE || self.settings.unlocked;
        if !right && !self.checkpoint.uses_wal() {
            return;
        }
        let Some(stored) = self.contents.store_mut() else {
            return;
        };
        let begin = Instant::now();
        let limit = self.maintenance.dead_limit();
        let done = stored.handle().reclaim_share(limit, &|| begin.elapsed());
        match done {
            Ok(step) if step.next != ReclaimNext::Done => self.maintenance.falls_behind(),
            Ok(_) => {}
            Err(error) => self.not_given_back(&error),
        }
    }

    fn not_given_back(&self, error: &Error) {
        self.report(code_of(error), &format!("reclaiming space: {error}"));
    }

    /// Whether the last close has space to reclaim. Without locks it cannot know whether another
    /// connection is writing, so it reclaims nothing.
    ///
    /// A process that has only read reclaims what a killed process left. This is so if the file was
    /// not closed and exceeds the limit that is kept while writing. Another process that still has
    /// it open keeps that limit itself.
    fn restless(&mut self) -> bool {
        let settings = &self.settings;
        if settings.maintain_off || settings.options.read_only || settings.unlocked {
            return false;
        }
        let Some(stored) = self.contents.store_mut() else {
            return false;
        };
        let has_written = stored.view().has_written();
        if !has_written && !stored.view().is_unclosed() {
            return false;
        }
        let limit = match has_written {
            true => self.maintenance.rest_begins(),
            false => self.maintenance.dead_limit(),
        };
        if stored.handle().is_unsettled() || stored.wants_relearning(Occasion::Close) {
            return true;
        }
        let space = stored.handle().space();
        space.is_ok_and(|space| space.over(limit) || space.has_leftovers())
    }

    /// The optional part of the last close: slices, until nothing is left to do or another
    /// connection opens the file.
    fn rest_before_close(&mut self) {
        let Some(file) = self.role.open_file().cloned() else {
            return;
        };
        let until = Instant::now() + CLOSE_TIME;
        let mut tries = CLOSE_TRIES;
        while Instant::now() < until && !file.neighbours().others_hold(self.role.level()) {
            let Some(closing) = file.neighbours().begin_closing() else {
                return;
            };
            let alone = self.file.lock_alone(self.role.level());
            if alone {
                self.committed_without_wal();
            }
            // An error is already logged. It ends the reclamation, not the close.
            let rest = if alone {
                self.slice(Occasion::Close)
            } else {
                Ok(Rest::Done)
            };
            self.unlock_all();
            drop(closing);
            match rest {
                _ if !alone && tries > 0 => {
                    tries -= 1;
                    wait::pause(CLOSE_PAUSE);
                }
                Ok(Rest::More) => {}
                Ok(Rest::Wait) => self.wait_for_training(),
                Ok(Rest::Sync) if self.sync_unlocked().is_ok() => {}
                _ => return,
            }
        }
    }

    /// Takes part in the training that the next slices wait for, or waits a little if other threads
    /// run all of it. Call it without a lock.
    pub(super) fn wait_for_training(&self) {
        let stored = self.contents.store();
        if !stored.is_some_and(|stored| stored.view().train_here()) {
            wait::pause(TRAINING_PAUSE);
        }
    }

    /// A slice of the background worker. `None` if it did not get its locks.
    pub(crate) fn idle_slice(&mut self, occasion: Occasion) -> Option<Rest> {
        let file = self.role.open_file().cloned()?;
        let closing = file.neighbours().begin_closing()?;
        let lock = self.lock_slice()?;
        failpoint::at("maintaining");
        let done = self.slice(occasion);
        self.unlock_slice(lock);
        drop(closing);
        // An error is already noted; it ends the session.
        let rest = done.unwrap_or(Rest::Done);
        if rest == Rest::Sync && self.sync_unlocked().is_err() {
            return Some(Rest::Done);
        }
        Some(rest)
    }

    /// Takes the locks of a slice, all or none.
    pub(super) fn lock_slice(&mut self) -> Option<Slice> {
        if !Slice::share(&self.file, &self.role) {
            return None;
        }
        let mode = self.in_contents(false, |stored| {
            stored.handle().newest_commit()?;
            Ok(stored.view().in_rollback_mode())
        });
        let mode = mode.and_then(Result::<bool, Code>::ok);
        let slice = Slice::lock(&self.file, &self.role, &mut self.checkpoint, mode)?;
        if let Some(stored) = self.contents.store_mut() {
            match &slice {
                Slice::Reserved => stored.committed_without_wal(),
                Slice::Checkpoint if self.checkpoint.is_complete() => stored.is_committed(),
                Slice::Checkpoint | Slice::Exclusive => {}
            }
        }
        Some(slice)
    }

    pub(super) fn unlock_slice(&mut self, slice: Slice) {
        slice.unlock(&self.file, &self.role, &mut self.checkpoint);
    }

    /// Does as much as fits into [`SLICE`], under the locks that the caller holds, until no more of
    /// the file is dead or free than on this occasion. Before the worker has begun to reclaim, it
    /// moves nothing below the limit where reclamation starts, but it still drops free pages. An
    /// error is also logged, and the pending changes are forgotten.
    pub(super) fn slice(&mut self, occasion: Occasion) -> Result<Rest, Error> {
        let until = Instant::now() + SLICE;
        let trimmed = self.trim_at_rest(Reach::Slice);
        let Some(stored) = self.contents.store_mut() else {
            return Ok(Rest::Done);
        };
        let done = stored.reclaim(trimmed, &mut self.maintenance, occasion, until);
        if let Err(error) = &done {
            stored.handle().discard();
            self.not_given_back(error);
        }
        done
    }

    /// Syncs what slices have published, while no connection holds a lock. An error is also logged.
    pub(crate) fn sync_unlocked(&mut self) -> Result<(), Error> {
        let Some(stored) = self.contents.store_mut() else {
            return Ok(());
        };
        let Err(failed) = stored.handle().sync_published() else {
            return Ok(());
        };
        // The disk has dropped these writes. They must be written again before another connection
        // builds on them. On a slow disk, other connections hold their locks for long.
        let retry = Retry::within(FAILED_SYNC_WAIT);
        let lock = loop {
            let lock = self.lock_slice();
            if lock.is_some() || !retry.again() {
                break lock;
            }
        };
        let Some(stored) = self.contents.store_mut() else {
            return Ok(());
        };
        let error = match &lock {
            Some(_) => stored.handle().after_failed_sync(failed),
            None => stored.handle().leave_failed_sync(failed),
        };
        if let Some(lock) = lock {
            self.unlock_slice(lock);
        }
        self.not_given_back(&error);
        Err(error)
    }
}
