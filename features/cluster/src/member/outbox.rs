//! Messages without rows that wait to be sent.

use super::message::Body;
use densite_disk::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;

/// See the module.
#[derive(Default)]
pub(crate) struct Outbox {
    state: Mutex<(VecDeque<Body>, bool)>,
    news: Condvar,
}

impl Outbox {
    pub(crate) fn push(&self, body: Body) {
        self.state.lock().0.push_back(body);
        self.news.notify_all();
    }

    /// Ends the forwarder.
    pub(crate) fn stop(&self) {
        self.state.lock().1 = true;
        self.news.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().1
    }

    pub(crate) fn first(&self) -> Option<Body> {
        self.state.lock().0.front().cloned()
    }

    pub(crate) fn sent(&self) {
        self.state.lock().0.pop_front();
    }

    pub(crate) fn pause(&self, time: Duration) {
        let state = self.state.lock();
        if !state.1 {
            drop(self.news.wait_for(state, time));
        }
    }
}
