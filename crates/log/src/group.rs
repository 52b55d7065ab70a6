//! Group commit: whoever finds no sync under way writes and syncs everything queued, the rest wait for it.

use crate::txn::{Appended, Txn};
use crate::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// One transaction that waits to be appended.
pub(crate) struct Entry {
    pub(crate) txn: Arc<Txn>,
    /// It is neither committed nor rolled back once it is appended.
    pub(crate) undecided: bool,
    outcome: Mutex<Option<Result<Appended>>>,
}

impl Entry {
    pub(crate) fn new(txn: Arc<Txn>, undecided: bool) -> Arc<Entry> {
        Arc::new(Entry {
            txn,
            undecided,
            outcome: Mutex::new(None),
        })
    }

    /// The first outcome counts.
    pub(crate) fn finish(&self, outcome: Result<Appended>) {
        self.outcome.lock().get_or_insert(outcome);
    }
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Arc<Entry>>,
    leading: bool,
}

/// The queue of one open log.
#[derive(Default)]
pub(crate) struct Group {
    queue: Mutex<Inner>,
    done: Condvar,
}

impl Group {
    /// Appends one entry, by this thread or by the one that is at it. `lead` takes entries by [`Group::take`] and finishes them.
    pub(crate) fn run(&self, entry: &Arc<Entry>, lead: impl Fn()) -> Result<Appended> {
        let mut queue = self.queue.lock();
        queue.waiting.push_back(entry.clone());
        loop {
            if let Some(outcome) = entry.outcome.lock().take() {
                return outcome;
            }
            if queue.leading {
                self.done.wait(&mut queue);
                continue;
            }
            queue.leading = true;
            drop(queue);
            {
                let _lead = Leading(self);
                lead();
            }
            queue = self.queue.lock();
        }
    }

    /// The next entries, as long as `fits` says so of bytes taken and bytes to come. At least one if any waits.
    pub(crate) fn take(&self, fits: impl Fn(u64, u64) -> bool) -> Taken {
        let mut queue = self.queue.lock();
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some(entry) = queue.waiting.front() {
            let more = entry.txn.stored_max();
            if !fits(bytes, more) {
                break;
            }
            bytes += more;
            taken.extend(queue.waiting.pop_front());
        }
        Taken(taken)
    }
}

/// The thread that leads; when it is done, or panics, another may.
struct Leading<'a>(&'a Group);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().leading = false;
        self.0.done.notify_all();
    }
}

/// Entries of one group. Those that nobody finished have failed.
pub(crate) struct Taken(Vec<Arc<Entry>>);

impl Taken {
    pub(crate) fn entries(&self) -> &[Arc<Entry>] {
        &self.0
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        for entry in &self.0 {
            entry.finish(Err(Error::Abandoned));
        }
    }
}
