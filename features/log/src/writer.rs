//! What an open log has to write: the end of the log, the queue of the group commit, and the
//! transactions that are prepared. A log that is open for reading only has no writer.
//!
//! Locks: `tail` is taken before the locks of the group and of the decisions. The thread that leads
//! holds it while it writes and syncs. It writes under the append lock and syncs under the sync lock
//! ([`crate::lock`]), which keep out other processes.

use crate::batch::{Appended, Txn, TxnId};
use crate::decisions::Decisions;
use crate::files::SYNC_LOCK;
use crate::format::word::EndWord;
use crate::group::{Entry, Group, Taken};
use crate::lock::{LockFile, Locks};
use crate::next_segment::Ahead;
use crate::open_dir::OpenDir;
use crate::patience::{Patience, wait_for};
use crate::seal_segment::Fate;
use crate::tail::Tail;
use crate::wakeups::Wakeups;
use crate::{Error, Options, Result};
use densite_disk::sync::Mutex;
use std::sync::Arc;

/// See the module.
pub(crate) struct Writer {
    dir: Arc<OpenDir>,
    /// Wakes the threads that wait for rows.
    news: Arc<Wakeups>,
    options: Options,
    /// The end of the log, and the locks for changing it.
    tail: Mutex<(Tail, Locks)>,
    group: Group,
    decisions: Decisions,
    ahead: Ahead,
}

/// What became of a group that was appended.
enum Outcome {
    Durable,
    /// It is not in the log. The error is that of this process's own sync.
    Dead(Option<Error>),
    /// The group is in the log or not: it has to be rolled back.
    Unknown(Error),
}

