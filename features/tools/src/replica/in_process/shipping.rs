//! The thread that ships a database for the connections of a process.

use super::replicate_options::Options;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::replica::{Figures, Replicas};
use densite_disk::sync::{Condvar, Mutex};
use densite_disk::wait::Deadline;
use densite_sqlite::{Api, fork_gate};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// How long stopping, or the last close, waits until what is new was sent.
const END: Duration = Duration::from_secs(5);
/// The pause before a round that is waited for, if the restore point was held back.
const HELD_BACK: Duration = Duration::from_millis(50);
/// The same after a failure.
const FAILED: Duration = Duration::from_secs(1);

/// See the module's documentation.
pub(super) struct Shipping {
    /// The URL as it was given, which can have secrets.
    given: String,
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    figures: Option<Figures>,
    /// The waits that are under way.
    waiting: usize,
    /// The newest ticket of a wait.
    asked: u64,
    /// All commits before this ticket was made are in the bucket.
    answered: u64,
    /// Shipping ends, at the latest then.
    ends_by: Option<Deadline>,
    has_ended: bool,
    /// The thread ended by a bug.
    is_broken: bool,
}

impl State {
    /// Why it has ended, if it has failed.
    fn failure(&self) -> Option<String> {
        let broken = "the thread that ships it ended by a bug; please report it";
        let failure = self.figures.as_ref().and_then(Figures::failure);
        let broken = self.is_broken.then_some(broken);
        broken.or(failure).map(str::to_owned)
    }

    /// Whether a wait under way needs another round.
    fn is_wanted(&self) -> bool {
        self.waiting > 0 && self.asked > self.answered
    }
}

/// Tickets, in the order in which they were made. 0 is none.
static TICKETS: AtomicU64 = AtomicU64::new(1);

/// A ticket for everything that is committed now.
pub(super) fn ticket() -> u64 {
    TICKETS.fetch_add(1, Ordering::SeqCst)
}

/// How a wait is over.
pub(super) enum Waited {
    /// Everything that was committed before it is in the bucket.
    Acknowledged,
    /// The time has passed.
    TimedOut,
    /// Shipping has ended; with its failure, if there is one.
    Ended(Option<String>),
}

