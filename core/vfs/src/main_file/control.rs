//! xFileControl: SQLite's notifications and PRAGMAs.

use super::MainFile;
use super::connection_to_file::{self, Query};
use crate::codes::{Done, code_of};
use crate::companions::{Found, Which};
use crate::contents::State;
use crate::late_truncate::sync_journal;
use crate::maintain::Occasion;
use crate::neighbours::Closing;
use crate::open_files::OpenFile;
use crate::pragma::{self, Pragma};
use crate::slice::{Rest, Slice};
use crate::trim::Reach;
use crate::{failpoint, super_journal};
use densite_disk::wait::Retry;
use densite_sqlite::{Code, Error as Wrong, ffi};
use densite_store::{Error, Handle};
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

/// How long `densite_maintain` waits for a lock that another connection's maintenance can hold.
/// After that, the connection's busy handler decides.
const LOCK_WAIT: Duration = Duration::from_millis(100);

impl MainFile {
    /// xFileControl.
    ///
    /// # Safety
    /// `arg` is what SQLite's documentation, or [`connection_to_file`], says for `op`.
    pub(super) unsafe fn control(&mut self, op: i32, arg: *mut c_void) -> Code {
        match op {
            // SAFETY: the operation's argument, as the caller guarantees.
            connection_to_file::OPCODE => return unsafe { Query::answer(self, arg) },
            // SAFETY: this operation takes a `char**`.
            ffi::FCNTL_VFSNAME => return unsafe { self.vfs_name(arg.cast::<*mut c_char>()) },
            ffi::FCNTL_PRAGMA => {
                // SAFETY: this operation takes an array of three `char*` at least.
                let answer = unsafe { self.pragma(arg.cast::<*mut c_char>()) };
                if answer != Code::NOTFOUND {
                    return answer;
                }
            }
            _ => {}
        }
        if op == ffi::FCNTL_BUSYHANDLER {
            self.busy.set_handler(arg);
        }
        match (self.contents.state(), op) {
            (State::Refused(_), _) => Code::NOTFOUND,
            (State::Plain, _) => self.forward(op, arg),
            // The file does not grow as SQLite expects, and it cannot be mapped.
            (_, ffi::FCNTL_SIZE_HINT | ffi::FCNTL_CHUNK_SIZE) => Code::OK,
            (_, ffi::FCNTL_MMAP_SIZE) => {
                // SAFETY: this operation takes an `i64*`, for the limit now in force.
                unsafe { *arg.cast::<i64>() = 0 };
                Code::OK
            }
            (_, ffi::FCNTL_SYNC) => {
                self.checkpoint.is_over();
                self.trim(Reach::Due);
                // SAFETY: the argument is null, or the path of the super-journal.
                let super_journal = (!arg.is_null()).then(|| unsafe { CStr::from_ptr(arg.cast()) });
                Code::of(self.publish_commit(super_journal))
            }
            (_, ffi::FCNTL_COMMIT_PHASETWO) => Code::of(self.phase_two()),
            (_, ffi::FCNTL_CKPT_START) => {
                self.checkpoint_start();
                Code::OK
            }
            (_, ffi::FCNTL_CKPT_DONE) => Code::of(self.checkpoint_done()),
            // The host makes its own writes atomic, but those are different writes.
            (
                _,
                ffi::FCNTL_BEGIN_ATOMIC_WRITE
                | ffi::FCNTL_COMMIT_ATOMIC_WRITE
                | ffi::FCNTL_ROLLBACK_ATOMIC_WRITE
                | ffi::FCNTL_OVERWRITE,
            ) => Code::NOTFOUND,
            // HAS_MOVED, PERSIST_WAL, POWERSAFE_OVERWRITE, LOCK_TIMEOUT, LOCKSTATE, LAST_ERRNO,
            // TEMPFILENAME and the others are about the file, its locks or its companion files.
            _ => self.forward(op, arg),
        }
    }

    fn forward(&self, op: i32, arg: *mut c_void) -> Code {
        // SAFETY: the argument of the same operation, as the caller of `control` guarantees.
        unsafe { self.file.host().file_control(op, arg) }
    }

