//! Several threads and several open logs on one directory; each log stands for a process. There is
//! one total order, no rows are lost, prepared rows are invisible, and readers follow while others
//! write and prune.

use crate::common::{self, DIR, open, options, random_txn, read_all, tables};
use densite_disk::{Dir, OpenMode, RealDir};
use densite_log::{Batch, Begin, Log, Op, Options, Table, Txn, Value};
use densite_sim_disk::SimDisk;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::sync::Arc;
use std::time::Duration;

fn one_row(log: &Log, table: &Arc<Table>, id: i64) -> Arc<Txn> {
    let mut batch = Batch::new(table, Op::Insert);
    batch
        .push(&[Value::Int(id), Value::Blob(b"x")])
        .expect("push");
    Arc::new(Txn::of(log.new_txn(), &batch).expect("txn"))
}

/// Threads of two open logs append. A third log follows them and prunes behind itself.
fn race(make: impl Fn() -> Log) {
    const THREADS: i64 = 6;
    const EACH: i64 = 150;
    let table = &tables()[0];
    let logs = [make(), make()];
    let follower = make();
    follower.subscribe("all", Begin::Start).expect("subscribe");
    let mut seen = vec![Vec::new(); THREADS as usize];
    std::thread::scope(|s| {
        for thread in 0..THREADS {
            let log = &logs[thread as usize % 2];
            s.spawn(move || {
                for i in 0..EACH {
                    let txn = one_row(log, table, thread * EACH + i);
                    match i % 3 {
                        0 => {
                            log.prepare(&txn).expect("prepare");
                            log.commit(txn.id());
                        }
                        1 if i % 30 == 1 => {
                            log.prepare(&txn).expect("prepare");
                            log.cancel(txn.id()).expect("cancel");
                        }
                        _ => {
                            log.append(Arc::into_inner(txn).expect("only here"))
                                .expect("append");
                        }
                    }
                }
            });
        }
        let expected = THREADS * (EACH - EACH / 30);
        let mut reader = follower.read_after(0).expect("reader");
        let (mut rows, mut last) = (0, 0);
        while rows < expected {
            let Some(record) = reader.next().expect("next") else {
                follower
                    .wait_after(last, Duration::from_millis(50))
                    .expect("wait");
                continue;
            };
            assert!(record.first > last, "one order");
            last = record.last();
            for i in record.skip..record.rows.len() {
                let Some(Value::Int(id)) = record.rows.get(i, 0) else {
                    panic!("no id")
                };
                seen[(id / EACH) as usize].push(id % EACH);
                rows += 1;
            }
            if rows % 50 == 0 {
                follower.ack("all", last).expect("ack");
                follower.prune(last).expect("prune");
            }
        }
    });
    for ids in seen {
        let expected: Vec<i64> = (0..EACH).filter(|i| i % 30 != 1).collect();
        assert_eq!(ids, expected, "each thread's rows, once and in its order");
    }
    let last = follower.last().expect("last");
    follower.ack("all", last).expect("ack");
    follower.prune(last).expect("prune");
    let status = follower.status().expect("status");
    assert_eq!(
        status.segments, 1,
        "all was acknowledged: only the segment that is written remains"
    );
}

#[test]
fn threads_and_logs_on_the_simulated_disk() {
    let disk = SimDisk::new(1);
    race(|| open(&disk));
}

#[test]
fn threads_and_logs_on_the_real_disk() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = Arc::new(RealDir::create(tmp.path().join("app.db-log")).expect("made"));
    race(|| {
        Log::open(
            dir.clone(),
            Options {
                background: true,
                ..options()
            },
        )
        .expect("open")
    });
}

/// Rule L1: between xSync and the decision no reader passes the rows, in any process. Later rows
/// wait too.
#[test]
fn prepared_rows_are_not_visible() {
    let disk = SimDisk::new(1);
    let (mine, other) = (open(&disk), open(&disk));
    let table = &tables()[0];
    let (a, b) = (one_row(&mine, table, 1), one_row(&mine, table, 2));
    mine.prepare(&a).expect("prepare");
    mine.prepare(&b).expect("prepare");
    other
        .append(Arc::into_inner(one_row(&other, table, 3)).expect("one"))
        .expect("append");
    let read = |log: &Log| -> Vec<u64> { read_all(log, 0).expect("read").into_keys().collect() };
    assert_eq!((read(&mine), read(&other)), (vec![], vec![]));
    mine.commit(b.id());
    assert_eq!(
        (read(&mine), read(&other)),
        (vec![], vec![]),
        "the first one decides how far"
    );
    mine.cancel(a.id()).expect("cancel");
    assert_eq!((read(&mine), read(&other)), (vec![2, 3], vec![2, 3]));
    let c = one_row(&mine, table, 4);
    mine.prepare(&c).expect("prepare");
    assert_eq!(read(&other), [2, 3]);
    drop(mine);
    assert_eq!(
        read(&other),
        [2, 3, 4],
        "transactions of a closed log are committed"
    );
    assert_eq!(read(&open(&disk)), [2, 3, 4]);
}

