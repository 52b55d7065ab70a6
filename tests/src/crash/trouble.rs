//! Calls of the disk fail while a workload runs, and then the power is cut.
//!
//! A transaction whose COMMIT returns an error can be present or not. The application checks this,
//! and repeats it if it is missing. After the cut, no acknowledged transaction is missing, however
//! many calls failed before and after. A transaction that was found is not missing, if a later one
//! was acknowledged. If only calls on the database fail, a transaction that failed, was not found
//! and was not repeated (`Driver::detour`) is not present.

use densite_disk::Op;
use densite_sim_disk::{Capture, Fault, FaultKind, OpSet, SimDisk};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;

use super::Tally;
use super::run::{Run, prepare};
use super::stand::Stand;
use super::state::{Digest, digest, states};
use super::verify::{Found, verify};
use super::workload::{Promise, SCHEMA, Step, Workload};

/// Which calls fail, and how often.
#[derive(Debug, Clone, Copy)]
pub struct Trouble {
    /// Only calls on paths with this suffix fail.
    pub on_path: Option<&'static str>,
    /// Calls that fail.
    pub ops: &'static [Op],
    /// A failure is set for one step in this many.
    pub one_in: u32,
    /// Number of cuts of one workload.
    pub cuts: u64,
}

/// Number of changes after a failure at which the power is cut.
const AFTER_FAILURE: u64 = 16;

/// Attempts at a transaction on a disk that sometimes fails. In the last ones it does not fail.
const ATTEMPTS: u32 = 8;

/// Runs a workload on a failing disk, and cuts the power at some changes.
pub fn trouble(stand: &Stand<'_>, workload: &Workload, trouble: Trouble) -> Tally {
    let mut tally = Tally::default();
    if let Err(e) = cases(stand, workload, trouble, &mut tally) {
        tally.failures.push(format!("{workload}: {e}"));
    }
    tally
}

fn cases(
    stand: &Stand<'_>,
    workload: &Workload,
    trouble: Trouble,
    tally: &mut Tally,
) -> Result<(), String> {
    let states = states(workload).map_err(|e| format!("the model: {e}"))?;
    let prepared = prepare(stand, workload)?;
    // The first run only counts the changes. The same random numbers give the same failures.
    let whole = run(stand, workload, trouble, (&prepared, &states), &[])?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(workload.seed ^ 0x7201_b1e5);
    let mut captures: Vec<(u64, Capture)> = (0..trouble.cuts)
        .map(|_| (rng.random_range(1..=whole.changes), rng.random()))
        .map(|(change, seed)| (change, Capture::Cut(seed)))
        .collect();
    // If a failed transaction outside of the script comes back, it does so within the next commit.
    for failed in &whole.failed_aside {
        captures.extend((1..=AFTER_FAILURE).map(|n| (failed + n, Capture::Cut(rng.random()))));
    }
    captures.sort_unstable_by_key(|c| c.0);
    captures.dedup_by_key(|c| c.0);
    let run = run(stand, workload, trouble, (&prepared, &states), &captures)?;
    let mut known = states.clone();
    known.extend(run.detours.iter().map(|(digest, _)| *digest));
    for captured in &run.captured {
        tally.cases += 1;
        let (acknowledged, begun) = run.possible(captured.change);
        let at_least = match workload.promise() {
            Promise::Durable => acknowledged,
            _ => usize::from(workload.prepared),
        };
        let mut what = format!("change {}, {:?}", captured.change, captured.how);
        if std::env::var_os("DENSITE_STORY").is_some() {
            what = format!("{what} after\n{}\n", run.story(captured.change));
        }
        let (found, _) = verify(stand, &captured.disk, &known, None);
        match found {
            Found::Broken(e) => tally.failures.push(format!("{workload}: {what}: {e}")),
            Found::State(state) => {
                let aside = state.checked_sub(states.len());
                let detour = aside.and_then(|at| run.detours.get(at));
                let state = detour.map_or(state, |(_, after)| *after);
                tally.lost += u64::from(state < begun);
                tally.lost_acknowledged += u64::from(state < acknowledged);
                if !(at_least..=begun).contains(&state) {
                    tally.failures.push(format!(
                        "{workload}: {what}: state {state}, where {acknowledged} was acknowledged and {begun} begun"
                    ));
                }
            }
        }
    }
    Ok(())
}

