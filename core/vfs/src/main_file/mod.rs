//! An open main database file: SQLite's calls on it, and the part that answers each of them.
//!
//! [`MainFile`] consists of parts that own their state. Only a part's methods change its state; the
//! files of this folder decide the order of the calls. [`Contents`] has the states of a file.
//! Invariant: in every state locks and shared memory are the host's, unchanged.
//!
//! `calls` has SQLite's calls. It uses `locks`, `control` and `rest`; `locks` and `control` use
//! `rest`; all of them use the methods of this file, which use none of theirs.

mod at_rest_and_close;
mod calls;
mod connection_to_file;
mod control;
mod locks;

pub use connection_to_file::{followed, with_handle};
pub(crate) use connection_to_file::{refusal, remote_figures, take_checkpoint_end};

use crate::absent::Absent;
use crate::busy::Busy;
use crate::checkpoint::Checkpoint;
use crate::codes::{Done, code_of};
use crate::companions::{Found, Which};
use crate::connection_role::ConnectionRole;
use crate::contents::{Contents, State};
use crate::failpoint;
use crate::idle_queue::{self, Session};
use crate::last_error::{is_about, keep, report};
use crate::maintain::Maintenance;
use crate::named_file::NamedFile;
use crate::open_files::OpenFile;
use crate::remote::RemoteFile;
use crate::settings::Settings;
use crate::store_file::Stored;
use densite_sqlite::{Code, Companions, FileName, HostVfs, ffi};
use densite_store::{Error, Handle, LockLevel, probe};
use std::fmt::Display;
use std::sync::Arc;

/// An open main database file.
pub(crate) struct MainFile {
    file: NamedFile,
    /// The name of the VFS that SQLite opened it through.
    vfs_name: String,
    settings: Settings,
    contents: Contents,
    role: ConnectionRole,
    checkpoint: Checkpoint,
    maintenance: Maintenance,
    /// Whether its journal and its WAL are known to be absent.
    absent: Arc<Absent>,
    busy: Busy,
    /// A marker names a super-journal (`super_journal`).
    is_marked: bool,
    /// What the worker does with the idle file; `None` for the worker's own file.
    when_idle: Option<Session>,
}

/// Who opens the file.
pub(crate) enum OpenedBy<'a> {
    /// SQLite, for a connection.
    Connection {
        /// The name of the VFS.
        vfs: &'a str,
        /// What the worker does with the file once no connection writes to it.
        when_idle: Session,
    },
    /// The background worker.
    Worker,
}

impl MainFile {
    /// Opens a main database file over the host's `vfs` and judges what it is. Returns the file and
    /// the flags that it was opened with.
    ///
    /// # Errors
    /// The host's.
    ///
    /// # Safety
    /// `name` lives until the file is closed.
    pub(crate) unsafe fn open(
        vfs: HostVfs,
        name: FileName<'_>,
        flags: i32,
        mut settings: Settings,
        by: OpenedBy<'_>,
    ) -> Result<(MainFile, i32), Code> {
        // SAFETY: the caller guarantees it.
        let (file, flags) = unsafe { NamedFile::open(vfs, name, flags) }?;
        settings.options.read_only =
            flags & ffi::OPEN_READONLY != 0 || name.boolean(c"immutable", false);
        Ok((MainFile::over(file, name, settings, by), flags))
    }

    /// Opens a remote main database file, for reading only.
    ///
    /// # Safety
    /// As [`MainFile::open`].
    pub(crate) unsafe fn remote(
        vfs: HostVfs,
        name: FileName<'_>,
        remote: RemoteFile,
        mut settings: Settings,
        by: OpenedBy<'_>,
    ) -> MainFile {
        // A replica that is followed has a new state in each transaction, which begins with a lock.
        settings.unlocked = !remote.is_followed();
        // SAFETY: the caller guarantees it.
        let file = unsafe { NamedFile::remote(vfs, name, remote) };
        settings.options.read_only = true;
        MainFile::over(file, name, settings, by)
    }

    /// Judges what an open file is.
    fn over(file: NamedFile, name: FileName<'_>, settings: Settings, by: OpenedBy<'_>) -> MainFile {
        let contents = Contents::unjudged(settings.unlocked);
        let mut main = MainFile::with(file, name, settings, contents);
        match by {
            OpenedBy::Connection { vfs, when_idle } => {
                failpoint::at("host-opened");
                vfs.clone_into(&mut main.vfs_name);
                main.when_idle = Some(when_idle);
            }
            OpenedBy::Worker => main.role = ConnectionRole::new(true),
        }
        main.judge();
        main
    }

