//! Rows stay while a subscriber has not acknowledged them, a reader needs them or the database does
//! not hold them durably. Once they are not needed any more, the size of the log is bounded.

use crate::common::{self, Row, dir, open, options, random_txn, read_all, tables};
use densite_log::{Begin, Error, Log, Options, Pruned, Reader, Salvage, Seq};
use densite_sim_disk::SimDisk;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Step {
    Append(u8),
    Subscribe(u8, bool),
    Unsubscribe(u8),
    Ack(u8, prop::sample::Index),
    Durable(prop::sample::Index),
    Prune,
    OpenReader(prop::sample::Index),
    Read(u8),
    CloseReader,
    Retain(u16),
    Reopen,
    /// The following steps are those of another process that has the log open.
    Turn(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        8 => (1u8..30).prop_map(Step::Append),
        2 => (0u8..3, any::<bool>()).prop_map(|(n, s)| Step::Subscribe(n, s)),
        1 => (0u8..3).prop_map(Step::Unsubscribe),
        5 => (0u8..3, at()).prop_map(|(n, i)| Step::Ack(n, i)),
        4 => at().prop_map(Step::Durable),
        5 => Just(Step::Prune),
        1 => at().prop_map(Step::OpenReader),
        2 => (1u8..20).prop_map(Step::Read),
        1 => Just(Step::CloseReader),
        1 => (0u16..60000).prop_map(Step::Retain),
        1 => Just(Step::Reopen),
        6 => (0u8..3).prop_map(Step::Turn),
    ]
}

struct World {
    disk: SimDisk,
    /// The log of the current process.
    log: Log,
    /// The other processes that have it open.
    others: Vec<Log>,
    rng: SmallRng,
    model: BTreeMap<Seq, Row>,
    positions: BTreeMap<String, Seq>,
    durable: Seq,
    retain: u64,
    reader: Option<Reader>,
    last: Seq,
    pruned: u64,
}

impl World {
    fn new() -> World {
        let disk = SimDisk::new(1);
        World {
            log: open(&disk),
            others: vec![open(&disk), open(&disk)],
            disk,
            rng: SmallRng::seed_from_u64(1),
            model: BTreeMap::new(),
            positions: BTreeMap::new(),
            durable: 0,
            retain: 0,
            reader: None,
            last: 0,
            pruned: 0,
        }
    }

    fn between(&self, low: Seq, at: prop::sample::Index) -> Seq {
        low + at.index((self.last - low + 1) as usize) as Seq
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append(times) => {
                for _ in 0..times {
                    let (txn, rows) = random_txn(&self.log, &tables(), &mut self.rng);
                    let at = self.log.append(txn).expect("append");
                    self.model.extend((at.first..).zip(rows));
                    self.last = at.last;
                }
            }
            Step::Subscribe(n, start) => {
                let name = format!("s{n}");
                let from = if start { Begin::Start } else { Begin::Now };
                match self.log.subscribe(&name, from) {
                    Ok(at) => assert!(self.positions.insert(name, at).is_none()),
                    Err(Error::SubscriberExists(_)) => assert!(self.positions.contains_key(&name)),
                    Err(e) => panic!("{e}"),
                }
            }
            Step::Unsubscribe(n) => {
                let name = format!("s{n}");
                let done = self.log.unsubscribe(&name);
                assert_eq!(done.is_ok(), self.positions.remove(&name).is_some());
            }
            Step::Ack(n, at) => {
                let name = format!("s{n}");
                let seq = self.between(0, at);
                match self.positions.get_mut(&name) {
                    Some(position) => {
                        *position = seq.max(*position);
                        assert_eq!(self.log.ack(&name, seq).expect("ack"), *position);
                    }
                    None => assert!(matches!(
                        self.log.ack(&name, seq),
                        Err(Error::NoSubscriber(_))
                    )),
                }
            }
            Step::Durable(at) => self.durable = self.between(self.durable, at),
            Step::Prune => self.pruned += self.log.auto_prune(self.durable).expect("prune").bytes,
            Step::OpenReader(at) => {
                let first = self.log.status().expect("status").first - 1;
                self.reader = Some(
                    self.log
                        .read_after(self.between(first.min(self.last), at))
                        .expect("reader"),
                );
            }
            Step::Read(n) => {
                for _ in 0..n {
                    let Some(reader) = &mut self.reader else {
                        return;
                    };
                    // An open reader never reaches pruned rows.
                    let before = reader.position();
                    match reader.next().expect("read") {
                        Some(record) => assert_eq!(record.first + record.skip as u64, before + 1),
                        None => assert_eq!(before, self.last),
                    }
                }
            }
            Step::CloseReader => self.reader = None,
            Step::Retain(bytes) => {
                self.retain = bytes.into();
                self.log
                    .set_config(|c| c.retain_bytes = bytes.into())
                    .expect("config");
            }
            Step::Reopen => {
                self.reader = None;
                self.log = open(&self.disk);
            }
            Step::Turn(n) => {
                if let Some(other) = self.others.get_mut(usize::from(n)) {
                    std::mem::swap(&mut self.log, other);
                }
            }
        }
    }

    /// Checks that all needed rows are there.
    fn check(&self) {
        let first = self.log.status().expect("status").first;
        let slowest = self.positions.values().copied().min().unwrap_or(Seq::MAX);
        assert!(first <= self.durable.min(slowest) + 1, "begins at {first}");
        let expected: BTreeMap<Seq, Row> = self
            .model
            .range(first..)
            .map(|(s, r)| (*s, r.clone()))
            .collect();
        assert_eq!(read_all(&self.log, first - 1).expect("read"), expected);
        if first > 1 {
            let gone = self.log.read_after(first - 2).expect("reader").next();
            assert!(matches!(gone, Err(Error::Pruned { .. })));
        }
    }

    /// When all rows are passed, one segment and the free segments remain, however many processes
    /// have the log open.
    fn finish(mut self) {
        self.reader = None;
        assert_eq!(
            read_all(
                &self.others[0],
                self.log.status().expect("status").first - 1
            )
            .expect("read"),
            read_all(&self.log, self.log.status().expect("status").first - 1).expect("read"),
        );
        for name in self.positions.keys() {
            self.log.ack(name, self.last).expect("ack");
        }
        self.log.prune(self.last).expect("prune");
        let status = self.log.status().expect("status");
        if self.retain == 0 {
            assert_eq!(status.segments, 1, "{status:?}");
        }
        let largest = 3 * options().segment_bytes;
        assert!(
            status.segments == 1 || status.bytes < self.retain + largest,
            "{status:?}"
        );
        assert!(
            status.free_segment_bytes
                <= options().free_segments_max as u64 * options().segment_bytes
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn rows_that_a_subscriber_or_reader_needs_are_not_pruned(steps in proptest::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            world.check();
        }
        world.finish();
    }
}

