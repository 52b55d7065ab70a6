//! The same answers from plain SQLite and from Densite: see `densite_tests::model`.
//!
//! `DENSITE_SEED` and `DENSITE_STEPS` choose another run than the one of every day; with
//! `DENSITE_CHECK_FROM` SQLite's integrity check follows every step from that one on.

use std::time::{Duration, Instant};

use densite_tests::model::{Config, run};

const PAGE_SIZES: [usize; 8] = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

/// A number from the environment; an empty variable is none.
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
        steps: steps.unwrap_or(5000),
        every_kind: steps.is_none(),
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

/// Runs seed after seed for `DENSITE_MINUTES`, from `DENSITE_SEED`, over all page sizes.
#[test]
#[ignore = "hours: make crash"]
fn long_model() {
    let minutes = number("DENSITE_MINUTES").unwrap_or(60);
    let first = number("DENSITE_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |d| d.as_secs())
    });
    let steps = number("DENSITE_STEPS").unwrap_or(5000);
    let end = Instant::now() + Duration::from_secs(minutes * 60);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!("model: from seed {first} for {minutes} minutes, {threads} runs at a time");
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let runs = (first..).flat_map(|seed| PAGE_SIZES.map(|page_size| (seed, page_size)));
                for (seed, page_size) in runs.skip(thread).step_by(threads) {
                    if Instant::now() >= end {
                        println!("model: resume with DENSITE_SEED={seed}");
                        return;
                    }
                    let begin = Instant::now();
                    let every_kind = steps >= 5000;
                    let check_from = None;
                    match run(Config { seed, page_size, steps, every_kind, check_from }) {
                        Ok(report) => println!(
                            "model: seed {seed}, page size {page_size}: {} steps in {:.0?}, same answers",
                            report.steps,
                            begin.elapsed()
                        ),
                        Err(difference) => panic!("{difference}"),
                    }
                }
            });
        }
    });
}
