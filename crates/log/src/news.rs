//! Waiting for rows that somebody appends, in this process or another one.
//!
//! What makes rows visible is a write to the end word or to a writer's slot. These files are watched; one thread waits for the system, and wakes those that wait in this process. Every wait looks
//! at the log after the watch began and before it waits, so nothing is missed; it also looks now and then where nothing was heard, for a file system that tells nothing.

use crate::files::{END, Files, writer_name};
use densite_disk::Watch;
use densite_disk::sync::{Condvar, Mutex};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How often the log is looked at where its files are watched.
const LOOK: Duration = Duration::from_millis(500);
/// The same where they cannot be: at first,
const POLL_MIN: Duration = Duration::from_millis(2);
/// and where nothing has come for a while. In between it is an eighth of that while.
const POLL_MAX: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Inner {
    /// A thread waits for the system.
    is_watched: bool,
    /// Slots that are watched.
    writers: u32,
    rings: u64,
    /// Since when nothing has come.
    quiet: Option<Instant>,
}

impl Inner {
    /// How long the log is not looked at where it cannot be watched.
    fn poll(&mut self) -> Duration {
        let quiet = self.quiet.get_or_insert_with(Instant::now).elapsed();
        (quiet / 8).clamp(POLL_MIN, POLL_MAX)
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct News {
    inner: Mutex<Inner>,
    told: Condvar,
    /// `None` where there is none to be had.
    watch: OnceLock<Option<Watch>>,
}

/// How often those that wait were called off: see [`Log::rings`](crate::Log::rings).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rings(u64);

impl News {
    /// Watches the end word and the slots of so many writers. Whoever waits looks at the log after this.
    pub(crate) fn listen(&self, files: &Files, writers: u32) {
        let watch = self.watch.get_or_init(|| {
            let watch = files.dir.watch()?;
            watch.add(END).then_some(watch)
        });
        let Some(watch) = watch else { return };
        let mut inner = self.inner.lock();
        for no in inner.writers..writers {
            // One that is not there is not used.
            watch.add(&writer_name(no));
        }
        inner.writers = inner.writers.max(writers);
    }

    /// Waits until something may have changed, or so long. `has_come` is asked first.
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
                // One of them watches now, if it waits on.
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

    /// Waits until those that wait are called off, or so long.
    pub(crate) fn wait_for_ring(&self, time: Duration, rings: Rings) {
        let until = Instant::now() + time;
        let mut inner = self.inner.lock();
        while inner.rings == rings.0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            inner = self.told.wait_for(inner, left);
        }
    }

    /// Something changed in this process.
    pub(crate) fn tell(&self) {
        self.inner.lock().quiet = None;
        self.told.notify_all();
    }

    pub(crate) fn rings(&self) -> Rings {
        Rings(self.inner.lock().rings)
    }

    /// Calls off those that wait.
    pub(crate) fn ring(&self) {
        self.inner.lock().rings += 1;
        self.told.notify_all();
        if let Some(Some(watch)) = self.watch.get() {
            watch.ring();
        }
    }
}
