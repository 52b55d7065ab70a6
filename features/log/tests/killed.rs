//! kill -9: processes that append, commit, roll back, prune and lead are killed at random moments
//! while others continue. Every acknowledged batch is read exactly once and in order. Others are
//! there as a whole or not at all. Rolled-back batches are not there.
//!
//! The processes are this test program with one test each. They report on a pipe what they began
//! and what was acknowledged. `DENSITE_SEED` sets the seed.

use crate::common::{self, options, tables};
use densite_disk::RealDir;
use densite_log::{Batch, Begin, Log, Op, Options, Seq, Txn, Value};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Processes at a time.
const WORKERS: usize = 3;

fn open(path: &Path) -> Log {
    let dir = Arc::new(RealDir::create(path).expect("made"));
    let options = Options {
        background: true,
        segment_bytes: 64 << 10,
        ..options()
    };
    Log::open(dir, options).unwrap_or_else(|e| panic!("open: {e}"))
}

/// A batch of rows (process, number of the batch, rows in it).
fn batch(worker: i64, n: i64, rows: i64) -> Batch {
    let mut batch = Batch::new(&tables()[0], Op::Insert);
    for i in 0..rows {
        let payload = [n, rows, i].map(i64::to_le_bytes).concat();
        batch
            .push(&[Value::Int(worker), Value::Blob(&payload)])
            .expect("push");
    }
    batch
}

/// The body of a process until it is killed. It reports: begin n, then acknowledged n first last,
/// or rolled back n.
#[test]
fn appending_process() {
    let Ok(path) = std::env::var("KILLED_LOG") else {
        return;
    };
    let worker: i64 = std::env::var("KILLED_WORKER")
        .expect("set")
        .parse()
        .expect("a number");
    let mut rng = SmallRng::seed_from_u64(worker as u64);
    let log = open(Path::new(&path));
    let mut told = std::io::stdout();
    let mut tell = |line: String| {
        told.write_all(format!("{line}\n").as_bytes())
            .expect("told");
        told.flush().expect("told");
    };
    let mut lead = None;
    for n in 0.. {
        let rows = rng.random_range(1..40);
        let mut txn = Txn::new(log.new_txn());
        let cut = rng.random_range(0..=rows);
        // Two batches, which must be there both or not at all.
        let mut first = batch(worker, n, rows);
        first.truncate(cut as usize);
        txn.push(&first).expect("push");
        let mut second = Batch::new(&tables()[1], Op::Insert);
        for i in cut..rows {
            let payload = [n, rows, i].map(i64::to_le_bytes).concat();
            second
                .push(&[Value::Int(worker), Value::Blob(&payload)])
                .expect("push");
        }
        txn.push(&second).expect("push");
        tell(format!("+begin {n}"));
        match rng.random_range(0..6) {
            0 => {
                let txn = Arc::new(txn);
                log.prepare(&txn).expect("prepare");
                log.cancel(txn.id()).expect("cancel");
                tell(format!("+cancelled {n}"));
            }
            1 | 2 => {
                let txn = Arc::new(txn);
                let at = log.prepare(&txn).expect("prepare");
                log.commit(txn.id());
                tell(format!("+ack {n} {} {}", at.first, at.last));
            }
            _ => {
                let at = log.append(txn).expect("append");
                tell(format!("+ack {n} {} {}", at.first, at.last));
            }
        }
        if rng.random_range(0..8) == 0 {
            log.prune(u64::MAX).expect("prune");
        }
        if lead.is_none() {
            lead = log.try_lead().expect("lead");
            if lead.is_some() {
                tell("+lead".to_owned());
            }
        }
    }
}

/// The reports of a process until it ended.
#[derive(Debug, Default)]
struct Told {
    begun: i64,
    acknowledged: BTreeMap<i64, (Seq, Seq)>,
    cancelled: Vec<i64>,
    led: bool,
}

struct Worker {
    id: i64,
    child: Child,
    /// Its reports so far: acknowledged batches, and whether it leads.
    said: Arc<(AtomicU64, AtomicBool)>,
    listener: JoinHandle<Told>,
}

