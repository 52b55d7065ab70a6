//! Rows that are acknowledged by the log: throughput, latency, applying, and the cost for readers.
//! Plain SQLite runs in turn.
//!
//! Another process writes the rows ([`writers`]) and reports each acknowledged transaction. The
//! process that measures counts, kills and observes.

mod apply;
mod bare;
mod burst;
mod constant;
mod latency;
mod plot;
mod prune;
mod record_pipe;
mod recovered;
mod running;
mod single;
mod table;
mod unapplied;
mod votes;
mod watch;
mod writers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Subcommand;

use crate::machine::Machine;
use crate::measure::Measure;
use crate::numbers::{median, quantile};
use crate::outcome::Outcome;
use crate::result::{About as _, Failure, Result};
use crate::work::name;
use table::Shape;

/// A job of a separate process.
#[derive(Debug, Subcommand)]
pub(crate) enum Job {
    /// Writes rows
    Write(writers::Write),
    /// Writes single rows in turn with bare syncs
    Single(single::Single),
    /// Reads through many rows that are not applied
    Unapplied(unapplied::Unapplied),
}

/// Runs the job in this process.
pub(crate) fn run(job: &Job) -> Result<()> {
    let figures = match job {
        Job::Write(job) => return writers::run(job),
        Job::Single(job) => single::run(job)?,
        Job::Unapplied(job) => unapplied::run(job)?,
    };
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

/// Runs a job in a new process, which returns figures.
fn child(job: &str, arguments: &[(&str, String)]) -> Result<BTreeMap<String, f64>> {
    let me = std::env::current_exe().about("find", Path::new("this program"))?;
    let output = Command::new(&me)
        .args(["run-ingest", job])
        .args(
            arguments
                .iter()
                .map(|(name, value)| format!("--{name}={value}")),
        )
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .about("run", &me)?;
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout)?),
        false => Err(Failure(format!("{job} failed: {}", output.status))),
    }
}

/// Folders and sizes of a run.
pub(crate) struct Place<'a> {
    pub(crate) data: &'a Path,
    pub(crate) work: &'a Path,
    /// The folder of pictures
    pub(crate) results: &'a Path,
    pub(crate) machine: &'a Machine,
    pub(crate) quick: bool,
    /// A long run, of up to an hour
    pub(crate) long: bool,
}

impl Place<'_> {
    /// `seconds`, or fewer in a quick run.
    fn time(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64(if self.quick {
            (seconds / 20.0).min(0.5)
        } else {
            seconds
        })
    }

    /// `rows`, or fewer in a quick run.
    fn rows(&self, rows: u64) -> u64 {
        if self.quick { rows / 200 } else { rows }
    }

    /// The path of a new file, in an empty folder.
    fn fresh(&self, name: &str) -> Result<PathBuf> {
        self.clear()?;
        Ok(self.work.join(name))
    }

    /// A new database with a table of `rows` rows, in an empty folder.
    fn start(&self, shape: Shape, rows: u64) -> Result<PathBuf> {
        self.clear()?;
        self.copy(shape, rows, "ingest")
    }

    /// As `start`, but keeps other files.
    fn copy(&self, shape: Shape, rows: u64, name: &str) -> Result<PathBuf> {
        let copy = self.work.join(format!("{name}.db"));
        if rows > 0 {
            let source = table::filled(self.data, shape, rows)?;
            std::fs::copy(&source, &copy).about("copy to", &copy)?;
            // The copy is synced, so that writing it back does not disturb what follows.
            let file = std::fs::File::open(&copy).about("open", &copy)?;
            file.sync_all().about("sync", &copy)?;
        }
        Ok(copy)
    }

    fn clear(&self) -> Result<()> {
        crate::folder::clear(self.work)
    }
}

/// Takes one of these measures.
pub(crate) fn measure(measure: Measure, rounds: u64, place: &Place<'_>) -> Result<Outcome> {
    crate::connect::load_extension()?;
    let figures = match measure {
        Measure::IngestBurst => burst::measure(place, 0, rounds)?,
        Measure::IngestBurstLarge => burst::measure(place, place.rows(10_000_000), rounds)?,
        Measure::IngestSingle => single::measure(place)?,
        Measure::IngestLatency => latency::measure(place)?,
        Measure::IngestApply => apply::measure(place, rounds)?,
        Measure::IngestPrune => prune::measure(place, rounds)?,
        Measure::IngestConstant => constant::measure(place)?,
        Measure::IngestLookup => unapplied::lookups(place)?,
        Measure::IngestMemory => unapplied::memory(place)?,
        Measure::IngestVotes => votes::measure(place)?,
        _ => {
            return Err(Failure(format!(
                "{} is no measure of ingest",
                name(measure)
            )));
        }
    };
    let data = "Rows acknowledged by the log";
    Ok(Outcome {
        measure: name(measure),
        // The title has the seconds and rows of a whole run.
        title: if place.quick {
            format!(
                "{} (a short run: 0.5 s at most, a 200th of the rows)",
                measure.title()
            )
        } else {
            measure.title().to_owned()
        },
        data: if place.quick {
            format!("{data}, quick")
        } else {
            data.to_owned()
        },
        base_label: "plain SQLite".to_owned(),
        ours_label: "Densite".to_owned(),
        figures,
        base: vec![],
        ours: vec![],
        info: BTreeMap::new(),
        machine: place.machine.clone(),
    })
}

/// The side that begins alternates.
fn turns<T>(round: u64, mut sides: [T; 2]) -> [T; 2] {
    if round % 2 == 1 {
        sides.reverse();
    }
    sides
}
