//! The end of a connection's file.
//!
//! The last close makes a slot durable that names the tip (rule 10). SQLite holds no lock
//! at xClose in rollback mode, so we take one, and in a way that nobody can notice:
//!
//! 1. SHARED; if that is busy, someone else is there and will be the last.
//! 2. No journal may be hot: RESERVED would make it look cold to readers (rule 2). None can
//!    become hot now: a writer that dies while we hold SHARED never had EXCLUSIVE, so its
//!    journal belongs to an unchanged file.
//! 3. RESERVED and at once EXCLUSIVE; if either is busy, we leave.
//!
//! A connection that meets this lock waits for it (`neighbours`, rule 3). A WAL does not
//! matter: whoever uses it holds SHARED, so EXCLUSIVE proves that nobody does, and what a
//! slot names is the same state as before.

use crate::main_file::{Done, MainFile, State};
use crate::pause;
use crate::trim::{Reach, Trimmed};
use densite_sqlite::{Code, ffi};
use densite_store::{Error, Handle};

impl MainFile {
    /// xClose. Whatever fails on the way is logged; the file is closed all the same.
    pub(crate) fn close_file(&mut self) -> Done {
        self.give_up_unpublished();
        self.tell_of_wal();
        if let Some(neighbours) = self.neighbours.clone() {
            self.leave(&neighbours);
            self.tell_messages();
        }
        self.close_clean_alone();
        if self.restless() {
            self.rest_before_close();
            self.close_clean_alone();
        }
        // The store's clone of the file goes first.
        self.state = State::Refused(String::new());
        self.set_level(ffi::LOCK_NONE);
        self.host.close()
    }

    /// Names the tip in a slot; the caller has the writer's right.
    pub(crate) fn close_clean(&mut self) {
        if !self.wants_slot() {
            return;
        }
        self.trim_at_rest(Reach::All);
        if let State::Store(handle) = &mut self.state
            && let Err(error) = handle.close_clean()
        {
            self.log(&error);
        }
    }

    /// Drops the frames of free pages as far as `reach` says, to be published with what follows. In a rollback mode the end of the last
    /// journal is made durable before (`trim`).
    pub(crate) fn trim_at_rest(&mut self, reach: Reach) -> Trimmed {
        let trimmed = self.trim(reach);
        if trimmed.pages == 0 || trimmed.again {
            return trimmed;
        }
        if let State::Store(handle) = &self.state
            && handle.in_rollback_mode()
            && self.sync_journal().is_err()
        {
            self.forget_trim();
            return Trimmed::default();
        }
        trimmed
    }

    /// Names the tip in a slot under a lock of our own, if nobody else is there.
    fn close_clean_alone(&mut self) {
        if !self.wants_slot() || self.settings.unlocked || self.level > ffi::LOCK_SHARED {
            return;
        }
        let Some(neighbours) = self.neighbours.clone() else {
            return;
        };
        if neighbours.others_hold(self.level) {
            return;
        }
        let Some(closing) = neighbours.begin_closing() else {
            return;
        };
        if self.lock_alone() {
            pause::at("closing-locked");
            // Nobody else is there and no journal is hot.
            self.committed_without_wal();
            self.close_clean();
        }
        if self.host.unlock(ffi::LOCK_NONE).is_ok() {
            self.set_level(ffi::LOCK_NONE);
        }
        drop(closing);
    }

    fn wants_slot(&self) -> bool {
        !self.settings.options.read_only
            && matches!(&self.state, State::Store(handle) if Handle::unslotted(handle))
    }

    /// The three steps above; whether EXCLUSIVE is held. Level keeping is not told: this
    /// lock is not SQLite's.
    pub(crate) fn lock_alone(&self) -> bool {
        (self.level >= ffi::LOCK_SHARED || self.host.lock(ffi::LOCK_SHARED).is_ok())
            && !self.journal_may_be_hot()
            && self.host.lock(ffi::LOCK_RESERVED).is_ok()
            && self.host.lock(ffi::LOCK_EXCLUSIVE).is_ok()
    }

    /// As [`MainFile::may_be_hot`]; when in doubt, yes.
    pub(crate) fn journal_may_be_hot(&self) -> bool {
        self.may_be_hot().unwrap_or(true)
    }

    /// Whether a journal lies beside the file that SQLite might roll back: by its own rule one whose first byte is not zero. One that cannot be opened may be.
    ///
    /// # Errors
    /// Those of the host, when it cannot be told.
    pub(crate) fn may_be_hot(&self) -> std::result::Result<bool, Code> {
        let (Some(vfs), Some(journal)) = (self.host_vfs, self.name().and_then(|n| n.journal()))
        else {
            return Ok(true);
        };
        if !vfs.access(journal.path(), ffi::ACCESS_EXISTS)? {
            return Ok(false);
        }
        // SAFETY: the name lives in the database's name, and this file is closed at the
        // end of this function.
        let opened =
            unsafe { vfs.open(Some(journal), ffi::OPEN_READONLY | ffi::OPEN_MAIN_JOURNAL) };
        let Ok((file, _)) = opened else {
            return Ok(true);
        };
        let mut first = [0];
        match file.read(&mut first, 0) {
            Ok(()) => Ok(first != [0]),
            Err(Code::IOERR_SHORT_READ) => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn log(&self, error: &Error) {
        let message = format!("{}: closing: {error}", self.path);
        self.api
            .log(crate::codes::code_of(error), &format!("densite: {message}"));
    }
}
