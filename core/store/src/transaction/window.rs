//! How many bytes of written pages a transaction holds.
//!
//! A bulk load in the order of its keys writes each page once. Its window stays small, so that the
//! pool encodes while SQLite goes on. If pages come again after they were encoded, the window grows.
//! All windows of a process share one budget.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that every transaction can hold.
const LEAST: usize = 1 << 20;
/// The bytes beyond [`LEAST`] that all transactions of the process can hold together.
const BUDGET: usize = 64 << 20;
/// A window grows by this factor,
const GROWTH: usize = 4;
/// if this part of it was encoded in vain,
const WASTED: usize = 8;
/// while this many times its bytes were encoded.
const PERIOD: usize = 4;

/// The part of the budget that all windows of the process use.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// See the module's documentation.
pub(super) struct Window {
    bytes: usize,
    /// Bytes encoded in this period, and those of them that were written again.
    encoded: usize,
    wasted: usize,
    in_use: &'static AtomicUsize,
}

impl Default for Window {
    fn default() -> Self {
        Window::within(&IN_USE)
    }
}

impl Window {
    fn within(in_use: &'static AtomicUsize) -> Window {
        Window {
            bytes: LEAST,
            encoded: 0,
            wasted: 0,
            in_use,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes that so many bytes are being encoded.
    pub(super) fn encoded(&mut self, bytes: usize) {
        self.encoded += bytes;
        if self.encoded > PERIOD * self.bytes {
            (self.encoded, self.wasted) = (0, 0);
        }
    }

    /// Notes that a page of so many bytes was encoded in vain. Grows if that happens often.
    pub(super) fn wasted(&mut self, bytes: usize) {
        self.wasted += bytes;
        if self.wasted > self.bytes / WASTED {
            (self.encoded, self.wasted) = (0, 0);
            self.bytes += self.reserve((GROWTH - 1) * self.bytes);
        }
    }

    /// Reserves up to so many bytes of the budget. Returns how many.
    fn reserve(&self, wanted: usize) -> usize {
        let mut got = 0;
        // The update never fails: the closure always returns a value.
        let _ = (self.in_use).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |in_use| {
            got = wanted.min(BUDGET.saturating_sub(in_use));
            Some(in_use + got)
        });
        got
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        (self.in_use).fetch_sub(self.bytes - LEAST, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn all_windows_together_keep_to_the_budget() {
        static MINE: AtomicUsize = AtomicUsize::new(0);
        let mut windows: Vec<Window> = (0..5).map(|_| Window::within(&MINE)).collect();
        for _ in 0..BUDGET / PAGE {
            windows.iter_mut().for_each(|window| window.wasted(PAGE));
            let held: usize = windows.iter().map(Window::bytes).sum();
            assert!(held <= BUDGET + windows.len() * LEAST, "{held}");
        }
        assert_eq!(MINE.load(Ordering::Relaxed), BUDGET);
        drop(windows);
        assert_eq!(MINE.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_window_stays_small_if_few_pages_come_again() {
        static MINE: AtomicUsize = AtomicUsize::new(0);
        let mut window = Window::within(&MINE);
        for page in 0..100_000 {
            window.encoded(PAGE);
            if page % 50 == 0 {
                window.wasted(PAGE);
            }
        }
        assert_eq!(window.bytes(), LEAST);
        (0..100).for_each(|_| window.wasted(PAGE));
        assert_eq!(window.bytes(), GROWTH * LEAST);
    }
}
