//! A checkpoint beside the worker: a thread with its own connection copies committed frames to the
//! database file, while the next rows are inserted.
//!
//! It is a passive checkpoint by SQLite, which syncs the WAL before it copies a page and the file
//! after the last page. Frames that are committed meanwhile stay, so this checkpoint never restarts
//! the WAL. The worker's own checkpoint follows between two transactions and has less to copy. Only
//! that one decides what can be pruned. A sync that fails here is recorded in [`SyncFailed`].

use super::Applying;
use crate::database::connection_spec::ConnectionSpec;
use crate::database::sync_failed::SyncFailed;
use densite_sqlite::{Checkpointed, Code, Error, Result, ffi, fork_gate};
use std::thread::JoinHandle;

/// At most one checkpoint at a time. Its thread ends with this value.
#[derive(Default)]
pub(super) struct BackgroundCheckpoint {
    thread: Option<JoinHandle<Result<Checkpointed>>>,
}

impl BackgroundCheckpoint {
    /// Begins a checkpoint. If no thread can be started it does nothing: the checkpoint only saves
    /// time.
    pub(super) fn begin(&mut self, applying: &Applying) {
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
    pub(super) fn is_begun(&self) -> bool {
        self.thread.is_some()
    }

    /// The result of the checkpoint; `None` while it is running.
    ///
    /// # Errors
    /// SQLite's; an internal error if the thread panicked.
    pub(super) fn ended(&mut self) -> Result<Option<Checkpointed>> {
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
    pub(super) fn end(&mut self) -> Result<Option<Checkpointed>> {
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