impl Shipping {
    /// Starts shipping the database at `db` in a thread, after `before` has ended.
    ///
    /// # Errors
    /// [`Error::Setting`] for a URL that is not understood; if no thread can be started.
    pub(super) fn start(
        api: Api,
        db: &str,
        url: &str,
        options: Options,
        before: Option<Arc<Shipping>>,
    ) -> Result<Arc<Shipping>> {
        let shipping = Arc::new(Shipping {
            given: url.to_owned(),
            state: Mutex::default(),
            news: Condvar::new(),
        });
        // If the handlers cannot be installed, a fork is as safe as beside any other thread that
        // uses SQLite.
        fork_gate::guard_forks();
        let (own, path) = (Arc::clone(&shipping), PathBuf::from(db));
        let (tell, told) = mpsc::channel();
        let body = move || {
            let _end = End(&own);
            let prepared = Replicas::new(api, &path, Path::new(&own.given), options.replicate);
            let (prepared, answer) = match prepared {
                Ok(replicas) => (Some(replicas), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // The caller waits for it.
            let _ = tell.send(answer);
            if let Some(replicas) = prepared {
                if let Some(before) = before {
                    before.until_ended();
                }
                own.live(replicas, options.interval);
            }
        };
        let thread = std::thread::Builder::new().name("densite-replicate".into());
        let failed = |message: String| Error::Io {
            path: db.into(),
            doing: "start the thread that ships it".into(),
            message,
        };
        thread.spawn(body).map_err(|e| failed(e.to_string()))?;
        let prepared = told.recv();
        prepared.map_err(|_| failed("it ended by a bug".into()))??;
        Ok(shipping)
    }

    /// The body of the thread.
    fn live(&self, mut replicas: Replicas, interval: Duration) {
        loop {
            let (asked, is_wanted, ends_by) = {
                let state = self.state.lock();
                (state.asked, state.is_wanted(), state.ends_by)
            };
            let begun = Instant::now();
            let mut progress = Until(self);
            // The last round also finds what time stamps do not show.
            match is_wanted || ends_by.is_some() {
                true => drop(replicas.thorough_round(&mut progress)),
                false => drop(replicas.round(&mut progress)),
            }
            let figures = replicas.figures().next().cloned();
            let is_final = figures.as_ref().is_some_and(Figures::is_final);
            let is_complete =
                (figures.as_ref().and_then(Figures::complete)).is_some_and(|at| at >= begun);
            let retry = match figures.as_ref().and_then(Figures::failure) {
                _ if is_complete => Duration::ZERO,
                None => HELD_BACK,
                Some(_) => FAILED,
            };
            let mut state = self.state.lock();
            state.figures = figures;
            if is_complete && is_wanted {
                state.answered = state.answered.max(asked);
            }
            drop(state);
            self.news.notify_all();
            if is_final || ends_by.is_some() {
                return;
            }
            self.pause(begun, interval, retry.min(interval));
        }
    }

    /// Waits for the next round: until the interval has passed, or `retry` if it is wanted.
    fn pause(&self, begun: Instant, interval: Duration, retry: Duration) {
        let ended = Instant::now();
        let mut state = self.state.lock();
        loop {
            if state.ends_by.is_some() {
                return;
            }
            let until = match state.is_wanted() {
                true => ended + retry,
                false => begun + interval,
            };
            let now = Instant::now();
            if now >= until {
                return;
            }
            state = self.news.wait_for(state, until - now);
        }
    }

    /// Whether it ships to this URL.
    pub(super) fn is_to(&self, url: &str) -> bool {
        self.given == url
    }

    /// The figures of its last round; `None` before the end of the first one.
    pub(super) fn figures(&self) -> Option<Figures> {
        self.state.lock().figures.clone()
    }

    /// The URL without secrets.
    pub(super) fn url(&self) -> PathBuf {
        crate::replica::shown(Path::new(&self.given))
    }

    /// Whether it has ended or was told to end.
    pub(super) fn is_ending(&self) -> bool {
        let state = self.state.lock();
        state.has_ended || state.ends_by.is_some()
    }

    /// Whether its thread has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().has_ended
    }

    /// Waits until everything that was committed before this ticket was made is in the bucket, at
    /// most this time.
    pub(super) fn wait(&self, ticket: u64, time: Duration) -> Waited {
        let until = Deadline::after(time);
        let mut state = self.state.lock();
        state.asked = state.asked.max(ticket);
        state.waiting += 1;
        self.news.notify_all();
        let waited = loop {
            if state.answered >= ticket {
                break Waited::Acknowledged;
            }
            if state.has_ended {
                break Waited::Ended(state.failure());
            }
            match self.news.wait_until(state, until) {
                Some(woken) => state = woken,
                None => {
                    state = self.state.lock();
                    break Waited::TimedOut;
                }
            }
        };
        state.waiting -= 1;
        waited
    }

    /// Ends it: sends what is new, for a limited time. A request that is under way then ends later,
    /// and the thread with it.
    pub(super) fn end(&self) {
        let until = Deadline::after(END);
        let mut state = self.state.lock();
        state.ends_by.get_or_insert(until);
        self.news.notify_all();
        while !state.has_ended {
            match self.news.wait_until(state, until) {
                Some(woken) => state = woken,
                None => return,
            }
        }
    }

    /// Waits until the thread has ended.
    fn until_ended(&self) {
        let mut state = self.state.lock();
        while !state.has_ended {
            state = self.news.wait_for(state, END);
        }
    }
}

/// Notes that the thread has ended, also after a panic.
struct End<'a>(&'a Shipping);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.has_ended = true;
        state.is_broken = std::thread::panicking();
        drop(state);
        self.0.news.notify_all();
    }
}

/// Stops work that takes longer than the end of shipping may.
struct Until<'a>(&'a Shipping);

impl Progress for Until<'_> {
    fn cancelled(&mut self) -> bool {
        let ends_by = self.0.state.lock().ends_by;
        ends_by.is_some_and(Deadline::is_over)
    }
}