    /// Stores `densite/unix`, in memory that SQLite frees.
    ///
    /// # Safety
    /// `out` is valid for writing a pointer.
    unsafe fn vfs_name(&self, out: *mut *mut c_char) -> Code {
        let mut below: *mut c_char = std::ptr::null_mut();
        let rc = self.forward(ffi::FCNTL_VFSNAME, (&raw mut below).cast::<c_void>());
        let host = if rc == Code::OK && !below.is_null() {
            // SAFETY: terminated text that the host allocated for us.
            unsafe { CStr::from_ptr(below) }
                .to_string_lossy()
                .into_owned()
        } else {
            self.file.vfs().name()
        };
        let api = self.file.api();
        // SAFETY: null, or allocated by the host for us; not used again.
        unsafe { api.free(below.cast()) };
        // SAFETY: the caller guarantees that `out` is valid.
        unsafe { *out = api.string(&format!("{}/{host}", self.vfs_name)) };
        Code::OK
    }

    /// Publishes a transaction whose journal is durable.
    fn publish_commit(&mut self, super_journal: Option<&CStr>) -> Done {
        if let Some(path) = super_journal {
            self.is_marked = true;
            super_journal::put(&self.file, path)?;
        }
        self.publish_by(Handle::publish_undoable)
    }

    /// The commit of several databases is over, or will be rolled back.
    pub(super) fn unmark(&mut self) {
        if !self.is_marked || self.file.journal_may_be_hot() {
            return;
        }
        self.is_marked = false;
        // Where another file was put in this one's place, it may be that file's journal.
        let is_cold = self.file.foreign(Which::Journal) == Ok(Found::Cold);
        if is_cold && !self.absent.is_left() {
            super_journal::remove(&self.file);
        }
    }

    /// COMMIT_PHASETWO: the transaction is over, and only a late truncation can still need
    /// publishing.
    fn phase_two(&mut self) -> Done {
        let is_cut_late = self.contents.store().is_some_and(|s| s.is_cut_late());
        if is_cut_late && let Err(code) = sync_journal(&self.file) {
            self.forget_unpublished();
            return Err(code);
        }
        self.publish()?;
        self.unmark();
        self.committed_without_wal();
        // In WAL mode the lock on the file does not give the right to write.
        if self.role.level() == ffi::LOCK_EXCLUSIVE || self.settings.unlocked {
            // With synchronous=OFF, SQLite never syncs (rule S9).
            let synced = self.in_store(|stored| stored.handle().sync_if_due());
            synced.transpose()?;
            self.maintain_a_little();
            self.tell_worker_to_help();
        }
        Ok(())
    }

    /// CKPT_START: pages follow, usually while a connection waits in its commit.
    fn checkpoint_start(&mut self) {
        self.checkpoint.start();
        if let Some(stored) = self.contents.store_mut() {
            stored.handle().set_hurry(true);
        }
    }

    /// CKPT_DONE: the pages must be visible before SQLite sends readers to them (rule S4).
    fn checkpoint_done(&mut self) -> Done {
        self.checkpoint.publishes();
        failpoint::at("checkpoint-done");
        let done = self.publish_or_discard();
        if done.is_ok() {
            // Before SQLite syncs: what is freed here can be used a checkpoint earlier.
            self.maintain_a_little();
        }
        self.checkpoint.ends(done);
        if let Some(stored) = self.contents.store_mut() {
            stored.handle().set_hurry(false);
        }
        done
    }

    /// SQLITE_FCNTL_PRAGMA: the arguments are a place for the answer's text, the name, and the
    /// value or null. [`Code::NOTFOUND`] if the PRAGMA is not ours, or does not apply to this file.
    ///
    /// # Safety
    /// As [`pragma::read`].
    unsafe fn pragma(&mut self, arguments: *mut *mut c_char) -> Code {
        // SAFETY: the caller guarantees it.
        let Some((name, value)) = (unsafe { pragma::read(arguments) }) else {
            return Code::NOTFOUND;
        };
        if name == "wal_checkpoint" {
            self.checkpoint.asks();
        }
        if !name.starts_with("densite_") {
            return Code::NOTFOUND;
        }
        let (code, answer) = if let Some(message) = self.refusal() {
            (Code::CANTOPEN, message)
        } else {
            match Pragma::named(&name) {
                Err(message) => (Code::ERROR, message),
                Ok(_) if matches!(self.contents.state(), State::Plain) => return Code::NOTFOUND,
                Ok(pragma) => match self.answer(pragma, value) {
                    Ok(value) => (Code::OK, value),
                    Err(wrong) => (wrong.code, wrong.message),
                },
            }
        };
        // SAFETY: the first place is for the answer, which SQLite frees.
        unsafe { *arguments = self.file.api().string(&answer) };
        code
    }

