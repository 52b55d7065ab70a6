//! What an open log has to write: the end of the log, the queue of the group commit, and the
//! transactions that are prepared. A log that is open for reading only has no writer.
//!
//! Locks: `tail` is taken before the locks of the group and of the decisions. The thread that leads
//! holds it while it writes and syncs, and under it the append lock, which keeps out other
//! processes.

use crate::ahead::Ahead;
use crate::decisions::Decisions;
use crate::files::APPEND_LOCK;
use crate::group::{Entry, Group, Taken};
use crate::news::News;
use crate::open_dir::OpenDir;
use crate::patience::Patience;
use crate::tail::Tail;
use crate::txn::{Appended, Txn, TxnId};
use crate::{Error, Options, Result};
use densite_disk::sync::Mutex;
use densite_disk::{File, LockKind};
use std::sync::Arc;

/// See the module.
pub(crate) struct Writer {
    dir: Arc<OpenDir>,
    /// Wakes the threads that wait for rows.
    news: Arc<News>,
    options: Options,
    /// The end of the log, and the file of the append lock.
    tail: Mutex<(Tail, Box<dyn File>)>,
    group: Group,
    decisions: Decisions,
    ahead: Ahead,
}

impl Writer {
    /// For a log whose end was found. `append_lock` is the file of that lock, unlocked.
    pub(crate) fn new(
        dir: Arc<OpenDir>,
        news: Arc<News>,
        options: Options,
        tail: (Tail, Box<dyn File>),
        decisions: Decisions,
    ) -> Writer {
        Writer {
            dir,
            news,
            options,
            tail: Mutex::new(tail),
            group: Group::default(),
            decisions,
            ahead: Ahead::default(),
        }
    }

    /// The transactions that are neither committed nor rolled back.
    pub(crate) fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// Appends a transaction; see [`Log::append`](crate::Log::append). A `prepared` one waits for
    /// [`Writer::commit`] or [`Writer::cancel`]; if it is prepared already, nothing is appended.
    ///
    /// # Errors
    /// As [`Log::append`](crate::Log::append); `Interrupted`.
    pub(crate) fn append(
        &self,
        txn: Arc<Txn>,
        prepared: bool,
        patience: Patience<'_>,
    ) -> Result<Appended> {
        if prepared && let Some(appended) = self.decisions.find(txn.id()) {
            return Ok(appended);
        }
        if txn.rows() == 0 {
            return Ok(Appended { first: 1, last: 0 });
        }
        self.decisions.retry(&self.dir);
        let entry = Entry::new(txn, prepared);
        self.group.run(&entry, patience, || self.lead(patience))
    }

    /// Writes and syncs everything that is queued.
    ///
    /// # Errors
    /// If this thread no longer waits for another process; then nothing was taken from the queue.
    fn lead(&self, patience: Patience<'_>) -> Result<Taken> {
        let mut held = self.tail.lock();
        let (tail, file) = &mut *held;
        let blocked = self.group.blocked(file.identity().ok(), patience);
        let patience = |waited| blocked.after(waited);
        let locked = self.dir.files.lock_again(file, APPEND_LOCK, &patience);
        drop(blocked);
        let ready = match locked {
            Err(e @ (Error::Locked { .. } | Error::Interrupted)) => return Err(e),
            locked => locked.and_then(|()| tail.catch_up()),
        };
        // Taken only now: more can have come while another process had its turn.
        let mut taken = self.group.take(|bytes, more| tail.fits(bytes, more));
        let entries = taken.entries();
        let txns: Vec<Arc<Txn>> = entries.iter().map(|e| e.txn.clone()).collect();
        let prepared = || entries.iter().filter(|e| e.prepared);
        let is_any_decided = entries.iter().any(|e| !e.prepared);
        let outcome = ready.and_then(|()| {
            tail.write(&txns, |appended| {
                let both = entries.iter().zip(appended).filter(|(e, _)| e.prepared);
                self.decisions.add(both.map(|(e, a)| (e.txn.id(), *a)))
            })
        });
        // If this fails, the lock ends with its handle, and there is no caller to report it to.
        file.unlock().ok();
        match &outcome {
            Ok(_) => self.ask_for_free_segment(tail),
            Err(_) if prepared().next().is_some() => {
                self.decisions.retract(prepared().map(|e| e.txn.id()));
            }
            Err(_) => {}
        }
        drop(held);
        // Prepared rows are not readable yet.
        if is_any_decided {
            self.news.tell();
        }
        taken.note(outcome);
        Ok(taken)
    }

    fn ask_for_free_segment(&self, tail: &Tail) {
        if self.options.background && tail.is_half_full() {
            let segment = tail.word().segment;
            (self.ahead).ask(&self.dir.files, segment, self.options.segment_bytes);
        }
    }

    /// Commits a prepared transaction; see [`Log::commit`](crate::Log::commit).
    pub(crate) fn commit(&self, id: TxnId) {
        self.decisions.commit(id);
        self.news.tell();
    }

    /// Rolls a prepared transaction back; see [`Log::cancel`](crate::Log::cancel).
    ///
    /// # Errors
    /// As [`Log::cancel`](crate::Log::cancel).
    pub(crate) fn cancel(&self, id: TxnId) -> Result<()> {
        let done = self.decisions.cancel(id, &self.dir);
        self.news.tell();
        done
    }

    /// Tries again to store rollbacks; see [`Log::retry_rollbacks`](crate::Log::retry_rollbacks).
    pub(crate) fn retry_rollbacks(&self) -> bool {
        if self.decisions.retry(&self.dir) {
            self.news.tell();
        }
        let must_seal = self.retry_seal();
        self.decisions.has_unkept() || must_seal
    }

    /// Tries again to leave a segment with a failed group. Returns whether that is still to be done.
    fn retry_seal(&self) -> bool {
        // A thread that holds the tail appends, and leaves the segment before that.
        let Some(mut held) = self.tail.try_lock() else {
            return false;
        };
        let (tail, lock) = &mut *held;
        if tail.word().sealed()
            && let Ok(true) = lock.try_lock(LockKind::Exclusive)
        {
            if tail.catch_up().is_ok() {
                tail.retry_seal();
            }
            lock.unlock().ok();
        }
        tail.word().sealed()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.dir.is_ours().is_err() {
            return;
        }
        self.ahead.end();
        // When the slot is released, prepared transactions count as committed. So this is the last
        // time to store a rollback that could not be stored before.
        self.decisions.retry(&self.dir);
        // So the next process that opens the log finds its end at once, and does not find a group
        // that failed.
        let (tail, lock) = self.tail.get_mut();
        if let Ok(true) = lock.try_lock(LockKind::Exclusive) {
            let ready = tail.catch_up();
            let ready = ready.map(|()| tail.retry_seal());
            ready.and_then(|()| tail.sync_word()).ok();
        }
    }
}
