//! Records that were cut off at the end of the log never come back, whatever a later power cut
//! leaves of the bytes over them.
//!
//! The first eight bytes of all records are the same. Let a record begin eight bytes before the end
//! of a sector, and let a power cut take only that sector. If the next power cut keeps just that
//! sector of a new record in its place, the old record would be complete again.

use crate::common::{DIR, ID, Row, dir, open, read_all, tables};
use densite_disk::Op as Call;
use densite_log::{Batch, Log, Op, Seq, Txn, Value, check};
use densite_sim_disk::{Fault, FaultKind, SimDisk};
use std::collections::BTreeMap;

const SECTOR: usize = 512;

fn append(log: &Log, id: i64, bytes: usize) -> densite_log::Result<Seq> {
    let mut batch = Batch::new(&tables()[0], Op::Insert);
    let payload = vec![id as u8; bytes];
    batch
        .push(&[Value::Int(id), Value::Blob(&payload)])
        .expect("push");
    let mut txn = Txn::new(log.new_txn());
    txn.push(&batch).expect("push");
    Ok(log.append(txn)?.last)
}

fn segment() -> String {
    format!("{DIR}/000000000001.seg")
}

/// The end of the log by its end word.
fn end(disk: &SimDisk) -> usize {
    let word = disk.contents(&format!("{DIR}/end")).expect("a word");
    u64::from_le_bytes(word[24..32].try_into().expect("eight bytes")) as usize
}

/// A log that ends eight bytes before the end of a sector, just opened. Its next append begins with
/// a table's record.
fn begun() -> (SimDisk, Log) {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    for id in 0..60 {
        append(&log, id, 8 * (id as usize % 9)).expect("append");
        if end(&disk) % SECTOR == SECTOR - 8 {
            drop(log);
            let log = open(&disk);
            return (disk, log);
        }
    }
    panic!("no record of these lengths ends there");
}

/// A disk with the files of this one, in which the sectors of the segment for which `is_kept` is
/// true come from the other disk.
fn mixed(disk: &SimDisk, other: &SimDisk, is_kept: impl Fn(usize) -> bool) -> SimDisk {
    let mixed = SimDisk::new(1);
    for path in disk.paths() {
        let mut bytes = disk.contents(&path).expect("it is there");
        if path == segment() {
            let from = other.contents(&path).expect("it is there");
            bytes.resize(bytes.len().max(from.len()), 0);
            for (n, sector) in from.chunks(SECTOR).enumerate() {
                if is_kept(n) {
                    bytes[n * SECTOR..][..sector.len()].copy_from_slice(sector);
                }
            }
        }
        mixed.put_file(&path, &bytes);
    }
    mixed
}

fn rows(disk: &SimDisk) -> BTreeMap<Seq, Row> {
    let log = open(disk);
    let rows = read_all(&log, 0).expect("reads");
    let report = check(dir(disk), ID).expect("check");
    assert_eq!(
        (report.problems.len(), report.unconfirmed_bytes),
        (0, 0),
        "{report:?}"
    );
    rows
}

#[test]
fn rows_cut_by_recovery_do_not_reappear() {
    let (disk, log) = begun();
    let first = end(&disk) / SECTOR;
    let before = disk.snapshot();
    append(&log, 1000, 300).expect("append");
    // All of it except its first sector reached the disk.
    let torn = mixed(&before, &disk.snapshot(), |n| n != first);
    let there = rows(&torn);
    assert_eq!(
        there.keys().last().copied(),
        log.last().ok().map(|last| last - 1)
    );
    let opened = torn.snapshot();
    append(&open(&torn), 2000, 300).expect("append");
    // Only the first sector of the next record reached the disk.
    let again = mixed(&opened, &torn.snapshot(), |n| n == first);
    assert_eq!(rows(&again), there);
}

#[test]
fn rows_of_a_failed_append_do_not_reappear() {
    let (disk, log) = begun();
    let first = end(&disk) / SECTOR;
    let there = read_all(&log, 0).expect("reads");
    // All bytes are written before the call fails.
    disk.fail(
        Fault::new(FaultKind::Io, Call::Write)
            .on_path(".seg")
            .with_prefix(1 << 20),
    );
    append(&log, 1000, 300).expect_err("a write failed");
    disk.clear_faults();
    let failed = disk.snapshot();
    assert_eq!(rows(&failed), there);
    append(&log, 2000, 300).expect("append");
    let again = mixed(&failed, &disk.snapshot(), |n| n == first);
    assert_eq!(rows(&again), there);
}
