//! The locks of this process's other connections on the same file.
//!
//! SQLite's locks report only "busy". A connection that finds the short lock of a closing
//! connection (rule S3) must wait, because plain SQLite would not have been busy. A connection that
//! finds a real lock must not wait. Within the process this module distinguishes the two. Any other
//! lock belongs to another process, and the connection waits for it for a limited time.

use densite_disk::sync::{Condvar, Mutex};
use densite_disk::wait::Retry;
use densite_sqlite::ffi;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long to wait for a lock of another process that can be a closing connection's. Usually that
/// one is held for less than a millisecond; with `synchronous=OFF`, for one sync of the file. A
/// busy disk makes either ten times as long.
const FOREIGN_WAIT: Duration = Duration::from_millis(250);
/// The same for a connection that has SHARED and wants EXCLUSIVE. A closing connection cannot get
/// EXCLUSIVE then, and releases its locks at once.
const FOREIGN_WAIT_SHARED: Duration = Duration::from_millis(25);
/// The same for a connection that has SHARED and wants RESERVED, or the checkpoint lock.
/// Maintenance holds them for 10 ms, and pauses as long before it takes them again. On a busy
/// machine that takes several times as long.
const FOREIGN_WAIT_RESERVED: Duration = Duration::from_millis(100);
/// The pause between two tries. Each takes locks of the host's file.
const FOREIGN_STEP: Duration = Duration::from_millis(1);
/// After a wait in vain the lock is probably a real one, and for so many times as long the waits are
/// only [`SHORT_WAIT`]: SQLite's busy handler calls again and again, and does not count their time.
const REST: u32 = 20;
/// Longer than maintenance holds a lock (rule S3).
const SHORT_WAIT: Duration = Duration::from_millis(15);
/// How long to wait for a closing connection of this process at most.
const OWN_WAIT: Duration = Duration::from_secs(5);

/// The locks of this process's connections on one file.
#[derive(Default)]
pub(crate) struct Neighbours {
    /// Connections with SHARED or more.
    shared: AtomicU32,
    /// Connections with RESERVED or more.
    reserved: AtomicU32,
    /// A connection is closing the file under a lock of its own.
    closing: Mutex<bool>,
    closed: Condvar,
    /// Until when waits are short, by kind of wait.
    rests: Mutex<[Option<Instant>; 3]>,
}

/// The right to close under a lock of one's own; dropping it ends the right.
pub(crate) struct Closing<'a>(&'a Neighbours);

impl Neighbours {
    /// Notes that a connection's lock changed from one level to another.
    pub(crate) fn moved(&self, from: i32, to: i32) {
        for (count, level) in [
            (&self.shared, ffi::LOCK_SHARED),
            (&self.reserved, ffi::LOCK_RESERVED),
        ] {
            match (from >= level, to >= level) {
                (false, true) => {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                (true, false) => {
                    count.fetch_sub(1, Ordering::Relaxed);
                }
                _ => {}
            }
        }
    }

    /// Whether another connection of this process explains why `wanted` is busy for one at level
    /// `mine`. RESERVED explains a busy SHARED, because it can have become PENDING.
    fn explains(&self, mine: i32, wanted: i32) -> bool {
        let (count, level) = if wanted >= ffi::LOCK_PENDING {
            (&self.shared, ffi::LOCK_SHARED)
        } else {
            (&self.reserved, ffi::LOCK_RESERVED)
        };
        count.load(Ordering::Relaxed) > u32::from(mine >= level)
    }

    /// Whether a connection other than one at level `mine` holds a lock.
    pub(crate) fn others_hold(&self, mine: i32) -> bool {
        self.shared.load(Ordering::Relaxed) > u32::from(mine >= ffi::LOCK_SHARED)
    }

    /// Tries a busy lock once more, after a connection of this process, or its worker, has released
    /// locks of its own.
    pub(crate) fn after_closing<T>(&self, attempt: &mut impl FnMut() -> Option<T>) -> Option<T> {
        let closing = self.closing.lock();
        if *closing {
            drop(self.closed.wait_for(closing, OWN_WAIT));
            return attempt();
        }
        None
    }

    /// The same for the checkpoint lock. With `patience` it also waits as for another process's
    /// maintenance.
    pub(crate) fn retry_checkpoint<T>(
        &self,
        patience: bool,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        // The slice that held the lock may be over by now.
        let done = self.after_closing(&mut attempt).or_else(&mut attempt);
        if done.is_some() || !patience {
            return done;
        }
        let retry = Retry::within(FOREIGN_WAIT_RESERVED).every(FOREIGN_STEP);
        while retry.again() {
            if let Some(done) = attempt() {
                return Some(done);
            }
        }
        None
    }

    /// Begins to close; `None` if another connection is closing.
    pub(crate) fn begin_closing(&self) -> Option<Closing<'_>> {
        let mut closing = self.closing.lock();
        if *closing {
            return None;
        }
        *closing = true;
        Some(Closing(self))
    }

