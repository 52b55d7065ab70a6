//! Waiting for the right to apply while another process has it.
//!
//! The right is a lock, and its file is watched: its holder closes the file when it gives the right
//! up or ends, even by a kill. A waiting process keeps the file open, so it causes no such event
//! itself. The event precedes the release of the lock, so the first attempts follow each other. If
//! no events are reported (other systems, network file systems), the lock is tried regularly.

use crate::Result;
use crate::files::{APPLY_LOCK, Files};
use crate::wakeups::{Rings, Wakeups};
use densite_disk::sync::Mutex;
use densite_disk::{File, LockKind, Watch};
use std::sync::OnceLock;
use std::time::Duration;

/// The longest wait where the file cannot be watched.
const POLL: Duration = Duration::from_millis(200);
/// Time after an event until the first attempt. Each following interval is four times as long.
const SOON: Duration = Duration::from_millis(1);
/// Number of attempts after an event.
const ATTEMPTS: u32 = 4;

/// See the module.
#[derive(Default)]
pub(crate) struct Takeover {
    /// The lock file, if another process had the lock at the last attempt.
    file: Mutex<Option<Box<dyn File>>>,
    watch: OnceLock<Option<Watch>>,
    /// Remaining attempts after the last event.
    attempts: Mutex<u32>,
}

impl Takeover {
    /// Takes the lock; its file, or `None` if another process has it.
    ///
    /// # Errors
    /// `Io`, `Damaged`.
    pub(crate) fn try_lock(&self, files: &Files) -> Result<Option<Box<dyn File>>> {
        let mut kept = self.file.lock();
        let known = match kept.take() {
            Some(file) if files.is_named(APPLY_LOCK, file.as_ref())? => Some(file),
            _ => None,
        };
        let file = match known {
            Some(file) => file,
            None => {
                let file = files.open_or_make(APPLY_LOCK)?;
                if let Some(Some(watch)) = self.watch.get() {
                    watch.add_closing(APPLY_LOCK);
                }
                file
            }
        };
        if file.try_lock(LockKind::Exclusive)? {
            return Ok(Some(file));
        }
        *kept = Some(file);
        Ok(None)
    }

    /// Waits until the lock may be free, until [`Takeover::ring`], or for `time`. It can return
    /// earlier.
    pub(crate) fn wait(&self, files: &Files, news: &Wakeups, time: Duration, rings: Rings) {
        let mut is_new = false;
        let watch = self.watch.get_or_init(|| {
            is_new = true;
            let watch = files.dir.watch()?;
            watch.add_closing(APPLY_LOCK).then_some(watch)
        });
        let Some(watch) = watch else {
            return news.wait_for_ring(time.min(POLL), rings);
        };
        // The lock may have become free before the watch began.
        if is_new || news.rings() != rings {
            return;
        }
        let time = {
            let mut attempts = self.attempts.lock();
            let soon = attempts.checked_sub(1).map(|left| {
                *attempts = left;
                SOON * 4u32.pow(ATTEMPTS.saturating_sub(left + 1))
            });
            soon.map_or(time, |soon| soon.min(time))
        };
        if watch.wait(time) {
            *self.attempts.lock() = ATTEMPTS;
        }
    }

    /// Ends the wait, or the next one.
    pub(crate) fn ring(&self) {
        if let Some(Some(watch)) = self.watch.get() {
            watch.ring();
        }
    }
}
