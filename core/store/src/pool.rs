//! The process-wide pool of threads that encode and decode pages; a [`Task`] is a job with a
//! result.
//!
//! Every open file uses the one pool of its process. Threads start when there is work and end after
//! [`IDLE`] without work, so that a host program does not keep idle threads. The queue is short: if
//! it is full, [`Pool::submit`] hands the job back and the calling thread runs it. So the caller is
//! at most a few jobs ahead of the workers, and never slower than without a pool.

mod task;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use task::Task;

/// How long a worker waits for work before it ends.
pub const IDLE: Duration = Duration::from_secs(10);

/// The most threads of a pool, whatever is requested.
pub const MAX_THREADS: usize = 256;

/// How deep a chain of forks can be with a pool in every process. Deeper processes run all work on
/// the calling thread.
const FORKS: usize = 64;

/// A piece of work for the pool.
pub type Job = Box<dyn FnOnce() + Send>;

/// Takes a lock. Ignoring poison is safe: only code of this module runs under these locks, and a
/// panic cannot leave broken data behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pool of one process, and the id of that process (0: the place is free).
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

/// One place per process in a chain of forks. A process claims a place without a lock, and only
/// that process uses the place's lock. A child skips its parent's place, so nothing there is ever
/// used in the child.
static PLACES: [Place; FORKS] = [const { Place::free() }; FORKS];

/// A shared set of worker threads.
///
/// Invariants:
/// - No lock is held while a job runs, and a job that panics loses only its own result.
/// - A process uses only locks that it created itself. After `fork` the child gets its own pool. An
///   inherited pool or task answers without its locks, because a thread that no longer exists can
///   hold them. (Therefore the locks are those of `std`, which have no state beyond themselves.)
pub struct Pool {
    process: u32,
    threads: AtomicUsize,
    core: Arc<Core>,
}

/// The state that workers and callers share.
struct Core {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    /// Threads that exist now.
    alive: usize,
    /// Threads that wait for work.
    idle: usize,
    /// A counter for the names of threads.
    started: u64,
    /// How long a worker waits before it ends. Only tests change it.
    patience: Option<Duration>,
}

impl Pool {
    /// The pool of this process, which can run at least `threads` threads (at most
    /// [`MAX_THREADS`]). `None` if `threads` is 0: all work then runs on the calling thread. No
    /// thread starts before there is work.
    pub fn get(threads: usize) -> Option<Arc<Pool>> {
        if threads == 0 {
            None
        } else {
            Pool::at(&PLACES, process::id(), threads)
        }
    }

    /// The pool of process `me`, at the first place that is free or belongs to it.
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

    /// A separate pool, for tests and for callers that do not share one.
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

    /// The most threads that it runs.
    pub fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }

    /// The number of threads that exist now, busy or idle; 0 in a process that inherited this pool
    /// by a fork.
    pub fn alive(&self) -> usize {
        if self.process != process::id() {
            return 0;
        }
        lock(&self.core.state).alive
    }

    /// Queues a job. Hands it back if the queue is full (2 for each thread, and 2) or no thread can
    /// be started, and in a child of the process that made this pool. The caller then runs it
    /// itself.
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
                    // No thread would ever run it.
                    return match state.queue.pop_back() {
                        Some(job) => Err(job),
                        None => Ok(()),
                    };
                }
            }
        }
        // A notification costs a system call even if no thread waits. A busy thread checks the
        // queue by itself.
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
    /// The main loop of a worker.
    fn run(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                // The hook has reported the panic. The owner of the task learns of it when it waits
                // for the result.
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
