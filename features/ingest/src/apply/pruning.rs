//! Segments are removed piece by piece, with pauses for the sake of writers. That takes seconds, so
//! a separate thread does it while rows are applied.
//!
//! A segment can stay because a call failed, or because a reader or a subscriber needed it. Then
//! pruning is tried again even if no rows come: after one second, two more, and so on. Each attempt
//! begins with a check of what the database holds durably by then, because it may have gone back to
//! a backup.

use densite_disk::sync::Mutex;
use densite_log::{Log, Pruned, Result, Seq};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pause before a failed pruning is tried again. It doubles after each attempt,
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// up to this.
const RETRY_MAX: Duration = Duration::from_secs(64);

/// How often the worker checks whether the thread has ended.
const STEP: Duration = Duration::from_millis(250);

/// See the module. At most one thread at a time.
#[derive(Default)]
pub(super) struct Pruning {
    thread: Mutex<Option<JoinHandle<Result<Pruned>>>>,
    hurries: Arc<AtomicBool>,
    retry: Mutex<Retry>,
    /// The WAL was too long at rest and could not be cut. The worker that tries again can be a new
    /// one, which does not know the WAL.
    is_wal_long: AtomicBool,
}

/// When to try again, if at all.
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
    /// No earlier attempt has left work.
    Nothing,
    /// Not yet.
    Later,
    Now,
}

impl Pruning {
    /// Begins to prune rows that are applied durably up to `position`. Returns false if the
    /// previous pruning still runs. Failures are tried again later: applying rows does not depend
    /// on pruning, and `densite_prune()` reports the error.
    pub(super) fn begin(&self, log: &Log, position: Seq) -> bool {
        let mut thread = self.thread.lock();
        if thread.as_ref().is_some_and(|t| !t.is_finished()) {
            return false;
        }
        // The result of an earlier attempt no longer matters.
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

    /// Evaluates the result of an attempt.
    fn came_to(&self, done: Result<Pruned>) {
        let mut retry = self.retry.lock();
        match done {
            Ok(pruned) if !pruned.is_held => retry.patience = RETRY_AFTER,
            _ => retry.put_off(Instant::now()),
        }
    }

    /// Records whether the WAL is still to be cut at rest.
    pub(super) fn set_wal_long(&self, is_long: bool) {
        self.is_wal_long.store(is_long, Ordering::Release);
    }

    /// Whether an earlier attempt left the WAL to be cut.
    pub(super) fn is_wal_long(&self) -> bool {
        self.is_wal_long.load(Ordering::Acquire)
    }

    /// Records that an attempt was not possible. Another one follows later.
    pub(super) fn put_off(&self) {
        self.retry.lock().put_off(Instant::now());
    }

    /// Cancels the next attempt: new rows bring one anyway, or nothing may be pruned any more.
    pub(super) fn forget(&self) {
        *self.retry.lock() = Retry::NOTHING;
    }

    /// Whether to try again to prune what an earlier attempt left.
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

    /// Time until [`Pruning::retry_time`] can change; `None` if there is nothing to try again.
    pub(super) fn due(&self) -> Option<Duration> {
        if self.thread.lock().is_some() {
            return Some(STEP);
        }
        let at = self.retry.lock().at?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// Ends the thread without further pauses.
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
    fn the_pause_before_a_retry_doubles_up_to_a_minute() {
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
