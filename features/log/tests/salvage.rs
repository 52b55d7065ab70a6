//! Repair: readable transactions keep their numbers, lost rows are reported, and no other rows are
//! missing.

use crate::common::{self, ID, Row, dir, open, options, random_txn, read_all, tables};
use densite_disk::{Dir, OpenMode};
use densite_log::{
    Batch, Begin, Error, Log, LogDir, LogId, Op, Options, Result, Salvage, Salvaged, Seq, Txn,
    Value, check,
};
use densite_sim_disk::SimDisk;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

const NEW: &str = "/new-log";

/// Some segments of transactions: (first, last) of each, and all rows.
fn filled(seed: u64) -> (SimDisk, Vec<(Seq, Seq)>, BTreeMap<Seq, Row>) {
    let disk = SimDisk::new(seed);
    let log = open(&disk);
    log.subscribe("all", Begin::Start).expect("subscribe");
    let mut rng = SmallRng::seed_from_u64(seed);
    let tables = tables();
    let mut txns = Vec::new();
    while log.status().expect("status").segments < 5 {
        let (txn, _) = random_txn(&log, &tables, &mut rng);
        let at = log.append(txn).expect("append");
        txns.push((at.first, at.last));
    }
    let rows = read_all(&log, 0).expect("read");
    (disk, txns, rows)
}

fn salvage(from: LogDir, to: Option<LogDir>, id: LogId) -> Result<Salvaged> {
    Salvage::begin(from, id, None)?.run(to)
}

fn new_dir(disk: &SimDisk) -> LogDir {
    Arc::new(disk.dir(NEW))
}

/// Repairs the log. Checks that it keeps whole transactions under their numbers, that all missing
/// rows are reported, and that the new log can be used.
fn salvaged(
    disk: &SimDisk,
    txns: &[(Seq, Seq)],
    rows: &BTreeMap<Seq, Row>,
    what: &str,
) -> Salvaged {
    let planned = salvage(dir(disk), None, ID).expect("plan");
    let done = salvage(dir(disk), Some(new_dir(disk)), ID).expect("salvage");
    assert_eq!(planned, done, "{what}");
    let log = Log::open(new_dir(disk), options()).expect("open");
    let got = read_all(&log, 0).expect("read");
    let is_lost = |seq: Seq| {
        let mut lost = done.lost.iter();
        lost.any(|l| l.first <= seq && l.last.is_none_or(|last| seq <= last))
    };
    for (seq, row) in rows {
        match got.get(seq) {
            Some(kept) => assert_eq!(kept, row, "{what}: row {seq}"),
            None => assert!(
                is_lost(*seq),
                "{what}: row {seq} is missing and not named in {:?}",
                done.lost
            ),
        }
    }
    for (first, last) in txns {
        let kept = (*first..=*last).filter(|s| got.contains_key(s)).count() as u64;
        assert!(
            kept == 0 || kept == last - first + 1,
            "{what}: {first} to {last} is not whole"
        );
    }
    assert_eq!(got.len() as u64, done.rows, "{what}");
    let next = random_txn(&log, &tables(), &mut SmallRng::seed_from_u64(1)).0;
    let at = log.append(next).expect("append");
    let last = rows.keys().last().copied().unwrap_or(0);
    assert!(at.first > last || !done.lost.is_empty(), "{what}");
    assert_eq!(
        check(new_dir(disk), ID).expect("check").problems,
        [],
        "{what}"
    );
    done
}