    /// A file whose settings are wrong. It opens, so that the connection can report the reason (see
    /// `entry`), and it answers every call with [`Code::CANTOPEN`].
    ///
    /// # Safety
    /// As [`MainFile::open`].
    pub(crate) unsafe fn refused(vfs: HostVfs, name: FileName<'_>, message: String) -> MainFile {
        // SAFETY: the caller guarantees it.
        let file = unsafe { NamedFile::closed(vfs, name) };
        MainFile::with(file, name, Settings::default(), Contents::refused(message))
    }

    fn with(
        file: NamedFile,
        name: FileName<'_>,
        settings: Settings,
        contents: Contents,
    ) -> MainFile {
        MainFile {
            file,
            vfs_name: String::new(),
            settings,
            contents,
            role: ConnectionRole::new(false),
            checkpoint: Checkpoint::default(),
            maintenance: Maintenance::default(),
            absent: Absent::of(name),
            busy: Busy::default(),
            is_marked: false,
            when_idle: None,
        }
    }

    /// For the worker: takes over the settings of the connections that have `file` open. Returns
    /// whether this is the same file, is a Densite file, and is open for writing.
    pub(crate) fn is_store_for_writing(&mut self, file: &Arc<OpenFile>) -> bool {
        self.maintenance.set_dead_limit(file.idle().dead_limit());
        let is_same = self
            .role
            .open_file()
            .is_some_and(|own| Arc::ptr_eq(own, file));
        is_same && self.contents.store().is_some() && !self.settings.options.read_only
    }

    /// Writes a message to SQLite's log and keeps it for the user. A message of the worker waits
    /// for the next connection.
    fn report(&self, code: Code, what: &dyn Display) {
        if self.role.is_worker() {
            if let Some(file) = self.role.open_file() {
                file.idle().keep_message(code, what.to_string());
            }
            return;
        }
        let path = self.file.path();
        report(self.file.api(), code, &format!("{path}: {what}"));
    }

    /// Reports an error of the store and returns its code.
    fn fail(&self, error: &Error) -> Code {
        let code = code_of(error);
        self.report_error(code, matches!(error, Error::Io(_)), error);
        self.note_damage(error);
        code
    }

    /// Notes that the message that was just kept is about damage, if the error is.
    fn note_damage(&self, error: &Error) {
        if let Error::Corrupt(damage) = error
            && !self.role.is_worker()
        {
            is_about(damage);
        }
    }

    /// Reports an error of the store. Of a failed read of a remote file the store knows only a code,
    /// and the remote file knows the reason, which names the URL.
    fn report_error(&self, code: Code, is_io: bool, what: &dyn Display) {
        let remote = self.file.as_remote().filter(|_| is_io);
        match remote.and_then(RemoteFile::take_failure) {
            Some(why) => report(self.file.api(), code, &why),
            None => self.report(code, what),
        }
    }

    /// Why this file cannot be used, if that will not change.
    fn refusal(&self) -> Option<String> {
        self.contents.refusal(self.file.path())
    }

    /// Judges the file again, whatever was known. Never fails: a file that cannot be judged is
    /// `Broken` and is judged again later.
    fn judge(&mut self) {
        let found = probe(self.file.host());
        let MainFile {
            file,
            settings,
            contents,
            role,
            checkpoint,
            ..
        } = self;
        let open = || open_store(file, settings, role, checkpoint);
        let wrong = contents.judge(found, settings.keep_plain, open);
        match wrong.map(|(e, is_new)| (e.clone(), is_new)) {
            Some((error, true)) => {
                self.fail(&error);
            }
            Some((error, false)) if !self.role.is_worker() => {
                keep(&format!("{}: {error}", self.file.path()));
                self.note_damage(&error);
            }
            _ => {}
        }
        self.rename_beside();
        self.announce();
    }

