//! A queue whose every commit also writes the same few pages again, like a b-tree's: long-lived
//! pages are stored beside pages that die with the next commit.

use densite_disk::{OpenMode, SyncKind};
use densite_sim_disk::SimDisk;
use densite_store::{Handle, Options, ReclaimBudget, ReclaimNext};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

const PAGE: usize = 4096;
/// Pages of the queue, and the new ones of each commit. A new page stays until all others have been
/// written after it.
const QUEUE: u64 = 12_000;
const NEW: u64 = 6;
/// Pages that every commit writes.
const HOT: u64 = 6;

struct Queue {
    handle: Handle,
    rng: SmallRng,
    at: u64,
    written: u64,
    moved: u64,
    largest: u64,
}

impl Queue {
    fn new(disk: &SimDisk) -> Queue {
        let file = disk.open("/a.db", OpenMode::Create).expect("open");
        let options = Options {
            threads: 0,
            ..Options::default()
        };
        Queue {
            handle: Handle::open(Box::new(file), "a", options).expect("open"),
            rng: SmallRng::seed_from_u64(1),
            at: 0,
            written: 0,
            moved: 0,
            largest: 0,
        }
    }

    fn put(&mut self, number: u64) {
        let mut page = vec![0; PAGE];
        let cut = self.rng.random_range(PAGE * 3 / 4..PAGE - 200);
        self.rng.fill_bytes(&mut page[cut..]);
        self.written += (PAGE - cut) as u64 + 30;
        self.handle
            .write_at(&page, number * PAGE as u64)
            .expect("write");
    }

    /// A commit, and the space reclamation during SQLite's writes.
    fn step(&mut self) {
        let before = self.written;
        for hot in 0..HOT {
            self.put(hot);
        }
        for _ in 0..NEW {
            self.put(HOT + self.at % QUEUE);
            self.at += 1;
        }
        self.handle.sync(SyncKind::Data).expect("sync");
        let budget = ReclaimBudget {
            bytes: (self.written - before) * 2,
            dead_limit: 25,
            stop: &|| false,
        };
        let step = self.handle.reclaim_step(&budget).expect("reclaim");
        assert_eq!(step.damaged, vec![]);
        self.moved += step.moved_bytes;
        let space = self.handle.space().expect("space");
        self.largest = self.largest.max(space.file_bytes);
    }
}

#[test]
fn long_lived_pages_are_moved_once_and_apart_from_rewritten_ones() {
    let disk = SimDisk::new(1);
    let mut queue = Queue::new(&disk);
    for number in 0..HOT + QUEUE {
        queue.put(number);
    }
    queue.handle.sync(SyncKind::Data).expect("sync");
    for _ in 0..2 * QUEUE / NEW {
        queue.step();
    }
    let (written, moved) = (queue.written, queue.moved);
    for _ in 0..3 * QUEUE / NEW {
        queue.step();
    }
    let ratio = (queue.moved - moved) as f64 / (queue.written - written) as f64;
    let live = queue.handle.space().expect("space").live_bytes as f64;
    let largest = queue.largest as f64 / live;
    println!(
        "moved {ratio:.2} bytes for one written; largest file {largest:.2} times the live bytes"
    );
    // Half of the written bytes are dead at once. To keep three quarters of the file live, most of
    // the other half has to be moved once.
    assert!(ratio < 0.65, "{ratio}");
    assert!(largest < 1.55, "{largest}");
    let report = queue.handle.check(&mut |_, _| true).expect("check");
    assert_eq!(report.problems, vec![]);
}

fn page(number: u64, round: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    SmallRng::seed_from_u64(number << 20 | round).fill_bytes(&mut page[PAGE / 2..]);
    page
}

/// A handle of a new process.
fn process(disk: &SimDisk, name: &str) -> Handle {
    let file = disk.open("/a.db", OpenMode::Create).expect("open");
    let options = Options {
        threads: 0,
        ..Options::default()
    };
    Handle::open(Box::new(file), name, options).expect("open")
}

/// The extent that one process has put aside is a free part of the file for another process, which
/// can take it.
#[test]
fn reserved_extents_are_released_after_another_process_wrote() {
    const PAGES: u64 = 8000;
    let disk = SimDisk::new(1);
    let mut rounds = vec![0; PAGES as usize];
    let mut put = |handle: &mut Handle, pages: &mut dyn Iterator<Item = u64>, round: u64| {
        for number in pages {
            rounds[number as usize] = round;
            handle
                .write_at(&page(number, round), number * PAGE as u64)
                .expect("write");
        }
        handle.sync(SyncKind::Data).expect("sync");
    };
    let mut a = process(&disk, "a");
    put(&mut a, &mut (0..PAGES), 1);
    // A long run of units is free, and every other unit after it is half dead.
    put(&mut a, &mut (0..PAGES / 2), 2);
    put(
        &mut a,
        &mut (PAGES / 2..PAGES).filter(|n| n / 8 % 2 == 0),
        2,
    );
    a.make_reusable().expect("slot");
    // It begins to fill the run, and puts it aside.
    put(&mut a, &mut (0..8), 3);
    let writing = ReclaimBudget {
        bytes: 128 << 10,
        dead_limit: 25,
        stop: &|| false,
    };
    let step = a.reclaim_step(&writing).expect("reclaim");
    assert_eq!(step.next, ReclaimNext::Again, "{step:?}");
    assert!(step.moved_bytes > 0);
    // Another process fills the free units.
    let mut b = process(&disk, "b");
    b.make_reusable().expect("slot");
    let before = b.space().expect("space").file_bytes;
    // In small commits: after a fold the first process would load its accounting again.
    for commit in 0..60 {
        put(&mut b, &mut (8..16).map(|n| PAGES / 2 + commit * 16 + n), 4);
    }
    assert!(b.space().expect("space").file_bytes < before + (256 << 10));
    // The first process continues.
    put(&mut a, &mut (0..200), 5);
    let mut fresh = process(&disk, "c");
    for (number, round) in (0..).zip(&rounds) {
        let mut got = vec![0; PAGE];
        fresh
            .read_at(&mut got, number * PAGE as u64)
            .unwrap_or_else(|e| panic!("page {number}: {e}"));
        assert!(got == page(number, *round), "page {number} differs");
    }
    let report = fresh.check(&mut |_, _| true).expect("check");
    assert_eq!(report.problems, vec![]);
}
