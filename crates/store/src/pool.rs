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
            Pool::at(&PLACES, std::process::id(), threads)
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
            process: std::process::id(),
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
        self.state.process == std::process::id()
            && matches!(*lock(&self.state.stage), Stage::Done(_) | Stage::Over)
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
            stage = self
                .state
                .done
                .wait(stage)
                .unwrap_or_else(PoisonError::into_inner);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc;

    /// Keeps every thread of a pool busy until the sender is dropped.
    fn occupy(pool: &Arc<Pool>) -> mpsc::Sender<()> {
        let (send, receive) = mpsc::channel::<()>();
        let receive = Arc::new(Mutex::new(receive));
        let busy = Arc::new(AtomicU64::new(0));
        for _ in 0..pool.threads() {
            let (receive, busy) = (Arc::clone(&receive), Arc::clone(&busy));
            let job: Job = Box::new(move || {
                busy.fetch_add(1, Ordering::SeqCst);
                let _ = lock(&receive).recv();
            });
            assert!(pool.submit(job).is_ok());
        }
        while busy.load(Ordering::SeqCst) < pool.threads() as u64 {
            std::thread::yield_now();
        }
        send
    }

    fn eventually(what: &str, is: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(20);
        while !is() {
            assert!(Instant::now() < until, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn every_result_comes_back_in_its_task() {
        for pool in [None, Some(Pool::new(1)), Some(Pool::new(3))] {
            let tasks: Vec<Task<u64>> = (0..2000u64)
                .map(|n| Task::spawn(&pool, move || n * n))
                .collect();
            for (n, task) in (0u64..).zip(tasks) {
                assert_eq!(task.wait(), Some(n * n));
            }
        }
    }

    #[test]
    fn a_full_queue_hands_the_job_back_and_the_caller_helps() {
        let pool = Pool::new(2);
        let release = occupy(&pool);
        let ran = Arc::new(AtomicU64::new(0));
        let job = || -> Job {
            let ran = Arc::clone(&ran);
            Box::new(move || {
                ran.fetch_add(1, Ordering::SeqCst);
            })
        };
        for _ in 0..2 * 2 + 2 {
            assert!(pool.submit(job()).is_ok());
        }
        let back = pool.submit(job()).expect_err("the queue is full");
        assert_eq!(ran.load(Ordering::SeqCst), 0);
        back();
        assert_eq!(ran.load(Ordering::SeqCst), 1);
        let me = std::thread::current().id();
        let task = Task::spawn(&Some(Arc::clone(&pool)), move || {
            std::thread::current().id()
        });
        assert!(task.is_done(), "run here, for the queue is full");
        assert_eq!(task.wait(), Some(me));
        drop(release);
        eventually("the queue is worked off", || {
            ran.load(Ordering::SeqCst) == 7
        });
    }

    #[test]
    fn waiting_for_a_job_that_nobody_has_begun_does_it() {
        let pool = Pool::new(1);
        let release = occupy(&pool);
        let task = Task::spawn(&Some(Arc::clone(&pool)), || std::thread::current().id());
        assert!(!task.is_done());
        assert_eq!(
            task.wait(),
            Some(std::thread::current().id()),
            "no deadlock, and no thread needed"
        );
        drop(release);
    }

    #[test]
    fn a_job_that_panics_takes_nothing_with_it() {
        let pool = Some(Pool::new(1));
        let failed: Task<u32> = Task::spawn(&pool, || std::panic::panic_any("on purpose"));
        assert_eq!(failed.wait(), None);
        let plain: Job = Box::new(|| std::panic::panic_any("on purpose"));
        assert!(pool.as_ref().is_some_and(|pool| pool.submit(plain).is_ok()));
        assert_eq!(Task::spawn(&pool, || 5).wait(), Some(5));
        // In line as well.
        let failed: Task<u32> = Task::spawn(&None, || std::panic::panic_any("on purpose"));
        assert!(failed.is_done());
        assert!(!failed.join());
        assert_eq!(failed.wait(), None);
    }

    #[test]
    fn a_dropped_task_is_cancelled_unless_begun() {
        let pool = Pool::new(1);
        let release = occupy(&pool);
        let held = Arc::new(());
        let inside = Arc::clone(&held);
        let task = Task::spawn(&Some(Arc::clone(&pool)), move || drop(inside));
        assert_eq!(Arc::strong_count(&held), 2);
        drop(task);
        assert_eq!(
            Arc::strong_count(&held),
            1,
            "what the job held is freed at once"
        );
        drop(release);
        assert_eq!(
            Task::spawn(&Some(pool), || 1).wait(),
            Some(1),
            "the worker passes over it"
        );
    }

    #[test]
    fn idle_threads_end_and_come_back() {
        let pool = Pool::new(3);
        assert_eq!(pool.alive(), 0, "no thread before there is work");
        pool.set_patience(Duration::from_millis(20));
        for _ in 0..3 {
            let release = occupy(&pool);
            assert_eq!(pool.alive(), 3);
            drop(release);
            eventually("idle threads end", || pool.alive() == 0);
        }
    }

    #[test]
    fn threads_have_names() {
        let name = Task::lazy(|| std::thread::current().name().map(str::to_owned));
        let pool = Pool::new(1);
        assert!(name.offer(&pool));
        eventually("done", || name.is_done());
        assert!(
            name.wait()
                .flatten()
                .is_some_and(|name| name.starts_with("densite-"))
        );
    }

    #[test]
    fn one_pool_for_the_process_as_large_as_the_largest_wish() {
        assert!(Pool::get(0).is_none());
        let one = Pool::get(1).expect("a place is free");
        let two = Pool::get(3).expect("a place is free");
        assert!(Arc::ptr_eq(&one, &two));
        assert!(one.threads() >= 3);
        assert!(Pool::get(usize::MAX).is_some_and(|pool| pool.threads() == MAX_THREADS));
    }

    #[test]
    fn a_child_never_waits_for_a_lock_of_its_parent() {
        // As after a fork: the parent's places are inherited, and a thread of the parent holds every lock.
        let places = [Place::free(), Place::free()];
        let parent = Pool::at(&places, 100, 1).expect("a place is free");
        let held = lock(&places[0].pool);
        let child = Pool::at(&places, 200, 1).expect("a place is free");
        assert!(!Arc::ptr_eq(&parent, &child));
        assert!(Pool::at(&places, 200, 1).is_some_and(|again| Arc::ptr_eq(&again, &child)));
        assert!(
            Pool::at(&places, 300, 1).is_none(),
            "too deep a chain of forks works in line"
        );
        drop(held);

        let inherited = Pool {
            process: 1,
            threads: AtomicUsize::new(1),
            core: Arc::clone(&child.core),
        };
        let held = lock(&inherited.core.state);
        assert!(inherited.submit(Box::new(|| ())).is_err());
        assert_eq!(inherited.alive(), 0);
        drop(held);

        let state = Arc::new(TaskState {
            process: 1,
            stage: Mutex::new(Stage::<u8>::Running),
            done: Condvar::new(),
        });
        let held = lock(&state.stage);
        let task = Task {
            state: Arc::clone(&state),
        };
        assert!(!task.is_done() && !task.join());
        assert_eq!(task.wait(), None);
        drop(held);
    }

    #[test]
    fn many_callers_at_once() {
        let pool = Some(Pool::new(2));
        std::thread::scope(|scope| {
            for t in 0..6u64 {
                let pool = &pool;
                scope.spawn(move || {
                    for n in 0..500 {
                        let tasks: Vec<_> = (0..n % 7)
                            .map(|i| Task::spawn(pool, move || t * i))
                            .collect();
                        for (i, task) in (0..).zip(tasks) {
                            assert_eq!(task.wait(), Some(t * i));
                        }
                    }
                });
            }
        });
    }
}
