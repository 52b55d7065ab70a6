//! Segments are given back piece by piece, with pauses, for the writers' sake. That takes seconds,
//! so a thread of its own does it while rows are applied.
//!
//! What could not be given back, because a call failed, or somebody read or had not acknowledged
//! it, is tried again by itself, though no rows come: after a second, after two more, and so on. It
//! is a new attempt from the beginning, with a look at what the database holds durably by then:
//! meanwhile it may have gone back to a backup.

use densite_disk::sync::Mutex;
use densite_log::{Log, Pruned, Result, Seq};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// After so long what could not be pruned is tried again, and then after twice as long, and so on:
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// up to this.
const RETRY_MAX: Duration = Duration::from_secs(64);

/// How often it is asked whether the thread has ended.
const STEP: Duration = Duration::from_millis(250);

/// See the module. One at a time.
#[derive(Default)]
pub(super) struct Pruning {
    thread: Mutex<Option<JoinHandle<Result<Pruned>>>>,
    hurries: Arc<AtomicBool>,
    retry: Mutex<Retry>,
}

/// When it is tried again, if it is to be.
struct Retry {
    at: Option<Instant>,
    patience: Duration,
}

impl Retry {
    const NOTHING: Retry = Retry {
        at: None,
        patience: RETRY_AFTER,
    };

    fn put_off(&mut self, now: Instant) {
        self.at = Some(now + self.patience);
        self.patience = (2 * self.patience).min(RETRY_MAX);
    }
}

impl Default for Retry {
    fn default() -> Retry {
        Retry::NOTHING
    }
}

/// Whether it is time to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryTime {
    /// Nothing is left of an earlier attempt.
    Nothing,
    /// Not yet.
    Later,
    Now,
}

impl Pruning {
    /// Begins to prune what is applied durably up to `position`; false if the thread is still at
    /// it. What fails is tried again later: rows are applied whether or not others can go, and
    /// `densite_prune()` tells why they cannot.
    pub(super) fn begin(&self, log: &Log, position: Seq) -> bool {
        let mut thread = self.thread.lock();
        if thread.as_ref().is_some_and(|t| !t.is_finished()) {
            return false;
        }
        // What became of one before does not matter any more.
        self.retry.lock().at = None;
        let (pruned, hurries) = (log.clone(), self.hurries.clone());
        let prune =
            move || pruned.auto_prune_in_time(position, &|| !hurries.load(Ordering::Acquire));
        let builder = std::thread::Builder::new().name("densite-prune".into());
        *thread = builder.spawn(prune).ok();
        if thread.is_none() {
            let done = log.auto_prune(position);
            self.came_to(done);
        }
        true
    }

    /// What an attempt came to.
    fn came_to(&self, done: Result<Pruned>) {
        let mut retry = self.retry.lock();
        match done {
            Ok(pruned) if !pruned.is_held => retry.patience = RETRY_AFTER,
            _ => retry.put_off(Instant::now()),
        }
    }

    /// An attempt could not be made: another one is, later.
    pub(super) fn put_off(&self) {
        self.retry.lock().put_off(Instant::now());
    }

    /// Nothing is tried again: rows came, and with them it is tried as ever, or nothing may be
    /// pruned any more.
    pub(super) fn forget(&self) {
        *self.retry.lock() = Retry::NOTHING;
    }

    /// Whether what an earlier attempt has left is to be tried again.
    pub(super) fn retry_time(&self) -> RetryTime {
        let ended = self.thread.lock().take_if(|t| t.is_finished());
        match ended.map(JoinHandle::join) {
            Some(Ok(done)) => self.came_to(done),
            Some(Err(_)) => self.put_off(),
            None => {}
        }
        match self.retry.lock().at {
            None => RetryTime::Nothing,
            Some(at) if Instant::now() < at => RetryTime::Later,
            Some(_) => RetryTime::Now,
        }
    }

    /// In how long [`Pruning::retry_time`] may have another answer; `None` if there is nothing to
    /// try again.
    pub(super) fn due(&self) -> Option<Duration> {
        if self.thread.lock().is_some() {
            return Some(STEP);
        }
        let at = self.retry.lock().at?;
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
        let (now, mut retry) = (Instant::now(), Retry::NOTHING);
        let seconds: Vec<u64> = (0..9)
            .map(|_| {
                retry.put_off(now);
                let at = retry.at.expect("a time");
                at.duration_since(now).as_secs()
            })
            .collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    }
}
