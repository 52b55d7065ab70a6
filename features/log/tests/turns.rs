//! Open logs that append at once take turns: no log waits while another one appends again and
//! again.

use crate::common::{options, tables};
use densite_disk::RealDir;
use densite_log::{Batch, Log, Op, Txn, Value};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_secs(2);

fn open(path: &Path) -> Log {
    let dir = Arc::new(RealDir::create(path).expect("made"));
    Log::open(dir, options()).expect("opens")
}

/// The number of transactions that one log appends while others do the same, and the longest time
/// of one.
fn appends(log: &Log) -> (u32, Duration) {
    let (begun, mut number, mut longest) = (Instant::now(), 0, Duration::ZERO);
    while begun.elapsed() < TIME {
        let mut batch = Batch::new(&tables()[0], Op::Insert);
        batch
            .push(&[Value::Int(1), Value::Blob(b"x")])
            .expect("push");
        let txn = Txn::of(log.new_txn(), &batch).expect("txn");
        let before = Instant::now();
        log.append(txn).expect("appends");
        longest = longest.max(before.elapsed());
        number += 1;
    }
    (number, longest)
}

/// As many open logs as there would be processes, each with an appender and its own lock.
#[test]
fn appenders_take_turns() {
    let tmp = tempfile::tempdir().expect("a directory");
    let path = tmp.path().join("app.db-log");
    let logs = [open(&path), open(&path), open(&path)];
    let done = std::thread::scope(|scope| {
        let threads = logs.each_ref().map(|log| scope.spawn(|| appends(log)));
        threads.map(|thread| thread.join().expect("no panic"))
    });
    println!("{done:?}");
    let all: u32 = done.iter().map(|(number, _)| number).sum();
    for (number, longest) in done {
        assert!(number * 15 >= all, "{done:?}");
        assert!(longest < TIME / 2, "{done:?}");
    }
}
