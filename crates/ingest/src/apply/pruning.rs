//! Segments are given back piece by piece, with pauses, for the writers' sake. That takes seconds, so a thread of its own does it while rows are applied.
//!
//! What could not be given back, because a call failed, or somebody read or had not acknowledged it, is tried again by itself, though no rows come: after a second, after two more, and so on. It is a new attempt from the
//! beginning, with a look at what the database holds durably by then: meanwhile it may have gone back to a backup.

use super::Applying;
use crate::sync_failed::SyncFailed;
use densite_disk::sync::Mutex;
use densite_log::{Pruned, Result, Seq};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// After so long what could not be pruned is tried again, and then after twice as long, and so on:
const AGAIN: Duration = Duration::from_secs(1);
/// up to this.
const AGAIN_MAX: Duration = Duration::from_secs(64);

/// How often it is asked whether the thread has ended.
const STEP: Duration = Duration::from_millis(250);

/// See the module. One at a time.
pub(super) struct Pruning {
    thread: Mutex<Option<JoinHandle<Result<Pruned>>>>,
    hurries: Arc<AtomicBool>,
    owed: Mutex<Owed>,
    sync_failed: SyncFailed,
}

/// When it is tried again, if it is to be.
struct Owed {
    at: Option<Instant>,
    patience: Duration,
}

impl Owed {
    const NOTHING: Owed = Owed {
        at: None,
        patience: AGAIN,
    };

    fn put_off(&mut self, now: Instant) {
        self.at = Some(now + self.patience);
        self.patience = (2 * self.patience).min(AGAIN_MAX);
    }
}

/// Whether it is time to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// Nothing is left of an earlier attempt.
    Nothing,
    /// Not yet.
    Later,
    Now,
}

impl Pruning {
    pub(super) fn new(sync_failed: &SyncFailed) -> Pruning {
        Pruning {
            sync_failed: sync_failed.clone(),
            thread: Mutex::default(),
            hurries: Arc::default(),
            owed: Mutex::new(Owed::NOTHING),
        }
    }

    /// Whether a sync has failed: then nothing is pruned. Whatever may have synced the database or its WAL passes by there.
    pub(super) fn sync_failed(&self) -> &SyncFailed {
        &self.sync_failed
    }

    /// Begins to prune what is applied durably up to `position`; false if the thread is still at it. What fails is tried again later: rows are applied whether or not
    /// others can go, and `densite_prune()` tells why they cannot.
    pub(super) fn begin(&self, applying: &Applying, position: Seq) -> bool {
        let mut thread = self.thread.lock();
        if thread.as_ref().is_some_and(|t| !t.is_finished()) {
            return false;
        }
        // What became of one before does not matter any more.
        self.owed.lock().at = None;
        let (log, hurries) = (applying.log.clone(), self.hurries.clone());
        let prune = move || log.auto_prune_in_time(position, &|| !hurries.load(Ordering::Acquire));
        let builder = std::thread::Builder::new().name("densite-prune".into());
        *thread = builder.spawn(prune).ok();
        if thread.is_none() {
            let done = applying.log.auto_prune(position);
            self.came_to(done);
        }
        true
    }

    /// What an attempt came to.
    fn came_to(&self, done: Result<Pruned>) {
        let mut owed = self.owed.lock();
        match done {
            Ok(pruned) if !pruned.is_held => owed.patience = AGAIN,
            _ => owed.put_off(Instant::now()),
        }
    }

    /// An attempt could not be made: another one is, later.
    pub(super) fn put_off(&self) {
        self.owed.lock().put_off(Instant::now());
    }

    /// Nothing is tried again: rows came, and with them it is tried as ever, or nothing may be pruned any more.
    pub(super) fn forget(&self) {
        *self.owed.lock() = Owed::NOTHING;
    }

    /// Whether what an earlier attempt has left is to be tried again.
    pub(super) fn again(&self) -> Again {
        let ended = self.thread.lock().take_if(|t| t.is_finished());
        match ended.map(JoinHandle::join) {
            Some(Ok(done)) => self.came_to(done),
            Some(Err(_)) => self.put_off(),
            None => {}
        }
        match self.owed.lock().at {
            None => Again::Nothing,
            Some(at) if Instant::now() < at => Again::Later,
            Some(_) => Again::Now,
        }
    }

    /// In how long [`Pruning::again`] may have another answer; `None` if there is nothing to try again.
    pub(super) fn due(&self) -> Option<Duration> {
        if self.thread.lock().is_some() {
            return Some(STEP);
        }
        let at = self.owed.lock().at?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// Ends it, without further pauses.
    pub(super) fn end(&self) {
        self.hurries.store(true, Ordering::Release);
        if let Some(thread) = self.thread.lock().take() {
            thread.join().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_put_off_longer_and_longer() {
        let (now, mut owed) = (Instant::now(), Owed::NOTHING);
        let seconds: Vec<u64> = (0..9)
            .map(|_| {
                owed.put_off(now);
                let at = owed.at.expect("a time");
                at.duration_since(now).as_secs()
            })
            .collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    }
}