#[test]
fn a_flipped_byte_loses_only_its_transaction() {
    for seed in 0..60 {
        let (disk, txns, rows) = filled(seed);
        let mut rng = SmallRng::seed_from_u64(seed + 1000);
        let number = rng.random_range(1..5);
        let path = format!("{}/{number:012}.seg", common::DIR);
        let mut bytes = disk.contents(&path).expect("there");
        let at = rng.random_range(if seed % 4 == 0 {
            0..88
        } else {
            4096..bytes.len()
        });
        bytes[at] ^= 1 << rng.random_range(0..8);
        disk.put_file(&path, &bytes);
        let what = format!("seed {seed}, byte {at} of segment {number}");
        let done = salvaged(&disk, &txns, &rows, &what);
        let lost = txns.len() - done.transactions as usize;
        assert_eq!(done.lost.len(), lost, "{what}: {:?}", done.lost);
        assert!(lost <= 1, "{what}: {:?}", done.lost);
        let damaged = !check(dir(&disk), ID).expect("check").problems.is_empty();
        // A byte of padding, or behind a segment's end, costs nothing.
        if damaged && let Some(lost) = done.lost.first() {
            assert_eq!(lost.segment, format!("{number:012}.seg"), "{what}");
            assert!(lost.offset <= at as u64, "{what}");
        }
        if !damaged {
            assert_eq!(done.rows, rows.len() as u64, "{what}");
        }
    }
}

/// A record as it lies in a segment.
struct Place {
    at: usize,
    len: usize,
    is_table: bool,
    /// The transaction around it.
    txn: (Seq, Seq),
}

