//! Segments are given back piece by piece, with pauses, for the writers' sake. That takes seconds, so a thread of its own does it while rows are applied.

use super::Applying;
use densite_log::{Pruned, Result, Seq};
use densite_sqlite::Code;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// See the module. One at a time.
#[derive(Default)]
pub(super) struct Pruning {
    thread: Mutex<Option<JoinHandle<Result<Pruned>>>>,
    hurries: Arc<AtomicBool>,
    /// A sync of the database or of its WAL has failed.
    doubts: Arc<AtomicBool>,
}

/// Whatever may have synced the database or its WAL passes by here. What a failed sync should have written may be lost although later ones succeed: systems forget
/// it. So from then on the log keeps its rows, as long as this process has the database open.
pub(super) fn heeds<T>(
    doubts: &AtomicBool,
    done: densite_sqlite::Result<T>,
) -> densite_sqlite::Result<T> {
    if let Err(e) = &done
        && (e.code == Code::IOERR_FSYNC || e.code == Code::IOERR)
    {
        doubts.store(true, Ordering::Release);
    }
    done
}

impl Pruning {
    /// As [`heeds`].
    pub(super) fn heeds<T>(&self, done: densite_sqlite::Result<T>) -> densite_sqlite::Result<T> {
        heeds(&self.doubts, done)
    }

    /// Whether a sync has failed. Who syncs on another thread says so here.
    pub(super) fn doubts(&self) -> &Arc<AtomicBool> {
        &self.doubts
    }

    /// Begins to prune what is applied durably up to `position`; false if the thread is still at it.
    ///
    /// # Errors
    /// The log's, of this time or of the last one.
    pub(super) fn begin(&self, applying: &Applying, position: Seq) -> densite_sqlite::Result<bool> {
        let failed = |e| crate::error::from_log(&applying.dir, e);
        let mut thread = self.thread.lock();
        if thread.as_ref().is_some_and(|t| !t.is_finished()) {
            return Ok(false);
        }
        // A panic was told by its hook, and nothing is lost by it: the next time does the same.
        if let Some(Ok(ended)) = thread.take().map(JoinHandle::join) {
            ended.map_err(failed)?;
        }
        let (log, hurries) = (applying.log.clone(), self.hurries.clone());
        let purge = move || log.purge_in_time(position, &|| !hurries.load(Ordering::Acquire));
        let builder = std::thread::Builder::new().name("densite-prune".into());
        match builder.spawn(purge) {
            Ok(begun) => *thread = Some(begun),
            Err(_) => {
                applying.log.purge(position).map_err(failed)?;
            }
        }
        Ok(true)
    }

    /// Ends it, without further pauses.
    pub(super) fn end(&self) {
        self.hurries.store(true, Ordering::Release);
        if let Some(thread) = self.thread.lock().take() {
            thread.join().ok();
        }
    }
}