impl Writer {
    /// For a log whose end was found. The locks are not taken.
    pub(crate) fn new(
        dir: Arc<OpenDir>,
        news: Arc<Wakeups>,
        options: Options,
        tail: (Tail, Locks),
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
    /// If this thread no longer waits for another process; then all entries are in the queue.
    fn lead(&self, patience: Patience<'_>) -> Result<Taken> {
        let mut held = self.tail.lock();
        let (tail, locks) = &mut *held;
        let mut again: Option<Taken> = None;
        loop {
            let bytes = (again.as_ref()).map_or_else(|| self.group.first_bytes(), Taken::bytes);
            let ready = self.make_ready(tail, locks, bytes, patience);
            // Taken only now: more can have come while another process had its turn.
            let mut taken = match (again.take(), &ready) {
                (None, Err(Error::Locked { .. } | Error::Interrupted)) => {
                    return ready.and(Err(Error::Abandoned));
                }
                (Some(taken), Err(Error::Locked { .. } | Error::Interrupted)) => {
                    taken.give_back(&self.group);
                    return ready.and(Err(Error::Abandoned));
                }
                (Some(taken), _) => taken,
                (None, _) => self.group.take(|bytes, more| tail.fits(bytes, more)),
            };
            let appended = match ready {
                Ok(()) => {
                    let appended = self.write(tail, &taken);
                    locks.append.release();
                    appended
                }
                Err(e) => Err(e),
            };
            let outcome = match &appended {
                Ok(_) => self.make_durable(tail, locks, patience),
                Err(e) => {
                    if tail.must_settle() {
                        // The error of the write tells more. If this fails, it is tried again.
                        self.settle(tail, locks, 0, patience).ok();
                    }
                    Outcome::Dead(Some(e.clone()))
                }
            };
            match outcome {
                Outcome::Durable => {
                    self.ask_for_free_segment(tail);
                    let decided = ids(&taken, |e| !e.prepared);
                    self.decisions.forget(&decided);
                    drop(held);
                    if !decided.is_empty() {
                        self.news.tell();
                    }
                    taken.note(appended);
                    return Ok(taken);
                }
                Outcome::Dead(error) => {
                    self.decisions.forget(&ids(&taken, |_| true));
                    match error {
                        Some(e) => taken.note(Err(e)),
                        // It goes to the next segment.
                        None => {
                            again = Some(taken);
                            continue;
                        }
                    }
                }
                Outcome::Unknown(e) => {
                    for id in ids(&taken, |_| true) {
                        // A rollback that cannot be stored is tried again; until then the rows are
                        // hidden.
                        self.decisions.cancel(id, &self.dir).ok();
                    }
                    if matches!(e, Error::Locked { .. } | Error::Interrupted) {
                        taken.give_back(&self.group);
                        return Err(e);
                    }
                    taken.note(Err(e));
                }
            }
            return Ok(taken);
        }
    }

    /// Takes the append lock when the tail is ready for a group of this many bytes.
    ///
    /// # Errors
    /// `Locked`, `Interrupted`; those of the tail. Then no lock is held.
    fn make_ready(
        &self,
        tail: &mut Tail,
        locks: &mut Locks,
        bytes: u64,
        patience: Patience<'_>,
    ) -> Result<()> {
        loop {
            self.take(&mut locks.append, patience)?;
            match tail.catch_up() {
                Ok(()) if tail.is_ready_for(bytes) => return Ok(()),
                Ok(()) => locks.append.release(),
                Err(e) => {
                    locks.append.release();
                    return Err(e);
                }
            }
            self.settle(tail, locks, bytes, patience)?;
        }
    }

    /// [`Tail::settle`] under both locks.
    fn settle(
        &self,
        tail: &mut Tail,
        locks: &mut Locks,
        bytes: u64,
        patience: Patience<'_>,
    ) -> Result<()> {
        self.take(&mut locks.sync, patience)?;
        let settled = self.settle_synced(tail, locks, bytes, patience);
        locks.sync.release();
        settled
    }

    /// The same for the holder of the sync lock.
    fn settle_synced(
        &self,
        tail: &mut Tail,
        locks: &mut Locks,
        bytes: u64,
        patience: Patience<'_>,
    ) -> Result<()> {
        self.take(&mut locks.append, patience)?;
        let settled = tail.catch_up().and_then(|()| tail.settle(bytes));
        locks.append.release();
        settled
    }

    fn take(&self, lock: &mut LockFile, patience: Patience<'_>) -> Result<()> {
        let blocked = self.group.blocked(lock.lock(), patience);
        lock.take(&self.dir.files, &|waited| blocked.after(waited))
    }

    /// Appends a group. All its transactions count as prepared until they are durable: if this
    /// process stops waiting for the sync, they are rolled back.
    fn write(&self, tail: &mut Tail, taken: &Taken) -> Result<Vec<Appended>> {
        let entries = taken.entries();
        let txns: Vec<Arc<Txn>> = entries.iter().map(|e| e.txn.clone()).collect();
        tail.append(&txns, |appended| {
            let both = entries.iter().zip(appended);
            self.decisions.add(both.map(|(e, a)| (e.txn.id(), *a)))
        })
    }

    /// Syncs what was appended, unless another process does.
    fn make_durable(&self, tail: &mut Tail, locks: &mut Locks, patience: Patience<'_>) -> Outcome {
        let goal = tail.appended();
        let fate = {
            let blocked = self.group.blocked(locks.sync.lock(), patience);
            let patience = |waited| blocked.after(waited);
            let attempt = || match locks.sync.try_take()? {
                true => Ok(Some(Fate::Open)),
                false => Ok(Some(tail.fate(&goal)?).filter(|fate| *fate != Fate::Open)),
            };
            wait_for(locks.sync.file(), SYNC_LOCK, &patience, attempt)
        };
        match fate {
            Ok(Fate::Durable) => Outcome::Durable,
            Ok(Fate::Dead) => Outcome::Dead(None),
            Ok(Fate::Open) => {
                let outcome = self.sync(tail, locks, &goal, patience);
                locks.sync.release();
                outcome
            }
            Err(e) => Outcome::Unknown(e),
        }
    }

    /// The same for the holder of the sync lock.
    fn sync(
        &self,
        tail: &mut Tail,
        locks: &mut Locks,
        goal: &EndWord,
        patience: Patience<'_>,
    ) -> Outcome {
        match tail.fate(goal) {
            Ok(Fate::Durable) => return Outcome::Durable,
            Ok(Fate::Dead) => return Outcome::Dead(None),
            Ok(Fate::Open) => {}
            Err(e) => return Outcome::Unknown(e),
        }
        let failed = match tail.can_sync(goal.segment) {
            Ok(true) => match tail.sync() {
                Ok(()) => return Outcome::Durable,
                Err(e) => Some(e),
            },
            Ok(false) => None,
            Err(e) => return Outcome::Unknown(e),
        };
        if let Err(e) = self.settle_synced(tail, locks, 0, patience) {
            return Outcome::Unknown(failed.unwrap_or(e));
        }
        match (tail.fate(goal), failed) {
            (Ok(Fate::Durable), _) => Outcome::Durable,
            (Ok(Fate::Dead), failed) => Outcome::Dead(failed),
            (Ok(Fate::Open), failed) => Outcome::Unknown(failed.unwrap_or(Error::Abandoned)),
            (Err(e), failed) => Outcome::Unknown(failed.unwrap_or(e)),
        }
    }

    fn ask_for_free_segment(&self, tail: &Tail) {
        if self.options.background && tail.is_half_full() {
            let segment = tail.appended().segment;
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
        let must_settle = self.retry_settle();
        self.decisions.has_unkept() || must_settle
    }

    /// Tries again to put the end of the log in order after a failed append. Returns whether that
    /// is still to be done.
    fn retry_settle(&self) -> bool {
        // A thread that holds the tail appends, and puts it in order before that.
        let Some(mut held) = self.tail.try_lock() else {
            return false;
        };
        let (tail, locks) = &mut *held;
        if tail.must_settle()
            && let Ok(true) = locks.try_take()
        {
            tail.catch_up().and_then(|()| tail.settle(0)).ok();
            locks.release();
        }
        tail.must_settle()
    }
}

/// The ids of the transactions of these entries.
fn ids(taken: &Taken, which: impl Fn(&Entry) -> bool) -> Vec<TxnId> {
    let entries = taken.entries().iter().filter(|e| which(e));
    entries.map(|e| e.txn.id()).collect()
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
        let (tail, locks) = self.tail.get_mut();
        if let Ok(true) = locks.try_take() {
            let ready = tail.catch_up();
            let ready = ready.map(|()| {
                if tail.must_settle() {
                    tail.settle(0).ok();
                }
            });
            ready.and_then(|()| tail.sync_word()).ok();
        }
    }
}
