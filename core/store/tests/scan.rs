//! Scans, which are read ahead: every page is the right one, whatever other handles do meanwhile,
//! and a long scan does not evict the cache.

use crate::common::{Interrupted, Moment};
use densite_disk::{File, OpenMode, SyncKind};
use densite_sim_disk::SimDisk;
use densite_store::{DecodedCache, Error, Handle, LockLevel, Options, Readahead};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const PATH: &str = "/a.db";
const PAGE: usize = 4096;
const PAGES: u64 = 1200;
/// The number of pages that fit the cache of these tests, rounded up.
const CACHED: u64 = 256;

fn page(number: u64, round: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let mut rng = SmallRng::seed_from_u64(number << 20 | round);
    rng.fill_bytes(&mut page[PAGE - 200..]);
    page[..8].copy_from_slice(&number.to_le_bytes());
    // Page 1 has a rollback mode, so that under a lock no reader checks for newer commits.
    page[18..20].fill(1);
    page
}

/// A database, and the expected contents of its pages.
struct Base {
    disk: SimDisk,
    rounds: Vec<u64>,
    writer: Handle,
    reads: Arc<AtomicUsize>,
}

impl Base {
    fn new(options: &Options) -> Base {
        let disk = SimDisk::new(1);
        let reads = Arc::default();
        let mut base = Base {
            writer: open(&disk, "a", options, &reads),
            rounds: vec![0; PAGES as usize],
            disk,
            reads,
        };
        for number in 0..PAGES {
            base.put(number);
        }
        base.writer.sync(SyncKind::Data).expect("sync");
        base
    }

    fn put(&mut self, number: u64) {
        let round = &mut self.rounds[number as usize];
        *round += 1;
        let bytes = page(number, *round);
        (self.writer.write_at(&bytes, number * PAGE as u64)).expect("write");
    }

    fn check(&self, handle: &mut Handle, number: u64) {
        let mut got = vec![0xee; PAGE];
        (handle.read_at(&mut got, number * PAGE as u64)).expect("read");
        let right = got == page(number, self.rounds[number as usize]);
        assert!(right, "page {}", number + 1);
    }

    /// The number of reads of the file while pages `numbers` are checked.
    fn reads_of(&self, handle: &mut Handle, numbers: impl Iterator<Item = u64>) -> usize {
        let before = self.reads.load(Ordering::Relaxed);
        numbers.for_each(|number| self.check(handle, number));
        self.reads.load(Ordering::Relaxed) - before
    }
}

fn open(disk: &SimDisk, name: &str, options: &Options, reads: &Arc<AtomicUsize>) -> Handle {
    let reads = Arc::clone(reads);
    let file = Interrupted {
        file: disk.open(PATH, OpenMode::Create).expect("open"),
        guest: Box::new(move |moment| {
            if matches!(moment, Moment::BeforeRead(_)) {
                reads.fetch_add(1, Ordering::Relaxed);
            }
        }),
    };
    Handle::open(Box::new(file), name, options.clone()).expect("open")
}

fn options(threads: usize) -> Options {
    Options {
        threads,
        decoded_cache: DecodedCache::Bytes(1 << 20),
        ..Options::default()
    }
}

#[test]
fn a_scan_gives_the_right_pages_beside_a_writer() {
    for (threads, run_pages) in [(0, 0), (1, 0), (3, 0), (2, 4)] {
        let seed = 7 * threads as u64 + u64::from(run_pages);
        println!("seed {seed}");
        let mut rng = SmallRng::seed_from_u64(seed);
        let options = Options {
            run_pages,
            ..options(threads)
        };
        let mut base = Base::new(&options);
        let mut same = open(&base.disk, "a", &options, &base.reads);
        let mut other = open(&base.disk, "b", &options, &base.reads);
        for number in 0..PAGES {
            // Some pages ahead of the scan, some behind it. Then frames move, and others take their
            // places.
            if rng.random_range(0..12) == 0 {
                for _ in 0..rng.random_range(1..40) {
                    let near = number + rng.random_range(0..64);
                    let page = if rng.random() {
                        near
                    } else {
                        rng.random_range(0..PAGES)
                    };
                    base.put(page.min(PAGES - 1));
                }
                base.writer.sync(SyncKind::Data).expect("sync");
                let long = || Duration::from_secs(1);
                base.writer.reclaim_share(5, &long).expect("share");
            }
            base.check(&mut same, number);
            base.check(&mut other, number);
            if rng.random_range(0..200) == 0 {
                // What was read ahead is dropped with the lock.
                other.set_lock_level(LockLevel::Shared);
                base.check(&mut other, number);
                other.set_lock_level(LockLevel::Nothing);
            }
        }
    }
}

