//! Power cuts at every change of the disk. Acknowledged transactions are there, once and whole.
//! Others are there as a whole or not at all. Rolled-back transactions are not there. Rows that a
//! subscriber has not acknowledged are not gone. The log can be used afterwards.
//!
//! `DENSITE_SEED=n` runs one seed.

use crate::common::{ID, Row, dir, open, random_txn, read_all, tables};
use densite_log::{Begin, Log, Seq, check};
use densite_sim_disk::SimDisk;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of changes of the disk before an operation began and when it ended.
#[derive(Debug, Clone, Copy)]
struct When {
    began: u64,
    done: u64,
}

struct Txn {
    rows: Vec<Row>,
    first: Seq,
    append: When,
    cancel: Option<When>,
}

#[derive(Default)]
struct Model {
    txns: Vec<Txn>,
    /// Positions that were set for each subscriber; `None` when it was removed.
    positions: BTreeMap<String, Vec<(Option<Seq>, When)>>,
    /// Positions that were passed as durable in the database.
    durable: Vec<(Seq, When)>,
}

impl Model {
    fn live_positions(&self) -> Vec<(String, Seq)> {
        let live = |(name, all): (&String, &Vec<(Option<Seq>, When)>)| {
            Some((name.clone(), all.last()?.0?))
        };
        self.positions.iter().filter_map(live).collect()
    }
}

struct Run {
    disk: SimDisk,
    rng: SmallRng,
    model: Model,
    log: Option<Log>,
    last: Seq,
}

impl Run {
    fn when<T>(&mut self, what: impl FnOnce(&Log, &mut SmallRng) -> T) -> (T, When) {
        let began = self.disk.changes();
        let log = self.log.as_ref().expect("open");
        let answer = what(log, &mut self.rng);
        let done = self.disk.changes();
        (answer, When { began, done })
    }

    fn step(&mut self) {
        match self.rng.random_range(0..30) {
            0 => {
                self.log = None;
                self.log = Some(open(&self.disk));
            }
            1..=3 => self.append_and_decide(),
            4 => {
                let name = format!("s{}", self.rng.random_range(0..3));
                if let Some(Some((_, _))) = self
                    .model
                    .positions
                    .get(&name)
                    .map(|p| p.last().filter(|l| l.0.is_some()))
                {
                    let (_, when) =
                        self.when(|log, _| log.unsubscribe(&name).expect("unsubscribe"));
                    self.note(name, None, when);
                } else {
                    let from = [Begin::Start, Begin::Now][self.rng.random_range(0..2)];
                    let (at, when) =
                        self.when(|log, _| log.subscribe(&name, from).expect("subscribe"));
                    self.note(name, Some(at), when);
                }
            }
            5..=7 => {
                for (name, position) in self.model.live_positions() {
                    let last = self.last;
                    let (at, when) = self.when(|log, rng| {
                        log.ack(&name, rng.random_range(position..=last.max(position)))
                            .expect("ack")
                    });
                    self.note(name, Some(at), when);
                }
            }
            8..=9 => {
                let before = self.model.durable.last().map_or(0, |d| d.0);
                let last = self.last;
                let durable = self.rng.random_range(before..=last.max(before));
                let (pruned, when) = self.when(|log, _| log.prune(durable));
                pruned.expect("prune");
                self.model.durable.push((durable, when));
            }
            10 => {
                let ((), _) = self.when(|log, _| {
                    log.prepare_free_segment().expect("free_segment");
                });
            }
            _ => self.append(),
        }
    }

    fn note(&mut self, name: String, position: Option<Seq>, when: When) {
        self.model
            .positions
            .entry(name)
            .or_default()
            .push((position, when));
    }

    fn append(&mut self) {
        let tables = tables();
        let ((rows, at), append) = self.when(|log, rng| {
            let (txn, rows) = random_txn(log, &tables, rng);
            (rows, log.append(txn).expect("append"))
        });
        self.last = at.last;
        self.model.txns.push(Txn {
            rows,
            first: at.first,
            append,
            cancel: None,
        });
    }

    fn append_and_decide(&mut self) {
        let tables = tables();
        let ((rows, txn, at), append) = self.when(|log, rng| {
            let (txn, rows) = random_txn(log, &tables, rng);
            let txn = Arc::new(txn);
            let at = log.prepare(&txn).expect("prepare");
            assert_eq!(
                log.prepare(&txn).expect("again"),
                at,
                "a repeated xSync appends nothing"
            );
            assert!(
                log.last().expect("last") < at.first,
                "seen before it is decided"
            );
            (rows, txn, at)
        });
        self.last = at.last;
        let cancels = self.rng.random_bool(0.5);
        let (_, when) = self.when(|log, _| match cancels {
            true => log.cancel(txn.id()).expect("cancel"),
            false => log.commit(txn.id()),
        });
        self.model.txns.push(Txn {
            rows,
            first: at.first,
            append,
            cancel: cancels.then_some(when),
        });
    }

