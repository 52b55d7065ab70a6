//! A copy of a log that is in use has, at each moment, the rows that a process would find after a
//! crash at that moment.

use crate::common::{DIR, ID, Row, dir, open, options, random_txn, read_all, tables};
use densite_disk::{Dir as _, OpenMode};
use densite_log::{Begin, Hold, Image, Log, LogDir, Options, RestoredLog, Seq, Span, Txn};
use densite_sim_disk::SimDisk;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A copy: the bytes of the segments that it ever had, and what of them counts.
#[derive(Default)]
struct Shipped {
    segments: BTreeMap<u64, Vec<u8>>,
    span: Option<Span>,
    state: Vec<u8>,
    bytes: u64,
    restarts: u32,
}

impl Shipped {
    fn add(&mut self, image: &Image) {
        let news = image.after(self.span.as_ref()).expect("news");
        self.restarts += u32::from(!news.continues);
        self.bytes += news.bytes();
        for part in news.parts {
            let mut bytes = vec![0; (part.to - part.from) as usize];
            image
                .read(part.segment, &mut bytes, part.from)
                .expect("read");
            let segment = self.segments.entry(part.segment).or_default();
            segment.resize(segment.len().max(part.to as usize), 0);
            segment[part.from as usize..part.to as usize].copy_from_slice(&bytes);
        }
        self.span = Some(image.span());
        self.state = image.state();
    }

    /// Opens the copy on another disk.
    fn open(&self) -> (SimDisk, Log) {
        let disk = SimDisk::new(9);
        let target = disk.dir(DIR);
        let mut restored = RestoredLog::new(&target);
        for (number, bytes) in &self.segments {
            restored.write(*number, bytes, 0).expect("write");
        }
        let span = self.span.expect("a span");
        restored.finish(&span, &self.state).expect("finish");
        let report = densite_log::check(dir(&disk), ID).expect("check");
        assert_eq!(report.problems, []);
        let options = Options {
            create: false,
            ..options()
        };
        let log = Log::open(dir(&disk), options).expect("open the copy");
        (disk, log)
    }
}

struct World {
    disk: SimDisk,
    logs: Vec<Log>,
    rng: SmallRng,
    /// Rows that a crash would leave.
    model: BTreeMap<Seq, Row>,
    prepared: Option<(Arc<Txn>, Vec<Seq>, usize)>,
    durable: Seq,
}

impl World {
    fn act(&mut self) {
        let log = self.rng.random_range(0..self.logs.len());
        match self.rng.random_range(0..12) {
            0 => {
                self.logs[log] = open(&self.disk);
            }
            1 => {
                let last = self.model.keys().next_back().copied().unwrap_or(0);
                self.durable = self.rng.random_range(self.durable..=last.max(self.durable));
                self.logs[log].prune(self.durable).expect("prune");
            }
            2 => {
                let (name, begin) = (format!("s{log}"), Begin::Now);
                if self.logs[log].subscribe(&name, begin).is_err() {
                    self.logs[log].unsubscribe(&name).expect("unsubscribe");
                }
            }
            3 | 4 if self.prepared.is_none() => {
                let (txn, rows) = random_txn(&self.logs[log], &tables(), &mut self.rng);
                let txn = Arc::new(txn);
                let appended = self.logs[log].prepare(&txn).expect("prepare");
                let seqs: Vec<Seq> = (appended.first..=appended.last).collect();
                self.model.extend(seqs.iter().copied().zip(rows));
                self.prepared = Some((txn, seqs, log));
            }
            3..=5 => self.decide(),
            _ => {
                let (txn, rows) = random_txn(&self.logs[log], &tables(), &mut self.rng);
                let appended = self.logs[log].append(txn).expect("append");
                self.model
                    .extend((appended.first..=appended.last).zip(rows));
            }
        }
    }

    /// Ends the prepared transaction.
    fn decide(&mut self) {
        let Some((txn, seqs, log)) = self.prepared.take() else {
            return;
        };
        if self.rng.random() {
            self.logs[log].commit(txn.id());
        } else {
            self.logs[log].cancel(txn.id()).expect("cancel");
            self.model.retain(|seq, _| !seqs.contains(seq));
        }
    }
}

