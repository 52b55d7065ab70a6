//! An open log.

mod opening;

use crate::ahead::Ahead;
use crate::decisions::Decisions;
use crate::files::{APPEND_LOCK, Files, no_state};
use crate::format::SEGMENT_MAX;
use crate::group::{Entry, Group, Taken};
use crate::measure::Measured;
use crate::named::Named;
use crate::news::{News, Rings};
use crate::patience::{Patience, usual};
use crate::reader::Reader;
use crate::state::{Config, State};
use crate::tail::Tail;
use crate::takeover::Takeover;
use crate::txn::{Appended, Txn, TxnId};
use crate::visibility::{Visibility, Visible};
use crate::{Error, Options, Result, Seq};
use densite_disk::sync::Mutex;
use densite_disk::{File, LockKind, OpenMode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A log that is open. Clones share it; the last one to go, readers included, closes it.
#[derive(Clone)]
pub struct Log {
    pub(crate) shared: Arc<Shared>,
}

/// What all users of an open log share.
pub(crate) struct Shared {
    pub(crate) files: Files,
    pub(crate) options: Options,
    /// The process that opened it.
    pid: u32,
    slot_no: u32,
    /// Locked by whoever appends; the second one keeps out other processes. `None` in a log that is open for reading only.
    tail: Mutex<Option<(Tail, Box<dyn File>)>>,
    group: Group,
    /// `None` as above.
    decisions: Option<Decisions>,
    visibility: Mutex<Visibility>,
    /// A name that leads to the same file as long as the directory has this log.
    pub(crate) mark: Option<Named>,
    /// That file, in a log that is open for reading only. Else the tail has it open.
    _marked: Option<Mutex<Box<dyn File>>>,
    /// Wakes those that wait for rows.
    news: News,
    takeover: Takeover,
    txn_next: AtomicU64,
    ahead: Ahead,
    pub(crate) measured: Measured,
}

/// How large the log is, and where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Number of the first row that is still there, if any row is.
    pub first: Seq,
    /// Number of the last row that may be read.
    pub last: Seq,
    /// Segments in use.
    pub segments: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Bytes of segments kept for use again.
    pub free_segment_bytes: u64,
    /// Settings.
    pub config: Config,
}

/// The right to be the one that applies; it ends with this value or its process.
pub struct Lead {
    // Given up before the log may close.
    _file: Box<dyn File>,
    /// The log stays open: a repair must not begin while somebody applies.
    _log: Arc<Shared>,
}

impl Log {
    /// A name for a transaction, which no other of this or another process has.
    pub fn new_txn(&self) -> TxnId {
        TxnId(self.shared.txn_next.fetch_add(1, Ordering::Relaxed))
    }

    /// Appends a transaction and waits until it is durable: then it is committed. A transaction without rows is nothing, and went to 1..=0.
    ///
    /// # Errors
    /// `Full`, `Io`, `SyncFailed`, `Locked` after ten seconds: it is not in the log, and may be appended again. `Damaged`, `Forked`, `Abandoned`.
    pub fn append(&self, txn: Txn) -> Result<Appended> {
        let decisions = self.shared.decisions()?;
        self.shared.append(decisions, Arc::new(txn), false, &usual)
    }

