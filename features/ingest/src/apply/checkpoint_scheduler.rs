//! Work between batches: checkpoints, which bound the WAL, and pruning (rule L4).
//!
//! Rows up to a position are pruned only if it was committed before a checkpoint that completed, and
//! the database file was synced after that: the checkpoint may have run with `synchronous=OFF`. In
//! rollback mode the worker's commit syncs the file and the directory (`synchronous=EXTRA`). But the
//! position can be that of an earlier worker or of a restored backup, so both are synced before each
//! pruning in every mode. After a failed sync nothing is pruned ([`super::pruning`] retries after
//! other failures, even when there is nothing to apply).

use super::Applying;
use super::pruning::RetryTime;
use super::wal::{IncrementalSync, Wal};
use crate::database::connection_spec::ConnectionSpec;
use crate::database::database_file::still_has_its_name;
use crate::database::open_log::SyncFailed;
use densite_log::Seq;
use densite_sqlite::{Checkpointed, Code, Connection, Error, Result, ffi, fork_gate};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The shortest time between two prunings while rows are applied.
const PRUNE_EVERY: Duration = Duration::from_secs(1);
/// After this long without new rows, it is time to checkpoint and prune.
const IDLE: Duration = Duration::from_millis(250);
/// If a writer commits row after row, the worker catches up after each. Checkpointing and pruning
/// cost the disk as much as several commits. So while rows keep coming, both are done after this
/// time, then after twice as long, and so on,
const PATIENCE: Duration = Duration::from_secs(1);
/// up to this.
const PATIENCE_MAX: Duration = Duration::from_secs(64);
/// The longest wait for readers that keep the WAL: a reader may stay forever.
const WAL_PATIENCE: Duration = Duration::from_secs(2);
const WAL_STEP: Duration = Duration::from_millis(5);

pub(super) struct CheckpointScheduler {
    wal: Option<bool>,
    size: Wal,
    /// A reader has prevented checkpoints until the WAL became too large.
    stuck: bool,
    ahead: BackgroundCheckpoint,
    /// Set in WAL mode.
    incremental_sync: Option<IncrementalSync>,
    /// Committed, and not yet known to be durable.
    position: Option<Seq>,
    pruned: Option<Instant>,
    /// When rows were last applied.
    active: Option<Instant>,
    /// When it last checkpointed and pruned, and how long to wait before the next time while rows
    /// keep coming.
    last_idle: Option<(Instant, Duration)>,
}

impl CheckpointScheduler {
    /// A scheduler that has done nothing yet. `wal`: see [`crate::StorageBackend::wal_bytes`].
    pub(super) fn new(wal: (u64, u64)) -> CheckpointScheduler {
        CheckpointScheduler {
            wal: None,
            size: Wal::new(wal),
            stuck: false,
            ahead: BackgroundCheckpoint::default(),
            incremental_sync: None,
            position: None,
            pruned: None,
            active: None,
            last_idle: None,
        }
    }

    /// Sets `synchronous` for the journal mode, which can change at any time. Call it outside of
    /// transactions.
    pub(super) fn set_synchronous(&mut self, connection: &Connection) -> Result<()> {
        let mode = connection
            .query_string("PRAGMA main.journal_mode")?
            .unwrap_or_default();
        let wal = mode.eq_ignore_ascii_case("wal");
        if !wal && matches!(mode.as_str(), "memory" | "off") {
            // Some builds have such a default. Commits are not atomic with it.
            connection.query_string("PRAGMA main.journal_mode = DELETE")?;
        }
        if self.wal != Some(wal) {
            let level = if wal { "NORMAL" } else { "EXTRA" };
            connection.exec(&format!("PRAGMA main.synchronous = {level}"))?;
            self.wal = Some(wal);
        }
        Ok(())
    }

    /// Call it after a batch that was committed up to `position`.
    pub(super) fn after(
        &mut self,
        connection: &Connection,
        applying: &Applying,
        position: Seq,
        rows: usize,
    ) -> Result<()> {
        self.position = Some(position);
        applying.pruning.forget();
        self.active = Some(Instant::now());
        self.size.grew(rows);
        if self.wal == Some(true) && !self.is_time_to_checkpoint(applying, rows)? {
            return Ok(());
        }
        let complete = self.checkpoint(connection, applying)?;
        // A checkpoint can take longer than [`IDLE`].
        self.active = Some(Instant::now());
        if complete && self.pruned.is_none_or(|t| t.elapsed() >= PRUNE_EVERY) {
            self.prune(connection, applying)?;
        }
        Ok(())
    }

    /// In WAL mode, after a batch of this many rows: whether to checkpoint before the next batch.
    /// If not, a checkpoint can begin beside the next batch.
    fn is_time_to_checkpoint(&mut self, applying: &Applying, rows: usize) -> Result<bool> {
        let was_ahead = self.ahead.ended()?;
        let is_done = was_ahead.is_some();
        if let Some(done) = was_ahead {
            self.size.was_ahead(done);
        }
        if let Some(incremental_sync) = &self.incremental_sync {
            self.size.reaches(incremental_sync.progress().reached());
        }
        if self.size.is_due() || is_done && self.size.is_little(rows) {
            return Ok(true);
        }
        if self.size.is_half_due() && !self.ahead.is_begun() {
            self.size.begins_ahead();
            self.ahead.begin(applying);
        }
        Ok(false)
    }

