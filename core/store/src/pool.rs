//! The process-wide pool of threads that encode and decode pages; a [`Task`] is a job with a
//! result: the pool runs it, or the thread that waits for it.
//!
//! Every open file uses the one pool of its process. Threads start when there is work and end after
//! [`IDLE`] without work, so that a host program does not keep idle threads. The queue is short: if
//! it is full, [`Pool::submit`] hands the job back and the calling thread runs it. So the caller is
//! at most a few jobs ahead of the workers, and never slower than without a pool.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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

/// The state of a task.
enum Stage<T> {
    /// No thread has begun it.
    Queued(Box<dyn FnOnce() -> T + Send>),
    /// A thread runs it.
    Running,
    /// It has ended with this result.
    Done(T),
    /// It panicked, was cancelled, or its result was taken.
    Over,
}

/// The state that the owner of a task and the pool share.
struct TaskState<T> {
    process: u32,
    stage: Mutex<Stage<T>>,
    done: Condvar,
}

/// A job with a result. Dropping it cancels the job unless a thread has begun it.
pub struct Task<T> {
    state: Arc<TaskState<T>>,
}

impl<T: Send + 'static> Task<T> {
    /// The results of these jobs, in order; `None` for one that panicked. This thread runs those
    /// that no other has begun, instead of waiting for each in turn.
    pub fn wait_all(tasks: Vec<Task<T>>) -> Vec<Option<T>> {
        for task in &tasks {
            if task.state.process == process::id() {
                task.state.run();
            }
        }
        tasks.into_iter().map(Task::wait).collect()
    }

    /// Hands a job to the pool. Without a pool, or if its queue is full, the job runs at once on
    /// this thread.
    pub fn spawn(pool: &Option<Arc<Pool>>, job: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        let task = Task::lazy(job);
        if !pool.as_ref().is_some_and(|pool| task.offer(pool)) {
            task.state.run();
        }
        task
    }

    /// A job that is not queued: it runs when a pool gets it or when it is first waited for.
    pub fn lazy(job: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        Task {
            state: Arc::new(TaskState {
                process: process::id(),
                stage: Mutex::new(Stage::Queued(Box::new(job))),
                done: Condvar::new(),
            }),
        }
    }

    /// Hands jobs to a pool as one list for each of its threads, as far as its queue has room. Each
    /// thread takes the first job that none has begun.
    pub fn offer_all<'a>(tasks: impl Iterator<Item = &'a Task<T>>, pool: &Pool) {
        let states: Arc<[Arc<TaskState<T>>]> = tasks
            .filter(|task| task.is_queued())
            .map(|task| Arc::clone(&task.state))
            .collect();
        for _ in 0..states.len().min(pool.threads()) {
            let states = Arc::clone(&states);
            let job = move || {
                for state in &*states {
                    state.run();
                }
            };
            if pool.submit(Box::new(job)).is_err() {
                return;
            }
        }
    }

    /// Queues the job in a pool. Returns false if the pool does not take it.
    pub fn offer(&self, pool: &Pool) -> bool {
        pool.submit(self.runner()).is_ok()
    }

    /// Runs the job on the thread that calls this, unless a thread has begun it by then.
    fn runner(&self) -> Job {
        let state = Arc::clone(&self.state);
        Box::new(move || {
            state.run();
        })
    }

    /// The first of these jobs that no thread has begun, to be run on this thread.
    pub fn unbegun(tasks: &[Task<T>]) -> Option<Job> {
        let task = tasks.iter().find(|task| task.is_queued())?;
        Some(task.runner())
    }
}

impl<T> TaskState<T> {
    /// Runs the job here unless a thread has begun it. Returns whether it ran here.
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

impl<T> Task<T> {
    /// Runs the job here unless a thread has begun it. Returns whether it ran here.
    pub fn run(&self) -> bool {
        self.state.process == process::id() && self.state.run()
    }

    /// Whether no thread has begun the job. False in a child of the process that made the task.
    fn is_queued(&self) -> bool {
        self.state.process == process::id() && matches!(*lock(&self.state.stage), Stage::Queued(_))
    }

    /// Whether the job has ended or panicked. Does not wait for it. False in a child of the process
    /// that made the task.
    pub fn is_done(&self) -> bool {
        self.state.process == process::id()
            && matches!(*lock(&self.state.stage), Stage::Done(_) | Stage::Over)
    }

    /// Waits until the job has ended, and runs it here if no thread has begun it. Returns false if
    /// it panicked, or if the process inherited the task by a fork.
    pub fn join(&self) -> bool {
        if self.state.process != process::id() {
            return false;
        }
        self.state.run();
        let mut stage = lock(&self.state.stage);
        while matches!(*stage, Stage::Running) {
            stage = self
                .state
                .done
                .wait(stage)
                .unwrap_or_else(PoisonError::into_inner);
        }
        matches!(*stage, Stage::Done(_))
    }

    /// Waits for the result: see [`Task::join`]. `None` if the job panicked.
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
        if self.state.process != process::id() {
            return;
        }
        let mut stage = lock(&self.state.stage);
        if matches!(*stage, Stage::Queued(_)) {
            let job = std::mem::replace(&mut *stage, Stage::Over);
            drop(stage);
            // Dropping the job can run any code, so it must not happen under the lock.
            drop(job);
        }
    }
}

#[cfg(test)]
mod tests;
