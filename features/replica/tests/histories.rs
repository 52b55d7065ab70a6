//! Whatever the history, each restore point restores exactly the state of its commit.

use crate::common::{Database, begin, bucket, quick, reader, restored};
use densite_replica::{At, Step, replicas};
use densite_sim_disk::SimDisk;
use rand::RngExt;
use std::collections::BTreeMap;

/// The states of the restore points of the current generation, by number, with their times.
type States = BTreeMap<u64, (u64, Vec<Vec<u8>>)>;

/// Ships random commits in steps. Restarts, compactions and new bases come in between.
fn history(seed: u64) {
    let mut database = Database::new(seed);
    let disk = SimDisk::new(seed);
    let mut options = quick();
    let many_bases = seed.is_multiple_of(3);
    if many_bases {
        options.base_every = std::time::Duration::from_secs(60);
    }
    let mut now_ms = 1_000_000;
    let mut states = States::new();
    let (mut merged, mut bases) = (0, 0);
    let mut pages = Vec::new();
    for _ in 0..6 {
        let folder = bucket(&disk);
        let mut shipper = begin(&folder, &mut database, &options, now_ms).expect("begin");
        let (n, _, time_ms) = shipper.position();
        // A first base is of the state then; otherwise nothing was shipped yet.
        states
            .entry(n)
            .or_insert_with(|| (time_ms, database.pages.clone()));
        for _ in 0..database.rng.random_range(1..40) {
            now_ms += database.rng.random_range(1..3000);
            match database.rng.random_range(0..10) {
                0 => now_ms += 20_000,
                1 => database.shrink(),
                _ => {
                    for _ in 0..database.rng.random_range(1..4) {
                        database.commit(12);
                    }
                }
            }
            pages.clone_from(&database.pages);
            let step = shipper.step(&mut database.source(), now_ms, &mut |_| true);
            match step.expect("step") {
                Step::Shipped { n, .. } => {
                    let (at, mark, time_ms) = shipper.position();
                    assert_eq!(at, n);
                    assert_eq!(Some(mark), database.handle.mark().expect("mark"));
                    states.insert(n, (time_ms, pages.clone()));
                }
                Step::Compacted { .. } => merged += 1,
                Step::Idle => {}
                Step::HeldBack => panic!("seed {seed}: nothing holds it back"),
            }
        }
        bases = replicas(&*folder).expect("replicas").generations[0].bases;
    }
    let folder = reader(&disk);
    let (newest, found) = restored(&folder, At::Newest).expect("restore");
    assert_eq!(newest.n, *states.keys().next_back().expect("a state"));
    assert!(found == database.pages, "seed {seed}: the newest state");
    for (n, (time_ms, pages)) in &states {
        let (done, found) = restored(&folder, At::Time(*time_ms)).expect("restore");
        // Another one can be of the same millisecond.
        let (_, expected) = &states[&done.n];
        assert!(done.n >= *n && done.time_ms == *time_ms, "seed {seed}, {n}");
        assert!(found == *expected, "seed {seed}, restore point {n} by time");
        if *n >= newest.n.saturating_sub(30) {
            let (done, found) = restored(&folder, At::Number(*n)).expect("restore");
            assert_eq!(done.n, *n);
            assert!(found == *pages, "seed {seed}, restore point {n}");
        }
    }
    assert!(
        states.len() < 100 || merged > 0,
        "seed {seed}: nothing is merged"
    );
    assert!(!many_bases || states.len() < 30 || bases > 1, "seed {seed}");
}

#[test]
fn each_restore_point_restores_its_state() {
    for seed in 0..12 {
        history(seed);
    }
}

/// A restart continues the chain, and what was written while no shipper ran comes as one delta.
#[test]
fn a_restart_ships_what_was_missed_without_a_new_base() {
    let mut database = Database::new(1);
    let disk = SimDisk::new(1);
    for round in 0..5u64 {
        let folder = bucket(&disk);
        let mut shipper = begin(&folder, &mut database, &quick(), round).expect("begin");
        for _ in 0..20 {
            database.commit(5);
        }
        let step = shipper.step(&mut database.source(), round, &mut |_| true);
        let Step::Shipped { n, .. } = step.expect("step") else {
            panic!("round {round}: nothing is shipped");
        };
        assert_eq!(n, round + 1);
        for _ in 0..20 {
            database.commit(5);
        }
    }
    let info = replicas(&reader(&disk)).expect("replicas");
    assert_eq!((info.generations.len(), info.generations[0].bases), (1, 1));
}

#[test]
fn idle_steps_send_nothing() {
    let mut database = Database::new(2);
    let disk = SimDisk::new(2);
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
    database.commit(5);
    shipper
        .step(&mut database.source(), 1, &mut |_| true)
        .expect("step");
    let calls = disk.calls();
    for now_ms in 2..1000 {
        let step = shipper.step(&mut database.source(), now_ms * 100, &mut |_| true);
        assert_eq!(step.expect("step"), Step::Idle);
    }
    assert_eq!(disk.calls(), calls);
}

/// After some time without a change, a restore reads the base and at most five objects.
#[test]
fn at_rest_deltas_are_merged() {
    let mut database = Database::new(3);
    let disk = SimDisk::new(3);
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
    for n in 0..200 {
        database.commit(3);
        let step = shipper.step(&mut database.source(), n * 1000, &mut |_| true);
        assert!(matches!(step, Ok(Step::Shipped { .. })), "{step:?}");
    }
    let step = shipper.step(&mut database.source(), 300_000, &mut |_| true);
    assert!(matches!(step, Ok(Step::Compacted { .. })), "{step:?}");
    let (done, pages) = restored(&folder, At::Newest).expect("restore");
    assert!(pages == database.pages);
    assert!(done.objects <= 6, "{} objects", done.objects);
}

/// Old restore points go, with their objects, an hour after a newer base took their place.
#[test]
fn what_is_older_than_the_time_to_keep_is_removed() {
    let mut database = Database::new(4);
    let disk = SimDisk::new(4);
    let folder = bucket(&disk);
    let mut options = quick();
    options.retain = std::time::Duration::from_secs(2 * 3600);
    options.base_every = std::time::Duration::from_secs(3600);
    let mut shipper = begin(&folder, &mut database, &options, 0).expect("begin");
    let minute = 60_000;
    let mut most = 0;
    for n in 1..=600 {
        database.commit(3);
        shipper
            .step(&mut database.source(), n * minute, &mut |_| true)
            .expect("step");
        most = most.max(replicas(&*folder).expect("replicas").objects);
    }
    let info = replicas(&*folder).expect("replicas");
    assert!(most < 300 && info.objects < 300, "{most}, {}", info.objects);
    let two_hours_ago = 600 * minute - 2 * 60 * minute;
    let (done, _) = restored(&folder, At::Time(two_hours_ago)).expect("restore");
    assert!(two_hours_ago - done.time_ms <= minute, "{done:?}");
    let (_, pages) = restored(&folder, At::Newest).expect("restore");
    assert!(pages == database.pages);
    let early = restored(&folder, At::Time(minute));
    assert!(
        matches!(early, Err(densite_replica::Error::TooEarly { .. })),
        "{early:?}"
    );
}
