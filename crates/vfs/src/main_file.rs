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
//! Invariant: what a file was found to be holds as long as it has the same contents (see `overwritten`).
//! Invariant: in every state locks and shared memory are the host's, unchanged.

use crate::absent::Absent;
use crate::busy::Busy;
use crate::checkpoint::Checkpoint;
use crate::codes::code_of;
use crate::last_error::report;
use crate::maintain::Maintenance;
use crate::neighbours::Neighbours;
use crate::overwritten::Overwritten;
use crate::pause;
use crate::settings::Settings;
use crate::trim::Trim;
use densite_sqlite::{Api, Code, FileName, HostFile, HostVfs, ffi};
use densite_store::{Error, Handle};
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
    pub(crate) overwritten: Overwritten,
    pub(crate) busy: Busy,
    /// Something was published since SQLite took its lock.
    pub(crate) has_published: bool,
}

// SAFETY: `name` points to memory of SQLite's that is constant while the file is open, `busy` to
// memory that is read only by the thread that holds the connection's mutex; all else is Send by itself.
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
            host_vfs: Some(host_vfs),
            judged_locked: settings.unlocked,
            settings,
            path: name.path().to_string_lossy().into_owned(),
            name: name.as_ptr(),
            absent: Absent::of(name),
            ..MainFile::blank(host_vfs.api(), host, State::Undecided)
        }
    }

    /// A file whose settings are wrong. It opens, so that the connection can say why it is
    /// of no use (see `entry`), and answers every call with [`Code::CANTOPEN`].
    pub(crate) fn refused(api: Api, message: String) -> MainFile {
        MainFile {
            judged_locked: true,
            ..MainFile::blank(api, HostFile::closed(api), State::Refused(message))
        }
    }

    /// Without a name and settings, and with nothing that comes later.
    fn blank(api: Api, host: HostFile, state: State) -> MainFile {
        MainFile {
            api,
            vfs_name: String::new(),
            host_vfs: None,
            host,
            state,
            settings: Settings::default(),
            path: String::new(),
            name: std::ptr::null(),
            level: ffi::LOCK_NONE,
            judged_locked: false,
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
            overwritten: Overwritten::default(),
            busy: Busy::default(),
            has_published: false,
        }
    }

    /// SQLite's name for the file.
    pub(crate) fn name(&self) -> Option<FileName<'_>> {
        // SAFETY: null, or a name that lives until the file is closed, as `new` demands.
        unsafe { FileName::from_ptr(self.api, self.name) }
    }

    /// A sentence to the log and for the user.
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
    /// user must act on.
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

    /// Why this file is of no use, when that will not change: a wrong setting, or a format that is too new.
    pub(crate) fn refusal(&self) -> Option<String> {
        match &self.state {
            State::Refused(message) => Some(message.clone()),
            State::Broken(error @ Error::NewerFormat { .. }) => {
                Some(format!("{}: {error}", self.path))
            }
            _ => None,
        }
    }

    /// The code of a state that can answer nothing.
    pub(crate) fn useless(&self) -> Code {
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
            self.has_published = true;
            pause::at("after-publish");
            self.announce();
            self.tell_worker();
        }
        done
    }

    /// Makes all pending writes visible or, where that fails, forgets them: nothing
    /// unpublished may outlive the right to write.
    pub(crate) fn publish_or_discard(&mut self) -> Done {
        let done = self.publish();
        if done.is_err() {
            self.forget_unpublished();
        }
        done
    }

    /// What SQLite wrote and never announced, when its lock or the file goes: a transaction
    /// that it gave up in the middle. Plain SQLite would have left it in the file, under a
    /// journal that is still hot, and so it is here. But where no such journal is, since it
    /// was in memory or there was none, nothing would ever take it back: then it is forgotten.
    pub(crate) fn give_up_unpublished(&mut self) {
        if !matches!(&self.state, State::Store(handle) if handle.has_pending()) {
            return;
        }
        if self.journal_may_be_hot() {
            // Either outcome is right, so a failure is nobody's.
            let _ = self.publish_or_discard();
        } else {
            self.forget_unpublished();
        }
    }

    /// Forgets all pending writes.
    fn forget_unpublished(&mut self) {
        if let State::Store(handle) = &mut self.state {
            handle.discard();
        }
    }
}
