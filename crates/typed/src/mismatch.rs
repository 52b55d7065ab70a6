//! What becomes of a page that does not come back as it was from what was encoded of it: the encoder and the decoder disagree, which is an
//! error in this crate.
//!
//! Whoever stores pages must lose nothing by it: such a page is refused, and gets another codec. But whoever looks for errors must hear of it:
//! with debug assertions, and after `fuzz::be_loud`, it is a panic.

/// To be told of each page whether it came back; returns that.
#[inline]
pub(crate) fn check(right: bool) -> bool {
    #[cfg(feature = "fuzz")]
    fuzz::check(right);
    debug_assert!(right, "a page does not come back as it was");
    right
}

/// For fuzzers. Only with the feature `fuzz`, which by itself changes nothing.
#[cfg(feature = "fuzz")]
pub mod fuzz {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};

    static LOUD: AtomicBool = AtomicBool::new(false);

    thread_local! {
        static SPOILS: Cell<bool> = const { Cell::new(false) };
    }

    /// From now on a page that does not come back as it was is a panic, in whatever build.
    pub fn be_loud() {
        LOUD.store(true, Ordering::Relaxed);
    }

    /// While `job` runs, this thread's encoder has an error: the last byte of each payload is another one. So that it can be seen that such an error is found.
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
