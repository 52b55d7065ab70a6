//! How far the own rows of a member are in the stream.

use densite_disk::sync::{Condvar, Mutex};
use densite_disk::wait::Deadline;
use densite_log::Seq;
use std::time::{Duration, Instant};

/// A program that has waited for the stream within this time is expected to wait again.
const WAITS_AGAIN: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub(crate) struct Acknowledged {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    reached: Option<Seq>,
    /// When a thread of this process last waited.
    waited: Option<Instant>,
}

impl Acknowledged {
    pub(crate) fn set(&self, seq: Seq) {
        let mut state = self.state.lock();
        if state.reached != Some(seq) {
            state.reached = Some(seq);
            self.news.notify_all();
        }
    }

    /// The last own row in the stream, as far as this process knows.
    pub(crate) fn get(&self) -> Option<Seq> {
        self.state.lock().reached
    }

    /// Waits until the stream has this row.
    pub(crate) fn wait(&self, seq: Seq, time: Duration) -> bool {
        let until = Deadline::after(time);
        let mut state = self.state.lock();
        state.waited = Some(Instant::now());
        self.news.notify_all();
        loop {
            if state.reached.is_some_and(|reached| reached >= seq) {
                return true;
            }
            match self.news.wait_until(state, until) {
                Some(woken) => state = woken,
                None => return false,
            }
        }
    }

    /// Lets rows gather until this time, unless a thread waits for the stream, or has just done so.
    pub(crate) fn gather(&self, until: Deadline) {
        let mut state = self.state.lock();
        while state.waited.is_none_or(|at| at.elapsed() >= WAITS_AGAIN) {
            match self.news.wait_until(state, until) {
                Some(woken) => state = woken,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn rows_gather_unless_a_thread_waits() {
        const LONG: Duration = Duration::from_secs(100);
        let acknowledged = Arc::new(Acknowledged::default());
        let begun = Instant::now();
        acknowledged.gather(Deadline::after(Duration::from_millis(20)));
        assert!(begun.elapsed() >= Duration::from_millis(20));
        let gathers = Arc::clone(&acknowledged);
        let thread = std::thread::spawn(move || gathers.gather(Deadline::after(LONG)));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!acknowledged.wait(1, Duration::ZERO), "row 1 is not there");
        thread.join().expect("it ends when a thread waits");
        acknowledged.gather(Deadline::after(LONG));
        assert!(begun.elapsed() < LONG, "a thread has just waited");
    }
}
