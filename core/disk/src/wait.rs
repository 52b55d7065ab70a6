//! Waiting for another thread or process: until when, and how long to pause between two tries.
//!
//! Who holds a lock does not say when it will release it, so a waiter tries again and again: at
//! first after microseconds, because most locks are held that long, and later after an eighth of
//! the time waited, so that it notices the release late by an eighth at most. All threads of the
//! project pause here, so that a test can skip the time ([`skip_pauses`]).

use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    /// The time that the thread has skipped, if it skips its pauses.
    static SKIPPED: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// The time that deadlines are compared with.
fn now() -> Instant {
    Instant::now() + SKIPPED.get().unwrap_or_default()
}

/// Waits for this time.
pub fn pause(time: Duration) {
    match SKIPPED.get() {
        None => std::thread::sleep(time),
        Some(skipped) => SKIPPED.set(Some(skipped + time)),
    }
}

/// While this exists, the pauses of its thread take no time, and its clock goes on as if they did.
#[derive(Debug)]
pub struct SkippedPauses(());

/// Lets this thread skip its pauses, for tests of waits that end in vain.
pub fn skip_pauses() -> SkippedPauses {
    SKIPPED.set(Some(Duration::ZERO));
    SkippedPauses(())
}

impl Drop for SkippedPauses {
    fn drop(&mut self) {
        SKIPPED.set(None);
    }
}

/// Until when to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Wait without an end.
    pub const NEVER: Deadline = Deadline(None);

    /// From now on, for this time.
    pub fn after(time: Duration) -> Deadline {
        Deadline(now().checked_add(time))
    }

    /// Whether there is no deadline.
    pub fn is_never(self) -> bool {
        self.0.is_none()
    }

    /// Whether the deadline has passed.
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// The time until the deadline; [`Duration::MAX`] without one.
    pub fn left(self) -> Duration {
        let left = |until: Instant| until.saturating_duration_since(now());
        self.0.map_or(Duration::MAX, left)
    }
}

/// The pauses between tries: an eighth of the time waited, within limits.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    begun: Instant,
    until: Deadline,
    shortest: Duration,
    longest: Duration,
}

impl Retry {
    const SHORTEST: Duration = Duration::from_micros(20);
    const LONGEST: Duration = Duration::from_millis(10);

    /// Tries until the deadline, with pauses of 20 µs to 10 ms.
    pub fn until(until: Deadline) -> Retry {
        Retry {
            begun: now(),
            until,
            shortest: Retry::SHORTEST,
            longest: Retry::LONGEST,
        }
    }

    /// The same for this time from now on.
    pub fn within(time: Duration) -> Retry {
        Retry::until(Deadline::after(time))
    }

    /// With pauses of these lengths.
    pub fn between(self, shortest: Duration, longest: Duration) -> Retry {
        Retry {
            shortest,
            longest,
            ..self
        }
    }

    /// With pauses of this length.
    pub fn every(self, time: Duration) -> Retry {
        self.between(time, time)
    }

    /// The time since the first try.
    pub fn waited(&self) -> Duration {
        now().saturating_duration_since(self.begun)
    }

    /// The time until the next try; zero at the deadline.
    pub fn next_pause(&self) -> Duration {
        let step = (self.waited() / 8).clamp(self.shortest, self.longest);
        step.min(self.until.left())
    }

    /// Pauses before another try. Returns false, at once, if the deadline has passed.
    pub fn again(&self) -> bool {
        let time = self.next_pause();
        if time.is_zero() {
            return false;
        }
        pause(time);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_at_the_deadline() {
        let _skipped = skip_pauses();
        let retry = Retry::within(Duration::from_secs(10));
        let real = Instant::now();
        let mut pauses = Vec::new();
        loop {
            let pause = retry.next_pause();
            if !retry.again() {
                break;
            }
            pauses.push(pause);
        }
        assert!(real.elapsed() < Duration::from_secs(5), "they are skipped");
        assert_eq!(pauses.first(), Some(&Retry::SHORTEST));
        assert_eq!(pauses.iter().max(), Some(&Retry::LONGEST));
        let total: Duration = pauses.iter().sum();
        assert!(total <= Duration::from_secs(10), "{total:?}");
        assert!(total > Duration::from_secs(9), "{total:?}");
        // An eighth of 80 ms is the longest pause.
        let short = pauses.iter().filter(|p| **p < Retry::LONGEST).count();
        assert!((50..200).contains(&short), "{short}");
        assert!(retry.waited() >= Duration::from_secs(10));
    }

    #[test]
    fn a_wait_without_a_deadline_goes_on() {
        let _skipped = skip_pauses();
        let retry = Retry::until(Deadline::NEVER).every(Duration::from_secs(3600));
        assert!((0..1000).all(|_| retry.again()));
        assert!(Deadline::NEVER.is_never() && !Deadline::NEVER.is_over());
        assert!(Deadline::after(Duration::ZERO).is_over());
        // A time that the clock cannot reach.
        assert!(Deadline::after(Duration::MAX).is_never());
    }

    #[test]
    fn other_threads_do_not_skip() {
        let _skipped = skip_pauses();
        pause(Duration::from_secs(3600));
        let other = std::thread::spawn(|| {
            let begun = Instant::now();
            pause(Duration::from_millis(20));
            begun.elapsed()
        });
        let time = other.join().expect("no panic");
        assert!(time >= Duration::from_millis(20), "{time:?}");
    }
}
