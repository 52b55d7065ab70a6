//! Rule S15 for the log. A forked child cannot use, change or unlock the log of its parent. It gets
//! an error at once, and can open the log itself. A living child holds no lock that its parent has
//! released.
//!
//! The forking process is this test program with a single test, so that nothing else runs in it.

use crate::common::{options, tables};
use densite_disk::{Dir, LockKind, OpenMode, RealDir};
use densite_log::{Batch, Begin, Error, Log, Op, Options, Txn, Value};
use densite_testing::Stop;
use std::cell::Cell;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(20);

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn kill(pid: i32, signal: i32) -> i32;
    fn _exit(status: i32) -> !;
}

/// Runs `child` in a forked child. Returns its process id.
fn in_child(child: impl FnOnce()) -> i32 {
    // SAFETY: the child runs only the following code and leaves by _exit.
    let pid = unsafe { fork() };
    assert!(pid >= 0, "no fork");
    if pid == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: it ends the child at once.
        unsafe { _exit(i32::from(done.is_err())) };
    }
    pid
}

fn await_end(pid: i32) {
    let (begin, mut status) = (Instant::now(), -1);
    // SAFETY: `status` is a valid place for the status; 1 is WNOHANG.
    while unsafe { waitpid(pid, &raw mut status, 1) } == 0 {
        assert!(begin.elapsed() < WAIT, "the child hangs");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status, 0, "the child failed");
}

fn open(path: &str) -> Log {
    let dir = Arc::new(RealDir::create(path).expect("made"));
    let options = Options {
        background: true,
        ..options()
    };
    Log::open(dir, options).unwrap_or_else(|e| panic!("open: {e}"))
}

fn txn(log: &Log, id: i64) -> Txn {
    let mut batch = Batch::new(&tables()[0], Op::Insert);
    batch
        .push(&[Value::Int(id), Value::Blob(b"x")])
        .expect("push");
    Txn::of(log.new_txn(), &batch).expect("txn")
}

fn is_forked<T>(answer: densite_log::Result<T>) -> bool {
    matches!(answer, Err(Error::Forked))
}

/// Calls that a child must not make on a log of its parent.
fn is_refused(log: &Log, prepared: &Arc<Txn>) {
    assert!(is_forked(log.append(txn(log, -1))));
    assert!(is_forked(log.prepare(prepared)));
    assert!(is_forked(log.cancel(prepared.id())));
    log.commit(prepared.id());
    assert!(is_forked(log.last()));
    assert!(is_forked(log.wait_after(0, Duration::from_secs(1))));
    assert!(is_forked(log.read_after(0).map(drop)));
    assert!(is_forked(log.try_lead().map(drop)));
    assert!(is_forked(log.prune(u64::MAX)));
    assert!(is_forked(log.ack("all", 1)));
    assert!(is_forked(log.subscribe("child", Begin::Now)));
    assert!(is_forked(log.set_config(|_| ())));
    assert!(is_forked(log.status()));
    assert!(is_forked(log.prepare_free_segment()));
}

/// Forks while threads append and change settings, so that locks and mutexes are in any state.
/// Every second child lives on, and must block no process.
fn children_of_a_busy_process(path: &str) {
    let log = open(path);
    log.subscribe("all", Begin::Start).expect("subscribe");
    let prepared = Arc::new(txn(&log, -2));
    let (stop, turns) = (Stop::new(), AtomicU64::new(0));
    let mut alive = Vec::new();
    let (rows, own) = std::thread::scope(|s| {
        let stopping = stop.at_end();
        let appender = s.spawn(|| {
            let mut n = 0i64;
            while !stop.is_set() {
                log.append(txn(&log, n)).expect("append");
                n += 1;
            }
            n
        });
        s.spawn(|| {
            while !stop.is_set() {
                log.set_config(|c| c.retain_bytes += 1).expect("config");
                log.prune(u64::MAX).expect("prune");
                turns.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut own = 0;
        for n in 0..20 {
            let before = turns.load(Ordering::Relaxed);
            if n % 2 == 0 {
                // It is killed at the end of the test.
                alive.push(in_child(|| std::thread::sleep(WAIT + WAIT / 2)));
            } else {
                own += 1;
                await_end(in_child(|| {
                    is_refused(&log, &prepared);
                    let own = open(path);
                    own.append(txn(&own, -1)).expect("append");
                }));
            }
            let begin = Instant::now();
            while turns.load(Ordering::Relaxed) < before + 2 {
                assert!(begin.elapsed() < WAIT, "fork {n} took a lock with it");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        drop(stopping);
        (appender.join().expect("appender") as u64, own)
    });
    log.unsubscribe("all").expect("unsubscribe");
    assert_eq!(
        log.last().expect("last"),
        rows + own,
        "all that was appended, and no more"
    );
    drop(log);
    let slot = RealDir::new(path).open("writer-0", OpenMode::Write);
    let slot = slot.expect("the slot");
    assert!(
        slot.try_lock(LockKind::Exclusive).expect("lock"),
        "the log is closed, so its slot is free"
    );
    drop(slot);
    for pid in alive {
        // SAFETY: `pid` is a child of this process, which was not waited for yet.
        unsafe { kill(pid, 9) };
        // SAFETY: as above; a null pointer means that the status is not wanted.
        unsafe { waitpid(pid, std::ptr::null_mut(), 0) };
    }
}

/// A child drops everything that it inherited: the parent's locks stay.
fn a_child_drops_everything(path: &str) {
    let log = open(path);
    let prepared = Arc::new(txn(&log, -2));
    let before = log.last().expect("last");
    log.prepare(&prepared).expect("prepare");
    let reader = log.read_after(before).expect("reader");
    let lead = log.try_lead().expect("lead").expect("free");
    let all = Cell::new(Some((log, reader, lead)));
    await_end(in_child(|| {
        let (log, mut reader, lead) = all.take().expect("there");
        is_refused(&log, &prepared);
        assert!(is_forked(reader.next()));
        drop((log, reader, lead));
    }));
    let other = open(path);
    assert_eq!(other.last().expect("last"), before, "still prepared");
    assert!(other.try_lead().expect("lead").is_none(), "still led");
    let (log, mut reader, lead) = all.take().expect("there");
    log.cancel(prepared.id()).expect("cancel");
    let at = log.append(txn(&log, 7)).expect("append");
    let record = reader.next().expect("next").expect("a record");
    assert_eq!((record.first, record.last()), (at.first, at.last));
    drop(lead);
    assert!(other.try_lead().expect("lead").is_some());
}

#[test]
fn forking_process() {
    if let Ok(path) = std::env::var("FORK_LOG") {
        children_of_a_busy_process(&path);
        a_child_drops_everything(&path);
    }
}

#[test]
fn a_child_cannot_use_the_log_of_its_parent_and_does_not_disturb_it() {
    let tmp = tempfile::tempdir().expect("a directory");
    let out = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "fork::forking_process", "--nocapture"])
        .env("FORK_LOG", tmp.path().join("app.db-log"))
        .output()
        .expect("runs");
    let told = String::from_utf8_lossy(&out.stdout).into_owned();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{told}{error}");
}