    /// Lets the files beside this one have the names that are right for what it is now.
    fn rename_beside(&mut self) {
        let is_plain = matches!(self.contents.state(), State::Plain);
        let has_changed = self.file.set_plain(is_plain);
        if has_changed && self.checkpoint.uses_wal() {
            // This connection has the WAL of the other name open, and shares its index with
            // connections that have this one.
            self.refuse(
                "another file was written over it; close this connection and open it again",
            );
        } else {
            self.refuse_foreign();
        }
    }

    /// Nothing is done any more through this connection.
    fn refuse(&mut self, why: &str) {
        self.report(Code::CANTOPEN, &why);
        let message = format!("{}: {why}", self.file.path());
        self.contents.refuse(message);
    }

    /// Refuses a Densite file with a journal or a WAL of another program beside it. Which of both
    /// has what the user wants is unknown, and any program that looks at the file with SQLite's own
    /// VFS would play it into the file.
    fn refuse_foreign(&mut self) {
        if self.contents.store().is_none() {
            return;
        }
        // If the host cannot tell, it is taken as absent.
        let foreign = |which| self.file.foreign(which).unwrap_or(Found::Nothing);
        let found = [Which::Journal, Which::Wal].map(|which| (which, foreign(which)));
        // Perhaps the marker of a process that was killed.
        self.is_marked |= found[0].1 == Found::Cold && !self.settings.options.read_only;
        let hot = found.iter().find(|(_, found)| *found == Found::Hot);
        let Some(foreign) = hot.and_then(|(which, _)| self.file.plain(*which)) else {
            return;
        };
        let foreign = foreign.path().to_string_lossy().into_owned();
        let own = match foreign.strip_suffix(Companions::PLAIN.wal) {
            Some(database) => format!("{database}{}", Companions::DENSITE.wal),
            None => format!("{}{}", self.file.path(), Companions::DENSITE.journal),
        };
        let what = format!(
            "{foreign} is beside it, which is not of this database's present state: if an earlier build of Densite left it, rename it to {own}; otherwise move it away"
        );
        self.refuse(&what);
    }

    /// Judges the file again if it is still to be judged.
    fn judge_if_pending(&mut self) {
        if self.contents.is_pending() {
            self.judge();
        }
    }

    /// Turns an empty file into a Densite file. Its first write follows, and the caller has the
    /// right to write.
    fn become_store(&mut self) -> Done {
        if let Err(code) = self.file.remove_foreign() {
            self.report(
                code,
                &"a journal or WAL that is beside the empty file cannot be removed",
            );
            return Err(code);
        }
        let MainFile {
            file,
            settings,
            role,
            checkpoint,
            ..
        } = self;
        match open_store(file, settings, role, checkpoint) {
            Ok(stored) => {
                self.contents.become_store(stored);
                Ok(())
            }
            Err(error) => Err(self.fail(&error)),
        }
    }

    /// Makes the store known to the connections that write the WAL, once it can pre-encode pages.
    fn announce(&mut self) {
        if let (Some(stored), Some(file)) = (self.contents.store_mut(), self.role.open_file()) {
            stored.announce(file);
        }
    }

    /// Runs an operation of the store; `None` if this is not a Densite file.
    fn in_store<T>(
        &mut self,
        body: impl FnOnce(&mut Stored) -> Result<T, Error>,
    ) -> Option<Result<T, Code>> {
        let done = body(self.contents.store_mut()?);
        Some(done.map_err(|error| self.fail(&error)))
    }

    /// Runs an operation of the store. If the file has other contents and they can be used now,
    /// judges the file first. `None` if this is not, or no longer, a Densite file.
    fn in_contents<T>(
        &mut self,
        begins: bool,
        mut body: impl FnMut(&mut Stored) -> Result<T, Error>,
    ) -> Option<Result<T, Code>> {
        match body(self.contents.store_mut()?) {
            Err(Error::Overwritten) if begins || self.keeps_nothing() => {
                self.take_contents();
                self.in_store(body)
            }
            done => Some(done.map_err(|error| self.fail(&error))),
        }
    }

    /// Whether SQLite has no cached pages now, or compares before it uses one.
    fn keeps_nothing(&self) -> bool {
        !self.has_pending() && (self.holds_no_lock() || self.checkpoint.has_rebuilt())
    }

    /// Whether SQLite could hold a lock but does not.
    fn holds_no_lock(&self) -> bool {
        self.role.level() == ffi::LOCK_NONE && !self.settings.unlocked
    }

