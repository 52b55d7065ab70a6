//! The bytes that a failed commit has written are free in no accounting before the commit is tried
//! again or given up.

use densite_disk::{Op, OpenMode, SyncKind};
use densite_sim_disk::{Fault, FaultKind, SimDisk};
use densite_store::{CodecChoice, Handle, Options};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const PATH: &str = "/a.db";
const PAGE: usize = 4096;
/// Pages whose frames fill about two units of 64 KiB.
const BLOCK: u64 = 32;
const BLOCKS: u64 = 24;

fn open(disk: &SimDisk, process: &str) -> Handle {
    let file = disk.open(PATH, OpenMode::Create).expect("open");
    disk.sync_dir("/").expect("sync dir");
    let options = Options {
        threads: 0,
        codec: CodecChoice::Raw,
        ..Options::default()
    };
    Handle::open(Box::new(file), process, options).expect("open")
}

fn page(number: u64, round: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    SmallRng::seed_from_u64(number << 20 | round).fill_bytes(&mut page);
    page
}

/// Writes these pages again.
fn put(handle: &mut Handle, rounds: &mut [u64], pages: std::ops::Range<u64>) {
    for number in pages {
        let round = &mut rounds[number as usize];
        *round += 1;
        handle
            .write_at(&page(number, *round), number * PAGE as u64)
            .expect("write");
    }
}

/// A commit fails after its frames got their places in free units. Another handle of the process
/// loads the accounting, in which these units are free, and makes a slot durable that names the
/// previous commit. That slot does not cover what was written since. Then more is written to the
/// commit, and it is tried again.
#[test]
fn places_of_a_failed_commit_are_not_reused_by_its_second_attempt() {
    let disk = SimDisk::new(1);
    let mut writer = open(&disk, "process");
    let mut beside = open(&disk, "process");
    let mut rounds = vec![0; (BLOCK * BLOCKS) as usize];
    put(&mut writer, &mut rounds, 0..BLOCK * BLOCKS);
    writer.sync(SyncKind::Data).expect("sync");
    // Single free units between live ones.
    for block in (2..BLOCKS).step_by(2) {
        let first = block * BLOCK;
        put(&mut writer, &mut rounds, first..first + BLOCK);
        writer.sync(SyncKind::Data).expect("sync");
    }
    writer.make_reusable().expect("slot");
    put(&mut writer, &mut rounds, 0..1);
    writer.sync(SyncKind::Data).expect("sync");
    // Names the newest commit in a slot, which is not synced.
    writer.close_clean().expect("slot");

    put(&mut writer, &mut rounds, BLOCK..BLOCK * 3);
    disk.fail(Fault::new(FaultKind::Io, Op::Write));
    assert!(writer.publish().is_err());
    disk.clear_faults();
    let waiting = beside.space().expect("space");
    assert!(waiting.free_bytes > 0, "{waiting:?}");
    beside.sync_published().expect("sync");
    let after = beside.space().expect("space");
    assert_eq!(
        (after.free_bytes, after.waiting_bytes),
        (waiting.free_bytes, waiting.free_bytes),
        "the slot does not know of the second attempt"
    );
    put(&mut writer, &mut rounds, BLOCK * 4..BLOCK * 9);
    writer.sync(SyncKind::Data).expect("sync");

    for mut handle in [
        writer,
        open(&disk, "another"),
        open(&disk.survivor(1), "after"),
    ] {
        for (number, round) in (0..).zip(&rounds) {
            let mut got = vec![0; PAGE];
            handle
                .read_at(&mut got, number * PAGE as u64)
                .unwrap_or_else(|e| panic!("page {}: {e}", number + 1));
            assert!(got == page(number, *round), "page {}", number + 1);
        }
        let report = handle.check(&mut |_, _| true).expect("check");
        assert_eq!(report.problems, vec![]);
    }
}