struct Driver<'a> {
    stand: &'a Stand<'a>,
    workload: &'a Workload,
    trouble: Trouble,
    disk: SimDisk,
    rng: Xoshiro256PlusPlus,
    db: Option<Connection>,
    states: &'a [Digest],
}

fn run(
    stand: &Stand<'_>,
    workload: &Workload,
    trouble: Trouble,
    (prepared, states): (&SimDisk, &[Digest]),
    captures: &[(u64, Capture)],
) -> Result<Run, String> {
    let disk = prepared.snapshot();
    for (change, how) in captures {
        disk.capture_at(*change, *how);
    }
    disk.set_trace(true);
    stand.boot(&disk);
    let first = usize::from(workload.prepared);
    let mut run = Run::from(first);
    let mut driver = Driver {
        stand,
        workload,
        trouble,
        disk: disk.clone(),
        rng: Xoshiro256PlusPlus::seed_from_u64(workload.seed ^ 0xdead_beef),
        db: None,
        states,
    };
    let mut state = first;
    if state == 0 {
        state += 1;
        driver.commit(&mut run, state, SCHEMA)?;
    }
    for step in workload.script() {
        match step {
            Step::Commit(statements) => {
                state += 1;
                driver.commit(&mut run, state, &statements.join(";"))?;
            }
            Step::Rollback(statements) => {
                driver.try_it(&format!("BEGIN; {}; ROLLBACK", statements.join(";")));
            }
            Step::Maintain(sql) => driver.try_it(sql),
            Step::Reopen => driver.db = None,
            Step::ReaderBegins | Step::ReaderEnds => {}
        }
    }
    disk.clear_faults();
    drop(driver.db.take());
    run.changes = disk.changes();
    run.captured = disk.take_captures();
    run.trace = disk.take_trace();
    Ok(run)
}