    /// After a cut at change `at`, the log must have what the model allows at that time.
    fn verify(&self, disk: &SimDisk, at: u64, what: &str) -> (Log, BTreeMap<Seq, Row>) {
        let log = open(disk);
        let status = log.status().unwrap_or_else(|e| panic!("{what}: {e}"));
        let found = read_all(&log, status.first - 1).unwrap_or_else(|e| panic!("{what}: {e}"));
        // Each position is the last one that was done, or one that was being set.
        let mut slowest = Seq::MAX;
        let subscribers = log.subscribers().expect("subscribers");
        for (name, all) in &self.model.positions {
            let got = subscribers
                .iter()
                .find(|s| s.name == *name)
                .map(|s| s.position);
            let done = all.iter().rposition(|(_, w)| w.done < at);
            let under_way = all
                .iter()
                .skip(done.map_or(0, |d| d + 1))
                .filter(|(_, w)| w.began < at);
            let before = done.and_then(|d| all[d].0);
            let possible: Vec<Option<Seq>> = under_way.map(|(p, _)| *p).chain([before]).collect();
            assert!(
                possible.contains(&got),
                "{what}: {name} is at {got:?}, not {possible:?}"
            );
            slowest = slowest.min(got.unwrap_or(Seq::MAX));
        }
        let durable = self
            .model
            .durable
            .iter()
            .rfind(|d| d.1.began < at)
            .map_or(0, |d| d.0);
        let may_be_gone = durable.min(slowest);
        assert!(
            status.first <= may_be_gone + 1,
            "{what}: it begins at {}, though {may_be_gone} is all that was passed",
            status.first
        );
        let mut left = found.clone();
        for txn in &self.model.txns {
            let numbers = txn.first..txn.first + txn.rows.len() as u64;
            let got: Vec<Option<Row>> = numbers.clone().map(|n| left.remove(&n)).collect();
            if numbers.end <= status.first {
                continue;
            }
            let there = got.iter().any(Option::is_some);
            if there {
                let got: Vec<Row> = got.into_iter().flatten().collect();
                let pruned = txn.rows.len() - got.len();
                assert_eq!(got, txn.rows[pruned..], "{what}: rows of {numbers:?}");
                assert!(
                    pruned == 0 || numbers.start < status.first,
                    "{what}: a part of {numbers:?}"
                );
                assert!(txn.append.began < at, "{what}: rows of the future");
                assert!(
                    txn.cancel.is_none_or(|c| c.done >= at),
                    "{what}: {numbers:?} was rolled back"
                );
            } else {
                let never_acknowledged = txn.append.done >= at;
                let rolled_back = txn.cancel.is_some_and(|c| c.began < at);
                assert!(
                    never_acknowledged || rolled_back,
                    "{what}: {numbers:?} is gone"
                );
            }
        }
        assert!(
            left.is_empty(),
            "{what}: rows that were never written: {:?}",
            left.keys()
        );
        let report = check(dir(disk), ID).expect("check");
        assert_eq!(report.problems, [], "{what}");
        assert_eq!(report.unconfirmed_bytes, 0, "{what}");
        (log, found)
    }
}

fn crash(seed: u64) -> usize {
    let disk = SimDisk::of_seed(seed);
    disk.cut_at_each(1..1500, seed);
    let log = open(&disk);
    let created = disk.changes();
    let mut run = Run {
        disk: disk.clone(),
        rng: SmallRng::seed_from_u64(seed),
        model: Model::default(),
        log: Some(log),
        last: 0,
    };
    (0..60).for_each(|_| run.step());
    run.log = None;
    let captures = disk.take_captures();
    let mut cases = 0;
    for c in captures {
        let what = format!("DENSITE_SEED={seed} cut at change {}", c.change);
        if c.change <= created && c.disk.paths().is_empty() {
            continue;
        }
        let (log, found) = run.verify(&c.disk, c.change, &what);
        cases += 1;
        // Sometimes continues from there and cuts again: a torn tail must not come back.
        if c.change % 7 == 0 {
            cases += go_on(seed ^ (c.change << 20), &c.disk, log, found, &what);
        }
    }
    cases
}

/// Appends to the log that a cut left, and cuts again.
fn go_on(seed: u64, disk: &SimDisk, log: Log, found: BTreeMap<Seq, Row>, what: &str) -> usize {
    let mut model = Model::default();
    let zero = When { began: 0, done: 0 };
    for (seq, row) in found {
        model.txns.push(Txn {
            rows: vec![row],
            first: seq,
            append: zero,
            cancel: None,
        });
    }
    for s in log.subscribers().expect("subscribers") {
        model
            .positions
            .insert(s.name, vec![(Some(s.position), zero)]);
    }
    let status = log.status().expect("status");
    model.durable.push((status.first - 1, zero));
    let mut run = Run {
        disk: disk.clone(),
        rng: SmallRng::seed_from_u64(seed),
        model,
        last: status.last,
        log: Some(log),
    };
    let from = disk.changes();
    disk.cut_at_each((from + 1..from + 60).step_by(5), seed);
    (0..6).for_each(|_| run.step());
    run.log = None;
    let captures = disk.take_captures();
    for second in &captures {
        run.verify(
            &second.disk,
            second.change,
            &format!("{what}, again at {}", second.change),
        );
    }
    captures.len()
}

#[test]
fn power_cuts() {
    let cases: usize = densite_testing::seeds(12).map(crash).sum();
    let least = densite_testing::Effort::wanted().least(1000);
    assert!(cases as u64 >= least, "only {cases} cases");
    println!("{cases} power cuts");
}

/// A part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_log() {
    densite_testing::long_run("power cuts", |seed| crash(seed) as u64);
}