/// A rollback that cannot be stored hides its rows until it can be stored.
#[test]
fn a_rollback_that_fails_is_tried_again() {
    use densite_sim_disk::{Fault, FaultKind};
    let disk = SimDisk::new(1);
    let (mine, other) = (open(&disk), open(&disk));
    let table = &tables()[0];
    let txn = one_row(&mine, table, 1);
    mine.prepare(&txn).expect("prepare");
    disk.fail(Fault::new(FaultKind::Full, densite_disk::Op::Rename));
    assert!(mine.cancel(txn.id()).is_err());
    disk.clear_faults();
    let next = Arc::into_inner(one_row(&other, table, 2)).expect("one");
    other.append(next).expect("append");
    assert!(read_all(&other, 0).expect("read").is_empty());
    let next = Arc::into_inner(one_row(&mine, table, 3)).expect("one");
    mine.append(next).expect("append");
    let ids: Vec<u64> = read_all(&other, 0).expect("read").into_keys().collect();
    assert_eq!(ids, [2, 3]);
}

/// A process is killed after its write and before its sync. The next one keeps the whole group,
/// durably, or none of it.
#[test]
fn rows_of_a_killed_writer_are_kept_whole_or_not_at_all() {
    for cut in 0..400 {
        let disk = SimDisk::new(cut);
        let log = open(&disk);
        let mut rng = SmallRng::seed_from_u64(5);
        let tables = tables();
        let (first, rows) = random_txn(&log, &tables, &mut rng);
        log.append(first).expect("append");
        let before = disk.changes();
        disk.capture_at(before, densite_sim_disk::Capture::Snapshot);
        let (second, more) = random_txn(&log, &tables, &mut rng);
        log.append(second).expect("append");
        let killed = disk.take_captures().pop().expect("captured").disk;
        // The file system can have any prefix of the write.
        let path = format!("{DIR}/000000000001.seg");
        let whole = disk.contents(&path).expect("there");
        let old = killed.contents(&path).expect("there");
        let mut bytes = old.clone();
        let start = whole
            .iter()
            .zip(&old)
            .position(|(a, b)| a != b)
            .unwrap_or(0);
        let end = (start + cut as usize * 8).min(whole.len());
        bytes.resize(bytes.len().max(end), 0);
        bytes[start..end].copy_from_slice(&whole[start..end]);
        killed.put_file(&path, &bytes);
        let log = open(&killed);
        let got: Vec<_> = read_all(&log, 0).expect("read").into_values().collect();
        assert!(
            got == rows || got == [rows.clone(), more.clone()].concat(),
            "cut {cut}"
        );
        let (third, last) = random_txn(&log, &tables, &mut rng);
        log.append(third).expect("append");
        let all = [got, last].concat();
        let after: Vec<_> = read_all(&open(&killed.power_cut(cut)), 0)
            .expect("read")
            .into_values()
            .collect();
        assert_eq!(after, all, "cut {cut}");
    }
}

#[test]
fn only_one_log_has_the_right_to_apply() {
    let disk = SimDisk::new(1);
    let (a, b) = (open(&disk), open(&disk));
    let lead = a.try_lead().expect("lead").expect("free");
    assert!(b.try_lead().expect("lead").is_none());
    drop(lead);
    assert!(b.try_lead().expect("lead").is_some());
}

#[test]
fn numbers_are_above_every_stored_position() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    drop(log);
    let dir: densite_log::LogDir = Arc::new(disk.dir(DIR));
    let log = Log::open(
        dir,
        Options {
            above: 500,
            ..options()
        },
    )
    .expect("open");
    let at = log
        .append(Arc::into_inner(one_row(&log, &tables()[0], 1)).expect("one"))
        .expect("append");
    assert_eq!(at.first, 501);
    // Both use the same slot, which the first one had released.
    assert!(disk.dir(DIR).open("writer-1", OpenMode::Read).is_err());
}

/// A repair replaces the directory under the append lock. A process that waited for that lock must
/// not continue with the old file.
#[test]
fn after_waiting_for_the_lock_the_current_directory_is_opened() {
    use densite_disk::{File, LockKind, RealFile, exchange};
    let tmp = tempfile::tempdir().expect("a directory");
    let (here, there) = (tmp.path().join("app.db-log"), tmp.path().join("new"));
    let make = |path: &std::path::Path| {
        let dir = Arc::new(RealDir::create(path).expect("made"));
        Log::open(dir, options()).expect("open")
    };
    drop((make(&here), make(&there)));
    let lock = |path: &std::path::Path| {
        let file = RealFile::open(path.join("append.lock"), OpenMode::Write).expect("there");
        assert!(file.try_lock(LockKind::Exclusive).expect("lock"));
        file
    };
    let repairing = lock(&here);
    std::thread::scope(|s| {
        let waiter = s.spawn(|| make(&here));
        std::thread::sleep(Duration::from_millis(200));
        exchange(&here, &there).expect("exchanged");
        drop(repairing);
        let log = waiter.join().expect("joined");
        let other = lock(&here);
        let appends = s.spawn(move || {
            let txn = Arc::into_inner(one_row(&log, &tables()[0], 1)).expect("one");
            log.append(txn).expect("append");
            log
        });
        std::thread::sleep(Duration::from_millis(200));
        let waits = !appends.is_finished();
        drop(other);
        let log = appends.join().expect("joined");
        assert!(waits, "it wrote under the lock of the old directory");
        assert_eq!(read_all(&make(&here), 0).expect("read").len(), 1);
        drop(log);
    });
}

