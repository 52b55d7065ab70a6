//! The end of threads that work beside a test.

use std::sync::atomic::{AtomicBool, Ordering};

/// What the loops of other threads of a test ask, before each turn, whether they end.
#[derive(Default)]
pub struct Stop(AtomicBool);

/// Sets its [`Stop`] when it is dropped, also by a failed check. A scope waits for all of its
/// threads, so without it a loop would go on for ever, and the failure would never be reported.
#[must_use]
pub struct Stopping<'a>(&'a Stop);

impl Stop {
    /// Not set.
    #[must_use]
    pub const fn new() -> Stop {
        Stop(AtomicBool::new(false))
    }

    /// Whether the loops end.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Sets it at the end of the scope that has this.
    pub const fn at_end(&self) -> Stopping<'_> {
        Stopping(self)
    }
}

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Release);
    }
}
