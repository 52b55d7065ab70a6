//! Several threads of one process, each with a handle on one file: what they know of it is shared.

mod common;

use common::{Interrupted, Moment};
use densite_disk::OpenMode;
use densite_disk::sim::{SimDisk, SimFile};
use densite_store::{Handle, Options, Tuning};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PATH: &str = "/a.db";
const PAGE: usize = 4096;
/// Where the tip lies, which publishes a commit.
const TIP: u64 = 12288;

fn file(disk: &SimDisk) -> SimFile {
    disk.open(PATH, OpenMode::Create).expect("open")
}

fn handle(file: impl densite_disk::File + 'static, identity: &str) -> Handle {
    let options = Options {
        threads: 0,
        tuning: Tuning::eager(),
        ..Options::default()
    };
    Handle::open(Box::new(file), identity, options).expect("open")
}

/// A page of which little can be made smaller.
fn page(number: u64, round: u64) -> Vec<u8> {
    let mut hash = xxhash_rust::xxh3::xxh3_64(&(number << 32 | round).to_le_bytes());
    let mut bytes = Vec::with_capacity(PAGE);
    while bytes.len() < PAGE {
        hash = xxhash_rust::xxh3::xxh3_64(&hash.to_le_bytes());
        bytes.extend_from_slice(&hash.to_le_bytes());
    }
    bytes
}

/// A reader finds the commit that another thread is publishing before that thread comes back from writing the tip. The commit counts once
/// all the same: its trailer was counted twice, and taken back twice with the next fold. Then a unit seemed free in which something lives.
#[test]
fn a_reader_follows_a_commit_before_its_writer_does() {
    let disk = SimDisk::new(1);
    let reader = Mutex::new(handle(file(&disk), "one process"));
    let came = Arc::new(AtomicU64::new(0));
    let comes = Arc::clone(&came);
    let interrupted = Interrupted {
        file: file(&disk),
        guest: Box::new(move |moment| {
            if moment == Moment::AfterWrite(TIP) {
                assert!(reader.lock().len().expect("len") >= PAGE as u64);
                comes.fetch_add(1, Ordering::Relaxed);
            }
        }),
    };
    let mut writer = handle(interrupted, "one process");
    for round in 0..100 {
        for number in 0..round % 7 + 1 {
            let at = (number * 5 + round) % 40;
            writer
                .write_at(&page(at, round), at * PAGE as u64)
                .expect("write");
        }
        writer.publish().expect("publish");
        assert_eq!(came.load(Ordering::Relaxed), round + 1);
        let report = handle(file(&disk), "another")
            .check(&mut |_, _| true)
            .expect("check");
        assert_eq!(report.problems, vec![], "after round {round}");
    }
}
