//! How far the own rows of a member are in the stream.

use densite_disk::sync::{Condvar, Mutex};
use densite_log::Seq;
use std::time::{Duration, Instant};

/// See the module.
#[derive(Default)]
pub(crate) struct Acknowledged {
    state: Mutex<Option<Seq>>,
    news: Condvar,
}

impl Acknowledged {
    pub(crate) fn set(&self, seq: Seq) {
        let mut state = self.state.lock();
        if *state != Some(seq) {
            *state = Some(seq);
            self.news.notify_all();
        }
    }

    /// The last own row in the stream, as far as this process knows.
    pub(crate) fn get(&self) -> Option<Seq> {
        *self.state.lock()
    }

    /// Waits until the stream has this row.
    pub(crate) fn wait(&self, seq: Seq, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.state.lock();
        loop {
            if state.is_some_and(|reached| reached >= seq) {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            state = self.news.wait_until(state, until);
        }
    }
}
