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

    /// Begins to prune what is applied durably up to `position`; false if the thread is still at it. What fails is tried again with the next rows: these are applied whether or not
    /// others can go, and `densite_prune()` tells why they cannot.
    pub(super) fn begin(&self, applying: &Applying, position: Seq) -> bool {
        let mut thread = self.thread.lock();
        if thread.as_ref().is_some_and(|t| !t.is_finished()) {
            return false;
        }
        let (log, hurries) = (applying.log.clone(), self.hurries.clone());
        let purge = move || log.purge_in_time(position, &|| !hurries.load(Ordering::Acquire));
        let builder = std::thread::Builder::new().name("densite-prune".into());
        *thread = builder.spawn(purge).ok();
        if thread.is_none() {
            applying.log.purge(position).ok();
        }
        true
    }

    /// Ends it, without further pauses.
    pub(super) fn end(&self) {
        self.hurries.store(true, Ordering::Release);
        if let Some(thread) = self.thread.lock().take() {
            thread.join().ok();
        }
    }
}
