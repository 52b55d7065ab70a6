//! Journals and WALs that are known not to be there.
//!
//! In a rollback mode SQLite asks at the begin of every transaction whether there is a journal and whether there is a WAL, by two
//! calls of xAccess under SHARED (`hasHotJournal`, `pagerOpenWalIfPresent`). As a rule there are none, and in a transaction that reads
//! one row these calls are an eighth of the time. So an answer "no" is given again without asking the host, if
//!
//! 1. it was the host's, to this connection, under SHARED, of a database in a rollback mode,
//! 2. no commit was published since, and
//! 3. it is no older than [`AGE`].
//!
//! Why this changes nothing for a reader:
//!
//! - A *journal* that came since belongs to a transaction that has published nothing (2): either its writer is alive, then it is not hot; or
//!   it died, then the pages that it wrote are in no commit, and what the newest commit holds is what rolling back would give. A transaction over
//!   several files is no exception: each file is judged by its own commits.
//! - A *WAL* is made only when page 1 says so, which is a commit (2); with page 1 in WAL mode nothing is given from memory (1). SQLite's RBU alone puts one beside a
//!   database of a rollback mode, by a rename under EXCLUSIVE; so where such a lock goes and a WAL is there, a commit is made ([`MainFile::tell_of_wal`]).
//!
//! For a writer it would matter: who writes beside a hot journal without rolling it back (its own journal being in memory, say) leaves it to
//! damage what he commits. So RESERVED makes up for the question that was not put ([`MainFile::journal_came`]); should there be such a journal,
//! the answer is SQLITE_BUSY, after which SQLite begins anew and rolls it back. Plain SQLite could have given the same: that journal's writer
//! was at work since this transaction began, or within [`AGE`] before.
//!
//! The bound of time (3) is for those who find the journal and need EXCLUSIVE to roll it back: readers that come one upon the other would
//! keep them out for ever; so they, too, soon see it.
//!
//! Besides, for a connection whose file was replaced there is none, whatever lies beside the new one (`place.rs`).
//!
//! SQLite asks the VFS, not the file. Which connection asks is told by the thread, which has just taken SHARED through it, and by the
//! address of the name, which lies in the memory of that connection's own name.

use crate::main_file::{Done, MainFile, State};
use crate::place::Place;
use densite_disk::sync::Mutex;
use densite_sqlite::{Code, FileName, ffi};
use std::cell::RefCell;
use std::ffi::CStr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long an answer is good.
const AGE: Duration = Duration::from_millis(10);

thread_local! {
    /// Of the connection that took SHARED last on this thread.
    static LAST: RefCell<Option<Arc<Absent>>> = const { RefCell::new(None) };
}

/// What one connection knows of its journal and its WAL.
#[derive(Default)]
pub(crate) struct Absent {
    /// Addresses of their names; 0 is none.
    journal: usize,
    wal: usize,
    /// Of the database, once a lock was taken.
    place: OnceLock<Place>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Since SHARED was taken: the newest commit, of a rollback mode, and when it was looked at.
    now: Option<Seen>,
    /// When the host last said that there is no journal, and that there is no WAL.
    journal: Option<Seen>,
    wal: Option<Seen>,
    /// The host was not asked for the journal since SHARED was taken.
    not_asked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    commit: u64,
    at: Instant,
}

impl Known {
    /// Whether what was seen at `before` still holds.
    fn holds(&self, before: Option<Seen>) -> bool {
        self.now
            .zip(before)
            .is_some_and(|(now, before)| now.commit == before.commit && now.at - before.at < AGE)
    }
}

impl Absent {
    /// Of the database that SQLite opened under `name`.
    pub(crate) fn of(name: FileName<'_>) -> Arc<Absent> {
        let address = |name: Option<FileName<'_>>| name.map_or(0, |name| name.as_ptr().addr());
        Arc::new(Absent {
            journal: address(name.journal()),
            wal: address(name.wal()),
            place: OnceLock::new(),
            known: Mutex::default(),
        })
    }

    /// Whether the database's name leads to another file.
    pub(crate) fn is_left(&self) -> bool {
        self.place.get().is_some_and(Place::is_left)
    }

    /// SHARED was taken through this connection; `commit` is the newest one, of a database in a rollback mode.
    fn begin(self: &Arc<Self>, commit: Option<u64>) {
        let at = Instant::now();
        {
            let mut known = self.known.lock();
            known.now = commit.map(|commit| Seen { commit, at });
            known.not_asked = false;
        }
        // Without the note the host is asked, as it should be.
        let _ = LAST.try_with(|last| {
            let mut last = last.borrow_mut();
            if !last.as_ref().is_some_and(|last| Arc::ptr_eq(last, self)) {
                *last = Some(Arc::clone(self));
            }
        });
    }

    /// The lock changed otherwise: nothing is given from memory until SHARED is taken again.
    fn end(&self) {
        let mut known = self.known.lock();
        known.now = None;
        known.not_asked = false;
    }

