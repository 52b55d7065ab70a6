//! TPC-H data, the demo and the benchmarks of Densite.
//!
//! Every measurement is taken in a process of its own: the suite re-executes this program with the
//! hidden subcommand `run-one`, which opens a database through the SQLite compiled in here, plainly
//! or through the loadable extension, does one piece of work and prints a [`work::Sample`].

mod churn;
mod codec;
mod connect;
mod demo;
mod headlines;
mod ingest;
mod library;
mod machine;
mod measure;
mod outcome;
mod report;
mod result;
mod sizes;
mod space;
mod statements;
mod stored;
mod suite;
mod syncs;
mod tpch;
mod work;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::result::Result;

/// TPC-H data, the demo and the benchmarks of Densite.
#[derive(Parser)]
#[command(name = "densite-bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Generate TPC-H as a plain SQLite database
    Tpch {
        /// Scale factor: 1 gives a database of 1.24 GB
        #[arg(long, default_value = "0.1")]
        sf: f64,
        /// The database to write; an existing file is refused
        #[arg(long)]
        out: PathBuf,
    },
    /// Compress generated data, query and update it, check it, and show a table of before and after
    Demo {
        /// Where the data lie
        #[arg(long, default_value = "target/demo")]
        dir: PathBuf,
    },
    /// Measure plain SQLite and Densite side by side and write results and report
    Bench(suite::Choice),
    /// Write the report again from the results on disk
    Report {
        /// The folder of results, notes and report
        #[arg(long, default_value = "bench")]
        dir: PathBuf,
    },
    /// One measurement in this process; prints a sample as JSON
    #[command(hide = true)]
    RunOne(work::Job),
    /// One process of a measure of ingest
    #[command(hide = true, subcommand)]
    RunIngest(ingest::Job),
    /// Compress with a codec of choice, in this process
    #[command(hide = true)]
    CompressWith {
        /// What new frames are coded with
        #[arg(long)]
        codec: library::Codec,
        /// The plain database
        source: PathBuf,
        /// The compressed database to create
        target: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("densite-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Tpch { sf, out } => tpch::generate(sf, &out),
        Command::Demo { dir } => demo::run(&dir),
        Command::Bench(choice) => suite::run(&choice),
        Command::Report { dir } => report::write(&dir),
        Command::RunOne(job) => {
            println!("{}", serde_json::to_string(&work::run(&job)?)?);
            Ok(())
        }
        Command::RunIngest(job) => ingest::run(&job),
        Command::CompressWith {
            codec,
            source,
            target,
        } => library::compress(codec, &source, &target),
    }
}