fn fill(log: &Log, segments: u64) -> Seq {
    let mut rng = SmallRng::seed_from_u64(2);
    let mut last = 0;
    while log.status().expect("status").segments < segments {
        last = log
            .append(random_txn(log, &tables(), &mut rng).0)
            .expect("append")
            .last;
    }
    last
}

#[test]
fn pruned_segments_are_written_again() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    for _ in 0..10 {
        let last = fill(&log, 4);
        assert_eq!(log.prune(last).expect("prune").segments, 3);
    }
    let names: Vec<String> = disk.paths();
    let free_segments = names.iter().filter(|n| n.contains("free-")).count();
    assert!(free_segments <= options().free_segments_max, "{names:?}");
    let segments = || log.status().expect("status").segments;
    let (syncs, before) = (disk.counters_total().syncs, segments());
    let mut rng = SmallRng::seed_from_u64(8);
    for _ in 0..20 {
        log.append(random_txn(&log, &tables(), &mut rng).0)
            .expect("append");
    }
    let syncs = disk.counters_total().syncs - syncs;
    assert_eq!(
        syncs,
        20 + 2 * (segments() - before),
        "one sync each, two for each new segment"
    );
}

/// Without its state it is unknown who needs the rows. Opening the log is an error and creates no
/// new one, and a repaired log does not prune automatically.
#[test]
fn a_log_without_its_state_is_refused_and_not_pruned_automatically_after_a_repair() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    assert!(log.config().expect("config").auto_prune);
    let last = fill(&log, 3);
    let state = format!("{}/state", common::DIR);
    disk.remove(&state).expect("remove");
    let is_named = |e: Error| matches!(e, Error::Damaged { segment, problem, .. } if segment == "state" && problem.contains("missing"));
    // For a process that has it open, one that opens it, and one that only reads it.
    assert!(is_named(log.status().expect_err("no state")));
    assert!(is_named(
        log.subscribe("s", Begin::Start).expect_err("no state")
    ));
    assert!(is_named(log.prune(last).expect_err("no state")));
    assert!(is_named(
        Log::open(dir(&disk), options()).err().expect("no state")
    ));
    drop(log);
    assert!(is_named(
        Log::open(dir(&disk), options()).err().expect("no state")
    ));
    assert!(is_named(
        Log::open_read_only(dir(&disk), common::ID)
            .err()
            .expect("no state")
    ));
    assert!(!disk.exists(&state).expect("looks"), "no state was made");
    let report = densite_log::check(dir(&disk), common::ID).expect("check");
    assert_eq!(
        (report.problems.len(), report.problems[0].segment.as_str()),
        (1, "state")
    );
    assert_eq!(report.rows, last);
    let new: densite_log::LogDir = std::sync::Arc::new(disk.dir("/new-log"));
    let done = Salvage::begin(dir(&disk), common::ID, None)
        .expect("held")
        .run(Some(new.clone()))
        .expect("salvaged");
    assert!(done.state_lost && done.lost.is_empty() && done.rows == last);
    let log = Log::open(new.clone(), options()).expect("open");
    assert!(!log.config().expect("config").auto_prune);
    while log.status().expect("status").segments < 3 {
        fill(&log, 3);
    }
    let last = log.last().expect("last");
    assert_eq!(log.auto_prune(last).expect("prune"), Pruned::default());
    log.set_config(|c| c.auto_prune = true).expect("config");
    drop(log);
    let log = Log::open(
        new,
        Options {
            create: false,
            ..options()
        },
    )
    .expect("open");
    assert_eq!(
        log.auto_prune(last).expect("prune").segments,
        2,
        "kept with the log"
    );
}

