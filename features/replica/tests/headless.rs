//! A replica whose head is missing or damaged: a list of its objects takes its place for restores, a
//! shipper refuses, and a takeover keeps every restore point.

use crate::common::{Database, begin, bucket, lose, quick, reader, restored, ship};
use densite_replica::{
    At, Bucket, Error, Folder, Follower, Shipper, ShipperOptions, Step, replicas,
};
use densite_sim_disk::SimDisk;
use std::sync::Arc;

const HEAD_PATH: &str = "/bucket/head";

fn take_over() -> ShipperOptions {
    ShipperOptions {
        takeover: true,
        ..quick()
    }
}

/// A replica of two generations, the first with two bases and merged objects behind each.
struct Old {
    database: Database,
    disk: SimDisk,
    folder: Arc<Folder>,
    now_ms: u64,
    /// The pages of each restore point, and its time, in their order.
    states: Vec<(u64, Vec<Vec<u8>>)>,
}

impl Old {
    fn new(seed: u64) -> Old {
        let mut database = Database::new(seed);
        let disk = SimDisk::new(seed);
        let folder = bucket(&disk);
        let shipper = begin(&folder, &mut database, &quick(), 1000).expect("begin");
        let mut old = Old {
            states: vec![(1000, database.pages.clone())],
            database,
            disk,
            folder,
            now_ms: 1000,
        };
        let shipper = old.pass(shipper, 80);
        old.now_ms += 25 * 3_600_000;
        drop(old.pass(shipper, 10));
        old.now_ms += 1000;
        let shipper = begin(&old.folder, &mut old.database, &take_over(), old.now_ms);
        old.note();
        drop(old.pass(shipper.expect("take over"), 9));
        old
    }

    fn note(&mut self) {
        self.states.push((self.now_ms, self.database.pages.clone()));
    }

    /// Ships so many restore points, and merges.
    fn pass(&mut self, mut shipper: Shipper, times: u64) -> Shipper {
        for _ in 0..times {
            ship(&mut self.database, &mut shipper, 1, &mut self.now_ms);
            self.note();
        }
        self.now_ms += 20_000;
        let step = shipper.step(&mut self.database.source(), self.now_ms, &mut |_| true);
        assert!(matches!(step, Ok(Step::Compacted { .. })), "{step:?}");
        shipper
    }

    /// Each of the restore points is restored by its moment.
    #[track_caller]
    fn check(&self, bucket: &Folder) {
        for (n, (time_ms, pages)) in self.states.iter().enumerate() {
            let next_ms = self.states.get(n + 1).map_or(u64::MAX, |next| next.0);
            for at in [*time_ms, next_ms - 1] {
                let found = restored(bucket, At::Time(at)).expect("restore");
                assert!(found.1 == *pages, "moment {at}: {:?}", found.0);
            }
        }
        let (_, newest) = self.states.last().expect("a state");
        let found = restored(bucket, At::Newest).expect("restore");
        assert!(found.1 == *newest, "{:?}", found.0);
    }

    fn generations(&self) -> Vec<String> {
        let info = replicas(&*self.folder).expect("replicas");
        info.generations.into_iter().map(|g| g.name).collect()
    }
}

