//! Everyday data and queries: seven databases that come from real data (bench/everyday/README.md),
//! their sizes, statements that users run, and rows written as applications write them.

mod asked;
mod compressed;
mod databases;
mod documents;
mod statements;
mod written;

use std::path::Path;

use clap::Subcommand;

use crate::folder::clear;
use crate::machine::Machine;
use crate::measure::Measure;
use crate::outcome::{Compare, Figure, Outcome};
use crate::result::Result;
use crate::work::{Sample, name};
use databases::Database;

/// One process of the measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Job {
    /// Run a statement
    Ask(asked::Job),
    /// Insert the rows of a database into a new one
    Write(written::Job),
}

/// Runs the process.
pub(crate) fn run(job: &Job) -> Result<Sample> {
    match job {
        Job::Ask(job) => asked::run(job),
        Job::Write(job) => written::run(job),
    }
}

/// Measures each database. `data` has the folders of the builder. Each result is saved in `results`
/// at once.
pub(crate) fn measure(
    data: &Path,
    work: &Path,
    quick: bool,
    rounds: u64,
    machine: &Machine,
    results: &Path,
) -> Result<Vec<Outcome>> {
    let (folder, label) = if quick {
        ("everyday-part", "Everyday data (small)")
    } else {
        ("everyday", "Everyday data")
    };
    let databases = databases::built(&data.join(folder))?;
    let outcome = |data: String, title: &str, figures| Outcome {
        measure: name(Measure::Everyday),
        title: title.to_owned(),
        data,
        base_label: "plain SQLite".to_owned(),
        ours_label: "Densite".to_owned(),
        figures,
        base: vec![],
        ours: vec![],
        info: Default::default(),
        machine: machine.clone(),
    };
    let mut outcomes = Vec::new();
    if !quick {
        let count = |what: &str, names: &[&str]| {
            let name = format!("{what}: {}", names.join(", "));
            let count = names.len() as f64;
            Figure::new(
                name.trim_end_matches(": "),
                Compare::Ours,
                0.0,
                count,
                Some(0.0),
            )
        };
        let figures = vec![
            count(
                "databases that differ from bench/everyday/databases.json",
                &databases.different,
            ),
            count("databases that cannot be built", &databases.missing),
        ];
        let outcome = outcome(label.to_owned(), "all", figures);
        outcome.save(results)?;
        outcomes.push(outcome);
    }
    for database in &databases.found {
        eprintln!("  {}", database.name);
        let figures = all_figures(database, work, rounds)?;
        let data = format!("{label}: {} ({})", database.name, database.tuning);
        let outcome = outcome(data, database.name, figures);
        outcome.save(results)?;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

fn all_figures(database: &Database, work: &Path, rounds: u64) -> Result<Vec<Figure>> {
    clear(work)?;
    let plain = &database.path;
    let densite = plain.with_extension("densite");
    let mut figures = compressed::figures(database, &densite, work, rounds)?;
    for statement in statements::ALL
        .iter()
        .filter(|s| s.database == database.name)
    {
        figures.extend(asked::compare(statement, plain, &densite, rounds)?);
    }
    figures.extend(written::figures(plain, work)?);
    Ok(figures)
}
