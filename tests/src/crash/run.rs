//! Runs a workload, and records when each state was acknowledged.

use densite_sim_disk::{Capture, Captured, SimDisk};
use rusqlite::Connection;

use super::stand::Stand;
use super::state::{Digest, digest};
use super::workload::{Journal, SCHEMA, Step, Workload};

/// A point of a run: the number of disk changes so far.
#[derive(Debug, Clone, Copy)]
struct Mark {
    changes: u64,
    state: usize,
}

/// The result of a run.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// When each state was begun, and when it was acknowledged.
    begun: Vec<Mark>,
    acknowledged: Vec<Mark>,
    /// The state of the database at the start.
    first: usize,
    /// Number of disk changes in total.
    pub(super) changes: u64,
    pub(super) captured: Vec<Captured>,
    /// The changes as text.
    pub(super) trace: Vec<String>,
    /// States outside of the script. Each followed the script's state with this number and was
    /// undone.
    pub(super) detours: Vec<(Digest, usize)>,
    /// Changes at which a transaction outside of the script had failed and was not found.
    pub(super) failed_aside: Vec<u64>,
    /// Events as text, with the change before them.
    pub(super) notes: Vec<(u64, String)>,
}

impl Run {
    /// A run that begins in this state.
    pub(super) fn from(first: usize) -> Run {
        Run {
            first,
            ..Run::default()
        }
    }

    /// The last changes before this one, and the events between them.
    pub(super) fn story(&self, change: u64) -> String {
        let number = |line: &str| line.split(':').next().and_then(|n| n.parse::<u64>().ok());
        let changes = self
            .trace
            .iter()
            .filter_map(|line| Some((number(line)?, line)));
        let notes = self.notes.iter().map(|(at, note)| (*at, note));
        let mut all: Vec<(u64, &String)> = changes.chain(notes).collect();
        all.sort_by_key(|(at, _)| *at);
        let before = all.partition_point(|(at, _)| *at <= change);
        let lines = all
            .get(before.saturating_sub(150)..before)
            .unwrap_or_default();
        let lines: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
        lines.join("\n")
    }

    pub(super) fn begins(&mut self, changes: u64, state: usize) {
        self.begun.push(Mark { changes, state });
    }

    pub(super) fn acknowledges(&mut self, changes: u64, state: usize) {
        self.acknowledged.push(Mark { changes, state });
    }

    /// The states that are possible when the power goes at this change: from the last one
    /// acknowledged before it to the last one begun.
    pub(super) fn possible(&self, change: u64) -> (usize, usize) {
        let last = |marks: &[Mark]| {
            let before = marks.iter().filter(|m| m.changes < change);
            before.map(|m| m.state).max().unwrap_or(self.first)
        };
        (last(&self.acknowledged), last(&self.begun))
    }
}

/// The end of a run.
#[derive(Debug)]
pub(super) enum Ending {
    /// All steps were done.
    Complete,
    /// A step failed with this error.
    Failed(String),
}

/// Creates a disk with the database from which a prepared workload starts.
///
/// # Errors
/// Errors of SQLite, on a disk that never fails.
pub(super) fn prepare(stand: &Stand<'_>, workload: &Workload) -> Result<SimDisk, String> {
    stand.boot(&SimDisk::new(workload.seed));
    if workload.prepared {
        let db = stand
            .connect()
            .map_err(|e| format!("preparing: open: {e}"))?;
        db.execute_batch(&workload.settings())
            .and_then(|()| db.execute_batch(SCHEMA))
            .map_err(|e| format!("preparing: {e}"))?;
        db.close()
            .map_err(|(_, e)| format!("preparing: close: {e}"))?;
    }
    let disk = stand.host().disk().snapshot();
    workload.shape(&disk);
    Ok(disk)
}

