//! A job with a result: the pool runs it, or the thread that waits for it.

use super::{Job, Pool, lock};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

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

/// A job with a result. Dropping it cancels the job unless a thread has begun it.
pub struct Task<T> {
    state: Arc<TaskState<T>>,
}

impl<T: Send + 'static> Task<T> {
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
mod tests {
    use super::*;

    /// The only thread of the pool waits for the second job, which no other thread would run.
    #[test]
    fn who_waits_for_several_jobs_runs_those_that_no_thread_has_begun() {
        let pool = Pool::new(1);
        let (second_ran, second_runs) = std::sync::mpsc::channel();
        let (began, begins) = std::sync::mpsc::channel();
        let first = Task::lazy(move || {
            began.send(()).expect("it is waited for");
            second_runs.recv_timeout(std::time::Duration::from_secs(60))
        });
        assert!(first.offer(&pool));
        begins.recv().expect("the pool runs it");
        let second = Task::lazy(move || {
            second_ran.send(()).expect("it is waited for");
            Ok(())
        });
        assert_eq!(Task::wait_all(vec![first, second]), [Some(Ok(())); 2]);
    }

    #[test]
    fn only_jobs_that_no_thread_has_begun_are_given_to_another() {
        let pool = Pool::new(1);
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (began, begins) = std::sync::mpsc::channel();
        let first = Task::lazy(move || {
            began.send(()).expect("the test waits");
            let _ = wait.recv();
            1
        });
        assert!(first.offer(&pool));
        begins.recv().expect("the pool runs it");
        let tasks = [first, Task::lazy(|| 2)];
        let job = Task::unbegun(&tasks).expect("the second");
        job();
        assert!(tasks[1].is_done() && !tasks[0].is_done());
        assert!(Task::unbegun(&tasks).is_none());
        drop(go);
        assert_eq!(tasks.map(Task::wait), [Some(1), Some(2)]);
    }

    #[test]
    fn a_child_never_waits_for_a_task_of_its_parent() {
        let state = Arc::new(TaskState {
            process: 1,
            stage: Mutex::new(Stage::<u8>::Running),
            done: Condvar::new(),
        });
        // As after a fork: a thread of the parent holds the lock.
        let held = lock(&state.stage);
        let task = Task {
            state: Arc::clone(&state),
        };
        assert!(!task.is_done() && !task.join());
        assert_eq!(task.wait(), None);
        drop(held);
    }
}
