//! kill -9 of subscribers, writers and pruners: a subscriber that is killed at any moment misses nothing, and receives nothing twice that it has acknowledged.
//!
//! A history has two writers, three subscribers through SQL, one through the command, and a process that
//! checkpoints and prunes. All are processes of their own, killed at random moments and started again: a
//! subscriber while it reads, between delivery and acknowledgement, and while it acknowledges.
//! Subscriptions are removed and added on the way. The log's segments are small, so pruning follows the
//! slowest subscriber. At the end every subscriber reads to the end, and the model (`followers/model.rs`)
//! compares what was delivered with what was acknowledged to writers.
//!
//! A seed chooses what is asked for and when processes are killed, not how the system schedules them:
//! every run of a seed is another history.

#[path = "followers/child.rs"]
mod child;
mod common;
#[path = "followers/lanes.rs"]
mod lanes;
#[path = "followers/model.rs"]
mod model;
#[path = "followers/process.rs"]
mod process;
#[path = "followers/random.rs"]
mod random;
#[path = "followers/storage.rs"]
mod storage;
#[path = "followers/tally.rs"]
mod tally;

use tally::Tally;

/// Histories that `make test` runs.
const HISTORIES: u64 = 20;

/// Not a test by itself: what the processes of a history run.
#[test]
fn child() {
    child::run();
}

#[test]
fn killed_subscribers_miss_nothing() {
    let seed = std::env::var("DENSITE_SEED").ok();
    let seeds = match seed.and_then(|s| s.parse::<u64>().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..HISTORIES,
    };
    let several = seeds.clone().count() > 1;
    let mut sum = Tally::default();
    for seed in seeds {
        sum.add(&lanes::history(seed));
    }
    println!("{sum:#?}");
    if several {
        sum.expect_all_kinds();
    }
}

/// A part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_followers() {
    let mut sum = Tally::default();
    densite_testing::long_run("kills", |seed| {
        let tally = lanes::history(seed);
        sum.add(&tally);
        tally.kills()
    });
    println!("{sum:#?}");
}
