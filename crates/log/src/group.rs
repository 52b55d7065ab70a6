//! Group commit: whoever finds no sync under way writes and syncs everything queued, the rest wait for it.
//!
//! Who leads hands that over to the first that waits, and only then tells the others what became of their transactions: the next sync begins at once, and nobody is woken who has nothing to do.

use crate::txn::{Appended, Txn};
use crate::{Error, Result};
use densite_disk::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a thread that waits is told.
enum Turn {
    /// It is to lead.
    Lead,
    Done(Result<Appended>),
}

/// One transaction that waits to be appended.
pub(crate) struct Entry {
    pub(crate) txn: Arc<Txn>,
    /// It is neither committed nor rolled back once it is appended.
    pub(crate) undecided: bool,
    turn: Mutex<Option<Turn>>,
    told: Condvar,
}

impl Entry {
    pub(crate) fn new(txn: Arc<Txn>, undecided: bool) -> Arc<Entry> {
        Arc::new(Entry {
            txn,
            undecided,
            turn: Mutex::new(None),
            told: Condvar::new(),
        })
    }

    fn tell(&self, turn: Turn) {
        *self.turn.lock() = Some(turn);
        self.told.notify_one();
    }

    fn wait(&self) -> Turn {
        let mut turn = self.turn.lock();
        loop {
            match turn.take() {
                Some(turn) => return turn,
                None => turn = self.told.wait(turn),
            }
        }
    }
}

#[derive(Default)]
struct Inner {
    /// Their threads wait, but for that of the one that leads.
    waiting: VecDeque<Arc<Entry>>,
    leading: bool,
}

/// The queue of one open log.
#[derive(Default)]
pub(crate) struct Group {
    queue: Mutex<Inner>,
}

impl Group {
    /// Appends one entry, by this thread or by the one that is at it. `lead` takes entries by [`Group::take`] and notes what became of them.
    pub(crate) fn run(&self, entry: &Arc<Entry>, lead: impl Fn() -> Taken) -> Result<Appended> {
        let is_led = {
            let mut queue = self.queue.lock();
            queue.waiting.push_back(entry.clone());
            std::mem::replace(&mut queue.leading, true)
        };
        if is_led && let Turn::Done(outcome) = entry.wait() {
            return outcome;
        }
        let leading = Leading(self, entry);
        loop {
            let taken = lead();
            if let Some(outcome) = taken.outcome_of(entry) {
                drop(leading);
                return outcome;
            }
        }
    }

    /// The next entries, as long as `fits` says so of bytes taken and bytes to come. At least one if any waits.
    pub(crate) fn take(&self, fits: impl Fn(u64, u64) -> bool) -> Taken {
        let mut queue = self.queue.lock();
        let mut entries = Vec::new();
        let mut bytes = 0;
        while let Some(entry) = queue.waiting.front() {
            let more = entry.txn.stored_max();
            if !fits(bytes, more) {
                break;
            }
            bytes += more;
            entries.extend(queue.waiting.pop_front());
        }
        Taken {
            entries,
            outcome: Err(Error::Abandoned),
        }
    }
}

/// The thread that leads; when it is done, or panics, the first that waits does.
struct Leading<'a>(&'a Group, &'a Arc<Entry>);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let Leading(group, own) = self;
        let mut queue = group.queue.lock();
        // It is still there after a panic only. Nobody waits for it then.
        queue.waiting.retain(|e| !Arc::ptr_eq(e, own));
        let next = queue.waiting.front().cloned();
        queue.leading = next.is_some();
        drop(queue);
        if let Some(next) = next {
            next.tell(Turn::Lead);
        }
    }
}

/// Entries of one group. Their threads are told what became of them when this is dropped; where that was never noted they have failed.
pub(crate) struct Taken {
    entries: Vec<Arc<Entry>>,
    outcome: Result<Vec<Appended>>,
}

impl Taken {
    pub(crate) fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// What became of them, one after the other.
    pub(crate) fn note(&mut self, outcome: Result<Vec<Appended>>) {
        self.outcome = outcome;
    }

    fn outcome(&self, place: usize) -> Result<Appended> {
        match &self.outcome {
            Ok(appended) => appended.get(place).copied().ok_or(Error::Abandoned),
            Err(e) => Err(e.clone()),
        }
    }

    /// `None` if it is none of them.
    fn outcome_of(&self, entry: &Arc<Entry>) -> Option<Result<Appended>> {
        let place = self.entries.iter().position(|e| Arc::ptr_eq(e, entry))?;
        Some(self.outcome(place))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        for (place, entry) in self.entries.iter().enumerate() {
            entry.tell(Turn::Done(self.outcome(place)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TxnId;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    fn entry(id: u64) -> Arc<Entry> {
        Entry::new(Arc::new(Txn::new(TxnId(id))), false)
    }

    /// Each transaction went to the place that its name says.
    fn placed(mut taken: Taken) -> Taken {
        let place = |e: &Arc<Entry>| {
            let at = e.txn.id().0;
            Appended {
                first: at,
                last: at,
            }
        };
        let appended = taken.entries().iter().map(place).collect();
        taken.note(Ok(appended));
        taken
    }

    #[test]
    fn each_is_told_its_own_and_one_leads_at_a_time() {
        let (group, leaders, groups) = (Group::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let lead = || {
            assert_eq!(leaders.fetch_add(1, Ordering::SeqCst), 0);
            // No more than three at once: some are left for the next leader.
            let asked = AtomicUsize::new(0);
            let taken = placed(group.take(|_, _| asked.fetch_add(1, Ordering::SeqCst) < 3));
            groups.fetch_add(1, Ordering::SeqCst);
            thread::yield_now();
            assert_eq!(leaders.fetch_sub(1, Ordering::SeqCst), 1);
            taken
        };
        thread::scope(|scope| {
            for writer in 0..8 {
                let (group, lead) = (&group, &lead);
                scope.spawn(move || {
                    for id in (1..=500).map(|n| n * 8 + writer) {
                        let appended = group.run(&entry(id), lead).expect("it is appended");
                        assert_eq!((appended.first, appended.last), (id, id));
                    }
                });
            }
        });
        let queue = group.queue.lock();
        assert!(!queue.leading && queue.waiting.is_empty());
        assert!((4000 / 3..=4000).contains(&groups.load(Ordering::SeqCst)));
    }

    #[test]
    fn when_a_leader_panics_the_next_one_leads() {
        let group = Group::default();
        let waits = |n: usize| {
            while group.queue.lock().waiting.len() < n {
                thread::yield_now();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                let first = entry(1);
                let lead = || -> Taken {
                    waits(3);
                    panic!("as a leader may");
                };
                assert!(catch_unwind(AssertUnwindSafe(|| group.run(&first, lead))).is_err());
            });
            waits(1);
            for id in [2, 3] {
                let group = &group;
                scope.spawn(move || {
                    let done = group.run(&entry(id), || placed(group.take(|_, _| true)));
                    assert_eq!(done.expect("it is appended").first, id);
                });
            }
        });
        let queue = group.queue.lock();
        assert!(!queue.leading && queue.waiting.is_empty());
    }

    #[test]
    fn those_of_whom_nothing_was_noted_have_failed() {
        let group = Group::default();
        let done = group.run(&entry(1), || group.take(|_, _| true));
        assert!(matches!(done, Err(Error::Abandoned)), "{done:?}");
    }
}
