//! The parts of one connection: its open file, its reading, and its training of dictionaries; and
//! making what it published durable by syncs and slots (rule S9).

use crate::codec::dictionary_choice::TrainedFamilies;
use crate::codec::learn::{TrainingJob, TrainingResult};
use crate::error::{Error, Result};
use crate::format::tip::Tip;
use crate::open_file::OpenFile;
use crate::pool::{Pool, Task};
use crate::reader::Reader;
use crate::shared::Shared;
use crate::writer::{Writer, rewrite};
use densite_disk::SyncKind;
use densite_disk::sync::MutexGuard;
use std::sync::Arc;

/// Identifies the commit for which the dictionaries were collected: its number, and how many
/// dictionaries it has added.
pub(crate) type MadeFor = (u64, usize);

/// The result of a training job is installed so many batches after the job began, whenever it ends:
/// what is stored then depends on the pages alone. The writer waits if the job takes longer.
const BATCHES: u32 = 32;

/// See the module's documentation. Each part guards its own state.
pub(crate) struct Connection {
    pub(crate) open: OpenFile,
    pub(crate) reader: Reader,
    pub(crate) training: Training,
}

impl Connection {
    pub(crate) fn new(open: OpenFile) -> Connection {
        Connection {
            open,
            reader: Reader::default(),
            training: Training::default(),
        }
    }

    /// Makes durable what any connection has published, without writing. For a connection that does
    /// not have the right to write.
    ///
    /// # Errors
    /// The disk's. [`Error::Poisoned`] while a rewrite is needed after a failed sync of another
    /// handle of this process.
    pub(crate) fn sync_seen(&mut self, kind: SyncKind) -> Result<()> {
        self.open.check_poison()?;
        self.owes_nothing()?;
        let synced = self.open.file().sync(kind);
        synced.map_err(|e| self.leave_failed_sync(SyncFailed(e)))?;
        // A sync of another handle can have failed meanwhile. The system may then report the
        // failure only to that handle.
        self.owes_nothing()
    }

    /// Fails if a rewrite is needed. Attaches each time, because the file may have been empty when
    /// this handle was opened.
    fn owes_nothing(&mut self) -> Result<()> {
        self.open.attach()?;
        match self.open.known() {
            Some(shared) if shared.writer.lock().durability.needs_rewrite() => Err(Error::Poisoned),
            _ => Ok(()),
        }
    }

    /// Makes everything published durable.
    ///
    /// # Errors
    /// The disk's. The connection is then poisoned.
    pub(crate) fn sync(&mut self, kind: SyncKind) -> Result<()> {
        self.open.check_poison()?;
        // Others may have published since this handle was opened on an empty file.
        self.open.attach()?;
        let Ok(shared) = self.open.shared() else {
            let synced = self.open.file().sync(kind);
            return synced.map_err(|e| self.leave_failed_sync(SyncFailed(e)));
        };
        let tip = shared.state.read().tip();
        let options = self.open.options();
        if !options.read_only {
            let file = self.open.file();
            let durability = &mut shared.writer.lock().durability;
            durability.rewrite_if_needed(file, shared.salt, &tip)?;
            durability.write_slot_if_due(file, options.tuning.slot_every_bytes)?;
        }
        self.sync_rewritten(&shared, tip, kind).map(drop)
    }

