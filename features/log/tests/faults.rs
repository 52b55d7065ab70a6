//! Failing calls. Rows of a failed append are never in the log, neither now nor after a power cut.
//! Acknowledged rows stay, and the log can be used afterwards.
//!
//! `DENSITE_SEED=n` runs one seed.

use crate::common::{self, Row, dir, open, options, random_txn, read_all, tables};
use densite_disk::Op as Call;
use densite_log::{Error, Log, Seq};
use densite_sim_disk::{FailedSync, Fault, FaultKind, OpSet, SimDisk, Times};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

fn add(model: &mut BTreeMap<Seq, Row>, first: Seq, rows: Vec<Row>) {
    for (i, row) in rows.into_iter().enumerate() {
        assert!(
            model.insert(first + i as u64, row).is_none(),
            "a number given twice"
        );
    }
}

fn faults(seed: u64) -> u64 {
    let disk = SimDisk::new(seed);
    let mut rng = SmallRng::seed_from_u64(seed);
    disk.set_failed_sync([FailedSync::Dropped, FailedSync::Kept][rng.random_range(0..2)]);
    let mut log = open(&disk);
    let mut model = BTreeMap::new();
    let tables = tables();
    let mut disk = disk;
    let mut failed = 0;
    for step in 0..120 {
        let what = format!("DENSITE_SEED={seed} step {step}");
        if rng.random_range(0..3) == 0 {
            let calls = [
                Call::Write,
                Call::Sync,
                Call::Sync,
                Call::Rename,
                Call::Open,
                Call::Read,
                Call::Len,
            ];
            disk.fail(Fault {
                kind: [FaultKind::Io, FaultKind::Full][rng.random_range(0..2)],
                after: rng.random_range(0..4),
                times: Times::Once,
                prefix: rng.random_range(0..3000),
                ..Fault::new(
                    FaultKind::Io,
                    OpSet::of(&[calls[rng.random_range(0..calls.len())]]),
                )
            });
        }
        let (txn, rows) = random_txn(&log, &tables, &mut rng);
        match log.append(txn) {
            Ok(at) => add(&mut model, at.first, rows),
            Err(Error::Full(_) | Error::Io(_) | Error::SyncFailed(_)) => failed += 1,
            Err(e) => panic!("{what}: {e}"),
        }
        disk.clear_faults();
        if rng.random_range(0..6) == 0 {
            assert_eq!(read_all(&log, 0).expect(&what), model, "{what}, alive");
        }
        if rng.random_range(0..8) == 0 {
            // What another process sees when it opens the log now, and what a power cut leaves.
            let other = open(&disk);
            assert_eq!(
                read_all(&other, 0).expect(&what),
                model,
                "{what}, another process"
            );
            drop(other);
            let survivor = open(&disk.survivor(rng.random_range(0..1 << 40)));
            assert_eq!(
                read_all(&survivor, 0).expect(&what),
                model,
                "{what}, after a cut"
            );
        }
        if rng.random_range(0..30) == 0 {
            disk = disk.power_cut(seed ^ step);
            log = open(&disk);
        }
    }
    failed
}

#[test]
fn a_failed_append_leaves_no_rows() {
    let failed: u64 = densite_testing::seeds(40).map(faults).sum();
    let least = densite_testing::Effort::wanted().least(100);
    assert!(failed > least, "only {failed} failures");
}

/// All writes fail from the n-th of an append on, so the append can neither be removed nor can its
/// segment be left. When the disk works again, that is made up for: by the worker, or at the close.
#[test]
fn a_failed_append_does_not_come_back_when_the_disk_works_again() {
    let (mut failed, mut unsealed) = (0, 0);
    for (is_prepared, closes, kind) in [
        (true, true, FaultKind::Io),
        (true, false, FaultKind::Full),
        (false, true, FaultKind::Full),
        (false, false, FaultKind::Io),
    ] {
        for after in 0..8 {
            let what = format!("prepared {is_prepared}, closes {closes}, after {after}");
            let disk = SimDisk::new(after);
            let log = open(&disk);
            let mut rng = SmallRng::seed_from_u64(after);
            let mut model = BTreeMap::new();
            let (first, rows) = random_txn(&log, &tables(), &mut rng);
            add(&mut model, log.append(first).expect(&what).first, rows);
            let calls = OpSet::of(&[Call::Write, Call::Rename]);
            disk.fail(Fault::new(kind, calls).after(after).forever());
            let (txn, rows) = random_txn(&log, &tables(), &mut rng);
            let done = match is_prepared {
                true => {
                    let txn = Arc::new(txn);
                    log.prepare(&txn).inspect(|_| log.commit(txn.id()))
                }
                false => log.append(txn),
            };
            match done {
                Ok(at) => add(&mut model, at.first, rows),
                Err(_) => failed += 1,
            }
            unsealed += u64::from(log.retry_rollbacks());
            disk.clear_faults();
            assert!(closes || !log.retry_rollbacks(), "{what}: stored now");
            let log = (!closes).then_some(log);
            assert_eq!(read_all(&open(&disk), 0).expect(&what), model, "{what}");
            let survivor = open(&disk.survivor(after));
            assert_eq!(read_all(&survivor, 0).expect(&what), model, "{what}, a cut");
            drop(log);
        }
    }
    assert!(failed > 8 && unsealed > 2, "{failed}, {unsealed}");
}

