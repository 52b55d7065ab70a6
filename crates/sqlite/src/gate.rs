//! Forks and threads of our own: a fork waits until all of them are outside of SQLite, of its VFS and of the store.
//!
//! A child of fork gets a copy of every mutex as it is, and of what SQLite's VFS remembers of its locks on a file. With such a thread inside, the child
//! would find mutexes that a thread holds which it does not have, and locks of this process that it does not hold either: it hangs, finds a database locked for ever, or reads without a lock. A program
//! that has no threads of its own may fork and open databases in the child; so it must be able to with ours (rule 15).
//!
//! No lock is used here, for it would itself be copied.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Threads of ours that are inside.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// Threads of this process that are forking.
static FORKING: AtomicU32 = AtomicU32::new(0);
static HANDLERS: Once = Once::new();

/// How long a fork waits at most: for a disk that hangs it does not wait for ever.
const FORK_WAIT: Duration = Duration::from_secs(5);
/// The pause between two looks.
const STEP: Duration = Duration::from_micros(200);

/// A thread is inside; it is outside again when this is dropped.
pub struct Inside(());

/// Has forks wait from now on. Whether the system takes the handlers; without them a thread that can be done without must not be.
pub fn guard_forks() -> bool {
    static GUARDED: AtomicBool = AtomicBool::new(false);
    HANDLERS.call_once(|| {
        // SAFETY: three functions that live as long as this library, which stays loaded (and the system forgets them with it).
        let rc = unsafe { pthread_atfork(Some(before), Some(after), Some(in_child)) };
        GUARDED.store(rc == 0, Ordering::Release);
    });
    GUARDED.load(Ordering::Acquire)
}

/// Goes inside, as soon as nobody is forking. Not for who is inside already, or waits for one who is: a fork would wait for him, and he for the fork.
pub fn enter() -> Inside {
    loop {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(());
        if FORKING.load(Ordering::SeqCst) == 0 {
            return inside;
        }
        drop(inside);
        std::thread::sleep(STEP);
    }
}

/// For a thread that one who is inside begins, and may wait for before he is outside: it waits for no fork.
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
    let until = Instant::now() + FORK_WAIT;
    while INSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        std::thread::sleep(STEP);
    }
}

unsafe extern "C" fn after() {
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

unsafe extern "C" fn in_child() {
    // There are no such threads here, and nobody else forks.
    INSIDE.store(0, Ordering::SeqCst);
    FORKING.store(0, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_waits_for_all_who_are_inside_and_who_comes_waits_for_the_fork() {
        let inside = enter();
        let beside = beside();
        drop(inside);
        let forker = std::thread::spawn(|| {
            let begin = Instant::now();
            // SAFETY: what a fork calls, without the fork.
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