/// Killed after its rollback was stored and before its slot counted it. Readers that know the slot
/// must still see the rollback.
#[test]
fn a_rollback_without_its_slot_takes_effect() {
    use densite_sim_disk::{Fault, FaultKind};
    let disk = SimDisk::new(1);
    let (mine, other) = (open(&disk), open(&disk));
    let table = &tables()[0];
    let txn = one_row(&mine, table, 1);
    mine.prepare(&txn).expect("prepare");
    // The other log knows the slot and the rollbacks so far.
    assert!(read_all(&other, 0).expect("read").is_empty());
    let slot = Fault::new(FaultKind::Io, densite_disk::Op::Write).on_path("writer-0");
    disk.fail(slot.forever());
    mine.cancel(txn.id()).expect_err("the slot is not written");
    drop(mine);
    disk.clear_faults();
    assert!(read_all(&other, 0).expect("read").is_empty());
    // It does not come back when another process takes the slot.
    drop(open(&disk));
    assert!(read_all(&other, 0).expect("read").is_empty());
}

/// Without an end word no writers are known. Rollbacks are known nevertheless.
#[test]
fn rollbacks_are_seen_without_an_end_word() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    let table = &tables()[0];
    let txns: Vec<_> = (0..2).map(|id| one_row(&log, table, id)).collect();
    for txn in &txns {
        log.prepare(txn).expect("prepare");
    }
    log.cancel(txns[0].id()).expect("cancel");
    log.commit(txns[1].id());
    drop(log);
    disk.remove(&format!("{DIR}/end")).expect("removed");
    let log = Log::open_read_only(common::dir(&disk), common::ID).expect("open");
    let seqs: Vec<u64> = read_all(&log, 0).expect("read").into_keys().collect();
    assert_eq!(seqs, [2]);
}

/// A rollback that could not be stored is stored when the log is closed.
#[test]
fn a_rollback_that_failed_is_tried_again_at_the_close() {
    use densite_sim_disk::{Fault, FaultKind};
    let disk = SimDisk::new(1);
    let mine = open(&disk);
    let table = &tables()[0];
    let txns: Vec<_> = (0..2).map(|id| one_row(&mine, table, id)).collect();
    for txn in &txns {
        mine.prepare(txn).expect("prepare");
    }
    disk.fail(Fault::new(FaultKind::Full, densite_disk::Op::Rename).forever());
    for txn in &txns {
        mine.cancel(txn.id()).expect_err("no room");
    }
    disk.clear_faults();
    let other = open(&disk);
    drop(mine);
    assert!(read_all(&other, 0).expect("read").is_empty());
    assert!(read_all(&open(&disk), 0).expect("read").is_empty());
}

/// A reader that checks whether a writer is gone does not count as a writer. A process that then
/// opens the log must not trust an end word that a power cut made older.
#[test]
fn a_reader_of_a_slot_does_not_count_as_its_writer() {
    use densite_disk::LockKind;
    let disk = SimDisk::new(1);
    let end = format!("{DIR}/end");
    let log = open(&disk);
    let append = |id| {
        let txn = Arc::into_inner(one_row(&log, &tables()[0], id)).expect("one");
        log.append(txn).expect("append");
        disk.contents(&end).expect("there")
    };
    let older = append(1);
    append(2);
    drop(log);
    disk.put_file(&end, &older);
    let slot = disk.dir(DIR).open("writer-0", OpenMode::Read);
    let slot = slot.expect("there");
    assert!(slot.try_lock(LockKind::Shared).expect("lock"));
    let log = std::thread::scope(|s| {
        let opens = s.spawn(|| open(&disk));
        std::thread::sleep(Duration::from_millis(100));
        drop(slot);
        opens.join().expect("joined")
    });
    let seqs: Vec<u64> = read_all(&log, 0).expect("read").into_keys().collect();
    assert_eq!(seqs, [1, 2]);
}

/// The right to apply keeps the log open: while it exists, no repair can begin.
#[test]
fn the_right_to_apply_keeps_the_log_open() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    let lead = log.try_lead().expect("asks").expect("the right is free");
    drop(log);
    let salvage = || densite_log::Salvage::begin(common::dir(&disk), common::ID, None);
    assert!(matches!(salvage(), Err(densite_log::Error::InUse)));
    let other = open(&disk);
    assert!(other.try_lead().expect("asks").is_none());
    drop(lead);
    assert!(other.try_lead().expect("asks").is_some());
    drop(other);
    salvage().expect("the log is closed");
}
