//! Idle processes sleep: the leading one, those that would take over, and subscribers. Each is
//! woken when there is work.
#![cfg(target_os = "linux")]

use crate::common::leader;

use crate::common::{self, Db, database_log, one};
use leader::Leader;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_secs(4);
/// The most wake-ups of a process in a second.
const WAKES: u64 = 5;
/// Share of a core. A release build promises a thousandth on an otherwise idle machine.
const CPU: f64 = 0.004;

/// The work of all threads of a process: how often they went to sleep, and nanoseconds of CPU.
fn done(pid: u32) -> (u64, u64) {
    let (mut sleeps, mut nanos) = (0, 0);
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process") {
        let task = task.expect("a thread").path();
        // A thread may end meanwhile.
        let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sleeps += line.and_then(|n| n.trim().parse().ok()).unwrap_or(0);
        let times = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
        let time = times.split_whitespace().next();
        nanos += time.and_then(|n| n.parse().ok()).unwrap_or(0);
    }
    (sleeps, nanos)
}

/// Runs in another process.
#[test]
fn child() {
    leader::lead("INSERT OR IGNORE INTO t_in SELECT 1 + count(*) FROM t_in");
}

#[test]
fn idle_processes_sleep() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let processes = [
        Leader::start(&db, "idle::child"),
        Leader::start(&db, "idle::child"),
        Leader::start(&db, "idle::child"),
    ];
    // The children read the table. Their indexes are updated for another ten seconds.
    std::thread::sleep(Duration::from_secs(11));
    let before = processes.each_ref().map(|p| done(p.id()));
    std::thread::sleep(TIME);
    for (process, (sleeps, nanos)) in processes.iter().zip(before) {
        let now = done(process.id());
        let (sleeps, cpu) = (
            now.0 - sleeps,
            (now.1 - nanos) as f64 / TIME.as_nanos() as f64,
        );
        println!("{sleeps} wake-ups, {:.3} % of a core", cpu * 100.0);
        assert!(sleeps <= WAKES * TIME.as_secs(), "{sleeps} wake-ups");
        assert!(cpu <= CPU, "{:.3} % of a core", cpu * 100.0);
    }
    processes.into_iter().for_each(Leader::end);
}

/// How often this thread has gone to sleep.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("this thread");
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|n| n.trim().parse().ok()).expect("a number")
}

#[test]
fn an_idle_subscriber_sleeps_and_is_woken_by_another_process() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let leader = Leader::start(&db, "idle::child");
    let con = db.ingest("t", "");
    let database_log = database_log(&con);
    let last = database_log.log().last().expect("a number");
    std::thread::scope(|scope| {
        let subscriber = || {
            let before = sleeps();
            assert!(!database_log.log().wait_after(last, TIME).expect("waits"));
            let slept = sleeps() - before;
            let woken = database_log.log().wait_after(last, Duration::from_secs(60));
            assert!(woken.expect("waits"));
            (slept, Instant::now())
        };
        let subscribers = [scope.spawn(subscriber), scope.spawn(subscriber)];
        std::thread::sleep(TIME + Duration::from_secs(1));
        let other = Leader::start(&db, "idle::child");
        let begun = Instant::now();
        for subscriber in subscribers {
            let (slept, woken) = subscriber.join().expect("no panic");
            println!("{slept} wake-ups");
            assert!(slept <= WAKES * TIME.as_secs(), "{slept} wake-ups");
            assert!(woken < begun + Duration::from_millis(400), "woken late");
        }
        other.end();
    });
    leader.end();
}

/// The takeover is noticed at once, and not by the check that comes every second.
#[test]
fn another_process_takes_over_from_a_killed_applier_at_once() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let mut times = Vec::new();
    for i in 0..4 {
        let leader = Leader::start(&db, "idle::child");
        let con = db.ingest("t", "");
        // Follows for a while.
        std::thread::sleep(Duration::from_millis(400));
        leader.kill();
        let begun = Instant::now();
        con.execute_batch(&format!("INSERT INTO t_in VALUES (1000 + {i})"))
            .expect("inserts");
        common::wait(&con);
        times.push(begun.elapsed());
        assert_eq!(
            one::<i64>(
                &con,
                &format!("SELECT count(*) FROM t WHERE id = 1000 + {i}")
            ),
            1
        );
    }
    times.sort_unstable();
    println!("{times:?}");
    let median = times.get(times.len() / 2).expect("a time");
    assert!(*median < Duration::from_millis(500), "{times:?}");
}