fn start(path: &Path, id: i64) -> Worker {
    let mut child = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "killed::appending_process", "--nocapture"])
        .env("KILLED_LOG", path)
        .env("KILLED_WORKER", id.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    let said = Arc::<(AtomicU64, AtomicBool)>::default();
    let saying = Arc::clone(&said);
    let listener = std::thread::spawn(move || {
        let mut told = Told {
            begun: -1,
            ..Told::default()
        };
        for line in out.lines().map_while(Result::ok) {
            // Lines that the kill cut short, and the test program's own lines, are ignored.
            let Some((_, line)) = line.split_once('+') else {
                continue;
            };
            let words: Vec<&str> = line.split(' ').collect();
            let number = |i: usize| words.get(i).and_then(|w| w.parse::<i64>().ok());
            match (words.first().copied(), number(1), number(2), number(3)) {
                (Some("begin"), Some(n), ..) => told.begun = n,
                (Some("ack"), Some(n), Some(first), Some(last)) => {
                    told.acknowledged.insert(n, (first as Seq, last as Seq));
                    saying.0.fetch_add(1, Ordering::Relaxed);
                }
                (Some("cancelled"), Some(n), ..) => told.cancelled.push(n),
                (Some("lead"), ..) => {
                    told.led = true;
                    saying.1.store(true, Ordering::Relaxed);
                }
                _ => {}
            }
        }
        told
    });
    Worker {
        id,
        child,
        said,
        listener,
    }
}

/// The number of batches that must be acknowledged in a round.
const ENOUGH: u64 = 21;

