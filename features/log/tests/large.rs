//! A transaction that is larger than a group is written in several writes. It is in the log as a
//! whole or not at all, whichever write the power cut or an error stops. It is written from the
//! memory of its rows.

use crate::common::{self, Row, dir, open, read_all, tables};
use densite_disk::Op as Call;
use densite_log::{Batch, Error, Log, Op, Seq, Txn, Value};
use densite_sim_disk::{Fault, FaultKind, SimDisk};
use std::collections::BTreeMap;

/// A blob of this length that does not compress.
fn noise(len: usize) -> Vec<u8> {
    let mut word = len as u64;
    let mut next = || {
        word = word.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (word >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A transaction of batches of one row with blobs of these lengths, and its rows.
fn transaction(log: &Log, lens: &[usize]) -> (Txn, Vec<Row>) {
    let (mut txn, mut rows) = (Txn::new(log.new_txn()), Vec::new());
    for (id, len) in lens.iter().enumerate() {
        let tables = tables();
        let table = &tables[id % tables.len()];
        let blob = noise(*len);
        let mut batch = Batch::new(table, Op::Insert);
        let row = [Value::Int(id as i64), Value::Blob(&blob)];
        batch.push(&row).expect("pushed");
        txn.push(&batch).expect("pushed");
        let mut bytes = (id as i64).to_le_bytes().to_vec();
        bytes.extend_from_slice(&blob);
        rows.push((table.name().to_owned(), Op::Insert, bytes));
    }
    (txn, rows)
}

/// Lengths in a large transaction: short payloads that are collected, and long ones that are not.
const LENS: [usize; 9] = [2000, 10, 40, 3000, 0, 1100, 60, 5000, 7];

fn numbered(first: Seq, rows: &[Row]) -> impl Iterator<Item = (Seq, Row)> {
    (first..).zip(rows.iter().cloned())
}

/// A log with a few rows.
fn begun(seed: u64) -> (SimDisk, Log, BTreeMap<Seq, Row>) {
    let disk = SimDisk::of_seed(seed);
    let log = open(&disk);
    let (txn, rows) = transaction(&log, &[100, 20]);
    let at = log.append(txn).expect("appended");
    let model = numbered(at.first, &rows).collect();
    (disk, log, model)
}

#[test]
fn a_power_cut_leaves_a_large_transaction_whole_or_absent() {
    let mut writes = 0;
    for seed in 0..30 {
        let (disk, log, before) = begun(seed);
        let from = disk.changes();
        disk.cut_at_each(from + 1..from + 60, seed);
        disk.set_trace(true);
        let (txn, rows) = transaction(&log, &LENS);
        let at = log.append(txn).expect("appended");
        let done = disk.changes();
        let trace = disk.take_trace();
        writes += trace
            .iter()
            .filter(|change| change.contains(": write"))
            .count();
        drop(log);
        let mut after = before.clone();
        after.extend(numbered(at.first, &rows));
        for cut in disk.take_captures() {
            let what = format!("seed {seed}, change {}", cut.change);
            let log = open(&cut.disk);
            let found = read_all(&log, 0).expect(&what);
            assert!(found == after || found == before, "{what}: a part is there");
            assert!(cut.change <= done || found == after, "{what}: it is gone");
            // A failed transaction does not come back behind the next one.
            let (txn, rows) = transaction(&log, &LENS[..4]);
            let at = log.append(txn).expect(&what);
            let mut next = found.clone();
            next.extend(numbered(at.first, &rows));
            drop(log);
            let log = open(&cut.disk.survivor(seed));
            assert_eq!(read_all(&log, 0).expect(&what), next, "{what}");
        }
    }
    assert!(writes > 30 * 8, "only {writes} writes");
}

#[test]
fn a_failed_write_leaves_no_part_of_the_transaction() {
    for kind in [FaultKind::Io, FaultKind::Full] {
        let mut failed = 0;
        for (after, prefix) in (0..40).flat_map(|n| [(n, 0), (n, 90), (n, 1 << 20)]) {
            let (disk, log, mut model) = begun(after);
            let fault = Fault::new(kind, Call::Write);
            disk.fail(fault.after(after).with_prefix(prefix));
            let (txn, rows) = transaction(&log, &LENS);
            match log.append(txn) {
                Ok(at) => model.extend(numbered(at.first, &rows)),
                Err(Error::Io(_) | Error::Full(_)) => failed += 1,
                Err(e) => panic!("write {after}: {e}"),
            }
            disk.clear_faults();
            let what = format!("{kind:?} at write {after}, {prefix} bytes of it");
            assert_eq!(read_all(&log, 0).expect(&what), model, "{what}");
            for seed in 0..4 {
                let survivor = open(&disk.survivor(seed));
                assert_eq!(read_all(&survivor, 0).expect(&what), model, "{what}, cut");
            }
            let (txn, rows) = transaction(&log, &LENS);
            let at = log.append(txn).expect(&what);
            model.extend(numbered(at.first, &rows));
            drop(log);
            let log = open(&disk.survivor(after));
            assert_eq!(read_all(&log, 0).expect(&what), model, "{what}, then");
        }
        assert!(failed > 8 * 3, "only {failed} failures");
    }
}

/// Writes to segments while a transaction with these lengths is appended.
fn writes(disk: &SimDisk, log: &Log, lens: &[usize]) -> Vec<String> {
    disk.set_trace(true);
    let (txn, _) = transaction(log, lens);
    log.append(txn).expect("appended");
    let mut trace = disk.take_trace();
    trace.retain(|change| change.contains(": write") && change.contains(".seg"));
    trace
}

#[test]
fn a_group_of_the_usual_size_is_one_write_and_a_larger_one_is_never_collected() {
    let disk = SimDisk::new(1);
    let log = Log::open(
        dir(&disk),
        densite_log::Options {
            segment_bytes: 1 << 20,
            grow_bytes: 1,
            ..common::options()
        },
    )
    .expect("opens");
    // Tables are written only once.
    writes(&disk, &log, &[1, 1, 1]);
    assert_eq!(writes(&disk, &log, &[200]).len(), 1);
    assert_eq!(writes(&disk, &log, &[1000, 50, 1000]).len(), 1);
    let longest = |trace: &[String]| {
        let bytes = trace.iter().filter_map(|change| change.rsplit_once('+'));
        let bytes = bytes.filter_map(|(_, bytes)| bytes.parse::<usize>().ok());
        bytes.max().expect("a write")
    };
    // Short records of a large group are collected, up to the bytes of a usual group.
    let short = writes(&disk, &log, &[30; 200]);
    assert!(longest(&short) <= 4096, "{short:?}");
    assert!(short.len() < 8, "{short:?}");
    // Long payloads are written directly, whatever is between them.
    let long = writes(&disk, &log, &[9000, 9000, 10, 9000]);
    assert!(long.len() <= 7, "{long:?}");
    assert!(longest(&long) < 9000 + 64, "{long:?}");
}