    /// Tries a busy lock again while a closing connection can be what holds it. `attempt` returns
    /// `None` while the lock is busy.
    pub(crate) fn retry<T>(
        &self,
        mine: i32,
        wanted: i32,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let (kind, wait) = match (mine >= ffi::LOCK_SHARED, wanted >= ffi::LOCK_PENDING) {
            (false, _) => (0, FOREIGN_WAIT),
            (true, false) => (1, FOREIGN_WAIT_RESERVED),
            (true, true) => (2, FOREIGN_WAIT_SHARED),
        };
        let begun = Instant::now();
        let rests = self.rests.lock().get(kind).copied().flatten();
        let is_resting = rests.is_some_and(|rests| begun < rests);
        let limit = if is_resting { SHORT_WAIT } else { wait };
        let retry = Retry::within(limit).every(FOREIGN_STEP);
        loop {
            if let Some(done) = self.after_closing(&mut attempt) {
                return Some(done);
            }
            if self.explains(mine, wanted) {
                return None;
            }
            if !retry.again() {
                if !is_resting && let Some(rests) = self.rests.lock().get_mut(kind) {
                    *rests = Some(Instant::now() + wait * REST);
                }
                return None;
            }
            if let Some(done) = attempt() {
                return Some(done);
            }
        }
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        *self.0.closing.lock() = false;
        self.0.closed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_of_this_process_is_not_waited_for() {
        let file = Neighbours::default();
        file.moved(ffi::LOCK_NONE, ffi::LOCK_EXCLUSIVE);
        let mut tries = 0;
        let got = file.retry(ffi::LOCK_NONE, ffi::LOCK_SHARED, || -> Option<()> {
            tries += 1;
            None
        });
        assert!(got.is_none());
        assert_eq!(tries, 0);
    }

    #[test]
    fn a_closing_connection_is_waited_for() {
        let file = Neighbours::default();
        let closing = file.begin_closing();
        assert!(closing.is_some());
        assert!(file.begin_closing().is_none());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                file.retry(ffi::LOCK_NONE, ffi::LOCK_SHARED, || {
                    (!*file.closing.lock()).then_some(())
                })
            });
            std::thread::sleep(Duration::from_millis(60));
            drop(closing);
            assert!(waiter.join().expect("no panic").is_some());
        });
    }

    /// SQLite's busy handler calls again and again, and does not count the time of the wait.
    #[test]
    fn after_a_wait_in_vain_the_next_ones_are_short() {
        let file = Neighbours::default();
        let mut tries = 0;
        let mut attempt = || -> Option<()> {
            tries += 1;
            None
        };
        file.retry(ffi::LOCK_SHARED, ffi::LOCK_RESERVED, &mut attempt);
        for _ in 0..20 {
            file.retry(ffi::LOCK_SHARED, ffi::LOCK_RESERVED, &mut attempt);
        }
        // One in a millisecond at most.
        assert!(tries <= 100 + 20 * 15, "{tries} tries");
        // Another kind of lock can be a closing connection's.
        tries = 0;
        file.retry(ffi::LOCK_NONE, ffi::LOCK_SHARED, || -> Option<()> {
            tries += 1;
            None
        });
        assert!(tries > 1);
    }

    #[test]
    fn an_unexplained_lock_is_waited_for_only_so_long() {
        let file = Neighbours::default();
        for (mine, wanted, wait) in [
            (ffi::LOCK_NONE, ffi::LOCK_SHARED, FOREIGN_WAIT),
            (ffi::LOCK_SHARED, ffi::LOCK_RESERVED, FOREIGN_WAIT_RESERVED),
            (ffi::LOCK_RESERVED, ffi::LOCK_EXCLUSIVE, FOREIGN_WAIT_SHARED),
        ] {
            let begin = Instant::now();
            let got = file.retry(mine, wanted, || -> Option<()> { None });
            assert!(got.is_none());
            assert!(begin.elapsed() >= wait);
        }
    }
}
