//! Messages of the stream, read by a thread before the worker asks for them.
//!
//! The queue is bounded in bytes. The thread holds nothing of the database: it ends by itself soon
//! after the member stopped.

use super::link::Link;
use super::message::Message;
use super::troubles::Troubles;
use super::unreadable::Unreadable;
use densite_disk::sync::{Condvar, Mutex};
use densite_stream::{Error, Name, Position, Take};
use std::collections::VecDeque;
use std::time::Duration;

/// Most bytes of messages that wait for the worker.
const BYTES: usize = 32 << 20;
/// One read.
const TAKE: Take = Take {
    messages: 256,
    bytes: 4 << 20,
    wait: Duration::from_millis(500),
};
/// Pause after an error.
const RETRY: Duration = Duration::from_secs(1);

/// A message of the stream.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    /// The position behind it.
    pub(crate) position: Position,
    pub(crate) origin: Name,
    /// What a member wrote, or why nothing of it is one's.
    pub(crate) message: Result<Message, &'static str>,
    /// Its size in the stream, bytes.
    bytes: usize,
}

impl Item {
    /// A message of the stream, of no size: for tests.
    #[cfg(test)]
    pub(crate) fn new(position: Position, origin: Name, message: Message) -> Item {
        Item {
            position,
            origin,
            message: Ok(message),
            bytes: 0,
        }
    }
}

/// What the worker gets.
pub(crate) enum Came {
    Item(Box<Item>),
    /// Nothing now.
    Nothing,
    /// Reading has ended with this error, which does not pass.
    Failed(Error),
}

#[derive(Default)]
struct State {
    /// Where the thread reads; `None`: nothing was asked for yet.
    from: Option<Position>,
    /// Changes whenever `from` was set by the worker.
    turn: u64,
    items: VecDeque<Item>,
    bytes: usize,
    /// The position behind the last message that the worker got.
    given: Option<Position>,
    failed: Option<Error>,
    stopped: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Incoming {
    state: Mutex<State>,
    news: Condvar,
}

impl Incoming {
    /// Reads behind this position from now on. Does nothing if the worker is there already.
    pub(crate) fn restart(&self, after: Position) {
        let mut state = self.state.lock();
        if state.given == Some(after) && state.failed.is_none() {
            return;
        }
        *state = State {
            from: Some(after),
            turn: state.turn + 1,
            given: Some(after),
            stopped: state.stopped,
            ..State::default()
        };
        self.news.notify_all();
    }

    /// The next message.
    pub(crate) fn next(&self) -> Came {
        let mut state = self.state.lock();
        match state.items.pop_front() {
            Some(item) => {
                state.bytes = state.bytes.saturating_sub(item.bytes);
                state.given = Some(item.position);
                self.news.notify_all();
                Came::Item(Box::new(item))
            }
            None => (state.failed.clone()).map_or(Came::Nothing, Came::Failed),
        }
    }

    /// Whether there is something for the worker.
    pub(crate) fn has_news(&self) -> bool {
        let state = self.state.lock();
        !state.items.is_empty() || state.failed.is_some()
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.news.notify_all();
    }

    /// What the thread does until [`Incoming::stop`]. `ring` wakes the worker.
    pub(crate) fn read(&self, link: &Link, troubles: &Troubles, ring: impl Fn()) {
        loop {
            let Some((after, turn)) = self.wait_for_room() else {
                return;
            };
            let read = link
                .stream()
                .and_then(|stream| stream.read_after(after, TAKE));
            if let Err(error) = &read {
                link.failed(error);
                troubles.reading(Some(error));
                if matches!(error, Error::TryAgain(_)) {
                    self.pause(RETRY);
                    continue;
                }
            } else {
                troubles.reading(None);
            }
            let mut state = self.state.lock();
            if state.turn != turn {
                continue;
            }
            let items = read.and_then(|messages| messages.into_iter().map(item).collect());
            let items: Vec<Item> = match items {
                Ok(items) => items,
                Err(error) => {
                    troubles.reading(Some(&error));
                    state.failed = Some(error);
                    drop(state);
                    ring();
                    continue;
                }
            };
            if let Some(last) = items.last() {
                state.from = Some(last.position);
                state.bytes += items.iter().map(|item| item.bytes).sum::<usize>();
                state.items.extend(items);
                drop(state);
                ring();
            }
        }
    }

    /// Waits until there is room for messages. Returns behind which position to read, and the turn;
    /// `None`: the thread ends.
    fn wait_for_room(&self) -> Option<(Position, u64)> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            match state.from {
                Some(from) if state.bytes < BYTES && state.failed.is_none() => {
                    return Some((from, state.turn));
                }
                _ => state = self.news.wait(state),
            }
        }
    }

    fn pause(&self, time: Duration) {
        let state = self.state.lock();
        if !state.stopped {
            drop(self.news.wait_for(state, time));
        }
    }
}

fn item(message: densite_stream::Message) -> Result<Item, Error> {
    let position = message.position();
    let decoded = match Message::decode(&message.bytes) {
        Ok(decoded) => Ok(decoded),
        Err(Unreadable::Foreign(why)) => Err(why),
        Err(why) => {
            return Err(Error::Refused(format!(
                "message {} of {} in the stream is not valid: {why}",
                message.sequence, message.origin
            )));
        }
    };
    Ok(Item {
        position,
        origin: message.origin,
        message: decoded,
        bytes: message.bytes.len(),
    })
}
