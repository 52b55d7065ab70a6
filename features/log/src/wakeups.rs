//! Waiting for rows that any process appends.
//!
//! A write to the end word or to a writer's slot makes rows visible. So these files are watched:
//! one thread waits for the system and wakes the other waiting threads of this process. Every wait
//! checks the log after the watch began, so it misses nothing. It also checks the log now and then,
//! for file systems that report no events.

use crate::files::{END, Files, writer_name};
use densite_disk::Watch;
use densite_disk::sync::{Condvar, Mutex};
use densite_disk::wait::Deadline;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How often the log is checked if its files are watched.
const LOOK: Duration = Duration::from_millis(500);
/// How often it is checked if they cannot be watched: the shortest interval,
const POLL_MIN: Duration = Duration::from_millis(2);
/// and the longest. In between, the interval is an eighth of the time without news.
const POLL_MAX: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Inner {
    /// A thread waits for events of the system.
    is_watched: bool,
    /// Number of watched slots.
    writers: u32,
    rings: u64,
    /// Since when nothing has changed.
    quiet: Option<Instant>,
}

impl Inner {
    /// The interval between two checks of a log that cannot be watched.
    fn poll(&mut self) -> Duration {
        let quiet = self.quiet.get_or_insert_with(Instant::now).elapsed();
        (quiet / 8).clamp(POLL_MIN, POLL_MAX)
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Wakeups {
    inner: Mutex<Inner>,
    told: Condvar,
    /// `None` if the system or the file system offers no watch.
    watch: OnceLock<Option<Watch>>,
}

/// How often waits were ended: see [`Log::rings`](crate::Log::rings).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rings(u64);

impl Wakeups {
    /// Watches the end word and this many slots. The caller checks the log after this.
    pub(crate) fn listen(&self, files: &Files, writers: u32) {
        let watch = self.watch.get_or_init(|| {
            let watch = files.dir.watch()?;
            watch.add(END).then_some(watch)
        });
        let Some(watch) = watch else { return };
        let mut inner = self.inner.lock();
        for no in inner.writers..writers {
            // A slot without a file is not in use.
            watch.add(&writer_name(no));
        }
        inner.writers = inner.writers.max(writers);
    }

    /// Waits until something may have changed, or for `time`. Returns true without waiting if
    /// `has_come` is true.
    ///
    /// # Errors
    /// Those of `has_come`.
    pub(crate) fn wait<E>(
        &self,
        time: Duration,
        rings: Rings,
        has_come: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut inner = self.inner.lock();
        if has_come()? {
            inner.quiet = None;
            return Ok(true);
        }
        if time.is_zero() || inner.rings != rings.0 {
            return Ok(false);
        }
        match self.watch.get() {
            Some(Some(watch)) if !inner.is_watched => {
                inner.is_watched = true;
                drop(inner);
                watch.wait(time.min(LOOK));
                self.inner.lock().is_watched = false;
                // If other threads keep waiting, one of them watches now.
                self.told.notify_all();
            }
            Some(Some(_)) => drop(self.told.wait_for(inner, time.min(LOOK))),
            _ => {
                let poll = inner.poll();
                drop(self.told.wait_for(inner, time.min(poll)));
            }
        }
        Ok(false)
    }

    /// Waits until [`Wakeups::ring`] is called, or for `time`.
    pub(crate) fn wait_for_ring(&self, time: Duration, rings: Rings) {
        let until = Deadline::after(time);
        let mut inner = self.inner.lock();
        while inner.rings == rings.0 {
            match self.told.wait_until(inner, until) {
                Some(woken) => inner = woken,
                None => return,
            }
        }
    }

    /// Reports a change made by this process.
    pub(crate) fn tell(&self) {
        self.inner.lock().quiet = None;
        self.told.notify_all();
    }

    pub(crate) fn rings(&self) -> Rings {
        Rings(self.inner.lock().rings)
    }

    /// Ends all waits.
    pub(crate) fn ring(&self) {
        self.inner.lock().rings += 1;
        self.told.notify_all();
        if let Some(Some(watch)) = self.watch.get() {
            watch.ring();
        }
    }
}
