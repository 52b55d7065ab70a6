//! Repair: readable transactions keep their numbers, lost rows are reported, and no other rows are
//! missing.

use crate::common::{self, ID, Row, dir, open, options, random_txn, read_all, tables};
use densite_disk::{Dir, OpenMode};
use densite_log::{Begin, Error, Log, LogDir, LogId, Result, Salvage, Salvaged, Seq, check};
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
        let at = rng.random_range(4096..bytes.len());
        bytes[at] ^= 1 << rng.random_range(0..8);
        disk.put_file(&path, &bytes);
        let what = format!("seed {seed}, byte {at} of segment {number}");
        let done = salvaged(&disk, &txns, &rows, &what);
        // Several losses are possible only for a table record, which many batches may need.
        let more = done.lost.iter().skip(1);
        for lost in more {
            assert_eq!(lost.problem, "rows whose table cannot be read", "{what}");
        }
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

#[test]
fn rows_around_a_lost_segment_are_kept() {
    for number in 1..=5 {
        for header in [false, true] {
            let (disk, txns, rows) = filled(7);
            let name = format!("{number:012}.seg");
            let path = format!("{}/{name}", common::DIR);
            if header {
                let mut bytes = disk.contents(&path).expect("there");
                bytes[50] ^= 1;
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