fn number(bytes: &[u8]) -> u64 {
    let le = bytes.iter().rev();
    le.fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// The records of an intact segment.
fn places(bytes: &[u8], txns: &[(Seq, Seq)]) -> Vec<Place> {
    let mut places = Vec::new();
    let mut at = 4096;
    while bytes.get(at..at + 4) == Some(b"DLRC") {
        let len = 72 + number(&bytes[at + 8..at + 12]) as usize;
        let seq = number(&bytes[at + 32..at + 40]);
        let txn = txns
            .iter()
            .find(|(first, last)| (first..=last).contains(&&seq));
        places.push(Place {
            at,
            len,
            is_table: bytes[at + 4] == 1,
            txn: *txn.expect("a transaction"),
        });
        at += len.next_multiple_of(8);
    }
    places
}

/// Damages a segment, and checks which transactions a repair would lose.
fn loses(disk: &SimDisk, path: &str, bad: &[u8], all: usize, lost: &[(Seq, Seq)], what: &str) {
    let good = disk.contents(path).expect("there");
    disk.put_file(path, bad);
    let from: LogDir = Arc::new(disk.dir(path.rsplit_once('/').expect("a directory").0));
    let plan = salvage(from, None, ID).expect("plan");
    disk.put_file(path, &good);
    let ranges: Vec<_> = plan.lost.iter().map(|l| (l.first, l.last)).collect();
    let want: Vec<_> = lost
        .iter()
        .map(|(first, last)| (*first, Some(*last)))
        .collect();
    assert_eq!(ranges, want, "{what}");
    assert_eq!(plan.transactions as usize, all - lost.len(), "{what}");
}

/// A disk, the path of a segment on it, and the transactions of its log.
type Sample = (SimDisk, String, Vec<(Seq, Seq)>);

/// The logs of the tests below: one in which each transaction is a group, and one whose groups have
/// many transactions, which a repair made.
fn logs() -> Vec<Sample> {
    let (disk, txns, _) = filled(11);
    salvage(dir(&disk), Some(new_dir(&disk)), ID).expect("salvage");
    let (other, same, _) = filled(12);
    let single = format!("{}/{:012}.seg", common::DIR, 2);
    let groups = format!("{NEW}/{:012}.seg", 1);
    vec![(other, single, same), (disk, groups, txns)]
}

/// Each byte of the headers, and payload bytes in steps that meet every remainder.
#[test]
fn one_flipped_bit_loses_at_most_its_transaction() {
    for (disk, path, txns) in logs() {
        let good = disk.contents(&path).expect("there");
        let flip = |at: usize, lost: &[(Seq, Seq)]| {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            let what = format!("byte {at} of {path}");
            loses(&disk, &path, &bad, txns.len(), lost, &what);
        };
        (0..88).for_each(|at| flip(at, &[]));
        for (i, place) in places(&good, &txns).iter().enumerate() {
            let header = place.at..place.at + 72;
            let is_sample = i < 12 || place.is_table;
            let step = if is_sample { 1 } else { 11 };
            header
                .skip(i % step)
                .step_by(step)
                .for_each(|at| flip(at, &[]));
            let lost = if place.is_table {
                &[][..]
            } else {
                &[place.txn]
            };
            let payload = place.at + 72..place.at + place.len;
            let step = if is_sample { 7 } else { 97 };
            payload
                .skip(i % 5)
                .step_by(step)
                .for_each(|at| flip(at, lost));
        }
    }
}

/// Whole headers and whole records that are overwritten. The next transaction is kept if it began a
/// group.
#[test]
fn an_overwritten_record_loses_only_its_transaction() {
    let (disk, path, txns) = logs().remove(0);
    let good = disk.contents(&path).expect("there");
    let places = places(&good, &txns);
    for place in &places {
        let payload = 72..place.len;
        for (part, range) in [
            ("header", 0..72),
            ("record", 0..place.len),
            ("payload", payload),
        ] {
            let mut bad = good.clone();
            bad[place.at + range.start..place.at + range.end].fill(0xA5);
            let what = format!("{part} at {} of {path}", place.at);
            match (place.is_table, part) {
                // Another segment has the same table.
                (true, "payload") => loses(&disk, &path, &bad, txns.len(), &[], &what),
                // See the next test.
                (true, _) => {}
                _ => loses(&disk, &path, &bad, txns.len(), &[place.txn], &what),
            }
        }
    }
}

/// Only the transactions with rows of a destroyed table are lost, in a group too.
#[test]
fn an_overwritten_table_loses_only_its_rows() {
    for (i, (disk, path, txns)) in logs().into_iter().enumerate() {
        let good = disk.contents(&path).expect("there");
        let places = places(&good, &txns);
        for table in places.iter().filter(|place| place.is_table) {
            // In the first log another segment has the same table.
            let from = if i == 0 { 0 } else { 72 };
            let mut bad = good.clone();
            bad[table.at + from..table.at + table.len].fill(0xA5);
            let its =
                |place: &&Place| number(&good[place.at + 20..place.at + 24]) == table.at as u64;
            let mut lost: Vec<_> = places.iter().filter(its).map(|place| place.txn).collect();
            lost.dedup();
            disk.put_file(&path, &bad);
            let from: LogDir = Arc::new(disk.dir(path.rsplit_once('/').expect("a directory").0));
            let plan = salvage(from, None, ID).expect("plan");
            disk.put_file(&path, &good);
            let what = format!("table at {} of {path}: {plan:?}", table.at);
            assert_eq!(
                plan.transactions as usize,
                txns.len() - lost.len(),
                "{what}"
            );
        }
    }
}

/// In a group of many transactions nothing shows that the one behind a destroyed header is whole.
#[test]
fn an_overwritten_header_in_a_group_loses_at_most_the_next_transaction_too() {
    let (disk, path, txns) = logs().remove(1);
    let good = disk.contents(&path).expect("there");
    for place in places(&good, &txns).iter().filter(|place| !place.is_table) {
        let mut bad = good.clone();
        bad[place.at..place.at + 72].fill(0xA5);
        disk.put_file(&path, &bad);
        let plan = salvage(new_dir(&disk), None, ID).expect("plan");
        let what = format!("header at {}", place.at);
        assert!(
            plan.transactions as usize >= txns.len() - 2,
            "{what}: {plan:?}"
        );
        assert_eq!(plan.lost.len(), 1, "{what}");
        assert_eq!(plan.lost[0].first, place.txn.0, "{what}");
    }
}

/// After a power cut the end word can be older than the last rows. A repair keeps them.
#[test]
fn rows_behind_an_old_end_word_are_kept() {
    for seed in 0..8 {
        let (disk, mut txns, _) = filled(seed);
        let end = format!("{}/end", common::DIR);
        let old = disk.contents(&end).expect("there");
        let log = open(&disk);
        let mut rng = SmallRng::seed_from_u64(seed + 50);
        for _ in 0..3 {
            let at = log
                .append(random_txn(&log, &tables(), &mut rng).0)
                .expect("append");
            txns.push((at.first, at.last));
        }
        assert_eq!(log.status().expect("status").segments, 5, "seed {seed}");
        let rows = read_all(&log, 0).expect("read");
        drop(log);
        disk.put_file(&end, &old);
        let path = format!("{}/{:012}.seg", common::DIR, 2);
        let good = disk.contents(&path).expect("there");
        let places = places(&good, &txns);
        let place = places.iter().filter(|place| !place.is_table).nth(4);
        let place = place.expect("a batch");
        let mut bad = good.clone();
        bad[place.at + 72] ^= 1;
        disk.put_file(&path, &bad);
        let done = salvaged(&disk, &txns, &rows, &format!("seed {seed}"));
        assert_eq!(done.transactions as usize, txns.len() - 1, "seed {seed}");
    }
}

/// One flipped bit of the state loses neither subscribers nor rollbacks.
#[test]
fn a_flipped_bit_of_the_state_loses_nothing() {
    let (disk, ..) = filled(3);
    let log = open(&disk);
    let mut rng = SmallRng::seed_from_u64(3);
    let txn = Arc::new(random_txn(&log, &tables(), &mut rng).0);
    log.prepare(&txn).expect("prepare");
    log.cancel(txn.id()).expect("cancel");
    log.ack("all", 5).expect("ack");
    let rows = read_all(&log, 0).expect("read");
    drop(log);
    let path = format!("{}/state", common::DIR);
    let good = disk.contents(&path).expect("there");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        disk.put_file(&path, &bad);
        let to: LogDir = Arc::new(disk.dir(&format!("/new-{at}")));
        let done = salvage(dir(&disk), Some(to.clone()), ID).expect("salvage");
        assert_eq!(
            (done.lost, done.state_lost),
            (Vec::new(), false),
            "byte {at}"
        );
        let log = Log::open(to, options()).expect("open");
        assert_eq!(read_all(&log, 0).expect("read"), rows, "byte {at}");
        assert_eq!(log.subscribers().expect("subscribers")[0].position, 5);
    }
}

