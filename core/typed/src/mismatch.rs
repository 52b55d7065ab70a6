//! What happens if a page's payload does not decode to the page: the encoder and the decoder
//! disagree, which is an error in this crate.
//!
//! A database must not lose data by it: the page is refused and gets another codec. Tests must
//! notice it: with debug assertions, and after `fuzz::be_loud`, it is a panic.

/// Must be called for each page with whether it came back. Returns that.
#[inline]
pub(crate) fn check(right: bool) -> bool {
    #[cfg(feature = "fuzz")]
    fuzz::check(right);
    debug_assert!(right, "a page does not come back as it was");
    right
}

/// For fuzzers. The feature `fuzz` alone changes nothing.
#[cfg(feature = "fuzz")]
pub mod fuzz {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};

    static LOUD: AtomicBool = AtomicBool::new(false);

    thread_local! {
        static SPOILS: Cell<bool> = const { Cell::new(false) };
    }

    /// From now on a page that does not come back is a panic, in every build.
    pub fn be_loud() {
        LOUD.store(true, Ordering::Relaxed);
    }

    /// While `job` runs, this thread's encoder has an error: it changes the last byte of each
    /// payload. A test uses it to show that such an error is found.
    pub fn spoiled<T>(job: impl FnOnce() -> T) -> T {
        SPOILS.set(true);
        let done = job();
        SPOILS.set(false);
        done
    }

    pub(super) fn check(right: bool) {
        assert!(
            right || !LOUD.load(Ordering::Relaxed),
            "the encoder and the decoder disagree about a page"
        );
    }

    pub(crate) fn spoil(payload: &mut [u8]) {
        if let Some(last) = payload.last_mut().filter(|_| SPOILS.get()) {
            *last ^= 0xFF;
        }
    }
}