impl Driver<'_> {
    /// Sets a fault for the next step, with some probability.
    fn arm(&mut self) {
        self.disk.clear_faults();
        if !self.rng.random_ratio(1, self.trouble.one_in) {
            return;
        }
        let kind = match self.rng.random_bool(0.5) {
            true => FaultKind::Io,
            false => FaultKind::Full,
        };
        let op = self.trouble.ops[self.rng.random_range(0..self.trouble.ops.len())];
        let after = self.rng.random_range(0..12);
        let mut fault = Fault::new(kind, OpSet::of(&[op])).after(after);
        if self.rng.random_ratio(1, 4) {
            fault = fault.forever();
        }
        if self.rng.random_ratio(1, 4) {
            fault = fault.with_prefix(self.rng.random_range(1..700));
        }
        if let Some(suffix) = self.trouble.on_path {
            fault = fault.on_path(suffix);
        }
        self.disk.fail(fault);
    }

    fn connection(&mut self) -> rusqlite::Result<&Connection> {
        if self.db.is_none() {
            let db = self.stand.connect()?;
            db.execute_batch(&self.workload.settings())?;
            self.db = Some(db);
        }
        self.db.as_ref().ok_or(rusqlite::Error::InvalidQuery)
    }

    /// Runs statements that change no row. Their result does not matter.
    fn try_it(&mut self, sql: &str) {
        self.arm();
        let done = self.connection().and_then(|db| db.execute_batch(sql));
        if done.is_err() {
            self.after_failure();
        }
    }

    /// Rolls back, and sometimes opens a new connection.
    fn after_failure(&mut self) {
        if let Some(db) = &self.db
            && !db.is_autocommit()
        {
            let _ = db.execute_batch("ROLLBACK");
        }
        if self.rng.random_bool(0.5) {
            self.disk.clear_faults();
        }
        if self.rng.random_bool(0.3) {
            self.db = None;
        }
    }

    /// Makes the database reach `state`.
    fn commit(&mut self, run: &mut Run, state: usize, statements: &str) -> Result<(), String> {
        // After a failed append to a WAL, plain SQLite can also find a transaction later that it
        // did not find at first.
        if state > 1 && self.trouble.on_path.is_some() && self.rng.random_ratio(1, 3) {
            self.detour(run, state - 1)?;
        }
        let sql = format!("BEGIN; {statements}; COMMIT");
        run.begins(self.disk.changes(), state);
        for attempt in 0.. {
            match attempt {
                ATTEMPTS.. => self.disk.clear_faults(),
                _ => self.arm(),
            }
            let done = self.connection().and_then(|db| db.execute_batch(&sql));
            run.notes
                .push((self.disk.changes(), format!("to state {state}: {done:?}")));
            if done.is_ok() {
                run.acknowledges(self.disk.changes(), state);
                return Ok(());
            }
            self.after_failure();
            let there = self.is_there(state, attempt)?;
            let note = format!(
                "state {state} is there: {there}, open: {}",
                self.db.is_some()
            );
            run.notes.push((self.disk.changes(), note));
            if there {
                return Ok(());
            }
            if attempt > ATTEMPTS {
                return Err(format!("to state {state}: {done:?} on a disk that is well"));
            }
        }
        Ok(())
    }

    /// Runs a transaction that is not in the script. If it fails, it is not repeated; if it is
    /// present, it is undone.
    fn detour(&mut self, run: &mut Run, state: usize) -> Result<(), String> {
        let (txn, id) = (9_000_000 + state, 5_000_000 + 2 * state);
        let pad = "aside ".repeat(self.rng.random_range(1..400));
        self.disk.clear_faults();
        // The writes of a commit: frames and trailer, and the tip.
        let fault = Fault::new(FaultKind::Io, Op::Write).after(self.rng.random_range(0..4));
        let suffix = self.trouble.on_path.unwrap_or_default();
        self.disk.fail(fault.on_path(suffix));
        let sql = format!(
            "BEGIN; INSERT INTO ledger VALUES ({id}, {txn}, 0, 5, '{pad}'), ({id} + 1, {txn}, 1, -5, '');
             INSERT INTO done VALUES ({txn}, 2); COMMIT"
        );
        let done = self.connection().and_then(|db| db.execute_batch(&sql));
        let note = format!("aside of state {state}: {done:?}");
        run.notes.push((self.disk.changes(), note));
        if done.is_err() {
            self.after_failure();
        }
        let now = self.looked()?;
        if self.states.get(state) == Some(&now) {
            return match done {
                Ok(()) => Err(format!(
                    "aside of state {state}: acknowledged, and not there"
                )),
                Err(_) => {
                    run.failed_aside.push(self.disk.changes());
                    Ok(())
                }
            };
        }
        run.detours.push((now, state));
        let undo = format!(
            "BEGIN; DELETE FROM ledger WHERE txn = {txn}; DELETE FROM done WHERE txn = {txn}; COMMIT"
        );
        self.disk.clear_faults();
        let undone = self.connection().and_then(|db| db.execute_batch(&undo));
        undone.map_err(|e| format!("aside of state {state}: it cannot be undone: {e}"))?;
        match self.states.get(state) == Some(&self.looked()?) {
            true => Ok(()),
            false => Err(format!("aside of state {state}: another state is there")),
        }
    }

    /// The current state, read without faults if the first attempt fails.
    fn looked(&mut self) -> Result<Digest, String> {
        let mut answer = self.connection().and_then(digest);
        if answer.is_err() {
            self.disk.clear_faults();
            self.db = None;
            answer = self.connection().and_then(digest);
        }
        answer.map_err(|e| format!("reading after a failure: {e}"))
    }

    /// Whether a failed transaction is present all the same.
    fn is_there(&mut self, state: usize, attempt: u32) -> Result<bool, String> {
        let now = self.looked()?;
        let is = |n: usize| self.states.get(n) == Some(&now);
        match (is(state), is(state - 1)) {
            (true, _) => Ok(true),
            (_, true) => Ok(false),
            _ => Err(format!(
                "attempt {attempt} at state {state} failed and left another one: {:?}",
                self.states.iter().position(|s| *s == now)
            )),
        }
    }
}