/// The write of the appended word fails after it took effect, and so does the one that takes it
/// back. Another process that appends meanwhile continues behind the group that failed.
#[test]
fn a_failed_word_that_cannot_be_taken_back_damages_nothing() {
    for (prefix, both) in [(4096, false), (4096, true), (20, false), (0, false)] {
        let disk = SimDisk::new(1);
        let (log, other) = (open(&disk), open(&disk));
        let mut rng = SmallRng::seed_from_u64(1);
        let mut model = BTreeMap::new();
        let mut append = |log: &Log, model: &mut BTreeMap<Seq, Row>| {
            let (txn, rows) = random_txn(log, &tables(), &mut rng);
            let done = log.append(txn);
            if let Ok(at) = &done {
                add(model, at.first, rows);
            }
            done
        };
        append(&log, &mut model).expect("appends");
        append(&other, &mut model).expect("appends");
        let word = |prefix| {
            Fault::new(FaultKind::Io, Call::Write)
                .on_path("/appended")
                .with_prefix(prefix)
        };
        disk.fail(word(prefix));
        disk.fail(word(0));
        append(&log, &mut model).expect_err("the word cannot be written");
        let (one, two) = if both { (&log, &other) } else { (&other, &log) };
        let what = format!("{prefix}, {both}");
        append(one, &mut model).expect(&what);
        append(two, &mut model).expect(&what);
        assert_eq!(read_all(&open(&disk), 0).expect(&what), model, "{what}");
        let survivor = open(&disk.survivor(1));
        assert_eq!(read_all(&survivor, 0).expect(&what), model, "{what}, a cut");
    }
}

#[test]
fn a_full_disk_is_an_error_and_the_log_works_afterwards() {
    let disk = SimDisk::new(3);
    let log = open(&disk);
    let tables = tables();
    let mut rng = SmallRng::seed_from_u64(3);
    let mut model = BTreeMap::new();
    for round in 0..3 {
        disk.set_capacity(Some(disk.used() + 9000));
        let mut refused = 0;
        while refused < 3 {
            let (txn, rows) = random_txn(&log, &tables, &mut rng);
            match log.append(txn) {
                Ok(at) => add(&mut model, at.first, rows),
                Err(Error::Full(_)) => refused += 1,
                Err(e) => panic!("round {round}: {e}"),
            }
        }
        assert_eq!(read_all(&log, 0).expect("read"), model);
        disk.set_capacity(None);
        let survivor = open(&disk.survivor(round));
        assert_eq!(read_all(&survivor, 0).expect("read"), model);
        let (txn, rows) = random_txn(&log, &tables, &mut rng);
        add(
            &mut model,
            log.append(txn).expect("there is room again").first,
            rows,
        );
    }
}

#[test]
fn a_segment_with_a_failed_sync_gets_no_more_rows() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    let tables = tables();
    let mut rng = SmallRng::seed_from_u64(1);
    let first = random_txn(&log, &tables, &mut rng);
    log.append(first.0).expect("append");
    let path = format!("{}/000000000001.seg", common::DIR);
    let before = disk.counters(&path);
    disk.fail(Fault::new(FaultKind::Io, OpSet::of(&[Call::Sync])));
    let refused = random_txn(&log, &tables, &mut rng);
    assert!(matches!(log.append(refused.0), Err(Error::SyncFailed(_))));
    disk.clear_faults();
    let second = random_txn(&log, &tables, &mut rng);
    log.append(second.0).expect("the log works on");
    let after = disk.counters(&path);
    assert_eq!(
        after.syncs, before.syncs,
        "a failed sync is not tried again"
    );
    assert_eq!(log.status().expect("status").segments, 2);
    let rows: Vec<Row> = read_all(&log, 0).expect("read").into_values().collect();
    assert_eq!(rows, [first.1, second.1].concat());
}

fn damaged(disk: &SimDisk, name: &str, at: u64) {
    let path = format!("{}/{name}", common::DIR);
    let mut bytes = disk.contents(&path).expect("there");
    bytes[at as usize] ^= 0x10;
    disk.put_file(&path, &bytes);
}

/// A log of two segments that both have rows.
fn two_segments(disk: &SimDisk) -> (Log, BTreeMap<Seq, Row>) {
    let log = open(disk);
    let mut model = BTreeMap::new();
    let mut rng = SmallRng::seed_from_u64(9);
    let mut more = 4;
    while log.status().expect("status").segments < 2 || more > 0 {
        if log.status().expect("status").segments == 2 {
            more -= 1;
        }
        let (txn, rows) = random_txn(&log, &tables(), &mut rng);
        add(&mut model, log.append(txn).expect("append").first, rows);
    }
    assert_eq!(log.status().expect("status").segments, 2);
    (log, model)
}

