//! Runs every decoder of Densite on bytes that are almost right.
//!
//! ```text
//! densite-fuzz [--minutes 10] [--seed N] [--found DIR] [TARGET...]
//!                         runs mutants until the time is over or an input fails
//! densite-fuzz --replay FILE_OR_DIR [--target TARGET]
//!                         runs saved inputs; a directory has a folder for each target
//! densite-fuzz --seeds DIR
//!                         writes valid inputs, a folder for each target
//! ```
//!
//! The library (`lib.rs`) has the targets and their invariants. Inputs run in a process of their
//! own with limited memory. So endless loops, full stacks and unlimited allocations are found, not
//! only panics. The parent process saves the input that failed. `densite-fuzz --seeds fuzz/corpus`
//! made the corpus. Inputs that once failed are added by hand. If the form of an input changes,
//! inputs of the earlier form stay as long as they are read.

mod corpus;
mod mutate;
mod targets;
mod watch;
mod worker;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The fuzzer's arguments.
#[derive(Parser)]
#[command(about = "Drives every decoder of Densite with bytes that are almost right")]
struct Args {
    /// Targets to run; all targets if no name is given
    targets: Vec<String>,
    /// How long to go on, all targets together
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Where the random numbers begin; chosen and printed when not given
    #[arg(long)]
    seed: Option<u64>,
    /// Runs a saved input, or those of a folder, and nothing else
    #[arg(long, value_name = "PATH")]
    replay: Option<PathBuf>,
    /// The target of a replayed file whose folder does not say it
    #[arg(long)]
    target: Option<String>,
    /// Writes valid inputs to this folder, and nothing else
    #[arg(long, value_name = "DIR")]
    seeds: Option<PathBuf>,
    /// Seconds that one input may take
    #[arg(long, default_value_t = 20)]
    patience: u64,
    /// Where inputs that failed are saved
    #[arg(long, default_value = "target/fuzz")]
    found: PathBuf,
    /// The folder of saved inputs
    #[arg(long, default_value = corpus::DEFAULT)]
    corpus: PathBuf,
    /// The process that runs inputs; started by the fuzzer itself
    #[arg(long, hide = true, value_name = "STATUS_FILE")]
    worker: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("densite-fuzz: {e}");
            ExitCode::from(2)
        }
    }
}

/// Whether nothing failed.
fn run(args: &Args) -> Result<bool, String> {
    if let Some(dir) = &args.seeds {
        return corpus::write_seeds(dir).map(|()| true);
    }
    let (minutes, seed) = (args.minutes, args.seed.unwrap_or_else(corpus::any_seed));
    let job = match (&args.replay, args.targets.as_slice()) {
        (Some(path), _) => worker::Job::Replay(corpus::inputs(path, args.target.as_deref())?),
        (None, names) => {
            let targets = targets::named(names)?;
            let each =
                Duration::from_secs_f64((minutes * 60.0).max(0.0) / targets.len().max(1) as f64);
            worker::Job::Fuzz {
                targets,
                each,
                seed,
                corpus: args.corpus.clone(),
            }
        }
    };
    match &args.worker {
        Some(status) => worker::run(&job, status).map(|()| true),
        None => {
            if args.replay.is_none() {
                println!(
                    "seed {seed}, {minutes} minutes; the same again: densite-fuzz --seed {seed}"
                );
            }
            watch::run(seed, &args.found, Duration::from_secs(args.patience))
        }
    }
}