/// Waits until the processes have done something, because a slow machine could kill them before
/// they begin. `led`: a process must have led. `acknowledged`: batches of the processes that were
/// killed.
fn await_work(workers: &[Worker], led: bool, acknowledged: usize) {
    let until = Instant::now() + Duration::from_secs(120);
    let is_done = || {
        let said = |w: &Worker| w.said.0.load(Ordering::Relaxed);
        let all = acknowledged as u64 + workers.iter().map(said).sum::<u64>();
        all >= ENOUGH && (led || workers.iter().any(|w| w.said.1.load(Ordering::Relaxed)))
    };
    while !is_done() {
        assert!(Instant::now() < until, "they do nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The rows that were read: for each process and batch, their contents and numbers.
type Read = BTreeMap<i64, BTreeMap<i64, Vec<(Seq, i64, i64)>>>;

fn read_on(log: &Log, after: &mut Seq, read: &mut Read) {
    let mut reader = log.read_after(*after).expect("reader");
    while let Some(record) = reader.next().expect("next") {
        assert!(record.first > *after, "one order");
        *after = record.last();
        for i in record.skip..record.rows.len() {
            let (Some(Value::Int(worker)), Some(Value::Blob(payload))) =
                (record.rows.get(i, 0), record.rows.get(i, 1))
            else {
                panic!("not what was written");
            };
            let number = |at: usize| i64::from_le_bytes(payload[at..at + 8].try_into().expect("8"));
            let batches = read.entry(worker).or_default();
            let (n, seq) = (number(0), record.first + i as Seq);
            if let Some((newest, _)) = batches.last_key_value() {
                assert!(n >= *newest, "process {worker}: batch {n} behind {newest}");
            }
            batches
                .entry(n)
                .or_default()
                .push((seq, number(8), number(16)));
        }
    }
}

fn check(worker: i64, told: &Told, read: &Read, seed: u64) {
    let what = format!("seed {seed}, process {worker}");
    let none = BTreeMap::new();
    let batches = read.get(&worker).unwrap_or(&none);
    for (n, rows) in batches {
        let total = rows[0].1;
        let expected: Vec<(Seq, i64, i64)> = (0..total)
            .map(|i| (rows[0].0 + i as Seq, total, i))
            .collect();
        assert_eq!(
            *rows, expected,
            "{what}: batch {n} is whole, once and in order"
        );
        assert!(!told.cancelled.contains(n), "{what}: {n} was rolled back");
        assert!(*n <= told.begun, "{what}: {n} was not begun");
        if !told.acknowledged.contains_key(n) {
            // This was the batch in progress when the process was killed.
            assert_eq!(*n, told.begun, "{what}: {n} was not acknowledged");
        }
    }
    for (n, (first, last)) in &told.acknowledged {
        let rows = batches
            .get(n)
            .unwrap_or_else(|| panic!("{what}: batch {n} was acknowledged and is lost"));
        let there = (rows[0].0, rows[rows.len() - 1].0);
        assert_eq!(there, (*first, *last), "{what}: batch {n}");
    }
}

/// Kills processes for some rounds. In every second round, this process keeps the log open. Returns
/// the number of kills.
fn kill_rounds(seed: u64, rounds: u64) -> u64 {
    let tmp = tempfile::tempdir().expect("a directory");
    let path = tmp.path().join("app.db-log");
    let mut rng = SmallRng::seed_from_u64(seed);
    let (mut after, mut read, mut told) = (0, Read::new(), BTreeMap::new());
    open(&path)
        .subscribe("all", Begin::Start)
        .expect("subscribe");
    let (mut next, mut acknowledged) = (0, 0);
    for round in 0..rounds {
        let kept = (round % 2 == 1).then(|| open(&path));
        let mut workers = Vec::new();
        let mut led = false;
        for _ in 0..WORKERS * 2 {
            if workers.len() == WORKERS {
                std::thread::sleep(Duration::from_millis(rng.random_range(5..60)));
                let victim: Worker = workers.swap_remove(rng.random_range(0..workers.len()));
                led |= finish(victim, &mut told);
            }
            workers.push(start(&path, next));
            next += 1;
        }
        await_work(
            &workers,
            led,
            told.values().map(|t: &Told| t.acknowledged.len()).sum(),
        );
        std::thread::sleep(Duration::from_millis(rng.random_range(5..120)));
        // The remaining ones are killed as closely together as possible: no process is left to take
        // over.
        for worker in &mut workers {
            worker.child.kill().expect("killed");
        }
        for worker in workers {
            led |= finish(worker, &mut told);
        }
        let log = kept.unwrap_or_else(|| open(&path));
        assert!(led, "seed {seed}: a process led");
        assert!(
            log.try_lead().expect("lead").is_some(),
            "seed {seed}: no process leads now"
        );
        read_on(&log, &mut after, &mut read);
        log.ack("all", after).expect("ack");
        let status = log.status().expect("status");
        assert!(status.last >= after);
        for (worker, told) in std::mem::take(&mut told) {
            check(worker, &told, &read, seed);
            acknowledged += told.acknowledged.len();
        }
        drop(log);
        let report = densite_log::check(Arc::new(RealDir::new(&path)), common::ID).expect("check");
        assert_eq!(report.problems, [], "seed {seed}");
    }
    assert!(
        acknowledged as u64 >= ENOUGH * rounds,
        "only {acknowledged}"
    );
    let log = open(&path);
    // The log can end with rolled-back rows, or with rows of an unfinished group that become
    // visible when it is opened again.
    read_on(&log, &mut after, &mut read);
    log.ack("all", log.last().expect("last")).expect("ack");
    log.prune(u64::MAX).expect("prune");
    assert_eq!(
        log.status().expect("status").segments,
        1,
        "all is acknowledged"
    );
    // Every started process was killed.
    next as u64
}

/// Kills a process. Returns whether it led.
fn finish(mut worker: Worker, told: &mut BTreeMap<i64, Told>) -> bool {
    worker.child.kill().expect("killed");
    worker.child.wait().expect("ended");
    let said = worker.listener.join().expect("listened");
    let led = said.led;
    told.insert(worker.id, said);
    led
}

#[test]
fn killed_processes_lose_nothing_that_was_acknowledged() {
    kill_rounds(densite_testing::seed(1), 6);
}

/// A part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_killed_processes() {
    densite_testing::long_run("kills", |seed| kill_rounds(seed, 20));
}
