//! Pages that are written again and again: within a transaction they are encoded once, and from
//! commit to commit they are encoded once they are quiet (docs/decisions/writing-less.md).

use crate::common::leaf;

use densite_disk::{OpenMode, SyncKind};
use densite_sim_disk::SimDisk;
use densite_store::{Handle, Options};
use leaf::leaf;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

const PATH: &str = "/a.db";
const PAGE: usize = 4096;

fn open(disk: &SimDisk, threads: usize) -> Handle {
    let file = disk.open(PATH, OpenMode::Create).expect("open");
    disk.sync_dir("/").expect("sync dir");
    let options = Options {
        threads,
        ..Options::default()
    };
    Handle::open(Box::new(file), PATH, options).expect("open")
}

fn put(handle: &mut Handle, page: u32, bytes: &[u8]) {
    let at = u64::from(page - 1) * PAGE as u64;
    handle.write_at(bytes, at).expect("write");
}

/// A page that does not compress, so that its frame has a known length.
fn noise(rng: &mut SmallRng) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    rng.fill(&mut bytes[..]);
    // Not the kind of a b-tree page.
    bytes[0] = 0xff;
    bytes
}

fn expect_pages(handle: &mut Handle, pages: &[Vec<u8>]) {
    let mut read = vec![0; PAGE];
    for (n, bytes) in pages.iter().enumerate() {
        handle.read_at(&mut read, (n * PAGE) as u64).expect("read");
        assert!(read == *bytes, "page {}", n + 1);
    }
    let report = handle.check(&mut |_, _| true).expect("check");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn a_page_that_is_written_many_times_in_a_transaction_is_appended_about_once() {
    const PAGES: usize = 2000;
    for threads in [0, 2] {
        let disk = SimDisk::new(1);
        let mut rng = SmallRng::seed_from_u64(1);
        let mut handle = open(&disk, threads);
        let mut pages: Vec<Vec<u8>> = (0..PAGES).map(|_| noise(&mut rng)).collect();
        let mut order: Vec<usize> = (0..PAGES).collect();
        for round in 0..15 {
            order.shuffle(&mut rng);
            for n in &order {
                pages[*n] = noise(&mut rng);
                put(&mut handle, *n as u32 + 1, &pages[*n]);
                // SQLite reads pages again that it has spilled.
                let back = order[rng.random_range(0..PAGES)];
                let mut read = vec![0; PAGE];
                handle
                    .read_at(&mut read, (back * PAGE) as u64)
                    .expect("read");
                assert!(round == 0 || read == pages[back]);
            }
        }
        handle.sync(SyncKind::Data).expect("sync");
        let appended = handle.stats().expect("stats").stored_bytes as usize;
        let once = PAGES * PAGE;
        assert!(appended < once / 4 * 5, "{appended} bytes for {once}");
        expect_pages(&mut handle, &pages);
    }
}

/// A rollback to a savepoint writes pages back, or cuts them off.
#[test]
fn held_pages_can_be_written_back_and_cut_off() {
    let disk = SimDisk::new(2);
    let mut rng = SmallRng::seed_from_u64(2);
    let mut handle = open(&disk, 1);
    let pages: Vec<Vec<u8>> = (0..100).map(|_| noise(&mut rng)).collect();
    for (n, bytes) in pages.iter().enumerate() {
        put(&mut handle, n as u32 + 1, bytes);
    }
    handle.publish().expect("publish");
    for page in 50..=1000 {
        put(&mut handle, page, &noise(&mut rng));
    }
    handle.set_len((100 * PAGE) as u64).expect("set_len");
    for page in 50..=100 {
        put(&mut handle, page, &pages[page as usize - 1]);
    }
    handle.publish().expect("publish");
    assert_eq!(handle.len().expect("len"), (100 * PAGE) as u64);
    expect_pages(&mut handle, &pages);
}

/// A leaf that compresses well.
fn page(rng: &mut SmallRng, number: u32) -> Vec<u8> {
    leaf(rng, PAGE, 10, number)
}

#[test]
fn pages_of_every_commit_are_raw_until_they_are_quiet() {
    const PAGES: u32 = 400;
    let disk = SimDisk::new(3);
    let mut rng = SmallRng::seed_from_u64(3);
    let mut handle = open(&disk, 1);
    let mut pages: Vec<Vec<u8>> = vec![vec![0; PAGE]];
    pages.extend((2..=PAGES).map(|number| page(&mut rng, number)));
    let raw = |handle: &mut Handle| handle.stats().expect("stats").pages_raw;
    let mut commit = |handle: &mut Handle, pages: &mut [Vec<u8>], last: u32| {
        for number in 2..=last {
            let bytes = page(&mut rng, number);
            put(handle, number, &bytes);
            pages[number as usize - 1] = bytes;
        }
        handle.sync(SyncKind::Data).expect("sync");
    };
    for _ in 0..3 {
        commit(&mut handle, &mut pages, PAGES);
        assert_eq!(raw(&mut handle), 0);
    }
    for _ in 0..5 {
        commit(&mut handle, &mut pages, PAGES);
    }
    let many = raw(&mut handle);
    assert!(many > u64::from(PAGES) * 3 / 4, "{many}");
    // The second half becomes quiet. Later commits encode it.
    for _ in 0..30 {
        commit(&mut handle, &mut pages, PAGES / 2);
    }
    let still = raw(&mut handle);
    assert!(still > 0 && still < u64::from(PAGES) / 2, "{still}");
    expect_pages(&mut handle, &pages);
    // At rest everything is.
    while handle.settle(64).expect("settle") {}
    assert_eq!(raw(&mut handle), 0);
    assert!(!handle.is_unsettled());
    expect_pages(&mut handle, &pages);
}

/// What this process stored raw, another one has written since.
#[test]
fn a_page_that_changed_elsewhere_is_not_settled() {
    let disk = SimDisk::new(4);
    let mut rng = SmallRng::seed_from_u64(4);
    let mut handle = open(&disk, 0);
    let mut pages: Vec<Vec<u8>> = vec![vec![0; PAGE]];
    pages.extend((2..=200).map(|number| page(&mut rng, number)));
    for _ in 0..6 {
        for number in 2..=200 {
            pages[number as usize - 1] = page(&mut rng, number);
            put(&mut handle, number, &pages[number as usize - 1]);
        }
        handle.sync(SyncKind::Data).expect("sync");
    }
    assert!(handle.is_unsettled());
    let file = disk.open(PATH, OpenMode::Create).expect("open");
    let mut other = Handle::open(Box::new(file), "elsewhere", Options::default()).expect("open");
    for number in 100..=200 {
        pages[number as usize - 1] = page(&mut rng, number);
        put(&mut other, number, &pages[number as usize - 1]);
    }
    other.sync(SyncKind::Data).expect("sync");
    while handle.settle(64).expect("settle") {}
    expect_pages(&mut handle, &pages);
}
