//! The process-wide pool of threads that encode and decode pages; what it is asked for is a [`Task`].
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

mod task;

use densite_disk::process;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use task::Task;

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

impl Place {
    const fn free() -> Place {
        Place {
            process: AtomicU32::new(0),
            pool: Mutex::new(None),
        }
    }
}

/// One place per process in a chain of forks. A place is claimed without a lock, and its lock is then used by that
/// process alone; a child passes over its parent's place, so what the parent had there is left alone for good.
static PLACES: [Place; FORKS] = [const { Place::free() }; FORKS];

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
            None
        } else {
            Pool::at(&PLACES, process::id(), threads)
        }
    }

    /// The pool of process `me`, whose place is the first that is free or its own.
    fn at(places: &[Place], me: u32, threads: usize) -> Option<Arc<Pool>> {
        for place in places {
            let owner =
                match place
                    .process
                    .compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire)
                {
                    Ok(_) => me,
                    Err(owner) => owner,
                };
            if owner == me {
                let mut slot = lock(&place.pool);
                let pool = slot.get_or_insert_with(|| Pool::new(threads));
                pool.threads
                    .fetch_max(threads.min(MAX_THREADS), Ordering::Relaxed);
                return Some(Arc::clone(pool));
            }
        }
        None
    }

    /// A pool of its own, for tests and for those who share nothing.
    pub fn new(threads: usize) -> Arc<Pool> {
        Arc::new(Pool {
            process: process::id(),
            threads: AtomicUsize::new(threads.clamp(1, MAX_THREADS)),
            core: Arc::new(Core {
                state: Mutex::new(State::default()),
                work: Condvar::new(),
            }),
        })
    }

    /// The largest number of threads it runs.
    pub fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }

    /// The number of threads that run now, busy or idle; 0 in a process that inherited this pool by a fork.
    pub fn alive(&self) -> usize {
        if self.process != process::id() {
            return 0;
        }
        lock(&self.core.state).alive
    }

    /// Queues a job. It is handed back when the queue is full (2 for each thread, and 2), when no thread can be
    /// started, and in a child of the process that made this pool: then the caller runs it itself.
    pub fn submit(&self, job: Job) -> Result<(), Job> {
        if self.process != process::id() {
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
            if std::thread::Builder::new()
                .name(name)
                .spawn(move || core.run())
                .is_err()
            {
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
        // Waking costs a call of the system even where nobody waits; a thread that is busy looks at the queue by itself.
        let waits = state.idle > 0;
        drop(state);
        if waits {
            self.core.work.notify_one();
        }
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
                state = self
                    .work
                    .wait_timeout(state, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            state.idle -= 1;
            if state.queue.is_empty() {
                state.alive -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
