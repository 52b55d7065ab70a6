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
    assert!(task.is_done(), "runs here because the queue is full");
    assert_eq!(task.wait(), Some(me));
    drop(release);
    eventually("all queued jobs have run", || {
        ran.load(Ordering::SeqCst) == 7
    });
}

#[test]
fn waiting_for_a_queued_job_runs_it() {
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
fn a_job_that_panics_loses_only_its_own_result() {
    let pool = Some(Pool::new(1));
    let failed: Task<u32> = Task::spawn(&pool, || std::panic::panic_any("on purpose"));
    assert_eq!(failed.wait(), None);
    let plain: Job = Box::new(|| std::panic::panic_any("on purpose"));
    assert!(pool.as_ref().is_some_and(|pool| pool.submit(plain).is_ok()));
    assert_eq!(Task::spawn(&pool, || 5).wait(), Some(5));
    // The same on the calling thread.
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
fn the_pool_of_the_process_is_as_large_as_the_largest_request() {
    assert!(Pool::get(0).is_none());
    let one = Pool::get(1).expect("a place is free");
    let two = Pool::get(3).expect("a place is free");
    assert!(Arc::ptr_eq(&one, &two));
    assert!(one.threads() >= 3);
    assert!(Pool::get(usize::MAX).is_some_and(|pool| pool.threads() == MAX_THREADS));
}

#[test]
fn a_child_never_waits_for_a_lock_of_its_parent() {
    // As after a fork: the parent's places are inherited, and a thread of the parent holds every
    // lock.
    let places = [Place::free(), Place::free()];
    let parent = Pool::at(&places, 100, 1).expect("a place is free");
    let held = lock(&places[0].pool);
    let child = Pool::at(&places, 200, 1).expect("a place is free");
    assert!(!Arc::ptr_eq(&parent, &child));
    assert!(Pool::at(&places, 200, 1).is_some_and(|again| Arc::ptr_eq(&again, &child)));
    assert!(
        Pool::at(&places, 300, 1).is_none(),
        "a deeper process has no pool"
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
