//! A follower sees the newest restore point, and each snapshot stays one state.

use crate::common::{Database, PAGE, begin, bucket, open, quick, reader};
use densite_disk::{File, OpenMode};
use densite_replica::{Bucket, Error, Folder, Follower, RemoteObject, Result, Snapshot, Step};
use densite_sim_disk::SimDisk;
use rand::RngExt;
use std::sync::Arc;
use std::time::Duration;

/// An object of a directory, by ranges.
struct ByRanges {
    folder: Arc<Folder>,
    name: String,
    len: u64,
}

impl RemoteObject for ByRanges {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let n = usize::try_from(self.len - offset.min(self.len)).expect("small");
        let n = n.min(buf.len());
        let bytes = self.folder.get_range(&self.name, offset, n as u64)?;
        buf[..n].copy_from_slice(&bytes);
        Ok(n)
    }

    fn len(&self) -> u64 {
        self.len
    }
}

fn follow(disk: &SimDisk) -> Result<Follower> {
    let folder = Arc::new(reader(disk));
    let opener = Arc::clone(&folder);
    Follower::new(
        folder,
        Box::new(move |name| {
            let end = opener.get_end(name, 0)?;
            let end = end.ok_or_else(|| Error::Missing(name.to_owned()))?;
            Ok(Arc::new(ByRanges {
                folder: Arc::clone(&opener),
                name: name.to_owned(),
                len: end.len,
            }))
        }),
    )
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
    let options = densite_replica::Options {
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
