//! Plain SQLite and Densite return the same results: see `densite_tests::model`.
//!
//! `DENSITE_SEED` and `DENSITE_STEPS` choose another run than the default, `DENSITE_EFFORT` a shorter
//! one. `make crash` makes longer ones. With `DENSITE_CHECK_FROM`, SQLite's integrity check follows every step from that one on.

use std::time::Instant;

use densite_testing::Effort;
use densite_tests::model::{Config, run};

const PAGE_SIZES: [usize; 8] = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

/// The usual number of steps.
const STEPS: u64 = 2500;

/// A number from the environment. An empty variable counts as unset.
fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok().filter(|v| !v.is_empty())?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value}: use a whole number")),
    )
}

fn same_answers(page_size: usize) {
    let begin = Instant::now();
    let steps = number("DENSITE_STEPS");
    let config = Config {
        seed: number("DENSITE_SEED").unwrap_or(1),
        page_size,
        steps: steps.unwrap_or_else(|| Effort::wanted().of(STEPS)),
        // A run goes on until each kind of step succeeded often enough. Short ones end before.
        every_kind: steps.is_none() && Effort::wanted().of(STEPS) >= STEPS,
        check_from: number("DENSITE_CHECK_FROM"),
    };
    match run(config) {
        Ok(report) => println!(
            "{config:?}: {} steps in {:.1?}: {}",
            report.steps,
            begin.elapsed(),
            report.tally
        ),
        Err(difference) => panic!("{difference}"),
    }
}

#[test]
fn same_answers_512() {
    same_answers(512);
}

#[test]
fn same_answers_1024() {
    same_answers(1024);
}

#[test]
fn same_answers_2048() {
    same_answers(2048);
}

#[test]
fn same_answers_4096() {
    same_answers(4096);
}

#[test]
fn same_answers_8192() {
    same_answers(8192);
}

#[test]
fn same_answers_16384() {
    same_answers(16384);
}

#[test]
fn same_answers_32768() {
    same_answers(32768);
}

#[test]
fn same_answers_65536() {
    same_answers(65536);
}

/// Replays one run: `DENSITE_SEED`, `DENSITE_PAGE_SIZE`, `DENSITE_STEPS`.
#[test]
#[ignore = "replays a failure"]
fn replay() {
    let page_size = number("DENSITE_PAGE_SIZE").unwrap_or(4096);
    same_answers(usize::try_from(page_size).expect("a page size"));
}

/// Part of `make crash`. Each seed runs with every page size.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_model() {
    let steps = number("DENSITE_STEPS").unwrap_or(5000);
    densite_testing::long_run("steps", |seed| {
        for page_size in PAGE_SIZES {
            let config = Config {
                seed,
                page_size,
                steps,
                every_kind: steps >= 5000,
                check_from: None,
            };
            run(config).unwrap_or_else(|difference| panic!("{difference}"));
        }
        steps * PAGE_SIZES.len() as u64
    });
}
