//! A follower sees the newest restore point, and each snapshot stays one state.

use crate::common::{Database, PAGE, begin, bucket, lose, open, quick, reader, ship};
use densite_disk::{File, OpenMode};
use densite_replica::{Error, Follower, Result, Snapshot, Step};
use densite_sim_disk::SimDisk;
use rand::RngExt;
use std::sync::Arc;
use std::time::Duration;

fn follow(disk: &SimDisk) -> Result<Follower> {
    Follower::new(Arc::new(reader(disk)))
}

/// The pages of a snapshot, read in pieces of odd lengths.
fn pages(snapshot: &Snapshot) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut part = [0; 7777];
    loop {
        let n = snapshot
            .read_at(&mut part, bytes.len() as u64)
            .expect("read");
        bytes.extend_from_slice(&part[..n]);
        if n < part.len() {
            break;
        }
    }
    assert_eq!(bytes.len() as u64, snapshot.image_len());
    let disk = SimDisk::new(0);
    let file = disk.open("/f.db", OpenMode::Create).expect("create");
    file.write_at(&bytes, 0).expect("write");
    let mut handle = open(&disk, "/f.db");
    let len = usize::try_from(handle.len().expect("length")).expect("small");
    let mut bytes = vec![0; len];
    handle.read_at(&mut bytes, 0).expect("read");
    bytes.chunks(PAGE).map(<[u8]>::to_vec).collect()
}

#[test]
fn a_follower_sees_each_restore_point_and_a_snapshot_never_changes() {
    for seed in 0..6 {
        let mut database = Database::new(seed);
        let disk = SimDisk::new(seed);
        let folder = bucket(&disk);
        let mut options = quick();
        if seed % 2 == 1 {
            // Bases come in between.
            options.base_every = Duration::from_secs(20);
        }
        let mut now_ms = 0;
        let mut shipper = begin(&folder, &mut database, &options, now_ms).expect("begin");
        let follower = follow(&disk).expect("follow");
        let mut kept = Vec::new();
        for round in 0..120 {
            now_ms += database.rng.random_range(1..1500);
            if database.rng.random_ratio(1, 20) {
                now_ms += 20_000;
            } else {
                database.commit(8);
            }
            let step = shipper.step(&mut database.source(), now_ms, &mut |_| true);
            let is_shipped = matches!(step.expect("step"), Step::Shipped { .. });
            if is_shipped && database.rng.random_ratio(1, 3) {
                let snapshot = follower.newest(Duration::ZERO).expect("newest");
                assert_eq!(snapshot.point().0, shipper.position().0);
                assert!(
                    pages(&snapshot) == database.pages,
                    "seed {seed}, round {round}"
                );
                if kept.len() < 5 {
                    kept.push((snapshot, database.pages.clone()));
                }
            }
        }
        for (snapshot, expected) in &kept {
            assert!(
                pages(snapshot) == *expected,
                "seed {seed}: a snapshot changed"
            );
        }
        // One that begins now sees the same.
        let fresh = follow(&disk).expect("follow").newest(Duration::ZERO);
        assert_eq!(
            fresh.expect("newest").point(),
            follower.newest(Duration::ZERO).expect("newest").point()
        );
    }
}

#[test]
fn a_follower_goes_on_after_a_takeover() {
    let mut database = Database::new(7);
    let disk = SimDisk::new(7);
    let folder = bucket(&disk);
    drop(begin(&folder, &mut database, &quick(), 0).expect("begin"));
    let follower = follow(&disk).expect("follow");
    let mut other = Database::new(8);
    let options = densite_replica::ShipperOptions {
        takeover: true,
        ..quick()
    };
    drop(begin(&folder, &mut other, &options, 5).expect("take over"));
    let snapshot = follower.newest(Duration::ZERO).expect("newest");
    assert!(pages(&snapshot) == other.pages);
}

/// Asking again within the age takes no request.
#[test]
fn a_follower_asks_once_within_an_interval() {
    let mut database = Database::new(9);
    let disk = SimDisk::new(9);
    let folder = bucket(&disk);
    drop(begin(&folder, &mut database, &quick(), 0).expect("begin"));
    let follower = follow(&disk).expect("follow");
    let calls = disk.calls();
    for _ in 0..100 {
        follower.newest(Duration::from_secs(60)).expect("newest");
    }
    assert_eq!(disk.calls(), calls);
    follower.newest(Duration::ZERO).expect("newest");
    assert!(disk.calls() > calls);
}

/// A store that fails is an error, not an older state.
#[test]
fn a_follower_is_not_behind_in_silence() {
    use densite_sim_disk::{Fault, FaultKind, OpSet};
    let mut database = Database::new(10);
    let disk = SimDisk::new(10);
    let folder = bucket(&disk);
    drop(begin(&folder, &mut database, &quick(), 0).expect("begin"));
    let nothing = follow(&SimDisk::new(1));
    assert!(matches!(nothing.err(), Some(Error::NoReplica)));
    let follower = follow(&disk).expect("follow");
    disk.fail(Fault::new(FaultKind::Io, OpSet::ALL).forever());
    let failed = follower.newest(Duration::ZERO);
    assert!(matches!(failed.err(), Some(Error::Bucket(_))));
    disk.clear_faults();
    follower.newest(Duration::ZERO).expect("newest");
}