#[test]
fn damage_is_reported_and_never_skipped() {
    let disk = SimDisk::new(1);
    let (log, model) = two_segments(&disk);
    damaged(&disk, "000000000001.seg", 4096 + 80);
    let Err(Error::Damaged {
        segment, offset, ..
    }) = read_all(&log, 0)
    else {
        panic!("damage was not found");
    };
    assert_eq!((segment.as_str(), offset), ("000000000001.seg", 4096));
    let report = densite_log::check(dir(&disk), common::ID).expect("check");
    assert_eq!(report.problems.len(), 1);
    assert_eq!(
        (
            report.problems[0].segment.as_str(),
            report.problems[0].offset
        ),
        ("000000000001.seg", 4096)
    );
    assert!(report.rows > 0 && report.rows < model.len() as u64);
}

#[test]
fn damage_in_the_last_segment_is_distinguished_from_a_torn_tail() {
    let disk = SimDisk::new(1);
    let (log, model) = two_segments(&disk);
    drop(log);
    // Without the end word, only the records show how far they were synced.
    let end = format!("{}/end", common::DIR);
    disk.remove(&end).expect("remove");
    let whole = disk.snapshot();
    assert_eq!(
        read_all(&open(&whole), 0).expect("read"),
        model,
        "nothing depends on the end word"
    );
    damaged(&disk, "000000000002.seg", 4096 + 80);
    match Log::open(dir(&disk), options()) {
        Err(Error::Damaged {
            segment,
            offset: 4096,
            ..
        }) if segment == "000000000002.seg" => {}
        other => panic!("damage was taken for a torn tail: {:?}", other.err()),
    }
    assert!(
        !densite_log::check(dir(&disk), common::ID)
            .expect("check")
            .problems
            .is_empty()
    );
}

#[test]
fn missing_files_are_reported() {
    let disk = SimDisk::new(1);
    let (log, _) = two_segments(&disk);
    drop(log);
    let open_error = |disk: &SimDisk| Log::open(dir(disk), options()).err().expect("refused");
    for name in ["000000000001.seg", "000000000002.seg"] {
        let copy = disk.snapshot();
        copy.remove(&format!("{}/{name}", common::DIR))
            .expect("remove");
        match open_error(&copy) {
            Error::Damaged {
                segment, problem, ..
            } => {
                assert_eq!(
                    (segment.as_str(), problem.as_str()),
                    (name, "the segment is missing")
                );
            }
            e => panic!("{e}"),
        }
    }
    let empty = SimDisk::new(2);
    let must_exist = densite_log::Options {
        create: false,
        ..options()
    };
    assert!(matches!(
        Log::open(dir(&empty), must_exist),
        Err(Error::Missing)
    ));
    let other = densite_log::Options {
        id: densite_log::LogId([8; 16]),
        ..options()
    };
    assert!(matches!(
        Log::open(dir(&disk), other),
        Err(Error::OtherLog { .. })
    ));
}

/// A new reader searches for its segment by the headers of others. A damaged header hides no rows
/// before or behind its segment.
#[test]
fn a_damaged_header_hides_no_other_rows() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    let mut model = BTreeMap::new();
    let mut rng = SmallRng::seed_from_u64(4);
    // The last row of each complete segment.
    let mut ends = Vec::new();
    while ends.len() < 9 {
        let (txn, rows) = random_txn(&log, &tables(), &mut rng);
        let first = log.append(txn).expect("append").first;
        if log.status().expect("status").segments > ends.len() as u64 + 1 {
            ends.push(first - 1);
        }
        add(&mut model, first, rows);
    }
    for broken in 2..=9_usize {
        let disk = disk.snapshot();
        let name = format!("{broken:012}.seg");
        damaged(&disk, &name, 9);
        let log = open(&disk);
        // The end of a segment is in the next header. So if that is damaged, the segment before it
        // is not read.
        let known = broken.checked_sub(3).map_or(0, |i| ends[i]);
        let from = rng.random_range(0..=known);
        let mut reader = log.read_after(from).expect("a reader");
        let problem = loop {
            match reader.next() {
                Ok(Some(_)) => {}
                other => break other.expect_err("damage"),
            }
        };
        assert!(
            matches!(&problem, Error::Damaged { segment, .. } if *segment == name),
            "segment {broken}: {problem}"
        );
        assert_eq!(reader.position(), known, "segment {broken}, from {from}");
        let behind = ends[broken - 1];
        assert_eq!(
            read_all(&log, behind).expect("behind it"),
            model.clone().split_off(&(behind + 1)),
            "segment {broken}"
        );
    }
}