/// Another process can checkpoint a WAL while this one has SHARED.
#[test]
fn a_stronger_lock_finds_what_was_published_under_the_weaker_one() {
    let mut base = Base::new(&options(0));
    let mut other = open(&base.disk, "b", &options(0), &base.reads);
    other.set_lock_level(LockLevel::Shared);
    base.check(&mut other, 7);
    base.put(7);
    base.writer.sync(SyncKind::Data).expect("sync");
    other.set_lock_level(LockLevel::Exclusive);
    base.check(&mut other, 7);
}

#[test]
fn read_ahead_reads_and_decodes_in_batches() {
    let base = Base::new(&options(0));
    let mut handle = open(&base.disk, "b", &options(2), &base.reads);
    handle.set_lock_level(LockLevel::Shared);
    base.check(&mut handle, 0);
    let reads = base.reads_of(&mut handle, 1..PAGES);
    assert!(reads < PAGES as usize / 8, "{reads} reads");
    let off = Options {
        readahead: Readahead::Off,
        ..options(2)
    };
    let mut handle = open(&base.disk, "c", &off, &base.reads);
    let reads = base.reads_of(&mut handle, 0..PAGES);
    assert!(reads >= PAGES as usize, "{reads} reads");
}

#[test]
fn a_long_scan_does_not_evict_the_cache() {
    let base = Base::new(&options(0));
    let mut handle = open(&base.disk, "b", &options(2), &base.reads);
    handle.set_lock_level(LockLevel::Shared);
    (0..PAGES).for_each(|number| base.check(&mut handle, number));
    // From the last to the first, so without read-ahead. The scan's beginning stayed in the cache
    // and needs no reads.
    let first = base.reads_of(&mut handle, (0..CACHED / 2).rev());
    assert!(first < 64, "{first} reads for the scan's beginning");
    let last = base.reads_of(&mut handle, (CACHED * 2..CACHED * 5 / 2).rev());
    assert!(
        last >= CACHED as usize / 2,
        "{last} reads for pages that passed by"
    );
    // A scan that fits the cache is kept completely.
    let mut handle = open(&base.disk, "c", &options(2), &base.reads);
    handle.set_lock_level(LockLevel::Shared);
    (0..CACHED / 2).for_each(|number| base.check(&mut handle, number));
    let again = base.reads_of(&mut handle, (0..CACHED / 2).rev());
    assert!(again < 8, "{again} reads for a short scan that comes again");
}

#[test]
fn several_scans_in_turn_and_one_that_ends_early() {
    let base = Base::new(&options(0));
    let mut handle = open(&base.disk, "b", &options(2), &base.reads);
    handle.set_lock_level(LockLevel::Shared);
    for i in 0..PAGES / 6 {
        // Six scans, more than are read ahead at once; one of them ends early.
        for scan in 0..6 {
            if scan != 3 || i < 50 {
                base.check(&mut handle, scan * (PAGES / 6) + i);
            }
        }
    }
}

#[test]
fn a_damaged_page_in_a_scan_is_named_and_the_others_are_read() {
    let base = Base::new(&options(0));
    let damaged = 700;
    let file = base.disk.open(PATH, OpenMode::Create).expect("open");
    let mut all = vec![0; file.len().expect("len") as usize];
    let n = file.read_at(&mut all, 0).expect("read");
    // The end of the page is random bytes, which no codec makes smaller, so the file has them
    // unchanged.
    let bytes = page(damaged, 1)[PAGE - 100..].to_vec();
    let at = (all[..n].windows(100))
        .position(|w| w == bytes)
        .expect("stored");
    let mut handle = open(&base.disk, "b", &options(2), &base.reads);
    handle.set_lock_level(LockLevel::Shared);
    base.check(&mut handle, 0);
    file.write_at(&[bytes[0] ^ 1], at as u64).expect("write");
    for number in 0..PAGES {
        if number != damaged {
            base.check(&mut handle, number);
            continue;
        }
        let mut got = vec![0; PAGE];
        match handle.read_at(&mut got, number * PAGE as u64) {
            Err(Error::Corrupt(damage)) => assert_eq!(damage.page, Some(number as u32 + 1)),
            other => panic!("page {}: {other:?}", number + 1),
        }
    }
}
