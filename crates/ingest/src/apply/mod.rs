//! Moving rows from the log into their tables: one worker per database, in whichever process leads.
//!
//! The thread belongs to [`Applying`], not to the [`DatabaseLog`] that starts it: the database log ends it when the last connection of the process goes.
//! It has a connection of its own and holds no mutex while SQLite runs. A fork waits until it is outside of SQLite ([`gate`]); outside it has no transaction open.

mod ahead;
mod batch;
mod batch_delay;
mod checkpoint_scheduler;
mod clustered;
mod clustered_begin;
mod following;
mod incremental_sync;
mod leading;
mod outcome;
mod pace;
mod plan;
mod planner;
mod pruning;
mod queue;
mod reject;
mod round;
mod rows;
mod sort;
mod source;
mod values;
mod wal;
mod whole;

use crate::connection_spec::ConnectionSpec;
use crate::database_log::DatabaseLog;
use crate::error::from_log;
use crate::overwritten::Overwritten;
use crate::position::Position;
use crate::read::Unapplied;
use crate::storage::StorageBackend;
use densite_disk::sync::{Condvar, Mutex};
use densite_log::{self as log, Log, LogId, Seq};
use densite_sqlite::{Code, Error, Result, gate};
use pruning::{Pruning, RetryTime};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a process that does not lead asks how far the rows are that it keeps for its readers.
const WATCH: Duration = Duration::from_secs(1);
/// How often it looks where somebody waits for the answer.
const WATCH_ASKED: Duration = Duration::from_millis(50);
/// How often a process that does not lead looks whether it may, where nothing tells it that the one that leads has ended.
const TAKEOVER: Duration = Duration::from_secs(1);
/// How often it does something else: reads on for its readers, or looks whether anybody leads if it may not lead itself.
const FOLLOW: Duration = Duration::from_millis(250);
/// Pause after a panic: long enough for another process to take over.
const AFTER_PANIC: Duration = Duration::from_millis(500);
/// How long the right to apply is left to others by who could not use it: they look more often than that.
const VACANT: Duration = Duration::from_millis(250);
/// How often a worker that waits for rows looks what else there is to do,
const IDLE: Duration = Duration::from_secs(1);
/// and where something is known to be left.
const BUSY: Duration = Duration::from_millis(250);
/// How long nobody may lead before who cannot do it himself says so: another process may be about to.
const ALONE: Duration = Duration::from_secs(1);
/// Pause after a failure.
const RETRY: Duration = Duration::from_millis(50);

/// What is known in this process of how far rows are applied.
#[derive(Debug, Clone, Default)]
struct State {
    /// At least up to here.
    applied: Seq,
    /// Why nothing is applied at the moment, and since when that is known; `None` while it goes on, or while another process leads.
    trouble: Option<(Instant, Error)>,
    /// That the worker panicked; `None` once it got through, or another process leads.
    broken: Option<Error>,
    leads: bool,
    /// Somebody waits for rows: the worker does not delay its next batch.
    wanted: bool,
}

/// The worker and what it says.
pub(crate) struct Applying {
    log: Log,
    id: LogId,
    dir: PathBuf,
    spec: ConnectionSpec,
    storage: Arc<dyn StorageBackend>,
    unapplied: Arc<Unapplied>,
    stop: AtomicBool,
    /// Somebody waits for what another process applies, or for what is not there although it was applied.
    asked: AtomicBool,
    state: Mutex<State>,
    news: Condvar,
    /// Wakes a worker that delays its next batch.
    hurry: Condvar,
    pruning: Pruning,
    overwritten: Overwritten,
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
        // Where the system does not take the handlers a fork is what it is beside any thread that uses SQLite.
        gate::guard_forks();
        let applying = Arc::new(applying);
        let body = applying.clone();
        let thread = std::thread::Builder::new()
            .name("densite-apply".into())
            .spawn(move || body.live())
            .map_err(|e| {
                Error::new(
                    Code::NOMEM,
                    format!("the thread that applies rows cannot start: {e}"),
                )
            })?;
        Ok(Worker {
            applying,
            thread: Some(thread),
            process: densite_disk::process::id(),
        })
    }

    pub(crate) fn applying(&self) -> &Arc<Applying> {
        &self.applying
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.applying.stop.store(true, Ordering::Release);
        self.applying.tell(|s| s.wanted = true);
        self.applying.hurry.notify_all();
        self.applying.log.ring();
        // A child of the process that started it has no such thread.
        if let Some(thread) = self
            .thread
            .take()
            .filter(|_| self.process == densite_disk::process::id())
        {
            thread.join().ok();
            self.applying.pruning.end();
        }
    }
}

