//! What a failed sync has dropped is written again before anybody calls it durable, whoever's sync it was.

use densite_disk::sim::{Fault, FaultKind, SimDisk};
use densite_disk::{Op, OpenMode, SyncKind};
use densite_store::{CodecChoice, Error, Handle, Options};

const PATH: &str = "/a.db";
const PAGE: usize = 4096;
const PAGES: u64 = 12;
const SEEDS: u64 = 16;

fn open(disk: &SimDisk) -> Handle {
    let file = disk.open(PATH, OpenMode::Create).expect("open");
    disk.sync_dir("/").expect("sync dir");
    let options = Options {
        threads: 0,
        codec: CodecChoice::Raw,
        ..Options::default()
    };
    Handle::open(Box::new(file), "process", options).expect("open")
}

fn put(handle: &mut Handle, mark: u8) {
    for n in 0..PAGES {
        handle
            .write_at(&[mark; PAGE], n * PAGE as u64)
            .expect("write");
    }
    handle.publish().expect("publish");
}

/// A file with a commit that is durable and named by a slot, and one that is not synced.
fn begun(disk: &SimDisk) -> Handle {
    let mut writer = open(disk);
    for mark in [1, 2] {
        put(&mut writer, mark);
        writer.sync(SyncKind::Data).expect("sync");
    }
    put(&mut writer, 3);
    writer
}

/// Somebody who comes later syncs: what is there then is promised.
fn is_promised(disk: &SimDisk, seed: u64) {
    let mut later = open(disk);
    later.sync(SyncKind::Data).expect("sync");
    drop(later);
    let mut after = open(&disk.power_cut(seed));
    for n in 0..PAGES {
        let mut got = [0; PAGE];
        after
            .read_at(&mut got, n * PAGE as u64)
            .unwrap_or_else(|e| panic!("seed {seed}, page {}: {e}", n + 1));
        assert!(got == [3; PAGE], "seed {seed}, page {}: {}", n + 1, got[0]);
    }
    let report = after.check(&mut |_, _| true).expect("check");
    assert_eq!(report.problems, vec![], "seed {seed}");
}

#[test]
fn of_who_has_not_the_right_to_write() {
    for seed in 0..SEEDS {
        let disk = SimDisk::new(seed);
        let writer = begun(&disk);
        let mut beside = open(&disk);
        disk.fail(Fault::new(FaultKind::Io, Op::Sync));
        assert!(beside.sync_seen(SyncKind::Data).is_err());
        assert!(matches!(
            beside.sync_seen(SyncKind::Data),
            Err(Error::Poisoned)
        ));
        drop(beside);
        is_promised(&disk, seed);
        drop(writer);
    }
}

#[test]
fn of_a_writer_who_could_not_write_it_again_himself() {
    for seed in 0..SEEDS {
        let disk = SimDisk::new(seed);
        let mut writer = begun(&disk);
        let beside = open(&disk);
        disk.fail(Fault::new(FaultKind::Io, Op::Sync));
        disk.fail(Fault::new(FaultKind::Io, Op::Write));
        assert!(writer.sync(SyncKind::Data).is_err());
        assert_eq!(disk.fault_hits(), 2, "the sync, and writing again");
        drop(writer);
        is_promised(&disk, seed);
        drop(beside);
    }
}
