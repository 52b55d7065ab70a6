//! Threads that wait for rows are woken by each append, also of another open log, and do not poll.
#![cfg(target_os = "linux")]

use crate::common::{options, tables};
use densite_disk::RealDir;
use densite_log::{Batch, Log, Op, Txn, Value};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn open(path: &Path) -> Log {
    let dir = Arc::new(RealDir::create(path).expect("made"));
    Log::open(dir, options()).expect("opens")
}

fn append(log: &Log) -> u64 {
    let mut batch = Batch::new(&tables()[0], Op::Insert);
    let row = [Value::Int(1), Value::Blob(b"x")];
    batch.push(&row).expect("push");
    let txn = Txn::of(log.new_txn(), &batch).expect("txn");
    log.append(txn).expect("appends").last
}

/// How often this thread has gone to sleep.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("this thread");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|n| n.trim().parse().ok()).expect("a number")
}

#[test]
fn a_waiting_thread_sleeps_until_rows_come() {
    let tmp = tempfile::tempdir().expect("a directory");
    let path = tmp.path().join("app.db-log");
    let (log, other) = (open(&path), open(&path));
    let last = append(&log);
    let before = sleeps();
    let waited = Duration::from_secs(2);
    assert!(!log.wait_after(last, waited).expect("waits"));
    let slept = sleeps() - before;
    assert!(slept <= 5 * waited.as_secs(), "{slept} times");
    // Whichever comes first: some threads are waiting already.
    std::thread::scope(|scope| {
        for appender in [&other, &log, &other] {
            let last = log.last().expect("last");
            let waits = [&log, &log, &other]
                .map(|log| scope.spawn(move || log.wait_after(last, HOUR).expect("waits")));
            append(appender);
            for wait in waits {
                assert!(wait.join().expect("no panic"));
            }
        }
    });
}

#[test]
fn a_ring_ends_a_wait() {
    let tmp = tempfile::tempdir().expect("a directory");
    let log = open(&tmp.path().join("app.db-log"));
    let rings = log.rings().expect("rings");
    std::thread::scope(|scope| {
        let wait = || log.wait_after_or_ring(0, HOUR, rings).expect("waits");
        let waits = [scope.spawn(wait), scope.spawn(wait)];
        log.ring();
        for wait in waits {
            assert!(!wait.join().expect("no panic"));
        }
        assert!(!wait(), "it was called off before");
    });
}

/// A ring is for the waits that ask for it.
#[test]
fn a_ring_does_not_end_a_wait_for_rows() {
    let tmp = tempfile::tempdir().expect("a directory");
    let log = open(&tmp.path().join("app.db-log"));
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            log.ring();
        });
        let waited = Duration::from_millis(300);
        assert!(
            !log.wait_after(log.last().expect("last"), waited)
                .expect("waits")
        );
        assert!(begun.elapsed() >= waited);
    });
}
