//! Crash tests: a workload runs on the simulated disk, the power is cut at one of its changes, and
//! the result is compared with the promises of SQLite. Plain SQLite on the simulated disk is the
//! control.
//!
//! In every case, `integrity_check` is ok and the database can be written. It is in the state after
//! some transaction, as plain SQLite in memory computes it; with [`Promise::Durable`], no
//! acknowledged transaction is missing. The same holds after a second cut during recovery. An
//! atomic snapshot of all files has every acknowledged transaction, whatever the settings.

mod run;
mod stand;
mod state;
mod trouble;
mod verify;
mod workload;

use std::fmt;

use densite_sim_disk::{Capture, SimDisk};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

pub use stand::Stand;
pub use trouble::{Trouble, trouble};
pub use workload::{Journal, Promise, SCHEMA, Step, Synchronous, Workload};

use run::Ending;
use state::Digest;
use verify::Found;

/// The number of cases of one workload.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Changes at which the power is cut, spread over the run. Each is one case.
    pub cuts: usize,
    /// Further changes at which an atomic snapshot is taken.
    pub snapshots: usize,
    /// Number of cuts that really end the run.
    pub real_cuts: usize,
    /// Whether to cut a second time during recovery, in one case of four.
    pub second_cuts: bool,
    /// Whether settings change during the run ([`Workload::restless`]).
    pub restless: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            cuts: 100,
            snapshots: 5,
            real_cuts: 3,
            second_cuts: true,
            restless: false,
        }
    }
}

/// The result of the cases of one or more workloads.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    /// Distinct pairs of a workload and a change at which the power was cut.
    pub cases: u64,
    /// Checked snapshots.
    pub snapshots: u64,
    /// Checked second cuts.
    pub second_cuts: u64,
    /// Cases in which a transaction that had begun was lost.
    pub lost: u64,
    /// Cases in which an acknowledged transaction was lost, where that is allowed.
    pub lost_acknowledged: u64,
    /// Each broken promise, with the seeds that reproduce it.
    pub failures: Vec<String>,
}

impl Tally {
    /// Adds the figures of another tally.
    pub fn add(&mut self, other: Tally) {
        self.cases += other.cases;
        self.snapshots += other.snapshots;
        self.second_cuts += other.second_cuts;
        self.lost += other.lost;
        self.lost_acknowledged += other.lost_acknowledged;
        self.failures.extend(other.failures);
    }

    /// # Panics
    /// If a promise was broken, with the first few failures.
    pub fn assert_kept(&self) {
        let first: Vec<_> = self.failures.iter().take(5).map(String::as_str).collect();
        assert!(
            first.is_empty(),
            "{} of {self} broke a promise:\n{}",
            self.failures.len(),
            first.join("\n")
        );
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cases, {} snapshots, {} second cuts ({} lost a transaction, {} an acknowledged one)",
            self.cases, self.snapshots, self.second_cuts, self.lost, self.lost_acknowledged
        )
    }
}

/// The largest number of captures in memory.
const CAPTURES_MAX: usize = 200;

/// Runs the cases of a range of workload seeds with the same promise.
pub fn campaign(
    stand: &Stand<'_>,
    journal: Journal,
    synchronous: Synchronous,
    seeds: std::ops::Range<u64>,
    plan: Plan,
) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let workload = Workload {
            restless: plan.restless,
            ..Workload::new(journal, synchronous, seed)
        };
        tally.add(crash(stand, &workload, plan));
    }
    tally
}

/// Runs the cases of one workload.
pub fn crash(stand: &Stand<'_>, workload: &Workload, plan: Plan) -> Tally {
    let mut trial = Trial {
        stand,
        workload,
        states: Vec::new(),
        rng: Xoshiro256PlusPlus::seed_from_u64(workload.seed.wrapping_mul(0x9e37_79b9)),
        tally: Tally::default(),
    };
    if let Err(e) = trial.all(plan) {
        trial.fail(&e);
    }
    trial.tally
}

/// Runs one case again, as a failure names it. Returns the result and the last calls to the disk.
///
/// # Panics
/// If the workload fails without a cut.
pub fn replay(stand: &Stand<'_>, workload: &Workload, change: u64, cut_seed: u64) -> String {
    let states = state::states(workload).expect("plain SQLite runs the workload");
    let prepared = run::prepare(stand, workload).expect("a disk that does not fail");
    let cut = Capture::Cut(cut_seed);
    let (run, ending) = run::run(stand, workload, &prepared, &[(change, cut)], None);
    if let Ending::Failed(e) = ending {
        panic!("without a cut: {e}");
    }
    let mut story = run.trace.clone();
    story.truncate(usize::try_from(change).unwrap_or(usize::MAX));
    for c in &run.captured {
        for path in c.disk.paths() {
            let len = c.disk.contents(&path).map_or(0, |b| b.len());
            story.push(format!("survived: {path}, {len} bytes"));
        }
        let (found, _) = verify::verify(stand, &c.disk, &states, None);
        let possible = run.possible(c.change);
        story.push(format!(
            "acknowledged and begun {possible:?}, found {found:?}"
        ));
    }
    story.join("\n")
}

