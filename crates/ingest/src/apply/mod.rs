//! Moving rows from the log into their tables: one worker per database, in whichever process leads.
//!
//! The thread belongs to [`Applying`], not to the [`Home`] that starts it: the home ends it when the last connection of the process goes.
//! It has a connection of its own and holds no mutex while SQLite runs.

mod batch;
mod outcome;
mod pace;
mod plan;
mod queue;
mod reject;
mod round;
mod tidy;
mod wal;

use crate::error::from_log;
use crate::home::Home;
use crate::position::Position;
use crate::read::Unapplied;
use crate::recipe::Recipe;
use densite_log::{Log, Seq};
use densite_sqlite::{Code, Error, Result};
use outcome::Did;
use parking_lot::{Condvar, Mutex};
use round::Round;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a process that does not lead asks how far the rows are that it keeps for its readers.
const WATCH: Duration = Duration::from_secs(1);
/// How often a process that does not lead looks whether it may.
const TAKEOVER: Duration = Duration::from_millis(100);
/// How long an idle worker keeps its connection: after that nobody is kept from EXCLUSIVE or another journal mode.
const LINGER: Duration = Duration::from_millis(300);
/// Pause after a failure.
const RETRY: Duration = Duration::from_millis(50);

/// What is known in this process of how far rows are applied.
#[derive(Debug, Clone, Default)]
struct State {
    /// At least up to here.
    applied: Seq,
    /// Why nothing is applied at the moment; `None` while it goes on, or while another process leads.
    trouble: Option<Error>,
    leads: bool,
}

/// The worker and what it says.
pub(crate) struct Applying {
    log: Log,
    dir: PathBuf,
    recipe: Recipe,
    unapplied: Arc<Unapplied>,
    stop: AtomicBool,
    /// Somebody waits for what another process applies.
    asked: AtomicBool,
    state: Mutex<State>,
    news: Condvar,
}

/// The running thread; it ends with this value.
pub(crate) struct Worker {
    applying: Arc<Applying>,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

impl Worker {
    /// Starts it.
    pub(crate) fn start(applying: Applying) -> Result<Worker> {
        let applying = Arc::new(applying);
        let body = applying.clone();
        let thread = std::thread::Builder::new()
            .name("densite-apply".into())
            .spawn(move || body.run())
            .map_err(|e| {
                Error::new(
                    Code::NOMEM,
                    format!("the thread that applies rows cannot start: {e}"),
                )
            })?;
        Ok(Worker {
            applying,
            thread: Some(thread),
            process: std::process::id(),
        })
    }

    pub(crate) fn applying(&self) -> &Arc<Applying> {
        &self.applying
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.applying.stop.store(true, Ordering::Release);
        self.applying.tell(|_| {});
        // A child of the process that started it has no such thread.
        if let Some(thread) = self
            .thread
            .take()
            .filter(|_| self.process == std::process::id())
        {
            thread.join().ok();
        }
    }
}

impl Applying {
    pub(crate) fn new(home: &Home, recipe: Recipe) -> Applying {
        Applying {
            log: home.log().clone(),
            dir: home.dir().to_owned(),
            recipe,
            unapplied: home.unapplied().clone(),
            stop: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            state: Mutex::default(),
            news: Condvar::new(),
        }
    }

    fn tell(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.news.notify_all();
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn pause(&self, time: Duration) {
        let mut state = self.state.lock();
        if !self.stops() {
            self.news.wait_for(&mut state, time);
        }
    }

    /// Waits for news; answers how far rows are applied as far as this process knows, and what keeps its worker from it.
    pub(crate) fn look(&self, than: Seq, time: Duration) -> (Seq, Option<Error>) {
        let mut state = self.state.lock();
        if state.applied < than && !time.is_zero() {
            self.news.wait_for(&mut state, time);
        }
        let trouble = state.trouble.clone().filter(|_| state.leads);
        (state.applied, trouble)
    }

    fn run(&self) {
        let mut watched = Instant::now();
        while !self.stops() {
            match self.log.try_lead() {
                Ok(Some(_lead)) => {
                    self.tell(|s| s.leads = true);
                    self.lead();
                    self.tell(|s| s.leads = false);
                }
                Ok(None) => {
                    let is_due = watched.elapsed() >= WATCH && self.unapplied.is_kept();
                    if is_due || self.asked.swap(false, Ordering::AcqRel) {
                        watched = Instant::now();
                        self.watch();
                    }
                    self.unapplied.keep_up(&self.log);
                    self.pause(TAKEOVER);
                }
                Err(e) => {
                    let error = from_log(&self.dir, e);
                    self.tell(|s| s.trouble = Some(error));
                    self.pause(TAKEOVER);
                }
            }
        }
    }

    /// Asks the database how far another process is: somebody here waits for it, or keeps rows of the log, and with them its segments.
    fn watch(&self) {
        let position = self.recipe.open().and_then(|c| Position::read(&c));
        if let Ok(Some(position)) = position {
            self.unapplied.applied(position.seq);
            self.tell(|s| s.applied = s.applied.max(position.seq));
        }
    }

    /// How far rows are applied, without asking the database; sees to it that this is known soon.
    pub(crate) fn progress(&self, time: Duration) -> (Seq, Option<Error>) {
        self.asked.store(true, Ordering::Release);
        self.look(Seq::MAX, time)
    }

    /// Applies until the end of this worker.
    fn lead(&self) {
        let mut round: Option<Round> = None;
        let mut active = Instant::now();
        while !self.stops() {
            let done = match &mut round {
                Some(round) => round.run(self),
                None => Round::open(self).and_then(|fresh| round.insert(fresh).run(self)),
            };
            match done {
                Ok(Did::Applied(seq)) => {
                    active = Instant::now();
                    self.unapplied.applied(seq);
                    self.unapplied.keep_up(&self.log);
                    self.tell(|s| {
                        s.applied = s.applied.max(seq);
                        s.trouble = None;
                    });
                }
                Ok(Did::Nothing(seq)) => {
                    self.unapplied.applied(seq);
                    self.tell(|s| {
                        s.applied = s.applied.max(seq);
                        s.trouble = None;
                    });
                    if round.is_some() && active.elapsed() > LINGER {
                        round = None;
                    }
                    // It only ends early if there is something new; an error shows in the next round.
                    let wait = if round.is_some() { LINGER } else { TAKEOVER };
                    let mut waited = false;
                    while !waited && !self.stops() {
                        match self.log.wait_after(seq, wait) {
                            Ok(more) => waited = more || round.is_some(),
                            Err(_) => {
                                self.pause(RETRY);
                                waited = true;
                            }
                        }
                    }
                }
                Ok(Did::Waits(error)) => {
                    self.tell(|s| s.trouble = Some(error));
                    self.unapplied.keep_up(&self.log);
                    self.pause(RETRY);
                }
                Ok(Did::Unnamed) => self.pause(RETRY),
                Err(error) => {
                    if !error.is_busy() {
                        round = None;
                    }
                    self.tell(|s| s.trouble = Some(error));
                    self.unapplied.keep_up(&self.log);
                    self.pause(RETRY);
                }
            }
        }
    }
}
