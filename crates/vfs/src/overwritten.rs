//! Other contents are written over a file that is open: `cp` over it, a backup that is put back in place.
//!
//! The store tells ([`Error::Overwritten`]): the commit in the file does not stand on the one that was known. Then the file is judged again, as if it
//! had been opened just now. But SQLite keeps pages, and pages of two databases must not meet. So that is done only
//! where SQLite keeps nothing that it would not compare or drop:
//!
//! - *In a rollback mode* when a transaction begins. SQLite then compares 16 bytes of page 1, which may be the same in both files, and drops its pages if they
//!   differ: that one time we see to it that they do ([`MainFile::forces_reset`]).
//! - *In WAL mode* when a snapshot begins for which SQLite drops its pages: the header of the WAL index is another one than last time, or this connection has just rebuilt it.
//!
//! Everywhere else the answer is an error, until one of these moments comes. So it is while the new contents are still being written: what the newest slot and
//! the tip say must be there before they are taken. An empty file is an empty database.

use crate::main_file::{Done, MainFile, State};
use crate::trim::Trim;
use densite_sqlite::Code;
use densite_store::{Error, Handle};
use std::time::{Duration, Instant};

/// How Densite's files begin.
const MAGIC: &[u8] = b"Densite";
/// How often a connection looks at the beginning of a snapshot that is the one it had before: from there on SQLite may answer from its own pages.
const AGE: Duration = Duration::from_millis(10);
/// SQLite's look at the change counter and what follows it, at the begin of a transaction in a rollback mode.
const VERSION: (u64, usize) = (24, 16);

/// What a connection knows of contents that came in the place of others.
#[derive(Default)]
pub(crate) struct Overwritten {
    /// The file was judged again, and what is in it is not whole yet.
    unsettled: bool,
    /// SQLite may have pages of the old contents.
    kept: bool,
    /// When it was looked last whether the contents are the same.
    looked: Option<Instant>,
}

impl Overwritten {
    /// Whether what was opened is to be waited for.
    pub(crate) fn awaits(&self, handle: &Handle) -> bool {
        self.unsettled && handle.is_cut()
    }

    /// The file was judged, and is whole.
    pub(crate) fn set_whole(&mut self) {
        self.unsettled = false;
    }
}

/// Whether a read is SQLite's look at the change counter.
pub(crate) fn reads_version(buf: &[u8], offset: u64) -> bool {
    (offset, buf.len()) == VERSION
}

impl MainFile {
    /// Runs an operation of the store, on other contents if they have come and may be taken now; `None` when the store is not in charge, or not any more.
    pub(crate) fn in_contents<T>(
        &mut self,
        begins: bool,
        mut body: impl FnMut(&mut Handle) -> Result<T, Error>,
    ) -> Option<Result<T, Code>> {
        let State::Store(handle) = &mut self.state else {
            return None;
        };
        match body(handle) {
            Err(Error::Overwritten) if begins || self.keeps_nothing() => {
                self.take_contents();
                self.in_store(body)
            }
            done => Some(done.map_err(|error| self.fail(&error))),
        }
    }

    /// Whether SQLite keeps no page now, or will compare before it uses one.
    fn keeps_nothing(&self) -> bool {
        let has_pending = matches!(&self.state, State::Store(handle) if handle.has_pending());
        let no_lock = self.level == densite_sqlite::ffi::LOCK_NONE && !self.settings.unlocked;
        !has_pending && (no_lock || self.checkpoint.has_rebuilt())
    }

    /// Judges a file again that has other contents.
    pub(crate) fn take_contents(&mut self) {
        self.overwritten.unsettled = true;
        self.overwritten.kept = true;
        self.trim = Trim::default();
        self.absent.forget();
        self.synced = false;
        self.judge();
        self.set_level(self.level);
    }

    /// The newest commit, of the contents that are there when a transaction begins; `None` where the store is not in charge.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn newest_at_begin(&mut self) -> Result<Option<u64>, Error> {
        match self.newest() {
            Err(Error::Overwritten) => {
                self.take_contents();
                self.newest()
            }
            done => done,
        }
    }

    fn newest(&mut self) -> Result<Option<u64>, Error> {
        match &mut self.state {
            State::Store(handle) => handle.newest_commit().map(Some),
            _ => Ok(None),
        }
    }

    /// A snapshot of the WAL begins.
    ///
    /// # Errors
    /// The file has other contents, and SQLite may go on with pages of the old ones.
    pub(crate) fn begin_snapshot(&mut self) -> Done {
        let resets = self.checkpoint.snapshot_resets();
        let now = Instant::now();
        let looked = self.overwritten.looked;
        if !resets && looked.is_some_and(|at| now.duration_since(at) < AGE) {
            return Ok(());
        }
        self.overwritten.looked = Some(now);
        match self.newest() {
            Err(Error::Overwritten) if resets => self.take_contents(),
            Err(error @ Error::Overwritten) => return Err(self.fail(&error)),
            // What cannot be read is told by the read that follows.
            _ => {}
        }
        Ok(())
    }

    /// A page of a plain file was read. Page 1 tells whether it is a plain file still.
    pub(crate) fn is_plain_no_more(&self, buf: &[u8], offset: u64) -> bool {
        offset == 0 && buf.starts_with(MAGIC) && !self.settings.keep_plain
    }

    /// SQLite has looked at the change counter. If it may have pages of other contents it sees another one than there is, once, and drops them.
    pub(crate) fn forces_reset(&mut self, buf: &mut [u8]) {
        if std::mem::take(&mut self.overwritten.kept) {
            for byte in buf {
                *byte = !*byte;
            }
        }
    }
}
