//! Segments are given back piece by piece, with pauses, for the writers' sake. That takes seconds, so a thread of its own does it while rows are applied.

use super::Applying;
use crate::doubts::Doubts;
use densite_log::{Pruned, Result, Seq};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// See the module. One at a time.
pub(super) struct Pruning {
    thread: Mutex<Option<JoinHandle<Result<Pruned>>>>,
    hurries: Arc<AtomicBool>,
    doubts: Doubts,
}

impl Pruning {
    pub(super) fn new(doubts: &Doubts) -> Pruning {
        Pruning {
            doubts: doubts.clone(),
            thread: Mutex::default(),
            hurries: Arc::default(),
        }
    }

    /// Whether a sync has failed: then nothing is pruned. Whatever may have synced the database or its WAL passes by there.
    pub(super) fn doubts(&self) -> &Doubts {
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
