//! Between batches: checkpoints, so that the WAL is bounded, and pruning (rule 4).
//!
//! Rows up to a position are pruned only when the position was committed before a checkpoint that completed, and the database's file was synced after that: whoever did the checkpoint
//! may run `synchronous=OFF`. In rollback mode the worker's own commit syncs the file and the directory (`synchronous=EXTRA`), but the position may be that of an earlier worker,
//! or of a backup that was copied into place: both are synced before each pruning whatever the mode.

use super::Applying;
use densite_log::Seq;
use densite_sqlite::{Connection, Result, ffi};
use std::time::{Duration, Instant};

/// Rows between two checkpoints.
const CHECKPOINT_ROWS: usize = 16 << 10;
/// Pruning is tried no more often while rows are applied.
const PRUNE_EVERY: Duration = Duration::from_secs(1);
/// Above this many frames the worker waits for a checkpoint to get through, rather than let the WAL grow.
const WAL_FRAMES_MAX: i32 = 16 << 10;
/// It waits no longer: a reader may stay for ever.
const WAL_PATIENCE: Duration = Duration::from_secs(2);
const WAL_STEP: Duration = Duration::from_millis(5);

#[derive(Default)]
pub(super) struct Tidy {
    wal: Option<bool>,
    /// Rows since the last complete checkpoint.
    rows: usize,
    /// Committed, and not known to be durable.
    position: Option<Seq>,
    pruned: Option<Instant>,
}

impl Tidy {
    /// As the journal mode needs it: the mode may change at any time. Outside of transactions.
    pub(super) fn set_synchronous(&mut self, connection: &Connection) -> Result<()> {
        let mode = connection
            .query_string("PRAGMA main.journal_mode")?
            .unwrap_or_default();
        let wal = mode.eq_ignore_ascii_case("wal");
        if !wal && matches!(mode.as_str(), "memory" | "off") {
            // The default of some builds: with it a commit is no commit.
            connection.query_string("PRAGMA main.journal_mode = DELETE")?;
        }
        if self.wal != Some(wal) {
            let level = if wal { "NORMAL" } else { "EXTRA" };
            connection.exec(&format!("PRAGMA main.synchronous = {level}"))?;
            self.wal = Some(wal);
        }
        Ok(())
    }

    /// After a batch that was committed up to `position`.
    pub(super) fn after(
        &mut self,
        connection: &Connection,
        applying: &Applying,
        position: Seq,
        rows: usize,
    ) -> Result<()> {
        self.position = Some(position);
        self.rows += rows;
        if self.wal == Some(true) && self.rows < CHECKPOINT_ROWS {
            return Ok(());
        }
        let complete = self.checkpoint(connection, applying)?;
        if complete && self.pruned.is_none_or(|t| t.elapsed() >= PRUNE_EVERY) {
            self.prune(connection, applying)?;
        }
        Ok(())
    }

    /// When there is nothing to apply.
    pub(super) fn rest(
        &mut self,
        connection: &Connection,
        applying: &Applying,
        position: Seq,
    ) -> Result<()> {
        if self.position.is_none() && self.pruned.is_none() {
            // Just opened: what an earlier worker applied may not be pruned yet.
            self.position = Some(position);
            self.set_synchronous(connection)?;
        }
        if self.position.is_some() && self.checkpoint(connection, applying)? {
            self.prune(connection, applying)?;
        }
        Ok(())
    }

    /// Whether all that was committed is in the database's file. Nobody waits for this checkpoint: it is a passive one.
    fn checkpoint(&mut self, connection: &Connection, applying: &Applying) -> Result<bool> {
        if self.wal != Some(true) {
            return Ok(true);
        }
        let begun = Instant::now();
        loop {
            let done = match connection.checkpoint(Some(c"main"), ffi::CHECKPOINT_PASSIVE) {
                Ok(done) => done,
                // Somebody else is at it.
                Err(e) if e.is_busy() => return Ok(false),
                Err(e) => return Err(e),
            };
            if done.wal_frames == done.checkpointed {
                self.rows = 0;
                return Ok(true);
            }
            let large = done.wal_frames > WAL_FRAMES_MAX && begun.elapsed() < WAL_PATIENCE;
            if !large || applying.stops() {
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
        crate::durable::sync(connection, applying.medium.as_ref())?;
        applying
            .log
            .purge(position)
            .map_err(|e| crate::error::from_log(&applying.dir, e))?;
        Ok(())
    }
}