/// If the process that makes a log stops before it stores the state, the log is empty and is made
/// again.
#[test]
fn a_log_that_was_not_finished_is_made_again() {
    let disk = SimDisk::new(1);
    drop(open(&disk));
    let path = |name: &str| format!("{}/{name}", common::DIR);
    let word = disk.contents(&path("end")).expect("there");
    disk.remove(&path("state")).expect("remove");
    disk.put_file(&path("end"), &[]);
    let log = open(&disk);
    assert!(log.config().expect("config").auto_prune);
    drop(log);
    // A log with an end word was once complete: a subscriber may have been added.
    disk.remove(&path("state")).expect("remove");
    disk.put_file(&path("end"), &word);
    assert!(matches!(
        Log::open(dir(&disk), options()),
        Err(Error::Damaged { .. })
    ));
}

#[test]
fn names_and_acknowledgements_are_validated() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    let last = fill(&log, 2);
    let long = "x".repeat(65);
    for name in ["", "a b", "ä", long.as_str(), "a/b"] {
        assert!(
            matches!(log.subscribe(name, Begin::Now), Err(Error::BadName(_))),
            "{name}"
        );
    }
    assert_eq!(log.subscribe("all", Begin::Start).expect("subscribe"), 0);
    assert_eq!(log.subscribe("new", Begin::Now).expect("subscribe"), last);
    assert!(matches!(
        log.ack("all", last + 1),
        Err(Error::AckBeyondEnd { .. })
    ));
    assert_eq!(log.ack("all", 5).expect("ack"), 5);
    assert_eq!(log.ack("all", 3).expect("ack"), 5);
    let all = log.subscribers().expect("list");
    assert_eq!(
        (all[0].name.as_str(), all[0].position, all[0].rows_behind),
        ("all", 5, last - 5)
    );
    assert!(all[0].bytes_behind > 6 << 10 && all[1].bytes_behind == 0);
    assert_eq!(open(&disk).subscribers().expect("list"), all);
}

/// A damaged header matters only for the end of the previous segment. Everything else is pruned as
/// usual, and what cannot be pruned yet is reported.
#[test]
fn a_damaged_header_keeps_only_the_segment_before_it() {
    let disk = SimDisk::new(3);
    let log = open(&disk);
    // The last row of each segment except the last one.
    let mut ends = vec![0];
    while ends.len() < 6 {
        let txn = random_txn(&log, &tables(), &mut SmallRng::seed_from_u64(7)).0;
        let first = log.append(txn).expect("append").first;
        if log.status().expect("status").segments > ends.len() as u64 {
            ends.push(first - 1);
        }
    }
    let last = log.status().expect("status").last;
    let first = |log: &Log| log.status().expect("status").first;
    for broken in 2..=6_usize {
        let disk = disk.snapshot();
        let log = open(&disk);
        let path = format!("{}/{broken:012}.seg", common::DIR);
        let mut bytes = disk.contents(&path).expect("there");
        bytes[9] ^= 0x10;
        disk.put_file(&path, &bytes);
        let is_named = |done: densite_log::Result<Pruned>| {
            let name = format!("{broken:012}.seg");
            let told = done.expect_err("it cannot be told");
            assert!(
                matches!(&told, Error::Damaged { segment, .. } if *segment == name),
                "{told}"
            );
        };
        // All rows in front of it are passed. The end of the previous segment is unknown.
        is_named(log.prune(ends[broken - 1]));
        assert_eq!(first(&log), ends[broken - 2] + 1, "segment {broken}");
        if broken == 6 {
            is_named(log.prune(last));
            continue;
        }
        is_named(log.prune(ends[broken] - 1));
        // The damaged segment is not needed. But no log begins with it, however many bytes are
        // retained.
        for retain in (0..log.status().expect("status").bytes).rev().step_by(512) {
            log.set_config(|c| c.retain_bytes = retain).expect("set");
            log.prune(ends[broken]).expect("prunes");
            assert_ne!(first(&log), ends[broken - 1] + 1);
        }
        log.set_config(|c| c.retain_bytes = 0).expect("set");
        log.prune(ends[broken]).expect("prunes");
        assert_eq!(first(&log), ends[broken] + 1, "segment {broken}");
        log.prune(last).expect("prunes");
        assert_eq!(log.status().expect("status").segments, 1);
        assert!(read_all(&open(&disk), ends[5]).is_ok());
    }
}