impl Applying {
    pub(crate) fn new(database_log: &DatabaseLog, spec: ConnectionSpec) -> Applying {
        Applying {
            log: database_log.log().clone(),
            id: database_log.id(),
            dir: database_log.dir().to_owned(),
            spec,
            storage: database_log.storage().clone(),
            unapplied: database_log.unapplied().clone(),
            stop: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            state: Mutex::default(),
            news: Condvar::new(),
            hurry: Condvar::new(),
            pruning: Pruning::new(database_log.sync_failed()),
            overwritten: database_log.overwritten().clone(),
        }
    }

    fn tell(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.news.notify_all();
    }

    /// Whether the database names this log. It names another one when another database was copied into it, page by page, while it was open: to that one's position the rows of this log say nothing.
    fn is_of(&self, named: Position) -> Result<()> {
        if named.id == self.id {
            return Ok(());
        }
        let (found, expected) = (self.id, named.id);
        let error = log::Error::OtherLog { found, expected };
        Err(from_log(&self.dir, error))
    }

    /// The database may not be written to by this process, as far as is known: others apply, and this one looks how far they are.
    pub(crate) fn only_watches(&self) -> bool {
        self.spec.reads_only()
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn pause(&self, time: Duration) {
        let state = self.state.lock();
        if !self.stops() {
            drop(self.news.wait_for(state, time));
        }
    }

    /// Waits for news; answers how far rows are applied as far as this process knows, and what has kept its worker from it after `since`: what was in the way before may be gone.
    pub(crate) fn wait_for_progress(
        &self,
        than: Seq,
        time: Duration,
        since: Instant,
    ) -> (Seq, Option<Error>) {
        let is_elsewhere = !time.is_zero() && {
            let state = self.state.lock();
            state.applied < than && !state.leads
        };
        // Without it one waits a little longer.
        let _wanted = is_elsewhere.then(|| self.log.want().ok());
        let mut state = self.state.lock();
        if state.applied < than && !time.is_zero() {
            if !state.wanted {
                state.wanted = true;
                self.hurry.notify_all();
            }
            state = self.news.wait_for(state, time);
        }
        let told = state.trouble.as_ref().filter(|(at, _)| *at >= since);
        let trouble = told.map(|(_, error)| error.clone());
        (state.applied, state.broken.clone().or(trouble))
    }

    /// Runs until the end of this worker, also beyond a panic: who waits is told of it, another process may lead meanwhile, and after a pause it begins anew.
    fn live(&self) {
        while !self.stops() {
            let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.run())) else {
                return;
            };
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
            let error = Error::new(
                Code::INTERNAL,
                format!(
                    "the worker panicked ({}) and will try again; this is a fault of Densite: nothing that was acknowledged is lost, it waits in the log",
                    said.unwrap_or("without a word")
                ),
            );
            self.tell(|s| {
                s.leads = false;
                s.broken = Some(error);
            });
            self.pause(AFTER_PANIC);
        }
    }

    fn run(&self) {
        let (mut watched, mut alone) = (Instant::now(), None);
        loop {
            // First: whoever has something for this thread says so before it rings.
            let rings = self.log.rings();
            if self.stops() {
                return;
            }
            let has_none_left = !self.log.retry_rollbacks();
            let lead = match self.only_watches() {
                true => self.check_leader(&mut alone).map(|()| None),
                false => self.log.try_lead(),
            };
            match lead {
                Ok(Some(lead)) => {
                    self.tell(|s| s.leads = true);
                    self.lead();
                    self.tell(|s| s.leads = false);
                    drop(lead);
                    self.pause(VACANT);
                }
                Ok(None) => {
                    // Another process has it; what this one met is over.
                    self.tell(|s| {
                        s.broken = None;
                        if !self.only_watches() {
                            s.trouble = None;
                        }
                    });
                    let asked = self.asked.load(Ordering::Acquire);
                    let often = if asked { WATCH_ASKED } else { WATCH };
                    if watched.elapsed() >= often && (asked || self.unapplied.is_kept()) {
                        self.asked.store(false, Ordering::Release);
                        watched = Instant::now();
                        self.watch();
                    }
                    let follows = self.unapplied.keep_up(&self.log);
                    let time = match self.asked.load(Ordering::Acquire) {
                        true => WATCH_ASKED,
                        false if follows || self.only_watches() || !has_none_left => FOLLOW,
                        false => TAKEOVER,
                    };
                    let waited = rings.and_then(|rings| self.log.wait_to_lead(time, rings));
                    if waited.is_err() {
                        self.pause(FOLLOW);
                    }
                }
                Err(e) => {
                    let error = from_log(&self.dir, e);
                    if !self.log.is_led().unwrap_or(false) {
                        self.tell(|s| s.trouble = Some((Instant::now(), error)));
                    }
                    self.pause(FOLLOW);
                }
            }
        }
    }

    /// Whether somebody applies, since nobody does in this process. `alone`: since when nobody is known to.
    fn check_leader(&self, alone: &mut Option<Instant>) -> log::Result<()> {
        if self.log.is_led()? {
            *alone = None;
            self.tell(|s| s.trouble = None);
            return Ok(());
        }
        if alone.get_or_insert_with(Instant::now).elapsed() >= ALONE {
            let error = Error::new(
                Code::READONLY,
                "no process applies them: this one has opened the database for reading only; they wait in the log for one that uses ingest and may write",
            );
            self.tell(|s| s.trouble = Some((Instant::now(), error)));
        }
        Ok(())
    }

    /// Asks the database how far another process is: somebody here waits for it, or keeps rows of the log, and with them its segments.
    fn watch(&self) {
        let _inside = gate::enter();
        let position = self.spec.open().and_then(|c| Position::read(&c));
        if let Ok(Some(position)) = position
            && position.id == self.id
        {
            self.unapplied.applied(position.seq);
            self.tell(|s| s.applied = s.applied.max(position.seq));
        }
    }

    /// Whether rows up to `seq` may be applied, if the database says so: who leads would know.
    pub(crate) fn confirms(&self, seq: Seq) -> bool {
        let state = self.state.lock();
        !state.leads || state.applied >= seq
    }

    /// Whether this process applies: then its worker looks at the database for each batch.
    pub(crate) fn leads(&self) -> bool {
        self.state.lock().leads
    }

    /// How far rows are applied, without asking the database; sees to it that this is known soon.
    pub(crate) fn progress(&self, time: Duration, since: Instant) -> (Seq, Option<Error>) {
        self.asked.store(true, Ordering::Release);
        self.log.ring();
        self.wait_for_progress(Seq::MAX, time, since)
    }

    /// Waits for rows after `seq`, for somebody who waits although all is applied (the database may have gone back), or until pruning is to be tried again.
    fn wait_for_rows(&self, seq: Seq, at_most: Option<Duration>) {
        let until = at_most.map(|time| Instant::now() + time);
        loop {
            // First: who says that there is something to do says so before it rings.
            let rings = self.log.rings();
            if self.stops() {
                return;
            }
            let has_none_left = !self.log.retry_rollbacks();
            let idle = if has_none_left { IDLE } else { BUSY };
            let idle = idle.min(self.pruning.due().unwrap_or(IDLE));
            let left = until.map_or(idle, |until| {
                until.saturating_duration_since(Instant::now())
            });
            let waits = |rings| (self.log).wait_after_or_ring(seq, left.min(idle), rings);
            match rings.and_then(waits) {
                Ok(true) => return,
                Ok(false) if self.asked.swap(false, Ordering::AcqRel) => return,
                Ok(false) if self.pruning.retry_time() == RetryTime::Now => return,
                Ok(false) if until.is_some_and(|until| Instant::now() >= until) => return,
                Ok(false) => {}
                Err(_) => return self.pause(RETRY),
            }
        }
    }
}