/// A record whose own checks match, but which nothing links to those around it.
#[test]
fn a_record_outside_the_chain_is_not_kept() {
    use densite_disk::hash::xxh3_64_with_seed;
    let (disk, path, txns) = logs().remove(0);
    let good = disk.contents(&path).expect("there");
    let salt = number(&good[72..80]);
    for place in places(&good, &txns) {
        let mut bad = good.clone();
        let header = &mut bad[place.at..place.at + 72];
        header[56] ^= 1;
        let check = xxh3_64_with_seed(&header[..64], salt ^ place.at as u64);
        header[64..].copy_from_slice(&check.to_le_bytes());
        disk.put_file(&path, &bad);
        let plan = salvage(dir(&disk), None, ID).expect("plan");
        let lost = (plan.lost[0].first, plan.lost[0].offset as usize);
        assert_eq!(lost, (place.txn.0, place.at), "{plan:?}");
        if !place.is_table {
            assert_eq!(plan.transactions as usize, txns.len() - 1, "{plan:?}");
        }
    }
}

/// The disk lost the write of a group, and behind its place lie the remains of an earlier group that
/// was never acknowledged. Their own checks match.
#[test]
fn remains_of_a_torn_group_are_not_kept() {
    let (disk, txns, _) = filled(13);
    // A repair writes transactions in large groups. A lost one ends a group.
    let first = format!("{}/{:012}.seg", common::DIR, 1);
    let mut bad = disk.contents(&first).expect("there");
    let middle = &places(&bad, &txns)[20];
    bad[middle.at..middle.at + middle.len].fill(0xA5);
    disk.put_file(&first, &bad);
    salvage(dir(&disk), Some(new_dir(&disk)), ID).expect("salvage");
    let path = format!("{NEW}/{:012}.seg", 1);
    let torn = disk.contents(&path).expect("there");
    let places = places(&torn, &txns);
    let synced = |place: &Place| number(&torn[place.at + 24..place.at + 28]) as usize;
    let group = places.iter().map(synced).find(|at| *at > 4096);
    let group = group.expect("a second group");
    // The group was cut off, and a larger one was written in its place.
    let mut blank = torn.clone();
    blank[group..].fill(0);
    disk.put_file(&path, &blank);
    disk.remove(&format!("{NEW}/end")).expect("remove");
    let log = Log::open(
        new_dir(&disk),
        Options {
            segment_bytes: 64 << 20,
            ..options()
        },
    );
    let log = log.expect("open");
    let mut rng = SmallRng::seed_from_u64(14);
    let mut kept = read_all(&log, 0).expect("read");
    let mut txn = Txn::new(log.new_txn());
    for _ in 0..2000 {
        let mut batch = Batch::new(&tables()[0], Op::Insert);
        let payload: Vec<u8> = (0..60).map(|_| rng.random()).collect();
        batch
            .push(&[Value::Int(1), Value::Blob(&payload)])
            .expect("push");
        txn.push(&batch).expect("push");
    }
    log.append(txn).expect("append");
    let behind = log
        .append(random_txn(&log, &tables(), &mut rng).0)
        .expect("append");
    let now = read_all(&log, 0).expect("read");
    drop(log);
    kept.extend(
        now.range(behind.first..)
            .map(|(seq, row)| (*seq, row.clone())),
    );
    let mut bad = disk.contents(&path).expect("there");
    let end = places.last().map_or(0, |last| last.at + last.len);
    bad[group..end].copy_from_slice(&torn[group..end]);
    bad[group..group + 72].fill(0);
    disk.put_file(&path, &bad);
    let to: LogDir = Arc::new(disk.dir("/third"));
    salvage(new_dir(&disk), Some(to.clone()), ID).expect("salvage");
    let log = Log::open(to, options()).expect("open");
    assert_eq!(read_all(&log, 0).expect("read"), kept);
}

