//! An open log.

mod opening;

use crate::batch::{Appended, Txn, TxnId};
use crate::format::SEGMENT_MAX;
use crate::patience::{Patience, usual};
use crate::reader::Reader;
use crate::shared::Shared;
use crate::state::Config;
use crate::wakeups::Rings;
use crate::writer::Writer;
use crate::{Error, Result, Seq};
use densite_disk::wait::Deadline;
use densite_disk::{File, OpenMode};
use std::sync::Arc;
use std::time::Duration;

/// An open log. Clones share it. Dropping the last clone or reader closes it.
#[derive(Clone)]
pub struct Log {
    pub(crate) shared: Arc<Shared>,
}

/// Size and end of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Rows that are still in the log have this number or a higher one.
    pub first: Seq,
    /// Number of the last row that can be read.
    pub last: Seq,
    /// Number of segments in use.
    pub segments: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Bytes of the free segments.
    pub free_segment_bytes: u64,
    /// Settings.
    pub config: Config,
}

/// The right to apply rows. It ends with this value or its process.
pub struct Lead {
    // Dropped, and so released, before the log can close.
    _file: Box<dyn File>,
    /// Keeps the log open: a repair must not begin while an applier runs.
    _log: Arc<Shared>,
}

impl Log {
    /// A transaction id that no other transaction of any process has.
    pub fn new_txn(&self) -> TxnId {
        self.shared.new_txn()
    }

    /// Appends a transaction and waits until it is durable: then it is committed. A transaction
    /// without rows appends nothing and returns 1..=0.
    ///
    /// # Errors
    /// `Full`, `Io`, `SyncFailed`, `Locked` after ten seconds: it is not in the log, and can be
    /// appended again. `Damaged`, `Forked`, `Abandoned`.
    pub fn append(&self, txn: Txn) -> Result<Appended> {
        self.shared.writer()?.append(Arc::new(txn), false, &usual)
    }

