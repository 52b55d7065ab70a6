//! The process that runs inputs. It writes each input to the status file before it runs it. So the
//! input is known, even if the process is killed.
//!
//! The status file: length of the target's name (1 byte), the name, number of the run (8 bytes),
//! length of the input (8 bytes), the input.

use crate::corpus::{self, Input};
use crate::mutate::mutate;
use densite_fuzz::Target;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Limit of a worker's address space in bytes. Inputs are at most 1 MiB, so no input needs more.
const MEMORY: u64 = 1 << 30;

/// The worker's exit code after an input that failed.
pub(crate) const FAILED: i32 = 9;

/// The most inputs of each target that are kept and mutated again because their outcome was new.
const KEPT: usize = 400;

/// The work of one worker.
pub(crate) enum Job {
    Replay(Vec<Input>),
    Fuzz {
        targets: Vec<Target>,
        each: Duration,
        seed: u64,
        corpus: PathBuf,
    },
}

struct Status {
    file: File,
    runs: u64,
}

impl Status {
    /// Runs one input, which comes from `from`. Ends the process if it fails.
    fn run(&mut self, target: &Target, bytes: &[u8], from: &str) -> u64 {
        self.runs += 1;
        let mut head = vec![target.name.len() as u8];
        head.extend_from_slice(target.name.as_bytes());
        head.extend_from_slice(&self.runs.to_le_bytes());
        head.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        head.extend_from_slice(bytes);
        if let Err(e) = self.file.write_all_at(&head, 0) {
            eprintln!("cannot write the status file: {e}");
            std::process::exit(2);
        }
        match catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))) {
            Ok(outcome) => outcome,
            Err(_) => {
                eprintln!("{}: {from}", target.name);
                std::process::exit(FAILED)
            }
        }
    }
}

/// Does the job. The process ends at the first input that fails.
pub(crate) fn run(job: &Job, status: &Path) -> Result<(), String> {
    let limit = rustix::process::Rlimit {
        current: Some(MEMORY),
        maximum: Some(MEMORY),
    };
    rustix::process::setrlimit(rustix::process::Resource::As, limit)
        .map_err(|e| format!("cannot limit the memory: {e}"))?;
    let file =
        File::create(status).map_err(|e| format!("cannot write {}: {e}", status.display()))?;
    let mut status = Status { file, runs: 0 };
    // Without this, the encoder would only choose another codec for a page whose decoded copy
    // differs.
    densite_typed::fuzz::be_loud();
    match job {
        Job::Replay(inputs) => {
            for input in inputs {
                status.run(&input.target, &input.bytes, &input.from);
            }
            println!("{} inputs replayed", inputs.len());
        }
        Job::Fuzz {
            targets,
            each,
            seed,
            corpus,
        } => {
            for target in targets {
                fuzz(target, *each, *seed, corpus, &mut status)?;
            }
        }
    }
    Ok(())
}

fn fuzz(
    target: &Target,
    time: Duration,
    seed: u64,
    corpus: &Path,
    status: &mut Status,
) -> Result<(), String> {
    let saved = corpus::of(target, corpus)?;
    let mut inputs: Vec<Vec<u8>> = saved
        .into_iter()
        .map(|i| i.bytes)
        .chain((target.seeds)().into_iter().map(|s| s.1))
        .collect();
    let mut outcomes: HashSet<u64> = inputs
        .iter()
        .map(|bytes| status.run(target, bytes, "a saved input"))
        .collect();
    let begun = Instant::now();
    let (mut runs, given) = (0u64, inputs.len());
    while begun.elapsed() < time {
        let mut rng = SmallRng::seed_from_u64(seed ^ runs.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        runs += 1;
        // Half of the mutants come from valid inputs, half from all inputs.
        let from = if rng.random() {
            rng.random_range(0..given)
        } else {
            rng.random_range(0..inputs.len())
        };
        let mut bytes = inputs[from].clone();
        let fields = (target.fields)(&bytes);
        let others: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        mutate(&mut bytes, &fields, &others, &mut rng);
        if rng.random() {
            (target.repair)(&mut bytes);
        }
        let outcome = status.run(target, &bytes, "a mutated input");
        if outcomes.insert(outcome) && inputs.len() < given + KEPT {
            inputs.push(bytes);
        }
    }
    println!(
        "{:<12} {runs:>10} inputs, {:>5} outcomes",
        target.name,
        outcomes.len()
    );
    Ok(())
}
