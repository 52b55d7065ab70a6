//! Subscribers that are added while others append and prune.

use crate::common::{dir, open, options, random_txn, read_all, tables};
use densite_disk::{Dir, DirAbove, File, OpenMode, Result};
use densite_log::{Batch, Begin, Error, Log, LogDir, Op, Seq, Txn, Value};
use densite_sim_disk::SimDisk;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A directory in which something happens once before the state's lock is opened.
struct Hooked {
    dir: LogDir,
    armed: Arc<AtomicBool>,
    hook: Box<dyn Fn() + Send + Sync>,
}

impl DirAbove for Hooked {
    fn below(&self) -> &dyn Dir {
        &*self.dir
    }

    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        if name == "state.lock" && self.armed.swap(false, Ordering::SeqCst) {
            (self.hook)();
        }
        self.dir.open(name, mode)
    }
}

/// Fills several segments. Returns the number of the last row.
fn fill(log: &Log) -> Seq {
    let table = &tables()[0];
    let mut last = 0;
    for i in 0..40 {
        let mut batch = Batch::new(table, Op::Insert);
        let payload: Vec<u8> = (0..1000u32)
            .map(|n| (n.wrapping_mul(2_654_435_761).wrapping_add(i) >> 13) as u8)
            .collect();
        batch
            .push(&[Value::Int(i.into()), Value::Blob(&payload)])
            .expect("push");
        let mut txn = Txn::new(log.new_txn());
        txn.push(&batch).expect("push");
        last = log.append(txn).expect("appended").last;
    }
    last
}

/// A new subscriber begins with what the log has when it is stored. Rows that were just pruned do
/// not matter.
#[test]
fn a_new_subscriber_can_read_while_others_prune() {
    let disk = SimDisk::new(1);
    let other = open(&disk);
    let armed = Arc::new(AtomicBool::new(false));
    let hook = move || {
        let last = fill(&other);
        let pruned = other.prune(last).expect("pruned");
        assert!(pruned.segments > 1, "{pruned:?}");
    };
    let hooked = Arc::new(Hooked {
        dir: dir(&disk),
        armed: armed.clone(),
        hook: Box::new(hook),
    });
    let log = Log::open(hooked, options()).expect("opens");
    armed.store(true, Ordering::SeqCst);
    let at = log.subscribe("late", Begin::Now).expect("subscribed");
    assert!(!armed.load(Ordering::SeqCst), "it was there in between");
    let rows = read_all(&log, at).expect("what it has to read is there");
    assert!(rows.is_empty());
    let next = fill(&log);
    assert_eq!(read_all(&log, at).expect("all").len() as u64, next - at);
}

#[test]
fn a_subscriber_that_holds_too_much_is_dropped_and_told_so() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    for name in ["slow", "fast"] {
        log.subscribe(name, Begin::Now).expect("subscribe");
    }
    log.set_config(|c| c.max_retained_bytes = 20_000)
        .expect("config");
    let behind = |name: &str| {
        let all = log.subscribers().expect("subscribers");
        all.iter().find(|s| s.name == name).map(|s| s.bytes_behind)
    };
    let mut rng = SmallRng::seed_from_u64(1);
    let mut last = 0;
    // Up to the limit, everything is kept.
    while behind("slow").expect("there") < 15_000 {
        let (txn, _) = random_txn(&log, &tables(), &mut rng);
        last = log.append(txn).expect("append").last;
        log.prune(last).expect("prune");
    }
    assert_eq!(log.position_of("slow").expect("there"), 0);
    while behind("slow").is_some() {
        let (txn, _) = random_txn(&log, &tables(), &mut rng);
        last = log.append(txn).expect("append").last;
        log.ack("fast", last).expect("ack");
        log.prune(last).expect("prune");
    }
    assert!(
        log.status().expect("status").first > 1,
        "nothing was pruned"
    );
    assert_eq!(behind("fast"), Some(0));
    drop(log);
    // It learns so after a restart, too, until it subscribes again.
    let log = open(&disk);
    assert!(matches!(log.position_of("slow"), Err(Error::Dropped(_))));
    assert!(matches!(log.ack("slow", last), Err(Error::Dropped(_))));
    assert_eq!(log.subscribe("slow", Begin::Now).expect("again"), last);
    assert_eq!(log.ack("slow", last).expect("ack"), last);
    assert!(matches!(
        log.subscribe("slow", Begin::Now),
        Err(Error::SubscriberExists(_))
    ));
    log.unsubscribe("slow").expect("unsubscribe");
}