    /// Appends a transaction and waits until it is durable; readers see it once [`Log::commit`] is called, and never if [`Log::cancel`] is. Again with the id of one that is
    /// prepared it appends nothing and answers where that one is.
    ///
    /// If the process ends in between, the transaction is committed.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn prepare(&self, txn: &Arc<Txn>) -> Result<Appended> {
        self.prepare_within(txn, &usual)
    }

    /// As [`Log::prepare`], for somebody who waits so long for other processes and no longer.
    ///
    /// # Errors
    /// As [`Log::append`]; `Interrupted`.
    pub fn prepare_within(&self, txn: &Arc<Txn>, patience: Patience<'_>) -> Result<Appended> {
        let decisions = self.shared.decisions()?;
        match decisions.find(txn.id()) {
            Some(appended) => Ok(appended),
            None => (self.shared).append(decisions, txn.clone(), true, patience),
        }
    }

    /// Commits a prepared transaction; nothing happens if it is committed already.
    pub fn commit(&self, id: TxnId) {
        if let Ok(decisions) = self.shared.decisions() {
            decisions.commit(id);
            self.shared.wake();
        }
    }

    /// Rolls a prepared transaction back, durably. Nothing happens if it was not prepared.
    ///
    /// # Errors
    /// `Full`, `Io`: it is not durable yet. The rows stay hidden, readers wait at that place, and each append, [`Log::retry_rollbacks`] and the close of the log try again.
    /// If it cannot be stored at the close either, or the process ends before, the transaction is committed: there is no place left that says otherwise.
    pub fn cancel(&self, id: TxnId) -> Result<()> {
        let done = self.shared.decisions()?.cancel(id, &self.shared);
        self.shared.wake();
        done
    }

    /// Tries again to roll back what could not be noted when [`Log::cancel`] was asked: until then nobody sees what follows it. Each append does so, too; this is for who may not append again.
    ///
    /// Returns whether something is left that is to be tried again.
    pub fn retry_rollbacks(&self) -> bool {
        let Ok(decisions) = self.shared.decisions() else {
            return false;
        };
        if decisions.retry(&self.shared) {
            self.shared.wake();
        }
        decisions.has_unkept()
    }

    /// The last row that may be read: synced, and decided like all before it.
    ///
    /// # Errors
    /// `Io`.
    pub fn last(&self) -> Result<Seq> {
        Ok(self.shared.visible()?.last)
    }

    /// Waits until rows after this one may be read; false if the time is over before.
    ///
    /// # Errors
    /// `Io`, `Forked`.
    pub fn wait_after(&self, seq: Seq, timeout: Duration) -> Result<bool> {
        self.wait_after_or_ring(seq, timeout, self.rings()?)
    }

    /// As [`Log::wait_after`]; false also if [`Log::ring`] was called since `rings`.
    ///
    /// # Errors
    /// `Io`, `Forked`.
    pub fn wait_after_or_ring(&self, seq: Seq, timeout: Duration, rings: Rings) -> Result<bool> {
        // Before any mutex: a thread that is not in this process may have had it when the process was forked.
        self.shared.is_ours()?;
        let until = Instant::now() + timeout;
        let news = &self.shared.news;
        if self.last()? > seq {
            return Ok(true);
        }
        loop {
            news.listen(&self.shared.files, self.shared.visible()?.word.writers);
            let left = until.saturating_duration_since(Instant::now());
            if news.wait(left, rings, || Ok::<_, Error>(self.last()? > seq))? {
                return Ok(true);
            }
            if left.is_zero() || self.rings()? != rings {
                self.shared.is_in_place()?;
                return Ok(false);
            }
        }
    }

    /// How often [`Log::ring`] was called: for who is going to wait, and looks before whether it is to.
    ///
    /// # Errors
    /// `Forked`.
    pub fn rings(&self) -> Result<Rings> {
        self.shared.is_ours()?;
        Ok(self.shared.news.rings())
    }

    /// Calls off those of this process that wait by [`Log::wait_after_or_ring`] or [`Log::wait_to_lead`].
    pub fn ring(&self) {
        if self.shared.is_ours().is_ok() {
            self.shared.news.ring();
            self.shared.takeover.ring();
        }
    }

    /// Reads what follows this row; 0 for all. What was pruned is an error when it is read, not here.
    ///
    /// # Errors
    /// `Io`, `Forked`.
    pub fn read_after(&self, seq: Seq) -> Result<Reader> {
        self.shared.is_ours()?;
        Reader::new(self.shared.clone(), seq)
    }

    /// Takes the right to apply, which one open log of all processes has; `None` if another has it.
    ///
    /// # Errors
    /// `Io`, `Forked`.
    pub fn try_lead(&self) -> Result<Option<Lead>> {
        self.shared.may_write()?;
        let file = self.shared.takeover.try_lock(&self.shared.files)?;
        Ok(file.map(|file| Lead {
            _file: file,
            _log: self.shared.clone(),
        }))
    }

    /// Waits until the process that has the right to apply may have given it up, until [`Log::ring`]
    /// is called after `rings`, or so long; sometimes shorter. For one thread at a time.
    ///
    /// # Errors
    /// `Forked`.
    pub fn wait_to_lead(&self, time: Duration, rings: Rings) -> Result<()> {
        let shared = &self.shared;
        shared.is_ours()?;
        (shared.takeover).wait(&shared.files, &shared.news, time, rings);
        Ok(())
    }

    /// Prepares the next segment's file, if no pruned one is there for it; answers whether it did. A thread does this by itself when a segment is half full, unless
    /// [`Options::background`] says no.
    ///
    /// # Errors
    /// `Full`, `Io`; the log works on without.
    pub fn prepare_free_segment(&self) -> Result<bool> {
        let shared = &self.shared;
        shared.may_write()?;
        shared
            .files
            .prepare_free_segment(shared.options.segment_bytes, Duration::ZERO, &|| false)
    }

    /// Settings.
    ///
    /// # Errors
    /// `Io`, `Damaged`.
    pub fn config(&self) -> Result<Config> {
        Ok(self.shared.state()?.config)
    }

    /// Changes settings, durably; answers what they are then.
    ///
    /// # Errors
    /// `Full`, `Io`, `Damaged`.
    pub fn set_config(&self, change: impl FnOnce(&mut Config)) -> Result<Config> {
        self.shared.may_write()?;
        self.shared.with_state(|state| {
            change(&mut state.config);
            Ok((state.config, true))
        })
    }

    /// How large the log is.
    ///
    /// # Errors
    /// `Io`, `Damaged`.
    pub fn status(&self) -> Result<Status> {
        let state = self.shared.state()?;
        let files = &self.shared.files;
        let numbers = files.numbers(state.first_segment)?;
        let size = |name: &str| -> Result<u64> {
            Ok(files
                .open(name, OpenMode::Read)?
                .map_or(Ok(0), |f| f.len())?
                .min(SEGMENT_MAX))
        };
        let mut bytes = 0;
        for number in &numbers {
            bytes += size(&crate::files::segment_name(*number))?;
        }
        let mut free_segment_bytes = 0;
        for name in files.free_segments()? {
            free_segment_bytes += size(&name)?;
        }
        Ok(Status {
            first: self.shared.first_seq()?,
            last: self.last()?,
            segments: numbers.len() as u64,
            bytes,
            free_segment_bytes,
            config: state.config,
        })
    }
}

