//! Journals and WALs that are known not to be there.
//!
//! In a rollback mode SQLite asks at the begin of every transaction whether there is a journal and
//! whether there is a WAL: two calls of xAccess under SHARED (`hasHotJournal`,
//! `pagerOpenWalIfPresent`). As a rule there are none. In a transaction that reads one row these
//! calls take an eighth of the time. So an answer "no" is given again without asking the host, if
//!
//! 1. it was the host's, to this connection, under SHARED, of a database in a rollback mode,
//! 2. no commit was published since, and
//! 3. it is no older than [`AGE`].
//!
//! Why this changes nothing for a reader:
//!
//! - A *journal* that came since belongs to a transaction that has published nothing (2). Either
//!   its writer is alive: then it is not hot. Or its writer died: then the pages that it wrote are
//!   in no commit, and the newest commit holds what rolling back would give. A transaction over
//!   several files is no exception: each file is judged by its own commits.
//! - A *WAL* is made only when page 1 says so, which is a commit (2). With page 1 in WAL mode
//!   nothing is given from memory (1). Only SQLite's RBU puts a WAL beside a database of a rollback
//!   mode, by a rename under EXCLUSIVE. So a commit is made where such a lock goes and a WAL is
//!   there (`MainFile::tell_of_wal`).
//!
//! For a writer it would matter. A writer can begin beside a hot journal without rolling it back,
//! for example because its own journal is in memory. The hot journal would later damage its
//! commit. So RESERVED makes up for the question that was not put (`MainFile::journal_came`). If
//! there is such a journal, the answer is SQLITE_BUSY. SQLite then begins again and rolls it back.
//! Plain SQLite could have given the same answer: that journal's writer was at work since this
//! transaction began, or within [`AGE`] before.
//!
//! The bound of time (3) is for connections that find the journal and need EXCLUSIVE to roll it
//! back. Readers that follow each other without a gap would keep them out for ever; so readers,
//! too, soon see the journal.
//!
//! Besides, a connection whose file was replaced has no journal and no WAL, whatever lies beside
//! the new file (`place.rs`).
//!
//! SQLite asks the VFS, not the file. The thread tells which connection asks: it has just taken
//! SHARED through it. The address of the name tells it, too: it lies in the memory of that
//! connection's own name.

use crate::place::Place;
use densite_disk::sync::Mutex;
use densite_sqlite::{Code, FileName};
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

    /// SHARED was taken through this connection. `commit` is the newest one, of a database in a
    /// rollback mode; `place` is asked once for where the database is.
    pub(crate) fn begin(self: &Arc<Self>, commit: Option<u64>, place: impl FnOnce() -> Place) {
        self.place.get_or_init(place);
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
    pub(crate) fn end(&self) {
        let mut known = self.known.lock();
        known.now = None;
        known.not_asked = false;
    }

    /// The file has other contents: their commits have the same numbers.
    pub(crate) fn forget(&self) {
        *self.known.lock() = Known::default();
    }

    /// Whether SQLite got an answer about its journal from memory since SHARED was taken.
    pub(crate) fn has_answered(&self) -> bool {
        self.known.lock().not_asked
    }

    /// The host is asked for the journal next time.
    pub(crate) fn forget_journal(&self) {
        self.known.lock().journal = None;
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

/// Answers xAccess for existence: from memory where that is allowed, else by `host`.
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

    fn begin(absent: &Arc<Absent>, commit: Option<u64>) {
        absent.begin(commit, || Place::Unknown);
    }

    #[test]
    fn an_answer_is_good_for_the_same_commit_under_shared() {
        let absent = absent();
        assert!(!absent.knows(8), "no lock was taken");
        begin(&absent, Some(7));
        assert!(!absent.knows(8), "nobody asked");
        absent.note(8);
        assert!(absent.knows(8));
        assert!(!absent.knows(16), "that is the other one");
        absent.end();
        assert!(!absent.knows(8), "no lock is held");
        begin(&absent, Some(7));
        assert!(absent.knows(8));
        begin(&absent, Some(8));
        assert!(!absent.knows(8), "something was published");
        begin(&absent, None);
        assert!(!absent.knows(8), "it is in WAL mode, or cannot be read");
        absent.note(8);
        begin(&absent, None);
        assert!(!absent.knows(8), "what was seen then is not known");
    }

    #[test]
    fn an_answer_ages() {
        let absent = absent();
        begin(&absent, Some(7));
        absent.note(16);
        std::thread::sleep(AGE);
        begin(&absent, Some(7));
        assert!(!absent.knows(16));
    }
}