    /// Appends a transaction and waits until it is durable. Readers see it after [`Log::commit`],
    /// and never after [`Log::cancel`]. A second call with the id of a prepared transaction appends
    /// nothing and returns its rows.
    ///
    /// If the process ends in between, the transaction is committed.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn prepare(&self, txn: &Arc<Txn>) -> Result<Appended> {
        self.prepare_within(txn, &usual)
    }

    /// As [`Log::prepare`]. `patience` decides how long it waits for other processes.
    ///
    /// # Errors
    /// As [`Log::append`]; `Interrupted`.
    pub fn prepare_within(&self, txn: &Arc<Txn>, patience: Patience<'_>) -> Result<Appended> {
        self.shared.writer()?.append(txn.clone(), true, patience)
    }

    /// Commits a prepared transaction. Does nothing if it is committed already.
    pub fn commit(&self, id: TxnId) {
        if let Ok(writer) = self.shared.writer() {
            writer.commit(id);
        }
    }

    /// Rolls a prepared transaction back, durably. Does nothing if it is not prepared.
    ///
    /// # Errors
    /// `Full`, `Io`: the rollback is not durable yet. The rows stay hidden, and readers wait in
    /// front of them. Each append, [`Log::retry_rollbacks`] and the close of the log try again. If
    /// the close fails too, or the process ends before, the transaction is committed: no file
    /// records the rollback.
    pub fn cancel(&self, id: TxnId) -> Result<()> {
        self.shared.writer()?.cancel(id)
    }

    /// Tries again to store rollbacks that [`Log::cancel`] could not store. Until then no reader
    /// sees the rows behind them. Also tries again to tell other processes of a commit, and to end a
    /// segment in front of a failed append that could not be removed. Each append and the close try
    /// too. This call is for a writer that may not append again.
    ///
    /// Returns whether something is still not stored.
    pub fn retry_rollbacks(&self) -> bool {
        self.shared.writer().is_ok_and(Writer::retry_rollbacks)
    }

    /// The last row that can be read: it and all rows before it are synced and decided.
    ///
    /// # Errors
    /// `Io`.
    pub fn last(&self) -> Result<Seq> {
        Ok(self.shared.visible()?.last)
    }

    /// Waits until rows after this one can be read. Returns false if `timeout` ends first.
    ///
    /// # Errors
    /// `Io`, `Forked`.
    pub fn wait_after(&self, seq: Seq, timeout: Duration) -> Result<bool> {
        let until = Deadline::after(timeout);
        loop {
            if self.wait_after_or_ring(seq, until.left(), self.rings()?)? {
                return Ok(true);
            }
            if until.is_over() {
                return Ok(false);
            }
        }
    }

    /// As [`Log::wait_after`]. Also returns false if [`Log::ring`] was called since `rings`.
    ///
    /// # Errors
    /// `Io`, `Forked`.
    pub fn wait_after_or_ring(&self, seq: Seq, timeout: Duration, rings: Rings) -> Result<bool> {
        // Checked before any mutex: in a forked child, a thread that does not exist there can hold
        // it.
        self.shared.dir.is_ours()?;
        let until = Deadline::after(timeout);
        let news = &self.shared.news;
        if self.last()? > seq {
            return Ok(true);
        }
        loop {
            news.listen(&self.shared.dir.files, self.shared.visible()?.word.writers);
            if news.wait(until.left(), rings, || Ok::<_, Error>(self.last()? > seq))? {
                return Ok(true);
            }
            if until.is_over() || self.rings()? != rings {
                self.shared.dir.is_in_place()?;
                return Ok(false);
            }
        }
    }

    /// How often [`Log::ring`] was called. Read it before checking the reasons to wait, and pass it
    /// to the wait.
    ///
    /// # Errors
    /// `Forked`.
    pub fn rings(&self) -> Result<Rings> {
        self.shared.dir.is_ours()?;
        Ok(self.shared.news.rings())
    }

    /// Ends the waits of this process in [`Log::wait_after_or_ring`] and [`Log::wait_to_lead`].
    pub fn ring(&self) {
        if self.shared.dir.is_ours().is_ok() {
            self.shared.news.ring();
            self.shared.takeover.ring();
        }
    }

    /// Reads the rows after this one; 0 for all. If they were pruned, reading returns an error;
    /// this call does not.
    ///
    /// # Errors
    /// `Io`, `Forked`.
    pub fn read_after(&self, seq: Seq) -> Result<Reader> {
        self.shared.dir.is_ours()?;
        Reader::new(self.shared.clone(), seq)
    }

    /// Takes the right to apply. One open log of all processes has it; `None` if it is taken.
    ///
    /// # Errors
    /// `Io`, `Forked`.
    pub fn try_lead(&self) -> Result<Option<Lead>> {
        self.shared.may_write()?;
        let file = self.shared.takeover.try_lock(&self.shared.dir.files)?;
        Ok(file.map(|file| Lead {
            _file: file,
            _log: self.shared.clone(),
        }))
    }

    /// Waits until the process that has the right to apply may have released it, until
    /// [`Log::ring`] is called after `rings`, or for `time`. It can return earlier. Call it from
    /// one thread at a time.
    ///
    /// # Errors
    /// `Forked`.
    pub fn wait_to_lead(&self, time: Duration, rings: Rings) -> Result<()> {
        let shared = &self.shared;
        shared.dir.is_ours()?;
        (shared.takeover).wait(&shared.dir.files, &shared.news, time, rings);
        Ok(())
    }

    /// Prepares the file of the next segment if there is no free segment. Returns whether it did. A
    /// thread does this when a segment is half full, unless
    /// [`Options::background`](crate::Options::background) is false.
    ///
    /// # Errors
    /// `Full`, `Io`; the log can still be used.
    pub fn prepare_free_segment(&self) -> Result<bool> {
        let shared = &self.shared;
        shared.may_write()?;
        shared
            .dir
            .files
            .prepare_free_segment(shared.options.segment_bytes, Duration::ZERO, &|| false)
    }

    /// The settings.
    ///
    /// # Errors
    /// `Io`, `Damaged`.
    pub fn config(&self) -> Result<Config> {
        Ok(self.shared.dir.state()?.config)
    }

    /// Changes settings, durably. Returns the new settings.
    ///
    /// # Errors
    /// `Full`, `Io`, `Damaged`.
    pub fn set_config(&self, change: impl FnOnce(&mut Config)) -> Result<Config> {
        self.shared.may_write()?;
        self.shared.dir.with_state(|state| {
            let before = state.config;
            change(&mut state.config);
            Ok((state.config, state.config != before))
        })
    }

    /// Size and end of the log.
    ///
    /// # Errors
    /// `Io`, `Damaged`.
    pub fn status(&self) -> Result<Status> {
        let state = self.shared.dir.state()?;
        let files = &self.shared.dir.files;
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
            first: self.shared.dir.first_seq()?,
            last: self.last()?,
            segments: numbers.len() as u64,
            bytes,
            free_segment_bytes,
            config: state.config,
        })
    }

    /// Bytes that the rows after `seq` take in the log. The record with the first of them counts
    /// whole. For limits on unapplied rows, and for reports.
    ///
    /// # Errors
    /// `Io`, `Damaged`.
    pub fn bytes_after(&self, seq: Seq) -> Result<u64> {
        let Shared { dir, measured, .. } = &*self.shared;
        let word = self.shared.visible()?.word;
        if word.last_seq() <= seq {
            return Ok(0);
        }
        let first = dir.state()?.first_segment;
        measured.bytes_after(&dir.files, word, first, seq)
    }

    /// Notes the time, at most ten times a second, so that [`Log::time_waited`] knows the age of
    /// rows. Call it before an append. Errors are ignored: only that figure depends on it.
    pub fn note_time(&self) {
        let shared = &self.shared;
        // In a forked child, a thread that does not exist there can hold the mutex.
        if shared.dir.is_ours().is_ok() && shared.noted.is_due() {
            let noted = shared.may_write().and_then(|()| self.last());
            noted.and_then(|last| shared.dir.files.note_time(last)).ok();
        }
    }

    /// How long the first row after `seq` has been readable: at most an eighth and a tenth of a
    /// second too much. For a row from before the first note that is left, the time since that
    /// note. `None` if there is no such row or no note.
    ///
    /// # Errors
    /// `Io`, `Damaged`.
    pub fn time_waited(&self, seq: Seq) -> Result<Option<Duration>> {
        match self.last()? > seq {
            true => self.shared.dir.files.time_since(seq),
            false => Ok(None),
        }
    }

    /// Checks that the directory's name still leads to the log that was opened. If it does, rows
    /// that were read are from the log that other processes write.
    ///
    /// # Errors
    /// `Replaced`; `Io`.
    pub fn is_in_place(&self) -> Result<()> {
        self.shared.dir.is_in_place()
    }
}