    /// Judges a file that has other contents.
    fn take_contents(&mut self) {
        self.contents.overwritten().begins();
        self.absent.forget();
        self.judge();
        self.set_level(self.role.level());
    }

    /// Notes the lock that SQLite holds, for the process's other connections and for the store.
    fn set_level(&mut self, level: i32) {
        self.role.set_level(level);
        if let Some(stored) = self.contents.store_mut() {
            stored.handle().set_lock_level(match level {
                ffi::LOCK_NONE => LockLevel::Nothing,
                ffi::LOCK_EXCLUSIVE => LockLevel::Exclusive,
                _ => LockLevel::Shared,
            });
        }
    }

    /// Whether SQLite wrote something that is not published.
    fn has_pending(&self) -> bool {
        let store = self.contents.store();
        store.is_some_and(|stored| stored.view().has_pending())
    }

    /// Whether this is a Densite file in a rollback mode.
    fn in_rollback_mode(&self) -> bool {
        let store = self.contents.store();
        store.is_some_and(|stored| stored.view().in_rollback_mode())
    }

    /// Publishes all pending writes.
    fn publish(&mut self) -> Done {
        self.publish_by(Handle::publish)
    }

    fn publish_by(&mut self, publish: fn(&mut Handle) -> Result<(), Error>) -> Done {
        if !self.has_pending() {
            return Ok(());
        }
        failpoint::at("before-publish");
        let done = self.in_store(|stored| publish(stored.handle()));
        let done = done.unwrap_or(Ok(()));
        if done.is_ok() {
            self.role.publishes();
            failpoint::at("after-publish");
            self.announce();
            self.tell_worker(true);
        }
        done
    }

    /// Publishes all pending writes; if that fails, forgets them. No unpublished write may outlive
    /// the right to write.
    fn publish_or_discard(&mut self) -> Done {
        let done = self.publish();
        if done.is_err() {
            self.forget_unpublished();
        }
        done
    }

    /// Forgets all pending writes. Also those of a transaction that SQLite gave up in the middle, when
    /// its lock is released or the file is closed: if its journal is hot, it is played back into the
    /// newest commit, which is what the journal restores. So that rollback needs no space (rule
    /// S11).
    fn forget_unpublished(&mut self) {
        if let Some(stored) = self.contents.store_mut() {
            stored.handle().discard();
        }
    }

    /// This connection has published, or only written to the WAL. Tells the worker, if a worker is
    /// possible, and reports the worker's messages.
    fn tell_worker(&self, publishes: bool) {
        let (Some(file), Some(when_idle)) = (self.role.open_file(), self.when_idle) else {
            return;
        };
        let idle = file.idle();
        if publishes {
            idle.writes();
        } else if idle.has_rested() {
            return;
        }
        let settings = &self.settings;
        if settings.maintain_off || settings.options.read_only || settings.unlocked {
            return;
        }
        idle.set_dead_limit(self.maintenance.dead_limit());
        if idle.is_listed() {
            return;
        }
        let vfs = self.file.vfs();
        let Some(name) = self.file.name() else {
            return;
        };
        if !idle.is_ours() || !idle_queue::is_possible(vfs) {
            return;
        }
        self.tell_messages();
        idle_queue::add(file, vfs, name, settings, when_idle);
    }

    /// Tells the worker if the share of the last commit or checkpoint left more to do.
    fn tell_worker_to_help(&mut self) {
        if !self.maintenance.take_behind() {
            return;
        }
        if let Some(file) = self.role.open_file() {
            file.idle().falls_behind();
            self.tell_worker(true);
            idle_queue::look_again();
        }
    }

    /// Reports messages that the worker could not report itself.
    fn tell_messages(&self) {
        let file = self.role.open_file();
        for (code, message) in file.into_iter().flat_map(|f| f.idle().take_messages()) {
            self.report(code, &message);
        }
    }
}

/// Opens the store in a file and counts the connection among those that use the file.
fn open_store(
    file: &NamedFile,
    settings: &Settings,
    role: &mut ConnectionRole,
    checkpoint: &Checkpoint,
) -> Result<Stored, Error> {
    let identity = file.identity();
    let stored = Stored::open(file, identity.as_str(), settings.options.clone())?;
    role.join(OpenFile::on(&identity), checkpoint.uses_wal());
    Ok(stored)
}