#[test]
fn rows_around_a_lost_segment_are_kept() {
    for number in 1..=5 {
        for header in [false, true] {
            let (disk, txns, rows) = filled(7);
            let name = format!("{number:012}.seg");
            let path = format!("{}/{name}", common::DIR);
            if header {
                let mut bytes = disk.contents(&path).expect("there");
                // One flipped bit would be corrected.
                bytes[50] ^= 3;
                disk.put_file(&path, &bytes);
            } else {
                disk.dir(common::DIR).remove(&name).expect("removed");
            }
            let what = format!("segment {number}, header {header}");
            let done = salvaged(&disk, &txns, &rows, &what);
            assert!(done.rows > 0, "{what}");
            assert_eq!(done.lost[0].segment, name, "{what}: {:?}", done.lost);
        }
    }
}

#[test]
fn files_with_numbers_that_no_segment_has_are_ignored() {
    let (disk, txns, rows) = filled(5);
    let files = disk.dir(common::DIR);
    for number in [
        "000000000000".to_owned(),
        u64::MAX.to_string(),
        (1u64 << 62).to_string(),
    ] {
        let name = format!("{number}.seg");
        files.open(&name, OpenMode::Create).expect("a stray file");
    }
    let done = salvaged(&disk, &txns, &rows, "stray files");
    assert_eq!(done.lost, []);
}

