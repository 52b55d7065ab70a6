//! Runs every decoder of Densite on bytes that are almost valid: mutants, or saved inputs with
//! `--replay`. `--help` has the arguments.
//!
//! The library (`lib.rs`) has the targets and their invariants. Inputs run in a separate process
//! with limited memory, so endless loops, full stacks and unlimited allocations are found, too. The
//! parent process saves the input that failed. `densite-fuzz --seeds fuzz/corpus` makes the corpus;
//! inputs that failed once are added by hand.

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
#[command(about = "Runs every decoder of Densite on bytes that are almost valid")]
struct Args {
    /// Targets to run; all targets if no name is given
    targets: Vec<String>,
    /// Minutes of the run, for all targets together
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// The first random seed; chosen and printed if it is not given
    #[arg(long)]
    seed: Option<u64>,
    /// Run a saved input, or those of a folder, and nothing else
    #[arg(long, value_name = "PATH")]
    replay: Option<PathBuf>,
    /// The target of a replayed file, if its folder does not have the target's name
    #[arg(long)]
    target: Option<String>,
    /// Write valid inputs to this folder, and nothing else
    #[arg(long, value_name = "DIR")]
    seeds: Option<PathBuf>,
    /// Seconds that one input can take
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
