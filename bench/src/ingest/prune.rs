//! The time that pruning adds to a write, with a backlog that a subscriber holds.
//!
//! A thread appends without pause. Each purge of a segment is a turn, with a turn of the same
//! length without pruning before and after it. A turn adds its 99th percentile less the mean of its
//! neighbours', because a shared disk changes more from minute to minute than what pruning adds.
//! The log is called directly, as the worker does after its batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use densite_disk::RealDir;
use densite_log::{Batch, Begin, Log, LogId, Op, Options, Table, Txn, Value};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, SeedableRng as _};

use super::bare::{Rate, millis};
use super::{Place, median, quantile};
use crate::outcome::{Compare, Figure};
use crate::result::{Failure, Result};

/// Milliseconds that pruning can add at the 99th percentile.
const TARGET: f64 = 0.1;
/// The minimal length of a turn.
const TURN: Duration = Duration::from_millis(300);

impl From<densite_log::Error> for Failure {
    fn from(e: densite_log::Error) -> Self {
        Failure(format!("log: {e}"))
    }
}

/// The turn in which a subscriber acknowledges.
const ACKNOWLEDGING: u64 = u64::MAX;

/// Times of writes, each with its turn.
type Waits = Vec<(u64, Duration)>;

pub(super) fn measure(place: &Place<'_>, rounds: u64) -> Result<Vec<Figure>> {
    let mut probes = Rate::default();
    let mut seen = Seen::default();
    for _ in 0..rounds {
        probes.probe(place.work, true)?;
        round(place, &mut seen)?;
        probes.probe(place.work, false)?;
    }
    Ok(seen.figures(place, probes))
}

/// Makes a backlog and prunes it.
fn round(place: &Place<'_>, seen: &mut Seen) -> Result<()> {
    let backlog: u64 = match (place.quick, place.long) {
        (true, _) => 4 << 20,
        (false, false) => 3 << 30,
        (false, true) => 10 << 30,
    };
    let dir = place.fresh("backlog-log")?;
    let mut options = Options {
        create: true,
        ..Options::new(LogId::random()?)
    };
    if place.quick {
        options.segment_bytes = 1 << 20;
    }
    let opened = RealDir::create(&dir).map_err(densite_log::Error::from)?;
    let log = Log::open(Arc::new(opened), options)?;
    let ends = fill(&log, backlog)?;
    let before = log.status()?.bytes;
    let (waits, turns) = take_turns(&log, &ends)?;
    let left = log.status()?.bytes;
    drop(log);
    place.clear()?;
    eprintln!(
        "{} MiB before, {} after {turns} turns",
        before >> 20,
        left >> 20
    );
    seen.add(&waits, turns);
    seen.backlog = before;
    Ok(())
}

/// Fills the log with rows that a subscriber holds. Returns the last row of each segment.
fn fill(log: &Log, backlog: u64) -> Result<Vec<u64>> {
    log.subscribe("slow", Begin::Start)?;
    let table = Table::new("vote", ["user", "payload"], 1, "")?;
    let mut payload = vec![0; 1 << 18];
    Xoshiro256PlusPlus::seed_from_u64(1).fill_bytes(&mut payload);
    let (mut ends, mut segments) = (Vec::new(), log.status()?.segments);
    let mut last = 0;
    loop {
        let mut batch = Batch::new(&table, Op::Insert);
        batch.push(&[Value::Int(0), Value::Blob(&payload)])?;
        last = log.append(Txn::of(log.new_txn(), &batch)?)?.last.max(last);
        let now = log.status()?;
        if now.segments != segments {
            segments = now.segments;
            ends.push(last);
        }
        if now.bytes >= backlog {
            return Ok(ends);
        }
    }
}

