//! Caching the answer that a journal or WAL does not exist (docs/decisions/absent-journals.md says
//! why this changes nothing for readers, and what RESERVED checks for writers).
//!
//! In a rollback mode SQLite asks at the start of each transaction for a journal and a WAL: two
//! calls of xAccess under SHARED (`hasHotJournal`, `pagerOpenWalIfPresent`). An answer "no" is
//! repeated without asking the host, if the host gave it to this connection, under SHARED, for a
//! database in a rollback mode, if no commit was published since, and if it is no older than
//! [`AGE`].

use crate::path_check::Place;
use densite_disk::sync::Mutex;
use densite_sqlite::{Code, FileName};
use std::cell::RefCell;
use std::ffi::CStr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long an answer is valid.
const AGE: Duration = Duration::from_millis(10);

thread_local! {
    /// The connection that took SHARED last on this thread.
    static LAST: RefCell<Option<Arc<Absent>>> = const { RefCell::new(None) };
}

/// What one connection knows about its journal and its WAL.
#[derive(Default)]
pub(crate) struct Absent {
    /// Addresses of their names; 0 if there is no name.
    journal: usize,
    wal: usize,
    /// Where the database is; set at the first lock.
    place: OnceLock<Place>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The newest commit of a database in a rollback mode, and the time, when SHARED was taken.
    now: Option<Seen>,
    /// The newest commit and the time when the host last said that there is no journal or no WAL.
    journal: Option<Seen>,
    wal: Option<Seen>,
    /// The host was not asked about the journal since SHARED was taken.
    not_asked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    commit: u64,
    at: Instant,
}

impl Known {
    /// Whether an answer from `before` is still valid.
    fn holds(&self, before: Option<Seen>) -> bool {
        self.now
            .zip(before)
            .is_some_and(|(now, before)| now.commit == before.commit && now.at - before.at < AGE)
    }
}

impl Absent {
    /// For the database that SQLite opened under `name`.
    pub(crate) fn of(name: FileName<'_>) -> Arc<Absent> {
        let address = |name: Option<FileName<'_>>| name.map_or(0, |name| name.as_ptr().addr());
        Arc::new(Absent {
            journal: address(name.journal()),
            wal: address(name.wal()),
            place: OnceLock::new(),
            known: Mutex::default(),
        })
    }

    /// Whether the database's name now leads to another file.
    pub(crate) fn is_left(&self) -> bool {
        self.place.get().is_some_and(Place::is_left)
    }

    /// SHARED was taken through this connection. `commit` is the newest commit if the database is
    /// in a rollback mode. `place` is called once, to find where the database is.
    pub(crate) fn begin(self: &Arc<Self>, commit: Option<u64>, place: impl FnOnce() -> Place) {
        self.place.get_or_init(place);
        let at = Instant::now();
        {
            let mut known = self.known.lock();
            known.now = commit.map(|commit| Seen { commit, at });
            known.not_asked = false;
        }
        // If the thread is ending, nothing is noted and the host is asked each time.
        let _ = LAST.try_with(|last| {
            let mut last = last.borrow_mut();
            if !last.as_ref().is_some_and(|last| Arc::ptr_eq(last, self)) {
                *last = Some(Arc::clone(self));
            }
        });
    }

    /// The lock changed in another way: nothing is answered from memory until SHARED is taken
    /// again.
    pub(crate) fn end(&self) {
        let mut known = self.known.lock();
        known.now = None;
        known.not_asked = false;
    }

    /// The file has other contents, whose commits can have the same numbers.
    pub(crate) fn forget(&self) {
        *self.known.lock() = Known::default();
    }

    /// Whether SQLite got an answer about its journal from memory since SHARED was taken.
    pub(crate) fn has_answered(&self) -> bool {
        self.known.lock().not_asked
    }

    /// The next question about the journal goes to the host.
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

    /// The host said that no file with the name at `address` exists.
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

/// Answers xAccess for existence: from memory where that is allowed, otherwise by `host`.
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
        assert!(!absent.knows(8), "the host was not asked");
        absent.note(8);
        assert!(absent.knows(8));
        assert!(!absent.knows(16), "the journal's answer is not the WAL's");
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
        assert!(!absent.knows(8), "no commit is known");
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