    /// Reclaims space and returns by how many bytes the file is shorter; or sets a setting if there
    /// is a value, and returns the value that is now in force.
    fn answer(&mut self, pragma: Pragma, value: Option<String>) -> Result<String, Wrong> {
        let Pragma::Setting(setting) = pragma else {
            if let Some(value) = value {
                let message = format!(
                    "PRAGMA densite_maintain reclaims space now and takes no value such as {value:?}; to turn maintenance off, open the database with maintain=off"
                );
                return Err(Wrong::new(Code::ERROR, message));
            }
            return self.maintain_now().map(|bytes| bytes.to_string());
        };
        if let Some(value) = value.as_deref() {
            let store = self.contents.store_mut().map(|stored| stored.handle());
            let (settings, maintenance) = (&mut self.settings, &mut self.maintenance);
            pragma::set((setting, value), settings, store, maintenance)
                .map_err(|message| Wrong::new(Code::ERROR, message))?;
        }
        let store = self.contents.store();
        let options = store.map_or(&self.settings.options, |stored| stored.view().options());
        Ok(pragma::value(setting, options, &self.maintenance))
    }

    /// `PRAGMA densite_maintain`: the steps of space reclamation that are due now. Returns by how
    /// many bytes the file is shorter.
    ///
    /// # Errors
    /// With a sentence as its message: a transaction is open; [`Code::BUSY`] if the database is
    /// locked for longer than the busy handler waits; the store's own errors (a full disk, a failed
    /// read). Space that was reclaimed before the error stays reclaimed.
    fn maintain_now(&mut self) -> Result<u64, Wrong> {
        let refused = |why: &str| Err(Wrong::new(Code::ERROR, format!("densite_maintain: {why}")));
        if self.contents.store().is_none() {
            return Ok(0);
        }
        if self.settings.options.read_only {
            return refused("the database is open for reading only");
        }
        if self.settings.unlocked {
            return refused(
                "the database is open without locks (nolock); close its other connections and open it with locks",
            );
        }
        if self.role.level() > ffi::LOCK_SHARED || self.has_pending() {
            return refused("a transaction is open; end it first");
        }
        let before = self.file_bytes();
        self.maintenance.forget_damage();
        loop {
            let Some(file) = self.role.open_file().cloned() else {
                return Ok(0);
            };
            let (lock, closing) = self.wait_for_slice(&file)?;
            failpoint::at("maintaining");
            let done = self.slice(Occasion::Asked);
            self.unlock_slice(lock);
            drop(closing);
            let failed =
                |error: Error| Wrong::new(code_of(&error), format!("densite_maintain: {error}"));
            match done.map_err(failed)? {
                Rest::More => failpoint::at("between-slices"),
                Rest::Wait => self.wait_for_training(),
                Rest::Sync => self.sync_unlocked().map_err(failed)?,
                Rest::Done => break,
            }
        }
        let given = before.saturating_sub(self.file_bytes());
        match self.maintenance.damaged() {
            [] => Ok(given),
            damaged @ [first, ..] => refused(&format!(
                "{given} bytes were reclaimed, but {} places are damaged and were left unchanged; run `densite check` ({first})",
                damaged.len(),
            )),
        }
    }

    /// Takes the locks of a slice that the user asked for. Called from SQLite, for the connection's
    /// PRAGMA.
    fn wait_for_slice<'f>(
        &mut self,
        file: &'f Arc<OpenFile>,
    ) -> Result<(Slice, Option<Closing<'f>>), Wrong> {
        let retry = Retry::within(LOCK_WAIT);
        loop {
            let closing = file.neighbours().begin_closing();
            if closing.is_some()
                && let Some(lock) = self.lock_slice()
            {
                return Ok((lock, closing));
            }
            drop(closing);
            if retry.again() {
                continue;
            }
            // SAFETY: SQLite is compiling the PRAGMA on the connection that has this file open.
            if !unsafe { self.busy.waits() } {
                let why = "densite_maintain: the database is locked; try again later, or set a longer busy_timeout";
                return Err(Wrong::new(Code::BUSY, why));
            }
        }
    }

    fn file_bytes(&self) -> u64 {
        let store = self.contents.store();
        store.map_or(0, |stored| stored.view().end_bytes())
    }
}
