//! The process-wide pool of threads that encode and decode pages.
//!
//! There is one pool per process, shared by every open file. Threads are started when there is work and
//! end by themselves after [`IDLE`] without any, so that a host program is not left with threads for ever.
//! The queue is short on purpose: when it is full, [`Pool::submit`] hands the job back and the calling thread
//! runs it, so the caller is never more than a few jobs ahead of the workers and never slower than without a pool.
//!
//! Invariants:
//! - No lock is held while a job runs, and a job that panics takes nothing with it but its own result.
//! - A process uses only locks that it created itself: after `fork` the child gets a pool of its own, and a
//!   pool or task that it inherited answers without touching its locks, which a thread that no longer exists
//!   may hold. (Hence the locks of `std`, which have no state beyond themselves.)

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a worker waits for work before it ends.
pub const IDLE: Duration = Duration::from_secs(10);

/// Most threads a pool will run, whatever is asked for.
pub const MAX_THREADS: usize = 256;

/// How deep a chain of forks can be in which every process has a pool of its own. Deeper ones work in line.
const FORKS: usize = 64;

/// A piece of work for the pool.
pub type Job = Box<dyn FnOnce() + Send>;

/// Takes a lock. A panic while it was held cannot have left broken data behind: no foreign code runs under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pool of one process, and which process that is (0: the place is free).
struct Place {
    process: AtomicU32,
    pool: Mutex<Option<Arc<Pool>>>,
}

/// One place per process in a chain of forks. A place is claimed without a lock, and its lock is then used by that
/// process alone; a child passes over its parent's place, so what the parent had there is left alone for good.
static PLACES: [Place; FORKS] = [const { Place { process: AtomicU32::new(0), pool: Mutex::new(None) } }; FORKS];

/// A shared set of worker threads. See the module's documentation.
pub struct Pool {
    process: u32,
    threads: AtomicUsize,
    core: Arc<Core>,
}

/// What workers and callers share.
struct Core {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    /// Threads that run now.
    alive: usize,
    /// Those of them that wait for work.
    idle: usize,
    /// For the names of threads.
    started: u64,
    /// How long a worker waits before it ends; only tests change it.
    patience: Option<Duration>,
}

impl Pool {
    /// The pool of this process, able to run at least `threads` threads (at most [`MAX_THREADS`]); `None` when
    /// `threads` is 0, which means that all work is done in line. No thread is started before there is work.
    pub fn get(threads: usize) -> Option<Arc<Pool>> {
        if threads == 0 {
            return None;
        }
        let me = std::process::id();
        for place in &PLACES {
            let owner = match place.process.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => me,
                Err(owner) => owner,
            };
            if owner == me {
                let mut slot = lock(&place.pool);
                let pool = slot.get_or_insert_with(|| Pool::new(threads));
                pool.threads.fetch_max(threads.min(MAX_THREADS), Ordering::Relaxed);
                return Some(Arc::clone(pool));
            }
        }
        None
    }

    /// A pool of its own, for tests and for those who share nothing.
    pub fn new(threads: usize) -> Arc<Pool> {
        Arc::new(Pool {
            process: std::process::id(),
            threads: AtomicUsize::new(threads.clamp(1, MAX_THREADS)),
            core: Arc::new(Core { state: Mutex::new(State::default()), work: Condvar::new() }),
        })
    }

    /// The largest number of threads it runs.
    pub fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }

    /// The number of threads that run now, busy or idle; 0 in a process that inherited this pool by a fork.
    pub fn alive(&self) -> usize {
        if self.process != std::process::id() {
            return 0;
        }
        lock(&self.core.state).alive
    }

    /// Queues a job. It is handed back when the queue is full (2 for each thread, and 2), when no thread can be
    /// started, and in a child of the process that made this pool: then the caller runs it itself.
    pub fn submit(&self, job: Job) -> Result<(), Job> {
        if self.process != std::process::id() {
            return Err(job);
        }
        let threads = self.threads();
        let mut state = lock(&self.core.state);
        if state.queue.len() >= 2 * threads + 2 {
            return Err(job);
        }
        state.queue.push_back(job);
        if state.queue.len() > state.idle && state.alive < threads {
            state.alive += 1;
            state.started += 1;
            let core = Arc::clone(&self.core);
            let name = format!("densite-{}", state.started);
            if std::thread::Builder::new().name(name).spawn(move || core.run()).is_err() {
                state.alive -= 1;
                if state.alive == 0 {
                    // Nobody would ever take it.
                    return match state.queue.pop_back() {
                        Some(job) => Err(job),
                        None => Ok(()),
                    };
                }
            }
        }
        drop(state);
        self.core.work.notify_one();
        Ok(())
    }

    /// Changes how long an idle worker lives. For tests.
    #[cfg(test)]
    fn set_patience(&self, patience: Duration) {
        lock(&self.core.state).patience = Some(patience);
    }
}