    /// Makes `tip` durable; the caller has the right to write. If another connection's sync fails
    /// meanwhile, it may have dropped bytes of which this sync reports nothing. So they are written
    /// again, and synced again.
    ///
    /// # Errors
    /// As [`Connection::sync`].
    pub(crate) fn sync_rewritten<'a>(
        &mut self,
        shared: &'a Shared,
        tip: Tip,
        kind: SyncKind,
    ) -> Result<MutexGuard<'a, Writer>> {
        loop {
            let synced = self.open.file().sync(kind);
            synced.map_err(|e| self.sync_failed(shared, e))?;
            let mut writer = shared.writer.lock();
            if !writer.durability.needs_rewrite() || self.open.options().read_only {
                writer.synced(tip, shared.current_extent());
                return Ok(writer);
            }
            let file = self.open.file();
            (writer.durability).rewrite_if_needed(file, shared.salt, &tip)?;
        }
    }

    /// Makes everything published durable and names it in a durable slot, so that the space it
    /// freed can be reused at once (rule S9). Takes two syncs, unless another connection has done a
    /// part of it.
    ///
    /// # Errors
    /// As [`Connection::sync`].
    pub(crate) fn sync_and_name(&mut self, shared: &Shared) -> Result<()> {
        let tip = shared.state.read().tip();
        {
            let file = self.open.file();
            let durability = &mut shared.writer.lock().durability;
            durability.rewrite_if_needed(file, shared.salt, &tip)?;
            // A slot that another process wrote becomes durable with the first sync.
            durability.reread_slot(file)?;
        }
        for first in [true, false] {
            let mut writer = self.sync_rewritten(shared, tip, SyncKind::Data)?;
            if first {
                if writer.durability.slot().tip == tip {
                    break;
                }
                writer.durability.write_slot(self.open.file(), tip, 0)?;
            }
        }
        Ok(())
    }

    /// Makes everything published durable. Needs no right to write, and does not block writers.
    ///
    /// # Errors
    /// The disk's. The caller then calls [`Connection::after_failed_sync`].
    pub(crate) fn sync_published(&mut self) -> std::result::Result<(), SyncFailed> {
        let Ok(shared) = self.attached() else {
            return self.open.file().sync(SyncKind::Data).map_err(SyncFailed);
        };
        // The sync may or may not cover what others publish, and the slot they write, while it
        // runs.
        let slot = shared.writer.lock().durability.slot().seq;
        let tip = shared.state.read().tip();
        self.open.file().sync(SyncKind::Data).map_err(SyncFailed)?;
        let mut writer = shared.writer.lock();
        writer.synced_meanwhile(tip, slot, shared.current_extent());
        Ok(())
    }

    /// Handles a failed sync without the right to write: the next writer rewrites what the disk may
    /// have dropped. Returns the sync's error.
    pub(crate) fn leave_failed_sync(&mut self, failed: SyncFailed) -> Error {
        if let Ok(shared) = self.attached() {
            shared.writer.lock().durability.sync_failed();
        }
        self.open.poison(failed.0)
    }

    /// Handles a failed sync with the right to write: rewrites what the disk may have dropped.
    /// Returns the sync's error.
    pub(crate) fn after_failed_sync(&mut self, failed: SyncFailed) -> Error {
        match self.attached() {
            Ok(shared) => self.sync_failed(&shared, failed.0),
            Err(_) => self.open.poison(failed.0),
        }
    }

    /// No later commit may build on bytes that the disk has dropped: see `rewrite`. If they cannot
    /// be written now, a rewrite is noted as needed.
    fn sync_failed(&mut self, shared: &Shared, e: densite_disk::Error) -> Error {
        let tip = shared.state.read().tip();
        let written = !self.open.options().read_only
            && rewrite::run(self.open.file(), shared.salt, &tip).is_ok();
        if !written {
            shared.writer.lock().durability.sync_failed();
        }
        self.open.poison(e)
    }

    /// The shared part, if there is one by now: the file may have been empty when this handle was
    /// opened.
    fn attached(&mut self) -> Result<std::sync::Arc<Shared>> {
        // If the file cannot be read, there is no shared part, and no rewrite is needed.
        let _ = self.open.attach();
        self.open.shared()
    }
}

/// The failure of a sync that ran without the right to write: see
/// [`Handle::after_failed_sync`](crate::Handle::after_failed_sync).
#[derive(Debug)]
#[must_use = "what the disk dropped must be written again"]
pub struct SyncFailed(pub(crate) densite_disk::Error);

/// A training job that runs while a connection writes, and the dictionaries that its commit can
/// use.
#[derive(Default)]
pub(crate) struct Training {
    running: Option<Task<Vec<TrainingResult>>>,
    /// See [`TrainingJob::token`].
    token: Option<Arc<()>>,
    /// Batches until the result is installed.
    left: u32,
    current: Arc<TrainedFamilies>,
    made_for: MadeFor,
}

impl Training {
    /// Counts a batch. Returns the training job if its result is installed before this batch.
    pub(crate) fn next_batch(&mut self) -> Option<Task<Vec<TrainingResult>>> {
        self.left = self.left.saturating_sub(1);
        let done = self.running.take_if(|_| self.left == 0);
        if done.is_some() {
            self.token = None;
        }
        done
    }

    /// Whether a training job is running.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Starts a training job on the pool.
    pub(crate) fn begin(&mut self, training_job: TrainingJob, pool: &Option<Arc<Pool>>) {
        self.token = Some(training_job.token());
        self.running = Some(Task::spawn(pool, move || training_job.train()));
        self.left = BATCHES;
    }

    /// Gives up the running training job.
    pub(crate) fn cancel(&mut self) {
        (self.running, self.token) = (None, None);
    }

    /// Forgets the collected dictionaries, because the commit does not have all of them any more.
    pub(crate) fn forget(&mut self) {
        self.made_for = MadeFor::default();
    }

    /// The dictionaries that were collected for this commit.
    pub(crate) fn trained(&self, made_for: MadeFor) -> Option<Arc<TrainedFamilies>> {
        (self.made_for == made_for).then(|| Arc::clone(&self.current))
    }

    /// Keeps the dictionaries that were collected for this commit.
    pub(crate) fn keep(&mut self, made_for: MadeFor, trained: &Arc<TrainedFamilies>) {
        self.made_for = made_for;
        self.current = Arc::clone(trained);
    }
}
