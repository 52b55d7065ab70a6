//! Group commit: one thread at a time leads. It writes and syncs all queued transactions, and the
//! other threads wait.
//!
//! The leader passes the lead to the first waiting thread, and then reports the outcomes to the
//! others. So the next sync begins at once, and no thread wakes up without something to do.

use crate::batch::{Appended, Txn};
use crate::lock::Lock;
use crate::patience::{Patience, Waiting};
use crate::{Error, Result};
use densite_disk::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a waiting thread checks whether the leader waits for another process.
const LOOK: Duration = Duration::from_millis(20);

/// A message to a waiting thread.
enum Turn {
    /// The thread leads now.
    Lead,
    Done(Result<Appended>),
}

/// One transaction in the queue.
pub(crate) struct Entry {
    pub(crate) txn: Arc<Txn>,
    /// After the append, it is neither committed nor rolled back.
    pub(crate) prepared: bool,
    turn: Mutex<Option<Turn>>,
    told: Condvar,
}

impl Entry {
    pub(crate) fn new(txn: Arc<Txn>, prepared: bool) -> Arc<Entry> {
        Arc::new(Entry {
            txn,
            prepared,
            turn: Mutex::new(None),
            told: Condvar::new(),
        })
    }

    fn tell(&self, turn: Turn) {
        *self.turn.lock() = Some(turn);
        self.told.notify_one();
    }

    /// The message, if one comes within [`LOOK`].
    fn wait(&self) -> Option<Turn> {
        let mut turn = self.turn.lock();
        if turn.is_none() {
            turn = self.told.wait_for(turn, LOOK);
        }
        turn.take()
    }
}

#[derive(Default)]
struct Inner {
    /// Queued entries. All their threads wait, except the leader.
    waiting: VecDeque<Arc<Entry>>,
    leading: bool,
    /// Since when the leader waits for another process, and the lock.
    blocked: Option<(Instant, Lock)>,
}

/// The queue of one open log.
#[derive(Default)]
pub(crate) struct Group {
    queue: Mutex<Inner>,
}

impl Group {
    /// Appends one entry: this thread leads, or waits for the thread that leads. `lead` takes
    /// entries with [`Group::take`] and notes their outcomes. It can also give up, which leaves the
    /// other entries in the queue.
    ///
    /// # Errors
    /// The noted outcome; the error of `lead`; `Locked` and `Interrupted` if another thread leads
    /// and this thread stops waiting.
    pub(crate) fn run(
        &self,
        entry: &Arc<Entry>,
        patience: Patience<'_>,
        lead: impl Fn() -> Result<Taken>,
    ) -> Result<Appended> {
        let is_led = {
            let mut queue = self.queue.lock();
            queue.waiting.push_back(entry.clone());
            std::mem::replace(&mut queue.leading, true)
        };
        if is_led && let Turn::Done(outcome) = self.wait(entry, patience)? {
            return outcome;
        }
        let leading = Leading(self, entry);
        loop {
            let taken = lead()?;
            if let Some(outcome) = taken.outcome_of(entry) {
                drop(leading);
                return outcome;
            }
        }
    }

    /// Waits for the entry's turn. An entry that is being written is always waited for. An entry in
    /// the queue, behind a leader that waits for another process, is waited for as long as
    /// `patience` allows.
    fn wait(&self, entry: &Arc<Entry>, patience: Patience<'_>) -> Result<Turn> {
        let begun = Instant::now();
        loop {
            if let Some(turn) = entry.wait() {
                return Ok(turn);
            }
            let blocked = self.queue.lock().blocked;
            let Some((since, lock)) = blocked else {
                continue;
            };
            let waited = since.max(begun).elapsed();
            if let Err(e) = patience(waited).refusal(lock.name, lock.identity) {
                let mut queue = self.queue.lock();
                let place = queue.waiting.iter().position(|e| Arc::ptr_eq(e, entry));
                // The entry can have been taken meanwhile, or its thread can have become the
                // leader.
                if let Some(place) = place
                    && entry.turn.lock().is_none()
                {
                    queue.waiting.remove(place);
                    return Err(e);
                }
            }
        }
    }

    /// For a leader that may have to wait for another process.
    pub(crate) fn blocked<'a>(&'a self, lock: Lock, patience: Patience<'a>) -> Blocked<'a> {
        Blocked {
            group: self,
            lock,
            patience,
        }
    }

    /// The most bytes that the first entry of the queue takes.
    pub(crate) fn first_bytes(&self) -> u64 {
        let queue = self.queue.lock();
        queue.waiting.front().map_or(0, |e| e.txn.stored_max())
    }

    /// The next entries of the queue, while `fits(bytes taken, bytes of the next entry)` is true.
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

/// The leading thread. When it is done or panics, the first waiting thread leads.
struct Leading<'a>(&'a Group, &'a Arc<Entry>);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let Leading(group, own) = self;
        let mut queue = group.queue.lock();
        // The leader's own entry is still queued only after a panic or after giving up.
        queue.waiting.retain(|e| !Arc::ptr_eq(e, own));
        queue.leading = !queue.waiting.is_empty();
        // The queue is still locked, so a thread that stops waiting sees that it has become the
        // leader.
        if let Some(next) = queue.waiting.front() {
            next.tell(Turn::Lead);
        }
    }
}

/// Asks a leader's caller whether to keep waiting, and shows the waiting threads that the leader is
/// blocked.
pub(crate) struct Blocked<'a> {
    group: &'a Group,
    lock: Lock,
    patience: Patience<'a>,
}

impl Blocked<'_> {
    pub(crate) fn after(&self, waited: Duration) -> Waiting {
        let mut queue = self.group.queue.lock();
        if queue.blocked.is_none() {
            queue.blocked = Some((Instant::now(), self.lock));
        }
        drop(queue);
        (self.patience)(waited)
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.group.queue.lock().blocked = None;
    }
}