impl Core {
    /// The life of a worker.
    fn run(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                // The panic has been reported by the hook; whoever waits for the result learns of it through the task.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = lock(&self.state);
                continue;
            }
            let patience = state.patience.unwrap_or(IDLE);
            let until = Instant::now() + patience;
            state.idle += 1;
            while state.queue.is_empty() {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                state = self.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            state.idle -= 1;
            if state.queue.is_empty() {
                state.alive -= 1;
                return;
            }
        }
    }
}

/// Where a task is in its life.
enum Stage<T> {
    /// Nobody has begun it.
    Queued(Box<dyn FnOnce() -> T + Send>),
    /// A thread is at it.
    Running,
    /// It is done, and this came out.
    Done(T),
    /// It panicked, or its result has been taken.
    Over,
}

/// A task as its owner and the pool see it.
struct TaskState<T> {
    process: u32,
    stage: Mutex<Stage<T>>,
    done: Condvar,
}

impl<T> TaskState<T> {
    /// Runs the job here unless someone has begun it already. Returns whether it ran here.
    fn run(&self) -> bool {
        let mut stage = lock(&self.stage);
        if !matches!(*stage, Stage::Queued(_)) {
            return false;
        }
        let Stage::Queued(job) = std::mem::replace(&mut *stage, Stage::Running) else {
            return false;
        };
        drop(stage);
        let end = match catch_unwind(AssertUnwindSafe(job)) {
            Ok(value) => Stage::Done(value),
            Err(_) => Stage::Over,
        };
        *lock(&self.stage) = end;
        self.done.notify_all();
        true
    }
}

/// A job whose result is wanted. Dropping it cancels the job unless someone has begun it.
pub struct Task<T> {
    state: Arc<TaskState<T>>,
}

impl<T: Send + 'static> Task<T> {
    /// Hands a job to the pool. Without a pool, or when its queue is full, the job runs here and now.
    pub fn spawn(pool: &Option<Arc<Pool>>, job: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        let task = Task::lazy(job);
        if !pool.as_ref().is_some_and(|pool| task.offer(pool)) {
            task.state.run();
        }
        task
    }

    /// A job that nobody has been told of yet: it runs when offered to a pool or when first waited for.
    pub fn lazy(job: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        Task {
            state: Arc::new(TaskState {
                process: std::process::id(),
                stage: Mutex::new(Stage::Queued(Box::new(job))),
                done: Condvar::new(),
            }),
        }
    }

    /// Offers the job to a pool; false when the pool's queue is full.
    pub fn offer(&self, pool: &Pool) -> bool {
        let state = Arc::clone(&self.state);
        pool.submit(Box::new(move || {
            state.run();
        }))
        .is_ok()
    }
}

impl<T> Task<T> {
    /// Whether the job has ended (or panicked). Never blocks for long; false in a child process of the one that made the task.
    pub fn is_done(&self) -> bool {
        self.state.process == std::process::id() && matches!(*lock(&self.state.stage), Stage::Done(_) | Stage::Over)
    }

    /// Returns when the job has ended: runs it here if nobody has begun it, waits for the other thread if someone has.
    /// False when it panicked, or when the thread that was to do it stayed behind in a parent process.
    pub fn join(&self) -> bool {
        if self.state.process != std::process::id() {
            return false;
        }
        self.state.run();
        let mut stage = lock(&self.state.stage);
        while matches!(*stage, Stage::Running) {
            stage = self.state.done.wait(stage).unwrap_or_else(PoisonError::into_inner);
        }
        matches!(*stage, Stage::Done(_))
    }

    /// The result, as soon as it is there: see [`Task::join`]. `None` when the job panicked.
    pub fn wait(self) -> Option<T> {
        if !self.join() {
            return None;
        }
        match std::mem::replace(&mut *lock(&self.state.stage), Stage::Over) {
            Stage::Done(value) => Some(value),
            _ => None,
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if self.state.process != std::process::id() {
            return;
        }
        let mut stage = lock(&self.state.stage);
        if matches!(*stage, Stage::Queued(_)) {
            let job = std::mem::replace(&mut *stage, Stage::Over);
            drop(stage);
            // What the job holds may do anything when dropped, so not under the lock.
            drop(job);
        }
    }
}
