//! Moving rows from the log to their tables: one worker for each database, in the process that is
//! the applier.
//!
//! The thread belongs to [`DatabaseWorker`], which ends it with the last connection of the process.
//! It has its own connection and holds no mutex while SQLite runs. A fork waits until the thread is
//! outside of SQLite ([`densite_sqlite::fork_gate`]), where it has no open transaction.

mod applier;
mod batch;
mod batch_delay;
mod checkpoint_scheduler;
mod clustered;
mod clustered_apply;
mod clustered_begin;
mod connection;
mod deferred_constraints;
mod leadership;
mod leading;
mod log_order;
mod order;
mod outcome;
mod plan;
mod planner;
mod pruning;
mod queue;
mod reject;
mod replay;
mod round;
mod rows;
pub(crate) mod stream;
mod stream_order;
mod values;
mod wal;

pub use queue::{Reached, RecordSource, SourceState};
pub use reject::{is_of_the_row, reject};
pub(crate) use replay::replay;

use crate::database::connection_spec::ConnectionSpec;
use crate::database::open_log::OpenLog;
use crate::database::position::Position;
use crate::error::refused;
use densite_disk::sync::{Condvar, Mutex};
use densite_log::{self as log, Seq};
use densite_sqlite::{Code, Connection, Error, Result, fork_gate};
use pruning::Pruning;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stream::Member;

/// Pause after a failure.
const RETRY: Duration = Duration::from_millis(50);

/// What this process knows of how far rows are applied.
#[derive(Debug, Clone, Default)]
struct State {
    /// Rows are applied at least up to here.
    applied: Seq,
    /// Why no rows are applied now, and since when that is known. `None` while rows are applied or
    /// another process is the applier.
    trouble: Option<(Instant, Error)>,
    /// The error of a panic of the worker. `None` once the worker succeeds or another process is
    /// the applier.
    broken: Option<Error>,
    leads: bool,
    /// A connection waits for rows: the worker does not delay its next batch.
    wanted: bool,
}

/// The worker and its state.
pub struct Applying {
    open: Arc<OpenLog>,
    spec: ConnectionSpec,
    stop: AtomicBool,
    /// A connection waits for rows that another process applies, or for rows that were applied and
    /// are gone since.
    asked: AtomicBool,
    state: Mutex<State>,
    news: Condvar,
    /// Wakes a worker that delays its next batch.
    hurry: Condvar,
    pruning: Pruning,
    /// The member of a stream at work, while this process applies.
    member: Mutex<Option<Arc<dyn Member>>>,
}

impl Applying {
    /// For a database with this log. `spec` opens a connection to it.
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
            member: Mutex::default(),
        }
    }

    fn tell(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.news.notify_all();
    }

    /// Checks that the database names this log. If another database was copied over it page by page
    /// while it was open, it names another log. The rows of this log then do not belong to its
    /// position.
    fn is_of(&self, named: Position) -> Result<()> {
        let (found, expected) = (self.open.id(), named.id);
        match found == expected {
            true => Ok(()),
            false => Err(self.open.failed(log::Error::OtherLog { found, expected })),
        }
    }

    /// Whether this process may not write to the database, as far as it knows. Then other processes
    /// apply, and this one reads how far they are.
    fn only_watches(&self) -> bool {
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

    /// Waits for news. Returns how far rows are applied as far as this process knows, and the error
    /// that has stopped its worker after `since`. Older errors may be resolved.
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
        // If this fails, the wait only takes a little longer.
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

    /// Whether the database can be believed if it says that rows up to `seq` are applied. The
    /// applier would know of it.
    pub(crate) fn confirms(&self, seq: Seq) -> bool {
        let state = self.state.lock();
        !state.leads || state.applied >= seq
    }

    /// Why the messages of a stream are not read, sent or applied in this process; `None` if they
    /// are, or another process does it. A lock of another connection passes.
    pub fn stream_trouble(&self) -> Option<String> {
        let member = self.member()?;
        let applying = || {
            let state = self.state.lock();
            let trouble = state.trouble.as_ref().map(|(_, error)| error);
            let error = state.broken.as_ref().or(trouble)?;
            (!error.is_busy()).then(|| error.message.clone())
        };
        member.trouble().or_else(applying)
    }

    /// Whether this process is the applier: then its worker reads the database for each batch.
    pub(crate) fn leads(&self) -> bool {
        self.state.lock().leads
    }

    /// How far rows are applied, without reading the database. Also asks the worker to find out
    /// soon.
    pub(crate) fn progress(&self, time: Duration, since: Instant) -> (Seq, Option<Error>) {
        self.asked.store(true, Ordering::Release);
        self.open.log().ring();
        self.wait_for_progress(Seq::MAX, time, since)
    }

    /// The member of a stream that is at work in this process.
    pub fn member(&self) -> Option<Arc<dyn Member>> {
        self.member.lock().clone()
    }

    /// This member is at work from now on.
    fn begin_member(&self, member: &Arc<dyn Member>) {
        *self.member.lock() = Some(Arc::clone(member));
    }

    /// Ends the member at work, if there is one. The worker starts it again as the database has it.
    pub fn end_member(&self) {
        *self.member.lock() = None;
    }
}