#[test]
fn subscribers_and_settings_are_kept() {
    let (disk, ..) = filled(3);
    let log = open(&disk);
    log.ack("all", 5).expect("ack");
    log.set_config(|c| c.retain_bytes = 77).expect("config");
    assert!(matches!(salvage(dir(&disk), None, ID), Err(Error::InUse)));
    drop(log);
    let done = salvage(dir(&disk), Some(new_dir(&disk)), ID).expect("salvage");
    assert_eq!((done.lost.len(), done.state_lost), (0, false));
    let log = Log::open(new_dir(&disk), options()).expect("open");
    assert_eq!(log.subscribers().expect("subscribers")[0].position, 5);
    assert_eq!(log.config().expect("config").retain_bytes, 77);
    let again = salvage(dir(&disk), Some(new_dir(&disk)), ID);
    assert!(
        matches!(again, Err(Error::Limit(_))),
        "never over a log that is there"
    );
}

/// A log opened for reading only shows everything and changes nothing.
#[test]
fn a_log_is_read_without_being_changed() {
    let (disk, _, rows) = filled(9);
    let names = disk.dir(common::DIR).list().expect("list");
    let changes = disk.changes();
    let log = Log::open_read_only(dir(&disk), ID).expect("open");
    assert_eq!(read_all(&log, 0).expect("read"), rows);
    assert_eq!(log.status().expect("status").last, rows.len() as u64);
    assert_eq!(log.subscribers().expect("subscribers").len(), 1);
    assert!(matches!(log.ack("all", 1), Err(Error::ReadOnly)));
    assert!(matches!(log.unsubscribe("all"), Err(Error::ReadOnly)));
    assert!(matches!(
        log.subscribe("more", Begin::Now),
        Err(Error::ReadOnly)
    ));
    assert!(matches!(log.prune(1), Err(Error::ReadOnly)));
    assert!(matches!(log.set_config(|_| ()), Err(Error::ReadOnly)));
    assert!(matches!(log.try_lead(), Err(Error::ReadOnly)));
    assert!(matches!(log.prepare_free_segment(), Err(Error::ReadOnly)));
    let txn = random_txn(&log, &tables(), &mut SmallRng::seed_from_u64(1)).0;
    assert!(matches!(log.append(txn), Err(Error::ReadOnly)));
    // It follows rows of a concurrent writer.
    let writer = open(&disk);
    let txn = random_txn(&writer, &tables(), &mut SmallRng::seed_from_u64(1)).0;
    let changed = disk.changes();
    let at = writer.append(txn).expect("append");
    assert_eq!(log.last().expect("last"), at.last);
    drop((log, writer));
    assert!(changed > changes);
    // The end word only shortens the search.
    let end = format!("{}/end", common::DIR);
    disk.remove(&end).expect("remove");
    let before = disk.changes();
    let log = Log::open_read_only(dir(&disk), ID).expect("open");
    assert_eq!(log.last().expect("last"), at.last);
    drop(log);
    assert_eq!(disk.changes(), before, "nothing was written");
    let mut now = disk.dir(common::DIR).list().expect("list");
    now.push("end".to_owned());
    now.sort();
    assert_eq!(now, names);
}

/// No process opens the log, or begins another repair, before the new log is in the place of the
/// damaged one.
#[test]
fn a_log_cannot_be_opened_during_a_repair() {
    use densite_disk::{RealDir, exchange};
    let tmp = tempfile::tempdir().expect("a directory");
    let (here, there) = (tmp.path().join("app.db-log"), tmp.path().join("new"));
    let dir = || Arc::new(RealDir::create(&here).expect("made"));
    let open = || Log::open(dir(), options()).expect("open");
    let add = |log: &Log, seed: u64| {
        let txn = random_txn(log, &tables(), &mut SmallRng::seed_from_u64(seed)).0;
        log.append(txn).expect("append").last
    };
    let before = add(&open(), 1);
    let held = Salvage::begin(dir(), ID, None).expect("held");
    assert!(matches!(Salvage::begin(dir(), ID, None), Err(Error::InUse)));
    std::thread::scope(|s| {
        let waiter = s.spawn(open);
        std::thread::sleep(std::time::Duration::from_millis(100));
        let new = RealDir::create(&there).expect("made");
        held.run(Some(Arc::new(new))).expect("salvaged");
        assert!(!waiter.is_finished(), "in before it was written");
        exchange(&here, &there).expect("exchanged");
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(!waiter.is_finished(), "in before it was in its place");
        drop(held);
        let log = waiter.join().expect("joined");
        let last = add(&log, 2);
        assert!(last > before);
        assert!(matches!(Salvage::begin(dir(), ID, None), Err(Error::InUse)));
        assert_eq!(
            read_all(&open(), 0).expect("read").len() as u64,
            last,
            "both are in the log that has the name"
        );
    });
}

