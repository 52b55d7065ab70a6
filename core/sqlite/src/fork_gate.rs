//! Makes a fork wait until all threads of Densite are outside of SQLite, its VFS and the store
//! (rule S15).
//!
//! A forked child gets a copy of each mutex in its current state, and of what SQLite's VFS knows
//! about its locks on a file. If one of these threads were inside, the child would have mutexes
//! held by a thread that it does not have, and file locks that it does not hold. It would hang,
//! find a database locked for ever, or read without a lock. No lock is used here, because it would
//! itself be copied.

use densite_disk::wait::{Retry, pause};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// The number of our threads that are inside.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// The number of threads of this process that are forking.
static FORKING: AtomicU32 = AtomicU32::new(0);
static HANDLERS: Once = Once::new();

/// How long a fork waits at most, so that a hanging disk does not block it for ever.
const FORK_WAIT: Duration = Duration::from_secs(5);
/// The pause between two checks.
const STEP: Duration = Duration::from_micros(200);

/// A thread is inside while this exists.
pub struct Inside(());

/// Makes forks wait from now on. Returns whether the system accepted the handlers. Without them,
/// threads that are optional must not be started.
pub fn guard_forks() -> bool {
    static GUARDED: AtomicBool = AtomicBool::new(false);
    HANDLERS.call_once(|| {
        // SAFETY: three functions that live as long as this library, which stays loaded. If it is
        // unloaded, the system drops its handlers.
        let rc = unsafe { pthread_atfork(Some(before), Some(after), Some(in_child)) };
        GUARDED.store(rc == 0, Ordering::Release);
    });
    GUARDED.load(Ordering::Acquire)
}

/// Goes inside as soon as no thread is forking. A thread that is already inside, or waits for one
/// that is, must not call it: it and a fork would wait for each other.
pub fn enter() -> Inside {
    loop {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(());
        if FORKING.load(Ordering::SeqCst) == 0 {
            return inside;
        }
        drop(inside);
        pause(STEP);
    }
}

/// Goes inside without waiting for a fork. For a thread that is started by a thread inside, which
/// can wait for it before it goes outside.
pub fn beside() -> Inside {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    Inside(())
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

unsafe extern "C" {
    fn pthread_atfork(
        before: Option<unsafe extern "C" fn()>,
        after: Option<unsafe extern "C" fn()>,
        in_child: Option<unsafe extern "C" fn()>,
    ) -> std::ffi::c_int;
}

unsafe extern "C" fn before() {
    FORKING.fetch_add(1, Ordering::SeqCst);
    let retry = Retry::within(FORK_WAIT).every(STEP);
    while INSIDE.load(Ordering::SeqCst) > 0 && retry.again() {}
}

unsafe extern "C" fn after() {
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

unsafe extern "C" fn in_child() {
    // The child has none of these threads, and no other thread forks.
    INSIDE.store(0, Ordering::SeqCst);
    FORKING.store(0, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_fork_waits_for_threads_inside_and_new_ones_wait_for_the_fork() {
        let inside = enter();
        let beside = beside();
        drop(inside);
        let forker = std::thread::spawn(|| {
            let begin = Instant::now();
            // SAFETY: only calls the handler; there is no fork.
            unsafe { before() };
            begin.elapsed()
        });
        std::thread::sleep(Duration::from_millis(50));
        drop(beside);
        assert!(forker.join().expect("no panic") >= Duration::from_millis(40));
        let worker = std::thread::spawn(|| {
            let begin = Instant::now();
            drop(enter());
            begin.elapsed()
        });
        std::thread::sleep(Duration::from_millis(50));
        // SAFETY: as above.
        unsafe { after() };
        assert!(worker.join().expect("no panic") >= Duration::from_millis(40));
    }
}
