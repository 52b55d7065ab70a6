//! Moving rows from the log into their tables: one worker per database, in whichever process leads.
//!
//! The thread belongs to [`DatabaseWorker`], which ends it when the last connection of the process
//! goes. It has a connection of its own and holds no mutex while SQLite runs. A fork waits until it
//! is outside of SQLite ([`densite_sqlite::gate`]); outside it has no transaction open.

mod ahead;
mod applier;
mod batch;
mod batch_delay;
mod checkpoint_scheduler;
mod clustered;
mod clustered_apply;
mod clustered_begin;
mod connection;
mod following;
mod incremental_sync;
mod leading;
mod log_order;
mod order;
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
mod turns;
mod values;
mod wal;
mod whole;
mod worker;

pub(crate) use worker::DatabaseWorker;

use crate::connection_spec::ConnectionSpec;
use crate::open_log::OpenLog;
use crate::position::Position;
use densite_disk::sync::{Condvar, Mutex};
use densite_log::{self as log, Seq};
use densite_sqlite::{Error, Result};
use pruning::Pruning;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pause after a failure.
const RETRY: Duration = Duration::from_millis(50);

/// What is known in this process of how far rows are applied.
#[derive(Debug, Clone, Default)]
struct State {
    /// At least up to here.
    applied: Seq,
    /// Why nothing is applied at the moment, and since when that is known; `None` while it goes on,
    /// or while another process leads.
    trouble: Option<(Instant, Error)>,
    /// That the worker panicked; `None` once it got through, or another process leads.
    broken: Option<Error>,
    leads: bool,
    /// Somebody waits for rows: the worker does not delay its next batch.
    wanted: bool,
}

/// The worker and what it says.
pub(crate) struct Applying {
    open: Arc<OpenLog>,
    spec: ConnectionSpec,
    stop: AtomicBool,
    /// Somebody waits for what another process applies, or for what is not there although it was
    /// applied.
    asked: AtomicBool,
    state: Mutex<State>,
    news: Condvar,
    /// Wakes a worker that delays its next batch.
    hurry: Condvar,
    pruning: Pruning,
}

impl Applying {
    /// Of a database with this log; `spec` opens a connection to it.
    fn new(open: Arc<OpenLog>, spec: ConnectionSpec) -> Applying {
        Applying {
            open,
            spec,
            stop: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            state: Mutex::default(),
            news: Condvar::new(),
            hurry: Condvar::new(),
            pruning: Pruning::default(),
        }
    }

    fn tell(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.news.notify_all();
    }

    /// Whether the database names this log. It names another one when another database was copied
    /// into it, page by page, while it was open: to that one's position the rows of this log say
    /// nothing.
    fn is_of(&self, named: Position) -> Result<()> {
        let (found, expected) = (self.open.id(), named.id);
        match found == expected {
            true => Ok(()),
            false => Err(self.open.failed(log::Error::OtherLog { found, expected })),
        }
    }

    /// The database may not be written to by this process, as far as is known: others apply, and
    /// this one looks how far they are.
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

    /// Waits for news; answers how far rows are applied as far as this process knows, and what has
    /// kept its worker from it after `since`: what was in the way before may be gone.
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
        let _wanted = is_elsewhere.then(|| self.open.log().want().ok());
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
        self.open.log().ring();
        self.wait_for_progress(Seq::MAX, time, since)
    }
}
