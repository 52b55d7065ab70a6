//! TPC-H data, the demo and the benchmarks of Densite.
//!
//! Each measurement runs in a process of its own. The suite starts this program again with the
//! hidden subcommand `run-one`. It opens a database through the SQLite in this program, plainly or
//! through the loadable extension, does one job and prints a [`work::Sample`].

mod churn;
mod codec;
mod connect;
mod demo;
mod everyday;
mod folder;
mod headlines;
mod ingest;
mod library;
mod limited;
mod machine;
mod measure;
mod numbers;
mod outcome;
mod pictures;
mod remote;
mod report;
mod result;
mod sizes;
mod space;
mod speedtest;
mod statements;
mod stored;
mod suite;
mod syncs;
mod tpch;
mod uuids;
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
        /// The database to create; the file must not exist
        #[arg(long)]
        out: PathBuf,
    },
    /// Compress generated data, query and update it, check it, and show a table of before and after
    Demo {
        /// The folder of the data
        #[arg(long, default_value = "target/demo")]
        dir: PathBuf,
    },
    /// Publish generated data to a web server and an object store, read it there, and show a table
    RemoteDemo(remote::Demo),
    /// Measure plain SQLite and Densite side by side and write results and report
    Bench(suite::Choice),
    /// Write the report again from the results on disk
    Report {
        /// The folder of results, notes and report
        #[arg(long, default_value = "bench")]
        dir: PathBuf,
    },
    /// Take one measurement in this process; prints a sample as JSON
    #[command(hide = true)]
    RunOne(work::Job),
    /// Run one process of an ingest measure
    #[command(hide = true, subcommand)]
    RunIngest(ingest::Job),
    /// Run one process of the measure of everyday data; prints a sample as JSON
    #[command(hide = true, subcommand)]
    RunEveryday(everyday::Job),
    /// Run one process of the demo of remote databases
    #[command(hide = true, subcommand)]
    RunRemote(remote::Job),
    /// Compress with the given codec, in this process
    #[command(hide = true)]
    CompressWith {
        /// The codec of new frames
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
        Command::RemoteDemo(choice) => remote::demo(&choice),
        Command::Bench(choice) => suite::run(&choice),
        Command::Report { dir } => report::write(&dir),
        Command::RunOne(job) => {
            println!("{}", serde_json::to_string(&work::run(&job)?)?);
            Ok(())
        }
        Command::RunEveryday(job) => {
            println!("{}", serde_json::to_string(&everyday::run(&job)?)?);
            Ok(())
        }
        Command::RunIngest(job) => ingest::run(&job),
        Command::RunRemote(job) => remote::run(&job),
        Command::CompressWith {
            codec,
            source,
            target,
        } => library::compress(codec, &source, &target),
    }
}
