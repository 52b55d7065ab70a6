//! The benchmarks: plain SQLite and Densite alternate, each in a new process. Figures are medians
//! and ratios.

mod data;
mod measures;
mod programs;
mod turns;

use std::fs;
use std::path::PathBuf;

use clap::{Args, ValueEnum as _};

use crate::machine::{self, Machine};
use crate::measure::Measure;
use crate::outcome::Outcome;
use crate::result::{About as _, Failure, Result};
use crate::work::name;
use crate::{churn, everyday, ingest, limited, remote, report, sizes, speedtest, workloads};
use data::Data;
use turns::Suite;

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct Choice {
    /// Small data (scale factor 0.1 instead of 1)
    #[arg(long)]
    quick: bool,
    /// Millions of batches, and backlogs of 10 GiB; usual runs have fewer
    #[arg(long, conflicts_with = "quick")]
    long: bool,
    /// Take only these measures
    #[arg(long, value_delimiter = ',')]
    only: Vec<Measure>,
    /// How often each measure is taken; each measure has its own default
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: Option<u64>,
    /// Measure only the stored size of this SQLite database
    #[arg(long)]
    db: Option<PathBuf>,
    /// The folder of data, results, notes and report
    #[arg(long, default_value = "bench")]
    dir: PathBuf,
}

/// Takes the chosen measures, and writes the results and the report.
pub(crate) fn run(choice: &Choice) -> Result<()> {
    let data_dir = choice.dir.join("data");
    fs::create_dir_all(&data_dir).about("create", &data_dir)?;
    crate::connect::load_extension()?;
    let machine = Machine::describe(&data_dir)?;
    if machine::load() > 0.5 {
        eprintln!(
            "the machine is busy (load {}): figures will be worse than on an idle machine",
            machine::load()
        );
    }
    if let Some(db) = &choice.db {
        let label = db.file_stem().unwrap_or(db.as_os_str()).to_string_lossy();
        let outcome = sizes::compare(db, &label, &data_dir, machine)?;
        outcome.save(&choice.dir)?;
        println!("{}", report::terminal(&[outcome]));
        return report::write(&choice.dir);
    }
    let sf = if choice.quick { 0.1 } else { 1.0 };
    let work = data_dir.join("work");
    fs::create_dir_all(&work).about("create", &work)?;
    let mut suite = None;
    let mut outcomes = Vec::new();
    let mut failed = Vec::new();
    for measure in Measure::value_variants() {
        if choice.only.is_empty() || choice.only.contains(measure) {
            eprintln!("{}: {}", name(*measure), measure.title());
            if *measure == Measure::Limited
                && choice.only.is_empty()
                && let Err(why) = limited::check()
            {
                eprintln!("{} is left out: {why}", name(*measure));
                continue;
            }
            let saved = |outcome: Outcome| {
                outcome.save(&choice.dir)?;
                Ok(vec![outcome])
            };
            let taken = match measure {
                Measure::Workloads => {
                    workloads::measure(&data_dir, choice.quick, &machine, &choice.dir)
                }
                Measure::Everyday => everyday::measure(
                    &data_dir,
                    &work,
                    choice.quick,
                    choice.rounds.unwrap_or(measure.rounds()),
                    &machine,
                    &choice.dir,
                ),
                Measure::Remote => {
                    let small = Data::prepare(&data_dir, 0.1)?;
                    let large = match choice.quick {
                        true => None,
                        false => Some(Data::prepare(&data_dir, 1.0)?),
                    };
                    let large = large.as_ref().map(Data::source);
                    let taken = remote::measure(&small.source(), large.as_ref(), &work, &machine);
                    taken.and_then(|taken| {
                        taken
                            .iter()
                            .try_for_each(|outcome| outcome.save(&choice.dir).map(drop))?;
                        Ok(taken)
                    })
                }
                Measure::Speedtest => {
                    let rounds = choice.rounds.unwrap_or(measure.rounds());
                    speedtest::measure(&data_dir, &work, rounds, choice.quick, &machine)
                        .and_then(saved)
                }
                Measure::Queue | Measure::Moved | Measure::CommitLatency => {
                    let plain = || Data::plain(&data_dir, sf / 10.0);
                    churn::measure(*measure, &work, choice.quick, &machine, plain).and_then(saved)
                }
                measure if measure.is_ingest() => {
                    let place = ingest::Place {
                        data: &data_dir,
                        work: &work,
                        results: &choice.dir.join("results"),
                        machine: &machine,
                        quick: choice.quick,
                        long: choice.long,
                    };
                    let rounds = choice.rounds.unwrap_or(measure.rounds());
                    ingest::measure(*measure, rounds, &place).and_then(saved)
                }
                _ => {
                    let suite = match &mut suite {
                        Some(suite) => suite,
                        // The data of these measures take long to prepare, so this is done only if
                        // one is chosen.
                        None => suite.insert(Suite {
                            work: work.clone(),
                            machine: machine.clone(),
                            rounds: choice.rounds,
                            data: Data::prepare(&data_dir, sf)?,
                            small: Data::prepare(&data_dir, sf / 10.0)?,
                        }),
                    };
                    suite.measure(*measure).and_then(saved)
                }
            };

            match taken {
                Ok(taken) => outcomes.extend(taken),
                // The other measures are still taken.
                Err(failure) => {
                    eprintln!("{}: {failure}", name(*measure));
                    failed.push(name(*measure));
                }
            }
        }
    }
    println!("{}", report::terminal(&outcomes));
    report::write(&choice.dir)?;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure(format!(
            "these measures could not be taken, for the reasons above: {}",
            failed.join(", ")
        )))
    }
}