fn history(seed: u64) {
    let disk = SimDisk::new(seed);
    let mut world = World {
        logs: vec![open(&disk), open(&disk)],
        disk,
        rng: SmallRng::seed_from_u64(seed),
        model: BTreeMap::new(),
        prepared: None,
        durable: 0,
    };
    let mut shipped = Shipped::default();
    for round in 0..120 {
        for _ in 0..world.rng.random_range(0..6) {
            // Its process must live until it is decided.
            match world.prepared {
                Some(_) => world.decide(),
                None => world.act(),
            }
        }
        let hold = Hold::take(dir(&world.disk)).expect("hold").expect("a log");
        // The database is copied now. It has these rows.
        let durable = world.durable;
        for _ in 0..world.rng.random_range(0..3) {
            match world.prepared {
                Some(_) => world.decide(),
                None => world.act(),
            }
        }
        let image = hold.settle().expect("settle").expect("an image");
        image.check().expect("no damage");
        shipped.add(&image);
        drop(image);
        let (_disk, copy) = shipped.open();
        let first = copy.status().expect("status").first;
        assert!(first <= durable + 1, "seed {seed}, {round}: {first}");
        let found = read_all(&copy, first - 1).expect("read the copy");
        let expected: BTreeMap<_, _> = world.model.range(first..).collect();
        let found: BTreeMap<_, _> = found.iter().collect();
        assert_eq!(found, expected, "seed {seed}, round {round}");
        // It can be written.
        let (txn, rows) = random_txn(&copy, &tables(), &mut world.rng);
        let appended = copy.append(txn).expect("append to the copy");
        let last = world.model.keys().next_back().copied().unwrap_or(0);
        assert!(appended.first > last && rows.len() as u64 > appended.last - appended.first);
    }
    assert!(
        shipped.restarts < 20,
        "seed {seed}: {} times from the beginning",
        shipped.restarts
    );
}

#[test]
fn a_copy_has_the_rows_of_its_moment() {
    for seed in densite_testing::seeds(12) {
        history(seed);
    }
}

/// A log that goes on in another way than the copy is copied from its beginning.
#[test]
fn a_log_that_was_put_back_is_copied_from_its_beginning() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    let mut rng = SmallRng::seed_from_u64(1);
    let mut append = |log: &Log| {
        let (txn, _) = random_txn(log, &tables(), &mut rng);
        log.append(txn).expect("append");
    };
    append(&log);
    let image = |disk: &SimDisk| -> Image {
        let dir: LogDir = dir(disk);
        let hold = Hold::take(dir).expect("hold").expect("a log");
        hold.settle().expect("settle").expect("an image")
    };
    let mut shipped = Shipped::default();
    shipped.add(&image(&disk));
    let (other_disk, other) = shipped.open();
    append(&log);
    shipped.add(&image(&disk));
    // It continues: only the new bytes.
    assert_eq!(shipped.restarts, 1);
    let news = image(&disk).after(shipped.span.as_ref()).expect("news");
    assert!(news.continues && news.parts.is_empty());
    append(&other);
    append(&other);
    let news = image(&other_disk).after(shipped.span.as_ref());
    let news = news.expect("news");
    assert!(!news.continues && news.parts[0].from == 0, "{news:?}");
}

#[test]
fn a_copy_that_lacks_bytes_or_has_another_state_is_refused() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    let (txn, _) = random_txn(&log, &tables(), &mut SmallRng::seed_from_u64(1));
    log.append(txn).expect("append");
    let hold = Hold::take(dir(&disk)).expect("hold").expect("a log");
    let image = hold.settle().expect("settle").expect("an image");
    let mut shipped = Shipped::default();
    shipped.add(&image);
    let finish = |segments: &BTreeMap<u64, Vec<u8>>, state: &[u8]| {
        let target = SimDisk::new(2);
        let target = target.dir(DIR);
        let mut restored = RestoredLog::new(&target);
        for (number, bytes) in segments {
            restored.write(*number, bytes, 0).expect("write");
        }
        restored.finish(&image.span(), state).map(|()| {
            assert!(target.exists("end").expect("look"));
        })
    };
    finish(&shipped.segments, &shipped.state).expect("all of it");
    finish(&shipped.segments, &[]).expect_err("no state");
    let mut other = shipped.state.clone();
    other[40] = 7;
    finish(&shipped.segments, &other).expect_err("a damaged state");
    finish(&BTreeMap::new(), &shipped.state).expect_err("no segment");
    let mut cut = shipped.segments.clone();
    cut.get_mut(&1).expect("a segment").pop();
    finish(&cut, &shipped.state).expect_err("a byte is missing");
}

#[test]
fn a_check_finds_a_changed_byte() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    let mut rng = SmallRng::seed_from_u64(1);
    for _ in 0..5 {
        let (txn, _) = random_txn(&log, &tables(), &mut rng);
        log.append(txn).expect("append");
    }
    let image = || {
        let hold = Hold::take(dir(&disk)).expect("hold").expect("a log");
        hold.settle().expect("settle").expect("an image")
    };
    image().check().expect("no damage");
    let (_, end) = image().span().end();
    let file = disk.dir(DIR);
    let file = file
        .open("000000000001.seg", OpenMode::Write)
        .expect("open");
    for at in [4096, 4300, end - 9] {
        let mut byte = [0];
        file.read_at(&mut byte, at).expect("read");
        file.write_at(&[byte[0] ^ 1], at).expect("write");
        image().check().expect_err("damage");
        file.write_at(&byte, at).expect("write");
    }
    image().check().expect("no damage");
}
