//! Random histories of tables with random schemas. Rows come and are read, tables are changed from
//! elsewhere, and schemas change. Meanwhile clustered applies run, are taken over, restored and
//! rolled back. At every check, the log applied to the table must give the result of the same
//! history in plain SQLite, and readers must see it.

use crate::common::past;

use past::World;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::time::{Duration, Instant};

/// Number of histories of a run, and steps of each.
const HISTORIES: u64 = 4;
const STEPS: usize = 60;
/// Some histories take two seconds, others two minutes. No history begins after this time.
const LONG: Duration = Duration::from_secs(15);

#[test]
fn random_histories_have_the_result_of_the_log_order() {
    let (mut clustered, mut looks, mut refused, mut pruned) = (0, 0, 0, 0);
    let begin = Instant::now();
    let seeds = densite_testing::fresh_seeds(HISTORIES);
    for seed in seeds.take_while(|_| begin.elapsed() < LONG) {
        let world = history(seed);
        clustered += world.clustered;
        looks += world.looks;
        refused += world.refused;
        pruned += world.pruned;
    }
    println!(
        "{looks} looks, {clustered} in the middle of clustered applies; {refused} commits without room, {pruned} segments pruned"
    );
    assert!(looks > 0);
    assert!(
        pruned > 0,
        "no history is so short that all of its log fits into one segment"
    );
}

fn history(seed: u64) -> World {
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut world = World::new(&mut random, seed);
    for _ in 0..STEPS {
        world.step(&mut random);
    }
    world.end(&mut random);
    world
}

/// A part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_history() {
    densite_testing::long_run("looks", |seed| history(seed).looks);
}