#[track_caller]
fn is_lost(error: Option<Error>, wanted: &[String]) {
    match error {
        Some(Error::HeadLost { generations, .. }) => assert_eq!(generations, wanted),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_head_every_restore_point_is_found_by_a_list() {
    let old = Old::new(1);
    old.check(&old.folder);
    let before = replicas(&*old.folder).expect("replicas");
    assert_eq!(before.head_problem, None);
    old.disk.remove(HEAD_PATH).expect("removed");
    old.check(&old.folder);
    let found = restored(&old.folder, At::Newest).expect("restore");
    assert_eq!(found.0.head_problem.as_deref(), Some("is missing"));
    let (_, pages) = restored(&old.folder, At::Number(4)).expect("restore");
    assert!(pages == old.states[old.states.len() - 6].1);
    let early = restored(&old.folder, At::Time(999));
    assert!(matches!(early, Err(Error::TooEarly { first_ms: 1000 })));
    let after = replicas(&*old.folder).expect("replicas");
    assert_eq!(after.head_problem.as_deref(), Some("is missing"));
    assert_eq!(after.generations, before.generations);
}

#[test]
fn without_a_head_a_shipper_refuses_and_changes_nothing() {
    let mut old = Old::new(2);
    let generations = old.generations();
    assert_eq!(generations.len(), 2);
    old.disk.remove(HEAD_PATH).expect("removed");
    let before = old.disk.snapshot();
    let refused = begin(&old.folder, &mut old.database, &quick(), old.now_ms);
    is_lost(refused.err(), &generations);
    assert!(old.disk.paths() == before.paths());
    let follower = Follower::new(Arc::new(reader(&old.disk)));
    is_lost(follower.err(), &generations);
}

/// The new generation comes after all others, and all stay restorable, also after restarts.
#[test]
fn a_takeover_without_a_head_keeps_every_restore_point() {
    for is_cut in [false, true] {
        let mut old = Old::new(3);
        let generations = old.generations();
        let head = old.disk.contents(HEAD_PATH).expect("contents");
        match is_cut {
            true => old.disk.put_file(HEAD_PATH, &head[..head.len() / 2]),
            false => old.disk.remove(HEAD_PATH).expect("removed"),
        }
        old.now_ms += 1000;
        let taken = begin(&old.folder, &mut old.database, &take_over(), old.now_ms);
        old.note();
        let shipper = old.pass(taken.expect("take over"), 8);
        assert!(shipper.generation().starts_with("g0003-"));
        drop(shipper);
        old.check(&old.folder);
        let now = old.generations();
        assert_eq!(now[..2], generations);
        assert_eq!(now.len(), 3);
        let found = restored(&old.folder, At::Newest).expect("restore");
        assert_eq!(found.0.head_problem, None);
        let shipper = begin(&old.folder, &mut old.database, &quick(), old.now_ms);
        drop(old.pass(shipper.expect("continue"), 7));
        old.check(&old.folder);
    }
}

/// Nothing but an error or the right state comes of a head with other bytes.
#[test]
fn a_damaged_head_does_not_matter_to_a_restore() {
    let mut old = Old::new(4);
    let head = old.disk.contents(HEAD_PATH).expect("contents");
    let moments = [old.states.len() - 1, 85, 40];
    let check = |old: &Old| {
        for n in moments {
            let (time_ms, pages) = &old.states[n];
            let found = restored(&reader(&old.disk), At::Time(*time_ms)).expect("restore");
            assert!(found.1 == *pages);
            assert!(found.0.head_problem.is_some());
        }
    };
    for len in [0, 1, head.len() / 3, head.len() - 2] {
        old.disk.put_file(HEAD_PATH, &head[..len]);
        check(&old);
    }
    let generations: Vec<String> = {
        old.disk.put_file(HEAD_PATH, &head);
        old.generations()
    };
    for at in (0..head.len() - 1).step_by(5) {
        for bit in [0x01, 0x10] {
            let mut bytes = head.clone();
            bytes[at] ^= bit;
            old.disk.put_file(HEAD_PATH, &bytes);
            // A version above this one is refused: it can be true.
            match restored(&reader(&old.disk), At::Newest) {
                Err(Error::Newer { .. }) => continue,
                _ => check(&old),
            }
            let refused = begin(&old.folder, &mut old.database, &quick(), old.now_ms);
            is_lost(refused.err(), &generations);
        }
    }
}

/// A writer that still runs is stopped, as by any takeover.
#[test]
fn a_writer_notices_a_takeover_without_a_head() {
    let mut database = Database::new(5);
    let disk = SimDisk::new(5);
    let folder = bucket(&disk);
    let mut first = begin(&folder, &mut database, &quick(), 0).expect("begin");
    ship(&mut database, &mut first, 3, &mut 0);
    let at_three = database.pages.clone();
    disk.remove(HEAD_PATH).expect("removed");
    let second = begin(&folder, &mut database, &take_over(), 9000).expect("take over");
    assert_ne!(first.generation(), second.generation());
    database.commit(3);
    let step = first.step(&mut database.source(), 10_000, &mut |_| true);
    assert!(matches!(step, Err(Error::TakenOver)), "{step:?}");
    let (_, pages) = restored(&folder, At::Time(8999)).expect("restore");
    assert!(pages == at_three);
}

/// A running writer says that the head is gone, and does not blame another writer.
#[test]
fn a_running_writer_says_that_the_head_is_missing() {
    let mut database = Database::new(6);
    let disk = SimDisk::new(6);
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
    let generation = shipper.generation().to_owned();
    let head = disk.contents(HEAD_PATH).expect("contents");
    for lost in [None, Some(&head[..9])] {
        match lost {
            None => disk.remove(HEAD_PATH).expect("removed"),
            Some(bytes) => disk.put_file(HEAD_PATH, bytes),
        }
        database.commit(3);
        // The head says that a delta comes.
        let step = shipper.step(&mut database.source(), 1000, &mut |_| true);
        is_lost(step.err(), std::slice::from_ref(&generation));
    }
    disk.put_file(HEAD_PATH, &head);
}

/// Without the head, an object that is lost, too, is an error: never an older state.
#[test]
fn without_a_head_a_lost_object_is_an_error() {
    let old = Old::new(7);
    let generations = old.generations();
    old.disk.remove(HEAD_PATH).expect("removed");
    let newest = format!("{}-base-000000000000-", generations[1]);
    let second = format!("{}-base-000000000081-", generations[0]);
    // The moments of the second base and of the takeover.
    let (second_ms, newest_ms) = (old.states[81].0, old.states[91].0);
    for (begin, from_ms, to_ms) in [
        (&newest, newest_ms, u64::MAX),
        (&second, second_ms, newest_ms - 1),
    ] {
        for is_cut in [false, true] {
            let (path, bytes) = lose(&old.disk, begin);
            if is_cut {
                old.disk.put_file(&path, &bytes[..bytes.len() / 2]);
            }
            for (at, _) in &old.states {
                let found = restored(&old.folder, At::Time(*at));
                let is_lost = (from_ms..=to_ms).contains(at);
                let is_named = match &found {
                    Err(Error::Missing(name)) => name.starts_with(begin.trim_end_matches('-')),
                    Err(Error::BaseLost { object, .. }) => {
                        object.starts_with(begin.trim_end_matches('-'))
                    }
                    _ => false,
                };
                assert_eq!(is_named, is_lost, "{begin}, {at}: {:?}", found.err());
            }
            if to_ms == u64::MAX {
                let found = restored(&old.folder, At::Newest);
                assert!(found.is_err(), "an older state");
            }
            old.disk.put_file(&path, &bytes);
        }
    }
    old.check(&old.folder);
}

/// An upload that was given up can end later. The objects behind it tell which base is meant.
#[test]
fn of_two_bases_the_one_that_deltas_follow_is_restored() {
    let mut database = Database::new(8);
    let disk = SimDisk::new(8);
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 50).expect("begin");
    let first = database.pages.clone();
    ship(&mut database, &mut shipper, 2, &mut 1000);
    // Another one of the same number and of a later time, as of another copy.
    let mut other = Database::new(9);
    let elsewhere = SimDisk::new(9);
    drop(begin(&bucket(&elsewhere), &mut other, &quick(), 900).expect("begin"));
    let (_, late) = lose(&elsewhere, "-base-");
    let late_path = format!(
        "/bucket/{}-base-000000000000-ffffffff",
        shipper.generation()
    );
    disk.remove(HEAD_PATH).expect("removed");
    disk.put_file(&late_path, &late);
    let (_, pages) = restored(&folder, At::Newest).expect("restore");
    assert!(pages == database.pages);
    let (_, pages) = restored(&folder, At::Number(0)).expect("restore");
    assert!(pages == first);
}

/// Earlier versions began again with number 1 if there was no head.
#[test]
fn of_two_generations_of_one_number_the_later_one_is_the_newest() {
    for seed in 20..24 {
        let mut database = Database::new(seed);
        let disk = SimDisk::new(seed);
        let folder = bucket(&disk);
        let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
        ship(&mut database, &mut shipper, 2, &mut 0);
        let first = database.pages.clone();
        let mut left = Vec::new();
        for path in disk.paths().into_iter().filter(|p| p.contains("/g0001-")) {
            left.push((path.clone(), disk.contents(&path).expect("contents")));
        }
        disk.remove(HEAD_PATH).expect("removed");
        for (path, _) in &left {
            disk.remove(path).expect("removed");
        }
        database.commit(3);
        drop(begin(&folder, &mut database, &quick(), 90_000).expect("begin"));
        for (path, bytes) in &left {
            disk.put_file(path, bytes);
        }
        disk.remove(HEAD_PATH).expect("removed");
        let (_, pages) = restored(&folder, At::Newest).expect("restore");
        assert!(pages == database.pages);
        let (_, pages) = restored(&folder, At::Time(80_000)).expect("restore");
        assert!(pages == first);
        let shipper = begin(&folder, &mut database, &take_over(), 95_000).expect("take over");
        assert!(shipper.generation().starts_with("g0002-"));
        let (_, pages) = restored(&folder, At::Time(80_000)).expect("restore");
        assert!(pages == first);
    }
}

/// Files of others are no objects, and are no reason to refuse.
#[test]
fn files_of_other_names_do_not_make_a_replica() {
    let mut database = Database::new(10);
    let disk = SimDisk::new(10);
    let folder = bucket(&disk);
    let others = [
        "notes.txt",
        "g0000-00ff00ff-probe",
        "g0001-00ff00ff",
        "g0001-00ff00ff-base-0-00ff00ff",
        "g0001-00ff00ff-delta-000000000001.bak",
        "g0001-xyz-delta-000000000001",
    ];
    for name in others {
        disk.put_file(&format!("/bucket/{name}"), b"something else");
    }
    let nothing = restored(&folder, At::Newest);
    assert!(matches!(nothing, Err(Error::NoReplica)), "{nothing:?}");
    assert!(!densite_replica::exists(&*folder).expect("asked"));
    drop(begin(&folder, &mut database, &quick(), 0).expect("begin"));
    assert!(densite_replica::exists(&*folder).expect("asked"));
    let info = replicas(&*folder).expect("replicas");
    let own = folder.list("", "").expect("list");
    let is_own = |name: &str| !others.contains(&name) || name.ends_with("-probe");
    let own: Vec<_> = own.iter().filter(|o| is_own(&o.name)).collect();
    assert_eq!(info.objects, own.len() as u64);
    assert_eq!(info.bytes, own.iter().map(|o| o.len).sum::<u64>());
    assert_eq!(info.foreign, 5);
    assert_eq!(info.generations.len(), 1);
}

/// What was about to be removed when the head was lost is removed in the end.
#[test]
fn what_no_restore_point_needs_is_removed_after_a_takeover_without_a_head() {
    let mut old = Old::new(11);
    old.disk.remove(HEAD_PATH).expect("removed");
    let first = &old.generations()[0];
    // Its first base was removed, but not all behind it.
    lose(&old.disk, &format!("{first}-base-000000000000-"));
    let taken = begin(&old.folder, &mut old.database, &take_over(), old.now_ms);
    let mut shipper = taken.expect("take over");
    let stray = format!("{first}-delta-000000000001");
    let exists = |old: &Old| old.disk.paths().iter().any(|path| path.ends_with(&stray));
    old.now_ms += 3_500_000;
    ship(&mut old.database, &mut shipper, 1, &mut old.now_ms);
    assert!(exists(&old), "readers of an older head can need it");
    old.now_ms += 100_000;
    ship(&mut old.database, &mut shipper, 3, &mut old.now_ms);
    assert!(!exists(&old));
    let (time_ms, pages) = &old.states[85];
    let found = restored(&old.folder, At::Time(*time_ms)).expect("restore");
    assert!(found.1 == *pages);
}

/// A takeover heals a replica whose end is lost or damaged, also with its head.
#[test]
fn a_takeover_does_not_need_the_end_of_the_chain() {
    for lost in ["-delta-000000000003", "-base-000000000000-"] {
        for is_cut in [false, true] {
            let mut database = Database::new(12);
            let disk = SimDisk::new(12);
            let folder = bucket(&disk);
            let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
            if lost.contains("delta") {
                ship(&mut database, &mut shipper, 3, &mut 0);
            }
            let (path, bytes) = lose(&disk, lost);
            if is_cut {
                disk.put_file(&path, &bytes[..bytes.len() - 1]);
            }
            drop(begin(&folder, &mut database, &take_over(), 9000).expect("take over"));
            let (_, pages) = restored(&folder, At::Newest).expect("restore");
            assert!(pages == database.pages);
            database.commit(3);
            let step = shipper.step(&mut database.source(), 10_000, &mut |_| true);
            // Behind a delta that is gone, it notices that at its next merge or base.
            let is_gone = lost.contains("delta") && !is_cut;
            let is_stopped = matches!(step, Err(Error::TakenOver));
            assert_eq!(is_stopped, !is_gone, "{lost}: {step:?}");
        }
    }
}
