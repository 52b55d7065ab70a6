//! Several open logs share a sync; each log stands for a process. While one of them syncs, the
//! others append, and the next sync covers all of that. Power cuts and failed syncs fall between
//! their steps.
//!
//! `DENSITE_SEED=n` runs one seed.

use crate::common::{DIR, ID, dir, open, options, read_all, tables};
use densite_disk::{Dir, DirAbove, File, FileAbove, LockKind, OpenMode, RealDir, Result, SyncKind};
use densite_log::{Appended, Batch, Error, Log, Op, Seq, Txn, Value, Waiting};
use densite_sim_disk::{FailedSync, Fault, FaultKind, OpSet, SimDisk, Times};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn one_row(log: &Log, id: i64) -> Txn {
    let mut batch = Batch::new(&tables()[0], Op::Insert);
    batch
        .push(&[Value::Int(id), Value::Blob(b"x")])
        .expect("push");
    Txn::of(log.new_txn(), &batch).expect("txn")
}

fn append(log: &Log, id: i64) -> densite_log::Result<Appended> {
    log.append(one_row(log, id))
}

/// The ids of all rows, in the order of the log.
fn ids(log: &Log) -> Vec<i64> {
    let first = log.status().expect("a status").first;
    let rows = read_all(log, first - 1).expect("read");
    rows.into_values()
        .map(|(_, _, bytes)| i64::from_le_bytes(bytes[..8].try_into().expect("an id")))
        .collect()
}

/// A directory whose segments take a while to sync, and that counts these syncs.
struct Slow {
    dir: RealDir,
    syncs: Arc<AtomicU64>,
}

struct SlowFile {
    file: Box<dyn File>,
    syncs: Arc<AtomicU64>,
}

impl DirAbove for Slow {
    fn below(&self) -> &dyn Dir {
        &self.dir
    }

    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        let file = self.dir.open(name, mode)?;
        Ok(match name.ends_with(".seg") {
            true => Box::new(SlowFile {
                file,
                syncs: self.syncs.clone(),
            }),
            false => file,
        })
    }
}

impl FileAbove for SlowFile {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        std::thread::sleep(Duration::from_millis(5));
        self.syncs.fetch_add(1, Ordering::SeqCst);
        self.file.sync(kind)
    }
}

