//! An open log.

mod opening;

use crate::format::SEGMENT_MAX;
use crate::news::Rings;
use crate::patience::{Patience, usual};
use crate::reader::Reader;
use crate::shared::Shared;
use crate::state::Config;
use crate::txn::{Appended, Txn, TxnId};
use crate::writer::Writer;
use crate::{Error, Result, Seq};
use densite_disk::{File, OpenMode};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A log that is open. Clones share it; the last one to go, readers included, closes it.
#[derive(Clone)]
pub struct Log {
    pub(crate) shared: Arc<Shared>,
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
        self.shared.new_txn()
    }

    /// Appends a transaction and waits until it is durable: then it is committed. A transaction
    /// without rows is nothing, and went to 1..=0.
    ///
    /// # Errors
    /// `Full`, `Io`, `SyncFailed`, `Locked` after ten seconds: it is not in the log, and
    /// may be appended again. `Damaged`, `Forked`, `Abandoned`.
    pub fn append(&self, txn: Txn) -> Result<Appended> {
        self.shared.writer()?.append(Arc::new(txn), false, &usual)
    }

    /// Appends a transaction and waits until it is durable; readers see it once [`Log::commit`] is
    /// called, and never if [`Log::cancel`] is. Again with the id of one that is prepared it
    /// appends nothing and answers where that one is.
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
        self.shared.writer()?.append(txn.clone(), true, patience)
    }

    /// Commits a prepared transaction; nothing happens if it is committed already.
    pub fn commit(&self, id: TxnId) {
        if let Ok(writer) = self.shared.writer() {
            writer.commit(id);
        }
    }

    /// Rolls a prepared transaction back, durably. Nothing happens if it was not prepared.
    ///
    /// # Errors
    /// `Full`, `Io`: it is not durable yet. The rows stay hidden, readers wait at that
    /// place, and each append, [`Log::retry_rollbacks`] and the close of the log try again. If it
    /// cannot be stored at the close either, or the process ends before, the transaction is
    /// committed: there is no place left that says otherwise.
    pub fn cancel(&self, id: TxnId) -> Result<()> {
        self.shared.writer()?.cancel(id)
    }

    /// Tries again to roll back what could not be noted when [`Log::cancel`] was asked: until then
    /// no reader sees what follows it. Each append does so, too; this is for a writer that may not append again.
    ///
    /// Returns whether something is left that is to be tried again.
    pub fn retry_rollbacks(&self) -> bool {
        self.shared.writer().is_ok_and(Writer::retry_rollbacks)
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
        // Before any mutex: a thread that is not in this process may have had it when the process
        // was forked.
        self.shared.dir.is_ours()?;
        let until = Instant::now() + timeout;
        let news = &self.shared.news;
        if self.last()? > seq {
            return Ok(true);
        }
        loop {
            news.listen(&self.shared.dir.files, self.shared.visible()?.word.writers);
            let left = until.saturating_duration_since(Instant::now());
            if news.wait(left, rings, || Ok::<_, Error>(self.last()? > seq))? {
                return Ok(true);
            }
            if left.is_zero() || self.rings()? != rings {
                self.shared.dir.is_in_place()?;
                return Ok(false);
            }
        }
    }

    /// How often [`Log::ring`] was called: for who is going to wait, and looks before whether it is
    /// to.
    ///
    /// # Errors
    /// `Forked`.
    pub fn rings(&self) -> Result<Rings> {
        self.shared.dir.is_ours()?;
        Ok(self.shared.news.rings())
    }

    /// Calls off those of this process that wait by [`Log::wait_after_or_ring`] or
    /// [`Log::wait_to_lead`].
    pub fn ring(&self) {
        if self.shared.dir.is_ours().is_ok() {
            self.shared.news.ring();
            self.shared.takeover.ring();
        }
    }

    /// Reads what follows this row; 0 for all. What was pruned is an error when it is read, not
    /// here.
    ///
    /// # Errors
    /// `Io`, `Forked`.
    pub fn read_after(&self, seq: Seq) -> Result<Reader> {
        self.shared.dir.is_ours()?;
        Reader::new(self.shared.clone(), seq)
    }

    /// Takes the right to apply, which one open log of all processes has; `None` if another has it.
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

    /// Waits until the process that has the right to apply may have given it up, until
    /// [`Log::ring`] is called after `rings`, or so long; sometimes shorter. For one thread at a
    /// time.
    ///
    /// # Errors
    /// `Forked`.
    pub fn wait_to_lead(&self, time: Duration, rings: Rings) -> Result<()> {
        let shared = &self.shared;
        shared.dir.is_ours()?;
        (shared.takeover).wait(&shared.dir.files, &shared.news, time, rings);
        Ok(())
    }

    /// Prepares the next segment's file, if no pruned one is there for it; answers whether it did.
    /// A thread does this by itself when a segment is half full, unless
    /// [`Options::background`](crate::Options::background) says no.
    ///
    /// # Errors
    /// `Full`, `Io`; the log works on without.
    pub fn prepare_free_segment(&self) -> Result<bool> {
        let shared = &self.shared;
        shared.may_write()?;
        shared
            .dir
            .files
            .prepare_free_segment(shared.options.segment_bytes, Duration::ZERO, &|| false)
    }

    /// Settings.
    ///
    /// # Errors
    /// `Io`, `Damaged`.
    pub fn config(&self) -> Result<Config> {
        Ok(self.shared.dir.state()?.config)
    }

    /// Changes settings, durably; answers what they are then.
    ///
    /// # Errors
    /// `Full`, `Io`, `Damaged`.
    pub fn set_config(&self, change: impl FnOnce(&mut Config)) -> Result<Config> {
        self.shared.may_write()?;
        self.shared.dir.with_state(|state| {
            change(&mut state.config);
            Ok((state.config, true))
        })
    }

    /// How large the log is.
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

    /// Bytes that the rows behind `seq` take in the log. The record that has the first of them
    /// counts as a whole. For limits on what is not applied, and for reports.
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

    /// That the directory's name still leads to the log that was opened: what was read there is of
    /// the log that others write to.
    ///
    /// # Errors
    /// `Replaced`; `Io`.
    pub fn is_in_place(&self) -> Result<()> {
        self.shared.dir.is_in_place()
    }
}