/// Runs the workload on a copy of the prepared disk, with the requested captures. The power is cut
/// at change `cut`, if given.
pub(super) fn run(
    stand: &Stand<'_>,
    workload: &Workload,
    prepared: &SimDisk,
    captures: &[(u64, Capture)],
    cut: Option<u64>,
) -> (Run, Ending) {
    let disk = prepared.snapshot();
    for (change, how) in captures {
        disk.capture_at(*change, *how);
    }
    if let Some(change) = cut {
        disk.cut_at_change(change);
    }
    disk.set_trace(true);
    stand.boot(&disk);
    let mut run = Run::from(usize::from(workload.prepared));
    let ending = match steps(stand, workload, &disk, &mut run) {
        Ok(()) => Ending::Complete,
        Err(e) => Ending::Failed(e),
    };
    run.changes = disk.changes();
    run.captured = disk.take_captures();
    run.trace = disk.take_trace();
    (run, ending)
}

struct Driver<'a> {
    stand: &'a Stand<'a>,
    workload: &'a Workload,
    disk: &'a SimDisk,
    db: Connection,
    /// A second connection that reads, and the digest of what it sees.
    reader: Option<(Connection, u64)>,
}

fn steps(
    stand: &Stand<'_>,
    workload: &Workload,
    disk: &SimDisk,
    run: &mut Run,
) -> Result<(), String> {
    let db = stand.connect().map_err(|e| format!("open: {e}"))?;
    let mut driver = Driver {
        stand,
        workload,
        disk,
        db,
        reader: None,
    };
    driver.set_up()?;
    let mut state = run.first;
    if state == 0 {
        state += 1;
        driver.commit(run, state, &[SCHEMA.to_owned()])?;
    }
    for step in workload.script() {
        if let Step::Commit(statements) = &step {
            state += 1;
            driver.commit(run, state, statements)?;
        } else {
            driver.step(&step).map_err(|e| format!("{step:?}: {e}"))?;
        }
    }
    driver.reader = None;
    driver.db.close().map_err(|(_, e)| format!("close: {e}"))
}

impl Driver<'_> {
    fn set_up(&self) -> Result<(), String> {
        let sql = self.workload.settings();
        self.db
            .execute_batch(&sql)
            .map_err(|e| format!("settings: {e}"))
    }

    fn commit(&self, run: &mut Run, state: usize, statements: &[String]) -> Result<(), String> {
        let sql = format!("BEGIN; {}; COMMIT", statements.join(";"));
        run.begins(self.disk.changes(), state);
        let done = self.db.execute_batch(&sql);
        done.map_err(|e| format!("transaction to state {state}: {e}"))?;
        run.acknowledges(self.disk.changes(), state);
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        let text = |e: rusqlite::Error| e.to_string();
        match step {
            Step::Commit(_) => {}
            Step::Rollback(statements) => {
                let sql = format!("BEGIN; {}; ROLLBACK", statements.join(";"));
                self.db.execute_batch(&sql).map_err(text)?;
            }
            Step::Maintain(sql) => self.db.execute_batch(sql).map_err(text)?,
            Step::Reopen => {
                let fresh = Connection::open_in_memory().map_err(text)?;
                let old = std::mem::replace(&mut self.db, fresh);
                old.close().map_err(|(_, e)| text(e))?;
                self.db = self.stand.connect().map_err(text)?;
                self.set_up()?;
            }
            Step::ReaderBegins => {
                debug_assert_eq!(self.workload.journal, Journal::Wal);
                let reader = self.stand.connect().map_err(text)?;
                reader.execute_batch("BEGIN").map_err(text)?;
                let sees = digest(&reader).map_err(text)?;
                self.reader = Some((reader, sees));
            }
            Step::ReaderEnds => {
                if let Some((reader, saw)) = self.reader.take() {
                    let sees = digest(&reader).map_err(text)?;
                    if sees != saw {
                        return Err("a reader's snapshot changed under it".to_owned());
                    }
                    reader.execute_batch("COMMIT").map_err(text)?;
                }
            }
        }
        Ok(())
    }
}
