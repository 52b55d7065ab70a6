//! A process that has the log open forks children and is killed, and the children live on. None of
//! its locks stays: other processes append, apply and prune at once. Its prepared transactions are
//! committed.
//!
//! The forking process is this test program with a single test, so that nothing else runs in it.

use crate::common::{options, tables};
use densite_disk::RealDir;
use densite_log::{Batch, Begin, Log, Op, Options, Txn, Value};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Much longer than anything here takes.
const WAIT: Duration = Duration::from_secs(60);
const CHILDREN: usize = 20;

unsafe extern "C" {
    fn fork() -> i32;
    fn kill(pid: i32, signal: i32) -> i32;
    fn pause() -> i32;
    fn getpid() -> i32;
}

fn open(path: &Path) -> Log {
    let dir = Arc::new(RealDir::create(path).expect("made"));
    let options = Options {
        background: true,
        segment_bytes: 64 << 10,
        ..options()
    };
    Log::open(dir, options).unwrap_or_else(|e| panic!("open: {e}"))
}

fn txn(log: &Log, id: i64, bytes: usize) -> Txn {
    // Bytes that do not compress.
    let mut state = 1u64;
    let noise: Vec<u8> = (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let mut batch = Batch::new(&tables()[0], Op::Insert);
    batch
        .push(&[Value::Int(id), Value::Blob(&noise)])
        .expect("push");
    Txn::of(log.new_txn(), &batch).expect("txn")
}

/// Forks while other threads take all kinds of locks, reports the ids of its children, and is
/// killed.
#[test]
fn forking_process() {
    let Some(path) = std::env::var_os("ORPHAN_LOG") else {
        return;
    };
    let log = open(Path::new(&path));
    log.subscribe("all", Begin::Start).expect("subscribe");
    let _lead = log.try_lead().expect("lead").expect("free");
    let _wanted = log.want().expect("want");
    let prepared = Arc::new(txn(&log, -1, 1));
    log.prepare(&prepared).expect("prepare");
    let mut reader = log.read_after(0).expect("reader");
    assert!(reader.next().expect("next").is_none(), "prepared");
    std::thread::scope(|s| {
        s.spawn(|| {
            for n in 0.. {
                log.append(txn(&log, n, 1)).expect("append");
            }
        });
        s.spawn(|| {
            for n in 0.. {
                log.set_config(|c| c.retain_bytes = n).expect("config");
            }
        });
        s.spawn(|| {
            loop {
                log.read_after(0).expect("reader");
            }
        });
        let (mut are_made, made) = std::io::pipe().expect("a pipe");
        for _ in 0..CHILDREN {
            std::thread::sleep(Duration::from_millis(2));
            // SAFETY: the child only reports that it exists and waits to be killed.
            let child = unsafe { fork() };
            if child == 0 {
                (&made).write_all(b"x").ok();
                loop {
                    // SAFETY: as above.
                    unsafe { pause() };
                }
            }
            are_made.read_exact(&mut [0]).expect("the child is there");
            println!("\nchild {child}");
        }
        println!("\ndone");
        std::io::stdout().flush().expect("told");
        // SAFETY: the id is that of this process.
        unsafe { kill(getpid(), 9) };
    });
}

#[test]
fn children_of_a_killed_process_hold_none_of_its_locks() {
    let tmp = tempfile::tempdir().expect("a directory");
    let path = tmp.path().join("app.db-log");
    let mut parent = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "orphan::forking_process", "--nocapture"])
        .env("ORPHAN_LOG", &path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    let told = BufReader::new(parent.stdout.take().expect("its output"));
    let lines = told.lines().map(|line| line.expect("a line"));
    let children: Vec<i32> = lines
        .take_while(|line| line != "done")
        .filter_map(|line| line.strip_prefix("child ")?.parse().ok())
        .collect();
    parent.wait().expect("it is killed");
    let (done, is_done) = mpsc::channel();
    let user = std::thread::spawn(move || {
        let log = open(&path);
        let lead = log.try_lead().expect("lead");
        assert!(lead.is_some(), "no process applies");
        assert!(!log.is_wanted().expect("wanted"), "no process waits");
        // More than a segment, so that the segment of the parent's reader can be pruned.
        let append = |n| log.append(txn(&log, n, 40 << 10)).expect("append");
        let [_, _, at] = [1, 2, 3].map(append);
        let seen = log.wait_after(at.last - 1, WAIT).expect("waits");
        assert!(seen, "rows of a process that is gone are decided");
        log.ack("all", at.last).expect("ack");
        log.set_config(|c| c.retain_bytes = 0).expect("config");
        let pruned = log.prune(at.last).expect("prune");
        done.send((pruned.segments > 0, pruned.is_held))
            .expect("told");
    });
    let pruned = is_done.recv_timeout(WAIT);
    for child in &children {
        // SAFETY: these are orphans of this test, which only wait.
        unsafe { kill(*child, 9) };
    }
    assert_eq!(children.len(), CHILDREN);
    assert_eq!(
        pruned,
        Ok((true, false)),
        "a lock of the parent, or the rows"
    );
    user.join().expect("no panic");
}
