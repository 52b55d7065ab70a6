//! A process that has not written for a while knows units that were free. Recovery needs what
//! another process has written there meanwhile, even if it is dead again (rule S9).

use densite_disk::OpenMode;
use densite_sim_disk::SimDisk;
use densite_store::{CodecChoice, Handle, Options, Tuning};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const PAGE: usize = 4096;
/// Pages whose frames fill about 25 units of 64 KiB.
const FIRST: u64 = 400;
/// Pages of a commit of the other process: more than a unit.
const FEW: u64 = 20;

fn process(disk: &SimDisk, name: &str, tuning: Tuning) -> Handle {
    let file = disk.open("/a.db", OpenMode::Create).expect("open");
    let options = Options {
        threads: 0,
        codec: CodecChoice::Raw,
        tuning,
        ..Options::default()
    };
    Handle::open(Box::new(file), name, options).expect("open")
}

/// Each commit folds, so no accounting follows it.
fn folds() -> Tuning {
    Tuning {
        fold_deltas: 4,
        ..Tuning::default()
    }
}

fn page(number: u64, round: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    SmallRng::seed_from_u64(number << 20 | round).fill_bytes(&mut page);
    page
}

struct Database {
    rounds: Vec<u64>,
}

impl Database {
    fn put(&mut self, handle: &mut Handle, pages: std::ops::Range<u64>, round: u64) {
        for number in pages {
            self.rounds
                .resize(self.rounds.len().max(number as usize + 1), 0);
            self.rounds[number as usize] = round;
            let at = number * PAGE as u64;
            handle.write_at(&page(number, round), at).expect("write");
        }
        handle.publish().expect("publish");
    }

    fn is_whole(&self, handle: &mut Handle) {
        for (number, round) in (0..).zip(&self.rounds) {
            let mut got = vec![0; PAGE];
            let read = handle.read_at(&mut got, number * PAGE as u64);
            read.unwrap_or_else(|e| panic!("page {number}: {e}"));
            assert!(got == page(number, *round), "page {number} differs");
        }
        let report = handle.check(&mut |_, _| true).expect("check");
        assert_eq!((report.problems, report.cut), (vec![], None));
    }
}

#[test]
fn dead_units_of_another_process_since_the_slot_are_not_free() {
    let disk = SimDisk::new(1);
    let mut database = Database { rounds: Vec::new() };
    let mut first = process(&disk, "first", Tuning::default());
    database.put(&mut first, 0..FIRST, 1);
    database.put(&mut first, 0..FIRST, 2);
    first.make_reusable().expect("slot");
    // Another process writes to the units that are free by now, and again to the next ones.
    let mut other = process(&disk, "other", folds());
    other.space().expect("space");
    other.make_reusable().expect("slot");
    let end = other.space().expect("space").file_bytes;
    database.put(&mut other, 0..FEW, 3);
    database.put(&mut other, 0..FEW, 4);
    let grown = other.space().expect("space").file_bytes - end;
    assert!(grown < PAGE as u64, "{grown} bytes");
    // The first process writes more than the other one's extent takes.
    database.put(&mut first, FIRST..FIRST + 600, 5);
    database.is_whole(&mut process(&disk, "later", Tuning::default()));
}

/// The first process has freed about 25 units. Then another process has made a commit that the
/// first one's accounting cannot follow.
fn freed_before_a_fold_of_another_process() -> (SimDisk, Database, Handle) {
    let disk = SimDisk::new(1);
    let mut database = Database { rounds: Vec::new() };
    let mut first = process(&disk, "first", Tuning::default());
    database.put(&mut first, 0..FIRST, 1);
    database.put(&mut first, 0..FIRST, 2);
    let mut other = process(&disk, "other", folds());
    database.put(&mut other, FIRST..FIRST + FEW, 3);
    (disk, database, first)
}

/// The slot names a commit of another process, and became durable before its writer had loaded the
/// accounting of that commit.
#[test]
fn freed_units_need_only_one_slot_after_a_commit_of_another_process() {
    let (disk, mut database, mut first) = freed_before_a_fold_of_another_process();
    first.make_reusable().expect("slot");
    let space = first.space().expect("space");
    assert!(space.free_bytes >= 20 << 16, "{space:?}");
    assert_eq!(space.waiting_bytes, 0, "{space:?}");
    // A recovery from that slot does not need the units that are reused.
    database.put(&mut first, 0..FIRST / 2, 4);
    database.is_whole(&mut process(&disk, "later", Tuning::default()));
}

/// No sync has followed the same slot. A recovery can begin at the previous one, and reads the
/// units that it freed.
#[test]
fn freed_units_wait_while_the_slot_that_names_their_commit_is_not_durable() {
    let (disk, mut database, mut first) = freed_before_a_fold_of_another_process();
    first.close_clean().expect("slot");
    let end = first.space().expect("space").file_bytes;
    database.put(&mut first, 0..FIRST / 2, 4);
    let space = first.space().expect("space");
    assert!(space.waiting_bytes >= 20 << 16, "{space:?}");
    assert!(space.file_bytes >= end + FIRST / 2 * PAGE as u64);
    for seed in 0..20 {
        let after = disk.power_cut(seed);
        let mut handle = process(&after, "after", Tuning::default());
        let report = handle.check(&mut |_, _| true).expect("check");
        assert_eq!(report.problems, vec![], "seed {seed}");
    }
}