/// If no header is left, the new log begins with the rows that the database or a subscriber lacks.
#[test]
fn a_log_without_headers_begins_behind_the_applied_rows() {
    for (acked, applied, first) in [(40, Some(30), 31), (20, Some(30), 21), (40, None, 41)] {
        let (disk, _, rows) = filled(7);
        open(&disk).ack("all", acked).expect("ack");
        for number in 1..=5 {
            let name = format!("{number:012}.seg");
            disk.dir(common::DIR).remove(&name).expect("removed");
        }
        let held = Salvage::begin(dir(&disk), ID, applied).expect("held");
        let done = held.run(Some(new_dir(&disk))).expect("salvaged");
        let lost = (done.lost[0].first, done.lost[0].last);
        assert_eq!(lost, (first, Some(rows.len() as u64)));
        let log = Log::open(new_dir(&disk), options()).expect("open");
        assert_eq!(log.status().expect("status").first, first);
    }
}

/// An open reader does not prevent a repair. It must not continue with the files of both logs.
#[test]
fn a_reader_that_was_open_across_a_repair_notices() {
    use densite_disk::{RealDir, exchange};
    for without_end in [false, true] {
        let tmp = tempfile::tempdir().expect("a directory");
        let (here, there) = (tmp.path().join("app.db-log"), tmp.path().join("new"));
        let dir = || Arc::new(RealDir::create(&here).expect("made"));
        let log = Log::open(dir(), options()).expect("open");
        let mut rng = SmallRng::seed_from_u64(5);
        while log.status().expect("status").segments < 4 {
            let txn = random_txn(&log, &tables(), &mut rng).0;
            log.append(txn).expect("append");
        }
        let rows = read_all(&log, 0).expect("read");
        drop(log);
        if without_end {
            dir().remove("end").expect("removed");
        }
        let reading = Log::open_read_only(dir(), ID).expect("open");
        let mut reader = reading.read_after(0).expect("a reader");
        let first = reader.next().expect("reads").expect("a record");
        assert_eq!(first.first, 1);
        let held = Salvage::begin(dir(), ID, None).expect("held");
        let new = RealDir::create(&there).expect("made");
        held.run(Some(Arc::new(new))).expect("salvaged");
        exchange(&here, &there).expect("exchanged");
        drop(held);
        let log = Log::open(dir(), options()).expect("open");
        let txn = random_txn(&log, &tables(), &mut rng).0;
        let at = log.append(txn).expect("append");
        assert!(at.first > rows.len() as u64);
        let mut before = first.last();
        let end = loop {
            match reader.next() {
                Ok(Some(record)) => {
                    assert_eq!(
                        record.first,
                        before + 1,
                        "without a hole as long as it reads"
                    );
                    before = record.last();
                }
                other => break other.map(|_| ()),
            }
        };
        assert!(matches!(end, Err(Error::Replaced)), "{end:?}");
        assert!(before <= rows.len() as u64, "it saw rows of the new log");
        assert!(matches!(reading.last(), Err(Error::Replaced)));
        assert!(matches!(reading.status(), Err(Error::Replaced)));
        assert!(matches!(reading.subscribers(), Err(Error::Replaced)));
        assert!(matches!(reading.read_after(0), Err(Error::Replaced)));
        let again = Log::open_read_only(dir(), ID).expect("open");
        assert_eq!(again.last().expect("last"), at.last);
    }
}
