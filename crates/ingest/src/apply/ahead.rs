//! A checkpoint beside the worker: a thread with a connection of its own copies frames that are
//! committed into the database's file, while the next rows are inserted.
//!
//! It is a passive checkpoint, by SQLite, which syncs the WAL before it copies a page and the file
//! after the last. Frames that are committed meanwhile stay behind, so the WAL never restarts by
//! this alone: the worker's own checkpoint follows, between two transactions, and has less to copy.
//! What may be pruned is decided by that one alone. Like any sync, one that fails here is
//! remembered in [`SyncFailed`].

use super::Applying;
use crate::connection_spec::ConnectionSpec;
use crate::sync_failed::SyncFailed;
use densite_sqlite::{Checkpointed, Code, Error, Result, ffi, gate};
use std::thread::JoinHandle;

/// One checkpoint at a time; its thread ends with this value.
#[derive(Default)]
pub(super) struct Ahead {
    thread: Option<JoinHandle<Result<Checkpointed>>>,
}

impl Ahead {
    /// Begins one. Without a thread to be had there is none: it only saves time.
    pub(super) fn begin(&mut self, applying: &Applying) {
        let (spec, sync_failed) = (applying.spec.clone(), applying.open.sync_failed().clone());
        let inside = gate::beside();
        self.thread = std::thread::Builder::new()
            .name("densite-checkpoint".into())
            .spawn(move || {
                let _inside = inside;
                run(&spec, &sync_failed)
            })
            .ok();
    }

    /// Whether one is under way, or was and nobody has asked what became of it.
    pub(super) fn is_begun(&self) -> bool {
        self.thread.is_some()
    }

    /// What became of it; `None` while it is under way.
    ///
    /// # Errors
    /// SQLite's; when it panicked.
    pub(super) fn ended(&mut self) -> Result<Option<Checkpointed>> {
        match self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            true => self.end(),
            false => Ok(None),
        }
    }

    /// Waits for its end; `None` if there was none, or somebody else was at it.
    ///
    /// # Errors
    /// As [`Ahead::ended`].
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

impl Drop for Ahead {
    fn drop(&mut self) {
        // What failed is remembered; nobody is there to be told.
        self.end().ok();
    }
}