struct Trial<'a> {
    stand: &'a Stand<'a>,
    workload: &'a Workload,
    states: Vec<Digest>,
    rng: Xoshiro256PlusPlus,
    tally: Tally,
}

impl Trial<'_> {
    fn fail(&mut self, what: &str) {
        let failure = format!("{}: {what}", self.workload);
        self.tally.failures.push(failure);
    }

    fn all(&mut self, plan: Plan) -> Result<(), String> {
        self.states = state::states(self.workload).map_err(|e| format!("the model: {e}"))?;
        let prepared = run::prepare(self.stand, self.workload)?;
        // The first run only counts the changes.
        let (whole, ending) = run::run(self.stand, self.workload, &prepared, &[], None);
        if let Ending::Failed(e) = ending {
            return Err(format!("without a cut: {e}"));
        }
        let mut wanted: Vec<(u64, Capture)> = Vec::new();
        for change in self.spread(plan.cuts, whole.changes) {
            wanted.push((change, Capture::Cut(self.rng.random())));
        }
        for change in self.spread(plan.snapshots, whole.changes) {
            wanted.push((change, Capture::Snapshot));
        }
        let real = self.spread(plan.real_cuts.min(wanted.len()), whole.changes);
        for batch in wanted.chunks(CAPTURES_MAX) {
            self.captured(&prepared, batch, plan)?;
        }
        for change in real {
            self.really_cut(&prepared, change)?;
        }
        Ok(())
    }

    /// `n` distinct changes out of `1..=total`, or all of them.
    fn spread(&mut self, n: usize, total: u64) -> Vec<u64> {
        let mut all: Vec<u64> = (1..=total).collect();
        let n = n.min(all.len());
        for i in 0..n {
            let j = self.rng.random_range(i..all.len());
            all.swap(i, j);
        }
        all.truncate(n);
        all.sort_unstable();
        all
    }

    fn captured(
        &mut self,
        prepared: &SimDisk,
        batch: &[(u64, Capture)],
        plan: Plan,
    ) -> Result<(), String> {
        let (run, ending) = run::run(self.stand, self.workload, prepared, batch, None);
        if let Ending::Failed(e) = ending {
            return Err(format!("without a cut: {e}"));
        }
        for c in &run.captured {
            let (acknowledged, begun) = run.possible(c.change);
            let (at_least, what) = match c.how {
                Capture::Cut(seed) => {
                    self.tally.cases += 1;
                    (self.at_least(acknowledged), format!("cut seed {seed}"))
                }
                Capture::Snapshot => {
                    self.tally.snapshots += 1;
                    (Some(acknowledged), "snapshot".to_owned())
                }
            };
            let what = format!("change {}, {what}", c.change);
            let second = plan.second_cuts && self.rng.random_ratio(1, 4);
            let second = second.then(|| self.rng.random());
            let (found, again) = verify::verify(self.stand, &c.disk, &self.states, second);
            self.judge(found, at_least, (acknowledged, begun), &what);
            for disk in again {
                self.tally.second_cuts += 1;
                let (found, _) = verify::verify(self.stand, &disk, &self.states, None);
                let what = format!("{what}, second cut seed {second:?}");
                self.judge(found, at_least, (acknowledged, begun), &what);
            }
        }
        Ok(())
    }

    fn really_cut(&mut self, prepared: &SimDisk, change: u64) -> Result<(), String> {
        let (run, ending) = run::run(self.stand, self.workload, prepared, &[], Some(change));
        if let Ending::Complete = ending {
            // The cut is at the last change, in a close that ignores errors.
            let dead = self.stand.host().disk().is_dead();
            if !dead {
                return Err(format!("change {change} never came"));
            }
        }
        let seed = self.rng.random();
        let after = self.stand.host().disk().power_cut(seed);
        let possible = run.possible(change);
        let (found, _) = verify::verify(self.stand, &after, &self.states, None);
        let at_least = self.at_least(possible.0);
        let what = format!("change {change}, real cut seed {seed}");
        self.judge(found, at_least, possible, &what);
        Ok(())
    }

    /// The earliest state that is allowed after a cut.
    fn at_least(&self, acknowledged: usize) -> Option<usize> {
        match self.workload.promise() {
            Promise::Durable => Some(acknowledged),
            Promise::Consistent => Some(usize::from(self.workload.prepared)),
            Promise::Nothing => None,
        }
    }

    fn judge(
        &mut self,
        found: Found,
        at_least: Option<usize>,
        (acknowledged, begun): (usize, usize),
        what: &str,
    ) {
        let state = match found {
            Found::State(state) => state,
            Found::Broken(e) => {
                self.fail(&format!("{what}: {e}"));
                return;
            }
        };
        self.tally.lost += u64::from(state < begun);
        self.tally.lost_acknowledged += u64::from(state < acknowledged);
        if at_least.is_some_and(|least| state < least) {
            let e = format!("{what}: state {state}, but {acknowledged} was acknowledged");
            self.fail(&e);
        } else if state > begun {
            let e = format!("{what}: state {state}, but only {begun} was begun");
            self.fail(&e);
        }
    }
}