/// Entries of one group. Dropping it reports the outcomes to their threads. Entries without a noted
/// outcome have failed.
pub(crate) struct Taken {
    entries: Vec<Arc<Entry>>,
    outcome: Result<Vec<Appended>>,
}

impl Taken {
    pub(crate) fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The most bytes that the entries take.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries.iter().map(|e| e.txn.stored_max()).sum()
    }

    /// Puts the entries back to the front of the queue: none of them is appended.
    pub(crate) fn give_back(mut self, group: &Group) {
        let mut queue = group.queue.lock();
        for entry in self.entries.drain(..).rev() {
            queue.waiting.push_front(entry);
        }
    }

    /// Notes the outcomes, in the order of the entries.
    pub(crate) fn note(&mut self, outcome: Result<Vec<Appended>>) {
        self.outcome = outcome;
    }

    fn outcome(&self, place: usize) -> Result<Appended> {
        match &self.outcome {
            Ok(appended) => appended.get(place).copied().ok_or(Error::Abandoned),
            Err(e) => Err(e.clone()),
        }
    }

    /// The outcome of this entry; `None` if it is not in this group.
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
    use crate::files::APPEND_LOCK;
    use crate::patience::usual;
    use densite_disk::{Dir, OpenMode};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    fn entry(id: u64) -> Arc<Entry> {
        Entry::new(Arc::new(Txn::new(TxnId(id))), false)
    }

    /// Appends each transaction at the sequence number that equals its id.
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
    fn each_entry_gets_its_own_outcome_and_one_thread_leads_at_a_time() {
        let (group, leaders, groups) = (Group::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let lead = || {
            assert_eq!(leaders.fetch_add(1, Ordering::SeqCst), 0);
            // At most three at once, so that some remain for the next leader.
            let asked = AtomicUsize::new(0);
            let taken = placed(group.take(|_, _| asked.fetch_add(1, Ordering::SeqCst) < 3));
            groups.fetch_add(1, Ordering::SeqCst);
            thread::yield_now();
            assert_eq!(leaders.fetch_sub(1, Ordering::SeqCst), 1);
            Ok(taken)
        };
        thread::scope(|scope| {
            for writer in 0..8 {
                let (group, lead) = (&group, &lead);
                scope.spawn(move || {
                    for id in (1..=500).map(|n| n * 8 + writer) {
                        let appended = group.run(&entry(id), &usual, lead).expect("it is appended");
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
                let lead = || -> Result<Taken> {
                    waits(3);
                    panic!("the leader panics");
                };
                assert!(
                    catch_unwind(AssertUnwindSafe(|| group.run(&first, &usual, lead))).is_err()
                );
            });
            waits(1);
            for id in [2, 3] {
                let group = &group;
                scope.spawn(move || {
                    let done =
                        group.run(&entry(id), &usual, || Ok(placed(group.take(|_, _| true))));
                    assert_eq!(done.expect("it is appended").first, id);
                });
            }
        });
        let queue = group.queue.lock();
        assert!(!queue.leading && queue.waiting.is_empty());
    }

    #[test]
    fn entries_without_a_noted_outcome_have_failed() {
        let group = Group::default();
        let done = group.run(&entry(1), &usual, || Ok(group.take(|_, _| true)));
        assert!(matches!(done, Err(Error::Abandoned)), "{done:?}");
    }

    /// A leader that waits for another process does not make other threads wait longer than they
    /// want.
    #[test]
    fn threads_behind_a_blocked_leader_wait_as_long_as_they_want() {
        let disk = densite_sim_disk::SimDisk::new(1);
        let (group, is_free) = (Group::default(), AtomicUsize::new(0));
        let over = |_| Waiting::IsOver;
        thread::scope(|scope| {
            let leader = scope.spawn(|| {
                let file = disk.root().open("l", OpenMode::Create).expect("open");
                group.run(&entry(1), &usual, || {
                    let blocked = group.blocked(
                        Lock {
                            name: APPEND_LOCK,
                            identity: file.identity().ok(),
                        },
                        &usual,
                    );
                    while is_free.load(Ordering::SeqCst) == 0 {
                        assert_eq!(blocked.after(Duration::ZERO), Waiting::GoesOn);
                        thread::yield_now();
                    }
                    drop(blocked);
                    Ok(placed(group.take(|_, _| true)))
                })
            });
            while group.queue.lock().blocked.is_none() {
                thread::yield_now();
            }
            let lead = || -> Result<Taken> { unreachable!("another leads") };
            let done = group.run(&entry(2), &over, lead);
            assert!(matches!(done, Err(Error::Locked { .. })), "{done:?}");
            let done = group.run(&entry(3), &|_| Waiting::IsInterrupted, lead);
            assert!(matches!(done, Err(Error::Interrupted)), "{done:?}");
            let patient = scope
                .spawn(|| group.run(&entry(4), &usual, || Ok(placed(group.take(|_, _| true)))));
            while group.queue.lock().waiting.len() < 2 {
                thread::yield_now();
            }
            is_free.store(1, Ordering::SeqCst);
            for thread in [leader, patient] {
                thread.join().expect("no panic").expect("it is appended");
            }
        });
        // If a leader gives up, the next thread can lead.
        let done = group.run(&entry(5), &usual, || Err(Error::Interrupted));
        assert!(matches!(done, Err(Error::Interrupted)), "{done:?}");
        let done = group.run(&entry(6), &usual, || Ok(placed(group.take(|_, _| true))));
        assert_eq!(done.expect("it is appended").first, 6);
    }
}
