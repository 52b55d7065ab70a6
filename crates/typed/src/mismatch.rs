//! Pages that do not come back as they were: encoder and decoder disagree, which is an error in
//! this crate.
//!
//! No data is lost: such a page is refused and gets another codec. But tests and fuzzers have to
//! notice the error. So with debug assertions, and after `fuzz::be_loud`, it is a panic.

/// Every page that was encoded is reported here: `right` says whether it came back. Returns
/// `right`.
#[inline]
pub(crate) fn check(right: bool) -> bool {
    #[cfg(feature = "fuzz")]
    fuzz::check(right);
    debug_assert!(right, "a page does not come back as it was");
    right
}

/// For fuzzers. The feature `fuzz` alone changes no behaviour.
#[cfg(feature = "fuzz")]
pub mod fuzz {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};

    static LOUD: AtomicBool = AtomicBool::new(false);

    thread_local! {
        static SPOILS: Cell<bool> = const { Cell::new(false) };
    }

    /// From now on, a page that does not come back as it was is a panic in every build.
    pub fn be_loud() {
        LOUD.store(true, Ordering::Relaxed);
    }

    /// While `job` runs, this thread's encoder has an error: the last byte of each payload is
    /// wrong. This shows that the fuzzer finds such an error.
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