#[test]
fn several_logs_need_fewer_syncs_than_transactions() {
    const LOGS: i64 = 6;
    const EACH: i64 = 20;
    let tmp = tempfile::tempdir().expect("a directory");
    let syncs = Arc::new(AtomicU64::new(0));
    let logs: Vec<Log> = (0..LOGS)
        .map(|_| {
            let dir = RealDir::create(tmp.path().join("app.db-log")).expect("made");
            let syncs = syncs.clone();
            Log::open(Arc::new(Slow { dir, syncs }), options()).expect("opens")
        })
        .collect();
    std::thread::scope(|scope| {
        for (log, n) in logs.iter().zip(0..) {
            scope.spawn(move || {
                for i in 0..EACH {
                    let at = append(log, n * EACH + i).expect("appends");
                    // The logs of the rows before it notice soon that these are synced.
                    while log.last().expect("last") < at.last {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    let syncs = syncs.load(Ordering::SeqCst);
    println!("{syncs} syncs for {} transactions", LOGS * EACH);
    assert!(syncs < (LOGS * EACH) as u64 / 2, "{syncs} syncs");
    let all: BTreeSet<i64> = ids(&logs[0]).into_iter().collect();
    assert_eq!(all, (0..LOGS * EACH).collect());
}

/// The lock of a process that syncs, or is stopped while it does.
fn sync_lock(disk: &SimDisk) -> Box<dyn File> {
    let file = disk.dir(DIR).open("sync.lock", OpenMode::Write);
    let file = file.expect("there");
    assert!(file.try_lock(LockKind::Exclusive).expect("lock"));
    file
}

/// Waits until the appended word reaches this many bytes behind that of before.
fn await_appended(disk: &SimDisk, before: u64) {
    while appended(disk) <= before {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn appended(disk: &SimDisk) -> u64 {
    let bytes = disk.contents(&format!("{DIR}/appended")).expect("there");
    u64::from_le_bytes(bytes[24..32].try_into().expect("eight bytes"))
}

/// One sync covers what both logs wrote.
#[test]
fn a_sync_covers_the_records_of_others() {
    let disk = SimDisk::new(1);
    let logs = [open(&disk), open(&disk)];
    append(&logs[0], 0).expect("appends");
    let path = format!("{DIR}/000000000001.seg");
    let before = disk.counters(&path).syncs;
    let lock = sync_lock(&disk);
    std::thread::scope(|scope| {
        for (log, id) in logs.iter().zip(1..) {
            let off = appended(&disk);
            scope.spawn(move || append(log, id).expect("appends"));
            await_appended(&disk, off);
        }
        assert_eq!(ids(&logs[0]), [0], "nothing is read before it is synced");
        drop(lock);
    });
    assert_eq!(disk.counters(&path).syncs, before + 1);
    assert_eq!(ids(&logs[1]), [0, 1, 2]);
}

/// The log whose sync fails gets the error. The rows of the other log, which that sync covered, go
/// to the next segment.
#[test]
fn a_failed_sync_of_one_log_loses_no_rows_of_another() {
    for kind in [FailedSync::Dropped, FailedSync::Kept] {
        let disk = SimDisk::new(1);
        disk.set_failed_sync(kind);
        let logs = [open(&disk), open(&disk)];
        append(&logs[0], 0).expect("appends");
        let lock = sync_lock(&disk);
        let done = std::thread::scope(|scope| {
            let threads: Vec<_> = (logs.iter().zip(1..))
                .map(|(log, id)| {
                    let off = appended(&disk);
                    let thread = scope.spawn(move || append(log, id));
                    await_appended(&disk, off);
                    thread
                })
                .collect();
            let path = format!("{DIR}/000000000001.seg");
            let sync = OpSet::of(&[densite_disk::Op::Sync]);
            disk.fail(Fault::new(FaultKind::Io, sync).on_path(&path));
            drop(lock);
            let join = |t: std::thread::ScopedJoinHandle<'_, _>| t.join().expect("no panic");
            threads.into_iter().map(join).collect::<Vec<_>>()
        });
        disk.clear_faults();
        let mut expected = vec![0];
        let mut failed = 0;
        for (done, id) in done.iter().zip(1..) {
            match done {
                Ok(_) => expected.push(id),
                Err(Error::SyncFailed(_)) => failed += 1,
                Err(e) => panic!("{e}"),
            }
        }
        assert_eq!(failed, 1, "{done:?}");
        assert_eq!(ids(&logs[0]), expected, "{kind:?}");
        assert_eq!(logs[0].status().expect("status").segments, 2);
        assert_eq!(ids(&open(&disk.survivor(3))), expected, "after a cut");
    }
}

/// A process was killed while it synced: the outcome of that sync is unknown, so it counts as
/// failed.
#[test]
fn a_sync_whose_process_was_killed_is_not_trusted() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    append(&log, 0).expect("appends");
    let path = format!("{DIR}/000000000001.seg");
    let before = disk.counters(&path).syncs;
    let lock = sync_lock(&disk);
    std::thread::scope(|scope| {
        let off = appended(&disk);
        let thread = scope.spawn(|| append(&log, 1));
        await_appended(&disk, off);
        // The killed process noted how far its sync was to reach.
        let words = format!("{DIR}/appended");
        let mut bytes = disk.contents(&words).expect("there");
        bytes.copy_within(0..64, 64);
        disk.put_file(&words, &bytes);
        drop(lock);
        thread.join().expect("no panic").expect("appends");
    });
    assert_eq!(disk.counters(&path).syncs, before, "the segment is left");
    assert_eq!(ids(&log), [0, 1]);
    assert_eq!(ids(&open(&disk.survivor(1))), [0, 1]);
}

/// Another process is stopped while it holds the sync lock. Rows whose writer stopped waiting are
/// rolled back: the same rows can be appended again.
#[test]
fn a_writer_that_stops_waiting_for_a_sync_leaves_no_rows() {
    let disk = SimDisk::new(1);
    let (mine, other) = (open(&disk), open(&disk));
    append(&mine, 0).expect("appends");
    let stopped = sync_lock(&disk);
    let over = |waited| match waited < Duration::from_millis(20) {
        true => Waiting::GoesOn,
        false => Waiting::IsOver,
    };
    let txn = Arc::new(one_row(&mine, 1));
    let done = mine.prepare_within(&txn, &over);
    let Err(Error::Locked { file, .. }) = done else {
        panic!("{done:?}");
    };
    assert_eq!(file, "sync.lock");
    drop(stopped);
    append(&other, 2).expect("appends");
    assert_eq!(ids(&other), [0, 2]);
    append(&mine, 1).expect("appends");
    assert_eq!(ids(&mine), [0, 2, 1]);
    assert_eq!(ids(&open(&disk.survivor(1))), [0, 2, 1]);
}

/// What the logs did: for each id, when its append began and ended, and whether it is in the log.
type Done = BTreeMap<i64, (u64, u64, bool)>;

/// Several logs append at once. Syncs and writes fail now and then.
fn race(seed: u64, disk: &SimDisk, fails: bool) -> Done {
    const EACH: i64 = 25;
    let done = Mutex::new(Done::new());
    let logs = [open(disk), open(disk), open(disk)];
    std::thread::scope(|scope| {
        for (log, n) in logs.iter().zip(0..) {
            let (done, disk) = (&done, disk.clone());
            let mut rng = SmallRng::seed_from_u64(seed ^ (n as u64) << 32);
            scope.spawn(move || {
                for id in n * EACH..(n + 1) * EACH {
                    if fails && rng.random_range(0..5) == 0 {
                        let call = [densite_disk::Op::Sync, densite_disk::Op::Write];
                        let call = OpSet::of(&[call[rng.random_range(0..2)]]);
                        disk.fail(Fault {
                            after: rng.random_range(0..6),
                            times: Times::Once,
                            ..Fault::new(FaultKind::Io, call)
                        });
                    }
                    let began = disk.changes();
                    let appended = append(log, id);
                    let all = (began, disk.changes(), appended.is_ok());
                    done.lock().expect("no panic").insert(id, all);
                }
            });
        }
    });
    disk.clear_faults();
    for log in &logs {
        assert!(!log.retry_rollbacks(), "seed {seed}: all is stored");
    }
    done.into_inner().expect("no panic")
}

fn check(disk: &SimDisk, at: u64, done: &Done, what: &str) {
    let log = open(disk);
    let found = ids(&log);
    let set: BTreeSet<i64> = found.iter().copied().collect();
    assert_eq!(set.len(), found.len(), "{what}: a row is there twice");
    for (id, (began, ended, is_in)) in done {
        let is_there = set.contains(id);
        if *ended < at {
            assert_eq!(is_there, *is_in, "{what}: {id}");
        }
        assert!(!is_there || *began < at, "{what}: {id} of the future");
    }
    let report = densite_log::check(dir(disk), ID).expect("check");
    assert_eq!(report.problems, [], "{what}");
    let last: Seq = log.last().expect("last");
    assert!(
        append(&log, 1 << 20).expect("appends").first > last,
        "{what}"
    );
}

#[test]
fn power_cuts_between_the_steps_of_several_logs() {
    let mut cuts = 0;
    for seed in densite_testing::seeds(6) {
        let disk = SimDisk::of_seed(seed);
        // Before the first segment and the state are durable there is no log.
        drop(open(&disk));
        let from = disk.changes();
        disk.cut_at_each(from + 1..from + 1200, seed);
        let done = race(seed, &disk, false);
        for c in disk.take_captures() {
            let what = format!("DENSITE_SEED={seed} cut at change {}", c.change);
            check(&c.disk, c.change, &done, &what);
            cuts += 1;
        }
    }
    assert!(cuts > 500, "{cuts}");
}

#[test]
fn failed_syncs_between_the_steps_of_several_logs() {
    let mut failed = 0;
    for seed in densite_testing::seeds(40) {
        let disk = SimDisk::new(seed);
        let kinds = [FailedSync::Dropped, FailedSync::Kept];
        disk.set_failed_sync(kinds[seed as usize % 2]);
        let done = race(seed, &disk, true);
        failed += done.values().filter(|d| !d.2).count();
        let what = format!("DENSITE_SEED={seed}");
        check(&disk.survivor(seed), u64::MAX, &done, &what);
        check(&disk, u64::MAX, &done, &what);
    }
    assert!(failed > 40, "{failed}");
}
