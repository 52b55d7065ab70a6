//! Several handles on one file, of one process with shared state and of others; and the moment of
//! publishing.

use crate::common::{Interrupted, Moment};
use densite_disk::sync::Mutex;
use densite_disk::{Op, OpenMode};
use densite_sim_disk::{Fault, FaultKind, SimDisk, SimFile};
use densite_store::{Error, Handle, Options, Tuning};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const PATH: &str = "/a.db";
const PAGE: usize = 4096;
/// Where the tip begins, which publishes a commit.
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

/// A page that is nearly incompressible.
fn page(number: u64, round: u64) -> Vec<u8> {
    let mut hash = densite_disk::hash::xxh3_64(&(number << 32 | round).to_le_bytes());
    let mut bytes = Vec::with_capacity(PAGE);
    while bytes.len() < PAGE {
        hash = densite_disk::hash::xxh3_64(&hash.to_le_bytes());
        bytes.extend_from_slice(&hash.to_le_bytes());
    }
    bytes
}

fn whole(disk: &SimDisk, when: &str) {
    let report = handle(file(disk), "check")
        .check(&mut |_, _| true)
        .expect("check");
    assert_eq!(report.problems, vec![], "{when}");
}

/// A reader finds the commit that another thread is publishing before that thread returns from
/// writing the tip. The commit must still count only once. Otherwise the next fold removes its
/// trailer twice, and a unit with live bytes seems free.
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
        whole(&disk, &format!("after round {round}"));
    }
}

/// Rule S1 broken: if locks do not work, a second writer notices that it was overtaken, and nothing
/// that was published is lost.
#[test]
fn an_overtaken_writer_does_not_publish() {
    let disk = SimDisk::new(1);
    let mut first = handle(file(&disk), "one process");
    let mut second = handle(file(&disk), "another process");
    first.write_at(&page(0, 0), 0).expect("write");
    first.publish().expect("publish");
    second.write_at(&page(0, 1), 0).expect("write");
    first.write_at(&page(1, 2), PAGE as u64).expect("write");
    first.publish().expect("publish");
    let refused = second.publish();
    assert!(matches!(refused, Err(Error::Overtaken)), "{refused:?}");
    second.discard();
    let mut read = vec![0; 2 * PAGE];
    second.read_at(&mut read, 0).expect("read");
    assert!(read == [page(0, 0), page(1, 2)].concat());
    second.write_at(&page(0, 3), 0).expect("write");
    second.publish().expect("the handle still works");
    whole(&disk, "in the end");
}

/// A failed write of the tip that reached the file completely counts as published. One that reached
/// it in part does not, and can be repeated.
#[test]
fn a_failed_write_that_wrote_the_tip_counts_as_published() {
    for prefix in 0..=48 {
        let disk = SimDisk::new(1);
        let fails = Arc::new(AtomicBool::new(false));
        let (now, on) = (Arc::clone(&fails), disk.clone());
        let interrupted = Interrupted {
            file: file(&disk),
            guest: Box::new(move |moment| {
                if moment == Moment::BeforeWrite(TIP) && now.swap(false, Ordering::Relaxed) {
                    on.fail(Fault::new(FaultKind::Io, Op::Write).with_prefix(prefix));
                }
            }),
        };
        let mut writer = handle(interrupted, "one process");
        let mut reader = handle(file(&disk), "another process");
        writer.write_at(&page(0, 2), 0).expect("write");
        writer.publish().expect("publish");
        writer.write_at(&page(0, 3), 0).expect("write");
        fails.store(true, Ordering::Relaxed);
        let done = writer.publish();
        let mut read = vec![0; PAGE];
        reader.read_at(&mut read, 0).expect("read");
        // The last byte of the tip's checksum can be the same as in the old tip. The tip is then
        // whole without it.
        let is_whole = prefix == 48 || prefix == 47 && read == page(0, 3);
        assert_eq!(done.is_ok(), is_whole, "{prefix}: {done:?}");
        assert!(read == page(0, if is_whole { 3 } else { 2 }), "{prefix}");
        writer.publish().expect("publish again");
        reader.read_at(&mut read, 0).expect("read");
        assert!(read == page(0, 3), "{prefix}");
        whole(&disk, "in the end");
    }
}

/// Closing gives up the right to write, whether or not it succeeded. Pending writes would hide what
/// others publish.
#[test]
fn a_close_that_fails_leaves_nothing_pending() {
    let disk = SimDisk::new(1);
    let mut closing = handle(file(&disk), "one process");
    for round in 0..10 {
        closing.write_at(&page(0, round), 0).expect("write");
        closing.publish().expect("publish");
    }
    // The close folds the map for the next opening.
    disk.fail(Fault::new(FaultKind::Io, Op::Write).forever());
    assert!(closing.close_clean().is_err());
    disk.clear_faults();
    assert!(!closing.has_pending());
    let mut other = handle(file(&disk), "another");
    other.write_at(&page(0, 10), 0).expect("write");
    other.write_at(&page(1, 10), PAGE as u64).expect("write");
    other.publish().expect("publish");
    for number in 0..2 {
        let mut got = vec![0; PAGE];
        let n = closing.read_at(&mut got, number * PAGE as u64);
        assert_eq!(n.expect("read"), PAGE);
        assert!(got == page(number, 10), "page {}", number + 1);
    }
}