impl Shared {
    /// Rule 15: a child of the process that opened the log shares its locks and must not use them.
    pub(crate) fn is_ours(&self) -> Result<()> {
        if self.pid == densite_disk::process::id() {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    /// That this process may change the log through this handle.
    pub(crate) fn may_write(&self) -> Result<()> {
        self.decisions()?;
        self.is_in_place()
    }

    fn decisions(&self) -> Result<&Decisions> {
        self.is_ours()?;
        self.decisions.as_ref().ok_or(Error::ReadOnly)
    }

    fn append(
        self: &Arc<Shared>,
        decisions: &Decisions,
        txn: Arc<Txn>,
        prepared: bool,
        patience: Patience<'_>,
    ) -> Result<Appended> {
        if txn.rows() == 0 {
            return Ok(Appended { first: 1, last: 0 });
        }
        decisions.retry(self);
        let entry = Entry::new(txn, prepared);
        self.group
            .run(&entry, patience, || self.lead(decisions, patience))
    }

    /// Writes and syncs what waits, for everybody.
    ///
    /// # Errors
    /// When this thread waits no longer for another process; nothing was taken from the queue.
    fn lead(&self, decisions: &Decisions, patience: Patience<'_>) -> Result<Taken> {
        let mut held = self.tail.lock();
        let Some((tail, file)) = &mut *held else {
            return Err(Error::ReadOnly);
        };
        let blocked = self.group.blocked(file.identity().ok(), patience);
        let patience = |waited| blocked.after(waited);
        let locked = self.files.lock_again(file, APPEND_LOCK, &patience);
        drop(blocked);
        let ready = match locked {
            Err(e @ (Error::Locked { .. } | Error::Interrupted)) => return Err(e),
            locked => locked.and_then(|()| tail.catch_up()),
        };
        // Taken only now, when it is our turn: more may have come while another process had its turn.
        let mut taken = self.group.take(|bytes, more| tail.fits(bytes, more));
        let entries = taken.entries();
        let txns: Vec<Arc<Txn>> = entries.iter().map(|e| e.txn.clone()).collect();
        let prepared = || entries.iter().filter(|e| e.prepared);
        let is_any_decided = entries.iter().any(|e| !e.prepared);
        let outcome = ready.and_then(|()| {
            tail.write(&txns, |appended| {
                let both = entries.iter().zip(appended).filter(|(e, _)| e.prepared);
                decisions.add(both.map(|(e, a)| (e.txn.id(), *a)))
            })
        });
        // Should this fail, the lock goes with its handle; nobody can be told of it here.
        file.unlock().ok();
        match &outcome {
            Ok(_) => self.ask_for_free_segment(tail),
            Err(_) if prepared().next().is_some() => {
                decisions.retract(prepared().map(|e| e.txn.id()));
            }
            Err(_) => {}
        }
        drop(held);
        // What is prepared nobody may read yet.
        if is_any_decided {
            self.wake();
        }
        taken.note(outcome);
        Ok(taken)
    }

    fn ask_for_free_segment(&self, tail: &Tail) {
        if self.options.background && tail.is_half_full() {
            let segment = tail.word().segment;
            (self.ahead).ask(&self.files, segment, self.options.segment_bytes);
        }
    }

    pub(crate) fn wake(&self) {
        self.news.tell();
    }

    pub(crate) fn visible(&self) -> Result<Visible> {
        self.is_ours()?;
        let visible =
            self.visibility
                .lock()
                .current(&self.files, self.slot_no, self.decisions.as_ref())?;
        // Who may write keeps a repair away by its slot; who only reads is not known to anybody.
        if self.decisions.is_none() {
            self.is_in_place()?;
        }
        Ok(visible)
    }

    pub(crate) fn state(&self) -> Result<State> {
        self.is_ours()?;
        match self.files.load_state()? {
            Some(state) => Ok(state),
            // Of a log that is not here any more nothing is said.
            None => Err(self.is_in_place().err().unwrap_or_else(no_state)),
        }
    }

    /// Number of the first row that is still there.
    pub(crate) fn first_seq(&self) -> Result<Seq> {
        loop {
            let first = self.state()?.first_segment;
            // If it is pruned meanwhile, the state names another.
            if let Some(segment) = self.files.segment(first, OpenMode::Read)? {
                return Ok(segment.header.first_seq);
            }
            if self.state()?.first_segment == first {
                return Err(crate::files::damaged(first, 0, "the segment is missing"));
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_ours().is_err() {
            return;
        }
        self.ahead.end();
        // Once the slot is given up, what is prepared counts as committed: this is the last time to store a rollback that could not be stored before.
        if let Some(decisions) = &self.decisions {
            decisions.retry(self);
        }
        // So that the next one to open the log finds its end at once. Nothing depends on it.
        if let Some((tail, lock)) = self.tail.get_mut()
            && let Ok(true) = lock.try_lock(LockKind::Exclusive)
        {
            tail.catch_up().and_then(|()| tail.sync_word()).ok();
        }
    }
}
