//! A commit whose trailer would be longer than a record can be must fold, because it could not be
//! read.

use densite_disk::{OpenMode, SyncKind};
use densite_sim_disk::SimDisk;
use densite_store::{Handle, Options, Tuning};

const PAGE: usize = 512;
/// Their entries take more than 8 MiB.
const PAGES: u64 = 270_000;

fn open(disk: &SimDisk, process: &str) -> Handle {
    let file = disk.open("/a.db", OpenMode::Create).expect("open");
    disk.sync_dir("/").expect("sync dir");
    let never = Tuning {
        fold_entries: usize::MAX,
        fold_trailer_bytes: u64::MAX,
        fold_small_bytes: u64::MAX,
        fold_deltas: usize::MAX,
        ..Tuning::default()
    };
    let options = Options {
        threads: 0,
        tuning: never,
        ..Options::default()
    };
    Handle::open(Box::new(file), process, options).expect("open")
}

#[test]
fn a_commit_of_many_pages_always_folds() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "one");
    handle.write_at(&[7; PAGE], 0).expect("write");
    handle.sync(SyncKind::Data).expect("sync");
    for n in 1..PAGES {
        handle.write_at(&[0; PAGE], n * PAGE as u64).expect("write");
    }
    handle.sync(SyncKind::Data).expect("sync");
    let mut other = open(&disk, "other");
    assert_eq!(other.len().expect("length"), PAGES * PAGE as u64);
    let mut first = [0; PAGE];
    other.read_at(&mut first, 0).expect("read");
    assert_eq!(first, [7; PAGE]);
}