    /// Whether a checkpoint is running beside the worker.
    pub(super) fn is_beside(&self) -> bool {
        self.ahead.is_begun()
    }

    fn is_idle(&self) -> bool {
        self.active.is_none_or(|t| t.elapsed() >= IDLE)
    }

    /// Whether to checkpoint and prune now that there are no rows to apply.
    fn is_time(&mut self) -> bool {
        let idle = self.is_idle();
        let next = match self.last_idle {
            _ if idle => PATIENCE,
            None => PATIENCE,
            Some((at, patience)) if at.elapsed() >= patience => (2 * patience).min(PATIENCE_MAX),
            Some(_) => return false,
        };
        self.last_idle = Some((Instant::now(), next));
        true
    }

    /// Called when there are no rows to apply.
    pub(super) fn when_idle(
        &mut self,
        connection: &Connection,
        applying: &Applying,
        position: Seq,
    ) -> Result<()> {
        let retry_time = applying.pruning.retry_time();
        if self.position.is_none() && (self.pruned.is_none() || retry_time == RetryTime::Now) {
            // The worker has just started, or an earlier attempt failed: rows that were applied
            // before may still have to be pruned.
            self.position = Some(position);
            self.set_synchronous(connection)?;
        }
        // If rows keep coming, the WAL would grow again at once.
        let is_long = self.size.is_long() || applying.pruning.is_wal_long();
        let is_to_be_cut = self.is_idle() && self.wal == Some(true) && is_long;
        let is_due = match retry_time {
            RetryTime::Nothing => self.position.is_some() && self.is_time() || is_to_be_cut,
            RetryTime::Later => false,
            RetryTime::Now => true,
        };
        if !is_due {
            return Ok(());
        }
        let done = self.checkpoint_and_prune(connection, applying, is_to_be_cut);
        let is_done = matches!(done, Ok(true));
        if is_to_be_cut {
            applying.pruning.set_wal_long(!is_done);
        }
        if !is_done {
            applying.pruning.put_off();
        }
        done.map(drop)
    }

    /// Returns whether it succeeded: then everything is in the database file, applied rows are being
    /// pruned, and the WAL is cut if it was to be.
    fn checkpoint_and_prune(
        &mut self,
        connection: &Connection,
        applying: &Applying,
        is_to_be_cut: bool,
    ) -> Result<bool> {
        if !self.checkpoint(connection, applying)? {
            return Ok(false);
        }
        let is_cut = !is_to_be_cut || self.size.cut(connection)?;
        self.prune(connection, applying)?;
        Ok(is_cut)
    }

    /// Called before rows are applied. Returns the reason if no rows can be applied now: the WAL
    /// has reached its limit, and a connection reads an old state in it. The log holds the same
    /// rows in a hundredth of the space.
    pub(super) fn held_up(
        &mut self,
        connection: &Connection,
        applying: &Applying,
    ) -> Result<Option<Error>> {
        if self.wal != Some(true) {
            self.incremental_sync = None;
        } else if self.incremental_sync.is_none() {
            self.incremental_sync = IncrementalSync::start(connection, applying);
        }
        if self.stuck {
            self.checkpoint(connection, applying)?;
        }
        if !self.stuck {
            return Ok(None);
        }
        Ok(Some(Error::new(
            Code::FULL,
            format!(
                "the WAL has grown to {} MiB, because a connection has been reading an old state of the database; rows stay in the log until that one ends its transaction",
                self.size.bytes() >> 20
            ),
        )))
    }

    /// Returns whether everything committed is in the database file. The checkpoint is a passive
    /// one, so it blocks no other connection.
    fn checkpoint(&mut self, connection: &Connection, applying: &Applying) -> Result<bool> {
        if self.wal != Some(true) {
            return Ok(true);
        }
        if let Some(done) = self.ahead.end()? {
            self.size.was_ahead(done);
        }
        let begun = Instant::now();
        loop {
            let done = connection.checkpoint(Some(c"main"), ffi::CHECKPOINT_PASSIVE);
            let done = match applying.open.sync_failed().record(done) {
                Ok(done) => done,
                // Another connection is checkpointing.
                Err(e) if e.is_busy() => return Ok(false),
                Err(e) => return Err(e),
            };
            self.size.is(connection, done)?;
            if done.wal_frames == done.checkpointed {
                self.stuck = false;
                if let Some(incremental_sync) = &self.incremental_sync {
                    incremental_sync.progress().forget();
                }
                self.size.restart(connection)?;
                return Ok(true);
            }
            if !self.size.is_too_large() {
                self.stuck = false;
                return Ok(false);
            }
            if self.stuck || begun.elapsed() >= WAL_PATIENCE || applying.stops() {
                self.stuck = true;
                return Ok(false);
            }
            applying.pause(WAL_STEP);
        }
    }