/// The first error within so many polls.
fn error_within(follower: &Follower, polls: u32) -> Option<Error> {
    (0..polls).find_map(|_| follower.newest(Duration::ZERO).err())
}

/// Whether a later delta or the head shows that this object is missing.
#[track_caller]
fn is_missing(error: Option<Error>, path: &str) {
    match &error {
        Some(Error::Gap { missing, .. }) if missing.ends_with(path) || path.ends_with(missing) => {}
        _ => panic!("{path} is missing, and not {error:?}"),
    }
}

#[test]
fn a_missing_delta_is_an_error_within_a_few_polls() {
    let mut database = Database::new(11);
    let disk = SimDisk::new(11);
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
    let mut now_ms = 0;
    let follower = follow(&disk).expect("follow");
    ship(&mut database, &mut shipper, 1, &mut now_ms);
    assert_eq!(
        follower.newest(Duration::ZERO).expect("newest").point().0,
        1
    );
    ship(&mut database, &mut shipper, 2, &mut now_ms);
    let (path, bytes) = lose(&disk, "-delta-000000000002");
    is_missing(error_within(&follower, 4), &path);
    // It stays one, and one that begins now says so at once.
    is_missing(error_within(&follower, 1), &path);
    is_missing(follow(&disk).err(), &path);
    disk.put_file(&path, &bytes);
    assert_eq!(
        follower.newest(Duration::ZERO).expect("newest").point().0,
        3
    );
    // After any number of idle polls, within eight.
    for idle in 0..20 {
        let disk = disk.snapshot();
        let follower = follow(&disk).expect("follow");
        for _ in 0..idle {
            assert_eq!(error_within(&follower, 1), None);
        }
        let folder = bucket(&disk);
        let mut shipper = begin(&folder, &mut database, &quick(), now_ms).expect("begin");
        ship(&mut database, &mut shipper, 2, &mut now_ms.clone());
        let (path, _) = lose(&disk, "-delta-000000000004");
        is_missing(error_within(&follower, 8), &path);
    }
}

/// No poll asks for what exists behind several missing deltas. A list shows them.
#[test]
fn several_missing_deltas_are_an_error_of_the_next_check() {
    let mut database = Database::new(14);
    let disk = SimDisk::new(14);
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
    // Behind a base the head says that no delta follows; a change of that would show the gap.
    ship(&mut database, &mut shipper, 1, &mut 0);
    let follower = follow(&disk).expect("follow");
    follower.check().expect("nothing is missing");
    ship(&mut database, &mut shipper, 4, &mut 0);
    let (path, bytes) = lose(&disk, "-delta-000000000002");
    lose(&disk, "-delta-000000000003");
    assert_eq!(error_within(&follower, 70), None);
    is_missing(follower.check().err(), &path);
    is_missing(follow(&disk).err(), &path);
    disk.put_file(&path, &bytes);
    is_missing(error_within(&follower, 10), "-delta-000000000003");
}

/// Deltas that are missing, or were removed after their time, do not matter to a follower that is
/// behind them, once the head names a base or merged objects.
#[test]
fn a_follower_that_slept_goes_on_from_the_head() {
    for merged in [true, false] {
        let mut database = Database::new(12);
        let disk = SimDisk::new(12);
        let folder = bucket(&disk);
        let mut options = quick();
        let mut now_ms = 0;
        let mut shipper = begin(&folder, &mut database, &options, now_ms).expect("begin");
        let follower = follow(&disk).expect("follow");
        ship(&mut database, &mut shipper, 6, &mut now_ms);
        if merged {
            let step = shipper.step(&mut database.source(), now_ms + 20_000, &mut |_| true);
            assert!(matches!(step, Ok(Step::Compacted { .. })), "{step:?}");
        } else {
            drop(shipper);
            options.base_every = Duration::ZERO;
            shipper = begin(&folder, &mut database, &options, now_ms).expect("begin");
            ship(&mut database, &mut shipper, 1, &mut now_ms);
        }
        lose(&disk, "-delta-000000000001");
        lose(&disk, "-delta-000000000002");
        let mut polls = 0;
        while follower.newest(Duration::ZERO).expect("newest").point().0 < shipper.position().0 {
            polls += 1;
            assert!(polls <= 8, "it stays behind");
        }
        let snapshot = follower.newest(Duration::ZERO).expect("newest");
        assert!(pages(&snapshot) == database.pages);
    }
}

/// More than is kept in memory, and no merged object yet.
#[test]
fn a_follower_goes_on_when_deltas_are_larger_than_its_memory() {
    let mut database = Database::new(13);
    let disk = SimDisk::new(13);
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
    let follower = follow(&disk).expect("follow");
    let mut bytes = 0;
    for n in 1..60 {
        database.commit(900);
        let step = shipper.step(&mut database.source(), n, &mut |_| true);
        let Ok(Step::Shipped { bytes: more, .. }) = step else {
            panic!("{step:?}");
        };
        bytes += more;
        let snapshot = follower.newest(Duration::ZERO).expect("newest");
        assert_eq!(snapshot.point().0, shipper.position().0);
    }
    assert!(bytes > 33 << 20, "{bytes} bytes are too few for this test");
    let snapshot = follower.newest(Duration::ZERO).expect("newest");
    assert!(pages(&snapshot) == database.pages);
    let fresh = follow(&disk).expect("follow").newest(Duration::ZERO);
    assert!(pages(&fresh.expect("newest")) == database.pages);
}