    /// The file has other contents: their commits have the same numbers.
    pub(crate) fn forget(&self) {
        *self.known.lock() = Known::default();
    }

    /// Whether the file whose name is at `address` is known to be absent.
    fn knows(&self, address: usize) -> bool {
        let mut known = self.known.lock();
        if address == self.journal && known.holds(known.journal) {
            known.not_asked = true;
            return true;
        }
        address == self.wal && known.holds(known.wal)
    }

    /// The host said that there is no file of the name at `address`.
    fn note(&self, address: usize) {
        let mut known = self.known.lock();
        let now = known.now;
        if address == self.journal {
            known.journal = now;
        } else if address == self.wal {
            known.wal = now;
        }
    }
}

/// Answers xAccess for existence, from memory where that does, else by `host`.
pub(crate) fn exists(path: &CStr, host: impl FnOnce() -> Result<bool, Code>) -> Result<bool, Code> {
    let address = path.as_ptr().addr();
    let last = LAST.try_with(|last| last.borrow().clone()).ok().flatten();
    let Some(last) = last.filter(|last| address == last.journal || address == last.wal) else {
        return host();
    };
    if last.knows(address) {
        return Ok(false);
    }
    let there = host()?;
    if !there {
        last.note(address);
    }
    Ok(there && !last.is_left())
}

impl MainFile {
    /// SHARED was taken. The look at the newest commit is the one that SQLite's next read would have made.
    pub(crate) fn begin_shared(&mut self) {
        // What cannot be read is told by the read that follows.
        let newest = self.newest_at_begin().ok().flatten();
        let commit = newest
            .filter(|_| matches!(&self.state, State::Store(handle) if handle.in_rollback_mode()));
        self.absent.place.get_or_init(|| self.locate());
        self.absent.begin(commit);
    }

    /// A lock was given back, wholly or in part.
    pub(crate) fn end_shared(&self) {
        self.absent.end();
    }

    /// EXCLUSIVE is about to go, by SQLite's unlock or close. Where nothing was published under it, and the database is in a rollback mode, and yet a WAL is there, a commit
    /// that changes nothing makes others ask for it.
    pub(crate) fn tell_of_wal(&mut self) {
        if self.level < ffi::LOCK_EXCLUSIVE || self.has_published || self.settings.options.read_only
        {
            return;
        }
        let is_ours = matches!(&self.state, State::Store(handle) if handle.in_rollback_mode());
        let (Some(vfs), Some(wal)) = (self.host_vfs, self.name().and_then(|name| name.wal()))
        else {
            return;
        };
        if is_ours && vfs.access(wal.path(), ffi::ACCESS_EXISTS) == Ok(true) {
            // A failure is reported; the answers from memory age.
            let _ = self.in_store(densite_store::Handle::publish_nothing);
        }
    }

    /// RESERVED was taken. If the journal was not asked for when SHARED was, it is now; if one came that may be hot, RESERVED is given back.
    ///
    /// # Errors
    /// [`Code::BUSY`] then; the host's, when it cannot be told: RESERVED is given back then, too.
    pub(crate) fn journal_came(&self) -> Done {
        let not_asked = self.absent.known.lock().not_asked;
        let error = match not_asked.then(|| self.may_be_hot()) {
            None | Some(Ok(false)) => {
                self.absent.end();
                return Ok(());
            }
            Some(Ok(true)) => Code::BUSY,
            Some(Err(e)) => e,
        };
        self.absent.known.lock().journal = None;
        self.host.unlock(ffi::LOCK_SHARED)?;
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent() -> Arc<Absent> {
        Arc::new(Absent {
            journal: 8,
            wal: 16,
            place: OnceLock::new(),
            known: Mutex::default(),
        })
    }

    #[test]
    fn an_answer_is_good_for_the_same_commit_under_shared() {
        let absent = absent();
        assert!(!absent.knows(8), "no lock was taken");
        absent.begin(Some(7));
        assert!(!absent.knows(8), "nobody asked");
        absent.note(8);
        assert!(absent.knows(8));
        assert!(!absent.knows(16), "that is the other one");
        absent.end();
        assert!(!absent.knows(8), "no lock is held");
        absent.begin(Some(7));
        assert!(absent.knows(8));
        absent.begin(Some(8));
        assert!(!absent.knows(8), "something was published");
        absent.begin(None);
        assert!(!absent.knows(8), "it is in WAL mode, or cannot be read");
        absent.note(8);
        absent.begin(None);
        assert!(!absent.knows(8), "what was seen then is not known");
    }

    #[test]
    fn an_answer_ages() {
        let absent = absent();
        absent.begin(Some(7));
        absent.note(16);
        std::thread::sleep(AGE);
        absent.begin(Some(7));
        assert!(!absent.knows(16));
    }
}
