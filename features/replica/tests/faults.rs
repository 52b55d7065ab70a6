//! Failures of the bucket: at each call, once and for ever, with power cuts.

use crate::common::{Database, begin, bucket, quick, reader, restored};
use densite_replica::{At, Error, Step};
use densite_sim_disk::{Fault, FaultKind, OpSet, SimDisk};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::time::Duration;

/// The shipper's machine loses its power at a random call of the bucket's disk, again and again.
/// What was acknowledged is restored, and what is restored is the state of a commit.
#[test]
fn after_power_cuts_every_acknowledged_restore_point_is_there() {
    for seed in 0..60 {
        power_cuts(seed);
    }
}

/// Returns how often the power was cut.
fn power_cuts(seed: u64) -> u64 {
    const CUTS: u64 = 6;
    let mut rng = StdRng::seed_from_u64(seed);
    let mut database = Database::new(seed);
    let mut disk = SimDisk::new(seed);
    // What is in the bucket, by commit.
    let mut states = BTreeMap::new();
    let mut acknowledged = 0;
    let mut now_ms = 0;
    for _ in 0..CUTS {
        let folder = bucket(&disk);
        disk.cut_at(disk.calls() + rng.random_range(1..150));
        states.insert(commit(&mut database), database.pages.clone());
        let begun = begin(&folder, &mut database, &quick(), now_ms);
        if let Ok(mut shipper) = begun {
            acknowledged = shipper.position().1.commit();
            for _ in 0..20 {
                now_ms += rng.random_range(1..4000);
                if rng.random_ratio(4, 5) {
                    database.commit(6);
                } else {
                    now_ms += 20_000;
                }
                states.insert(commit(&mut database), database.pages.clone());
                match shipper.step(&mut database.source(), now_ms, &mut |_| true) {
                    Ok(Step::Shipped { .. }) => acknowledged = shipper.position().1.commit(),
                    Ok(_) => {}
                    Err(Error::Bucket(_)) => break,
                    Err(e) => panic!("seed {seed}: {e}"),
                }
            }
        } else if !matches!(begun, Err(Error::Bucket(_))) {
            panic!("seed {seed}: {:?}", begun.err());
        }
        disk = disk.power_cut(rng.random());
        match restored(&reader(&disk), At::Newest) {
            Ok((done, pages)) => {
                assert!(done.mark.commit() >= acknowledged, "seed {seed}: a loss");
                let expected = &states[&done.mark.commit()];
                assert!(pages == *expected, "seed {seed}: another state");
            }
            Err(Error::NoReplica) => assert_eq!(acknowledged, 0, "seed {seed}"),
            Err(e) => panic!("seed {seed}: {e}"),
        }
    }
    CUTS
}

fn commit(database: &mut Database) -> u64 {
    let mark = database.handle.mark().expect("mark");
    mark.expect("a commit").commit()
}

/// Single calls fail, and the same shipper goes on.
#[test]
fn a_shipper_goes_on_after_failures_of_the_bucket() {
    for seed in 0..60 {
        failures(seed);
    }
}

/// Returns how many calls failed.
fn failures(seed: u64) -> u64 {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut database = Database::new(seed);
    let disk = SimDisk::new(seed);
    let folder = bucket(&disk);
    let mut options = quick();
    if seed.is_multiple_of(2) {
        // Many bases, and old ones are removed.
        options.base_every = Duration::from_secs(7);
        options.retain = Duration::from_secs(3600);
    }
    let mut shipper = begin(&folder, &mut database, &options, 0).expect("begin");
    let mut failed = 0;
    let mut states = BTreeMap::new();
    for round in 1..120 {
        database.commit(4);
        states.insert(commit(&mut database), database.pages.clone());
        let fault = Fault::new(FaultKind::Io, OpSet::ALL);
        disk.fail(fault.after(rng.random_range(0..12)));
        // Two minutes for each: objects become old enough to be removed.
        let now_ms = round
            * if seed.is_multiple_of(4) {
                120_000
            } else {
                1000
            };
        let step = shipper.step(&mut database.source(), now_ms, &mut |_| true);
        disk.clear_faults();
        match step {
            Ok(Step::Shipped { .. }) => {
                // What is acknowledged can be restored.
                let (done, pages) = restored(&folder, At::Newest).expect("restore");
                assert_eq!(done.n, shipper.position().0, "seed {seed}");
                let expected = &states[&done.mark.commit()];
                assert!(pages == *expected, "seed {seed}, round {round}");
            }
            Ok(_) => {}
            Err(Error::Bucket(_)) => failed += 1,
            Err(e) => panic!("seed {seed}, round {round}: {e}"),
        }
    }
    assert!(failed > 5, "seed {seed}: {failed} failures");
    for round in 120..124 {
        shipper
            .step(&mut database.source(), round * 120_000, &mut |_| true)
            .expect("step");
    }
    let (_, pages) = restored(&folder, At::Newest).expect("restore");
    assert!(pages == database.pages, "seed {seed}");
    failed
}

/// A part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_replica() {
    densite_testing::long_run("power cuts and failed calls", |seed| {
        power_cuts(seed) + failures(seed)
    });
}