/// The worker of this process for one database. It does not exist before a connection needs it.
pub struct DatabaseWorker {
    open: Arc<OpenLog>,
    worker: Mutex<Option<Worker>>,
}

impl DatabaseWorker {
    /// For the database of this log.
    pub(crate) fn new(open: Arc<OpenLog>) -> DatabaseWorker {
        DatabaseWorker {
            open,
            worker: Mutex::new(None),
        }
    }

    /// The worker, which is started if there is none. It applies rows if no other process does, and
    /// only after a connection that can write has called this.
    ///
    /// # Errors
    /// An error if the thread cannot start.
    pub fn applying(&self, connection: &Connection) -> Result<Arc<Applying>> {
        let may_write = connection.is_readonly(c"main") != Some(true);
        // No code that runs under this mutex waits for a worker that applies.
        let mut worker = self.worker.lock();
        if may_write {
            worker.take_if(|w| w.applying.only_watches());
        }
        if worker.is_none() {
            let spec = ConnectionSpec::of(connection, &self.open.file().path);
            *worker = Some(Worker::start(Applying::new(self.open.clone(), spec))?);
        }
        let applying = worker.as_ref().map(|w| w.applying.clone());
        applying
            .ok_or_else(|| refused("the thread that applies rows ended; open the database again"))
    }

    /// The worker, if there is one.
    pub fn known(&self) -> Option<Arc<Applying>> {
        let worker = self.worker.lock();
        worker.as_ref().map(|w| w.applying.clone())
    }
}

/// The running thread, which ends with this value.
struct Worker {
    applying: Arc<Applying>,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

impl Worker {
    fn start(applying: Applying) -> Result<Worker> {
        // If the handlers cannot be installed, a fork is as safe as beside any other thread that
        // uses SQLite.
        fork_gate::guard_forks();
        let applying = Arc::new(applying);
        let body = applying.clone();
        let thread = std::thread::Builder::new()
            .name("densite-apply".into())
            .spawn(move || body.live())
            .map_err(|e| {
                Error::new(
                    Code::NOMEM,
                    format!("the thread that applies rows cannot start: {e}; end some programs, or raise the limit of threads (ulimit -u)"),
                )
            })?;
        Ok(Worker {
            applying,
            thread: Some(thread),
            process: std::process::id(),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.applying.stop.store(true, Ordering::Release);
        self.applying.tell(|s| s.wanted = true);
        self.applying.hurry.notify_all();
        self.applying.open.log().ring();
        // A forked child does not have this thread.
        if let Some(thread) = self
            .thread
            .take()
            .filter(|_| self.process == std::process::id())
        {
            thread.join().ok();
            self.applying.pruning.end();
        }
    }
}
