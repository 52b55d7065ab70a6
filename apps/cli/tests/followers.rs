//! Subscribers, writers and pruners under kill -9: no subscriber misses a row, or receives a row
//! again that it has acknowledged.
//!
//! Two writers, three subscribers through SQL, one through the command, and a process that prunes
//! are killed at random moments and started again. Segments are small, so pruning follows the
//! slowest subscriber. At the end, the model (`followers/model.rs`) compares the delivered rows
//! with those acknowledged to writers. A seed does not determine how the system schedules the
//! processes, so each run of a seed is another history.

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

/// The usual number of histories. All of them together have all kinds of events.
const HISTORIES: u64 = 20;

/// Not a test itself: the entry point of the processes of a history.
#[test]
fn child() {
    child::run();
}

#[test]
fn killed_subscribers_miss_no_rows() {
    let seeds = densite_testing::seeds(HISTORIES);
    let are_all = seeds.end - seeds.start >= HISTORIES;
    let mut sum = Tally::default();
    for seed in seeds {
        sum.add(&lanes::history(seed));
    }
    println!("{sum:#?}");
    if are_all {
        sum.expect_all_kinds();
    }
}

/// Part of `make crash`.
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