/// Even turns are without pruning, odd turns with it.
fn take_turns(log: &Log, ends: &[u64]) -> Result<(Waits, u64)> {
    let table = Table::new("vote", ["user", "article"], 2, "")?;
    let mut small = Batch::new(&table, Op::Insert);
    for n in 0..400 {
        small.push(&[Value::Int(n * 7_919_000_003 % 2_147_483_647), Value::Int(n)])?;
    }
    let (turn, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<Waits> {
            let mut waits = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let txn = Txn::of(log.new_txn(), &small)?;
                let (of, from) = (turn.load(Ordering::SeqCst), Instant::now());
                log.append(txn)?;
                let wait = from.elapsed();
                // A write in two turns belongs to the one with pruning.
                let ended = turn.load(Ordering::SeqCst);
                let pruning = [of, ended]
                    .into_iter()
                    .find(|t| t % 2 == 1 && *t != ACKNOWLEDGING);
                if let Some(turn) = pruning.or((of == ended).then_some(of)) {
                    waits.push((turn, wait));
                }
            }
            Ok(waits)
        });
        let prunes = || -> Result<()> {
            let mut quiet = TURN;
            for end in ends {
                std::thread::sleep(quiet);
                // An acknowledgement makes a sync of its own, which is not part of pruning. So it
                // is in no turn.
                turn.store(ACKNOWLEDGING, Ordering::SeqCst);
                log.ack("slow", *end)?;
                turn.store(turns_of(end, ends) * 2 + 1, Ordering::SeqCst);
                let from = Instant::now();
                log.auto_prune(u64::MAX)?;
                // A purge that keeps the segment for reuse ends after a few appends. The turn is
                // longer, so it has enough writes for a percentile, and includes what the disk does
                // afterwards.
                std::thread::sleep(TURN.saturating_sub(from.elapsed()));
                let took = from.elapsed();
                turn.store(turns_of(end, ends) * 2 + 2, Ordering::SeqCst);
                quiet = took;
            }
            std::thread::sleep(quiet);
            Ok(())
        };
        let pruned = prunes();
        stop.store(true, Ordering::Relaxed);
        let waits = writer
            .join()
            .unwrap_or_else(|_| Err(Failure("the thread that appends panicked".into())))?;
        pruned.map(|()| (waits, ends.len() as u64 * 2 + 1))
    })
}

fn turns_of(end: &u64, ends: &[u64]) -> u64 {
    ends.partition_point(|e| e < end) as u64
}

/// The results of all rounds, in ms.
#[derive(Default)]
struct Seen {
    backlog: u64,
    /// The 99th percentile of each turn with pruning, less that of its neighbours.
    added: Vec<f64>,
    without: Vec<f64>,
    with: Vec<f64>,
}

impl Seen {
    fn add(&mut self, waits: &Waits, turns: u64) {
        let mut of_turns = vec![Vec::new(); usize::try_from(turns).unwrap_or(0)];
        for (turn, wait) in waits {
            if let Some(of_turn) = usize::try_from(*turn)
                .ok()
                .and_then(|t| of_turns.get_mut(t))
            {
                of_turn.push(millis(*wait));
            }
        }
        let p99: Vec<f64> = of_turns.iter().map(|t| quantile(t.clone(), 0.99)).collect();
        for three in p99.windows(3).step_by(2) {
            if let [before, with, after] = three {
                self.added.push(with - (before + after) / 2.0);
            }
        }
        self.added.retain(|added| added.is_finite());
        for (of_turn, n) in of_turns.into_iter().zip(0u64..) {
            let side = if n % 2 == 0 {
                &mut self.without
            } else {
                &mut self.with
            };
            side.extend(of_turn);
        }
    }

    fn figures(self, place: &Place<'_>, probes: Rate) -> Vec<Figure> {
        // The order statistics between which the median lies in 95 of 100 cases.
        let spread = 0.98 / (self.added.len() as f64).sqrt();
        let at = |share: f64| quantile(self.added.clone(), share.clamp(0.0, 1.0));
        let (low, high) = (at(0.5 - spread), at(0.5 + spread));
        eprintln!(
            "{} writes without, {} with pruning; what {} turns add: quartiles {:.3} and {:.3} ms",
            self.without.len(),
            self.with.len(),
            self.added.len(),
            at(0.25),
            at(0.75)
        );
        let backlog = self.backlog as f64 / f64::from(1 << 30);
        let name = |what: &str| format!("backlog of {backlog:.1} GiB, batches of 400: {what}");
        let target = (!place.quick).then_some(TARGET);
        let turns = self.added.len();
        let pooled = [self.without, self.with].map(|waits| quantile(waits, 0.99));
        vec![
            Figure::new(
                &name(&format!(
                    "added to the 99th percentile, ms, median of {turns} turns"
                )),
                Compare::Ours,
                0.0,
                median(self.added),
                target,
            ),
            Figure::new(
                &name("95 % interval of that, ms: upper end; base: lower end"),
                Compare::Ours,
                low,
                high,
                None,
            ),
            Figure::new(
                &name("99th percentile of all writes together, base: without, ms"),
                Compare::Difference,
                pooled[0],
                pooled[1],
                None,
            ),
            probes.figure(),
        ]
    }
}