    fn prune(&mut self, connection: &Connection, applying: &Applying) -> Result<()> {
        let Some(position) = self.position.take() else {
            return Ok(());
        };
        self.pruned = Some(Instant::now());
        let synced = crate::database::durable::sync(connection, applying.open.storage().as_ref());
        applying.open.sync_failed().record(synced)?;
        // Otherwise the file that has the name now may lack those rows.
        still_has_its_name(connection)?;
        if applying.open.sync_failed().has_failed() {
            applying.pruning.forget();
            return Ok(());
        }
        if !applying.pruning.begin(applying.open.log(), position) {
            // The previous pruning is still running, so this one is put off.
            self.position = Some(position);
            applying.pruning.put_off();
        }
        Ok(())
    }
}

/// A checkpoint beside the worker: a thread with its own connection copies committed frames to the
/// database file, while the next rows are inserted. At most one at a time; its thread ends with this
/// value.
///
/// It is a passive checkpoint by SQLite, which syncs the WAL before it copies a page and the file
/// after the last page. Frames that are committed meanwhile stay, so this checkpoint never restarts
/// the WAL. The worker's own checkpoint follows between two transactions and has less to copy. Only
/// that one decides what can be pruned. A sync that fails here is recorded in [`SyncFailed`].
#[derive(Default)]
struct BackgroundCheckpoint {
    thread: Option<JoinHandle<Result<Checkpointed>>>,
}

impl BackgroundCheckpoint {
    /// Begins a checkpoint. If no thread can be started it does nothing: the checkpoint only saves
    /// time.
    fn begin(&mut self, applying: &Applying) {
        let (spec, sync_failed) = (applying.spec.clone(), applying.open.sync_failed().clone());
        let inside = fork_gate::beside();
        self.thread = std::thread::Builder::new()
            .name("densite-checkpoint".into())
            .spawn(move || {
                let _inside = inside;
                run(&spec, &sync_failed)
            })
            .ok();
    }

    /// Whether a checkpoint is running, or has ended and its result was not fetched.
    fn is_begun(&self) -> bool {
        self.thread.is_some()
    }

    /// The result of the checkpoint; `None` while it is running.
    ///
    /// # Errors
    /// SQLite's; an internal error if the thread panicked.
    fn ended(&mut self) -> Result<Option<Checkpointed>> {
        match self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            true => self.end(),
            false => Ok(None),
        }
    }

    /// Waits for its end. `None` if there was no checkpoint, or another connection was
    /// checkpointing.
    ///
    /// # Errors
    /// As [`BackgroundCheckpoint::ended`].
    fn end(&mut self) -> Result<Option<Checkpointed>> {
        let Some(thread) = self.thread.take() else {
            return Ok(None);
        };
        match thread.join() {
            Ok(Ok(done)) => Ok(Some(done)),
            Ok(Err(e)) if e.is_busy() => Ok(None),
            Ok(Err(e)) => Err(e),
            Err(_) => Err(Error::new(
                Code::INTERNAL,
                "the thread that checkpoints beside the worker panicked",
            )),
        }
    }
}

fn run(spec: &ConnectionSpec, sync_failed: &SyncFailed) -> Result<Checkpointed> {
    let connection = spec.open_to_write()?;
    // The default of some builds is OFF.
    connection.exec("PRAGMA main.synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0")?;
    sync_failed.record(connection.checkpoint(Some(c"main"), ffi::CHECKPOINT_PASSIVE))
}

impl Drop for BackgroundCheckpoint {
    fn drop(&mut self) {
        // A failed sync is recorded. No caller is left to report other errors to.
        self.end().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_rows_keep_coming_checkpoints_become_rarer() {
        let now = Instant::now();
        let ago = |t: Duration| now.checked_sub(t).expect("a clock that has run");
        let mut scheduler = CheckpointScheduler {
            active: Some(now),
            ..CheckpointScheduler::new((16 << 20, 512 << 20))
        };
        assert!(scheduler.is_time(), "the first time at once");
        let mut expected = PATIENCE;
        for _ in 0..10 {
            let (at, patience) = scheduler.last_idle.expect("it was");
            assert_eq!(patience, expected);
            scheduler.active = Some(Instant::now());
            assert!(!scheduler.is_time());
            scheduler.last_idle = Some((at.checked_sub(patience).unwrap_or(at), patience));
            if scheduler
                .last_idle
                .is_some_and(|(at, _)| at.elapsed() < patience)
            {
                // The system's clock has not run that long.
                break;
            }
            assert!(scheduler.is_time());
            expected = (2 * expected).min(PATIENCE_MAX);
        }
        scheduler.active = Some(ago(IDLE));
        assert!(scheduler.is_time(), "no more rows come");
        assert_eq!(
            scheduler.last_idle.map(|(_, patience)| patience),
            Some(PATIENCE)
        );
    }
}
