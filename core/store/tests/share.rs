//! The share of space reclamation that a commit does: small, in proportion to what it stored, and
//! in limited time.

use densite_disk::{File, FileAbove, OpenMode, Result, SyncKind};
use densite_sim_disk::{SimDisk, SimFile};
use densite_store::{Handle, Options, ReclaimStep};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PATH: &str = "/a.db";
const PAGE: usize = 4096;
const LIMIT: u8 = 25;
/// Bytes moved for each one won, at this limit.
const TARGETS: u64 = 3;
/// What a commit moves for others, and the largest frame here.
const STEP: u64 = 2 << 10;
const FRAME: u64 = 2200;

/// A file that counts reads of a whole unit.
struct Counted {
    file: SimFile,
    looks: Arc<AtomicU64>,
}

impl FileAbove for Counted {
    fn below(&self) -> &dyn File {
        &self.file
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        if buf.len() >= 64 << 10 {
            self.looks.fetch_add(1, Ordering::Relaxed);
        }
        self.file.read_at(buf, offset)
    }
}

struct Writer {
    disk: SimDisk,
    looks: Arc<AtomicU64>,
    handle: Handle,
    rng: SmallRng,
    rounds: Vec<u64>,
    /// Bytes of frames stored, rounded up.
    stored: u64,
}

fn open(disk: &SimDisk, name: &str, looks: &Arc<AtomicU64>) -> Handle {
    let file = Counted {
        file: disk.open(PATH, OpenMode::Create).expect("open"),
        looks: Arc::clone(looks),
    };
    let options = Options {
        threads: 0,
        ..Options::default()
    };
    Handle::open(Box::new(file), name, options).expect("open")
}

fn page(number: u64, round: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let mut rng = SmallRng::seed_from_u64(number << 20 | round);
    let cut = rng.random_range(PAGE / 2..PAGE * 3 / 4);
    rng.fill_bytes(&mut page[cut..]);
    page
}

impl Writer {
    fn new(pages: u64) -> Writer {
        let disk = SimDisk::new(1);
        let looks = Arc::default();
        let mut writer = Writer {
            handle: open(&disk, "a", &looks),
            disk,
            looks,
            rng: SmallRng::seed_from_u64(1),
            rounds: vec![0; pages as usize],
            stored: 0,
        };
        for number in 0..pages {
            writer.put(number);
        }
        writer.handle.sync(SyncKind::Data).expect("sync");
        writer
    }

    /// A file of which more than half is dead, in all units. The writer has moved next to nothing
    /// for it.
    fn scattered(pages: u64) -> Writer {
        let mut writer = Writer::new(pages);
        for _ in 0..2 {
            for number in 0..pages {
                if writer.rng.random() {
                    writer.put(number);
                }
            }
            writer.handle.sync(SyncKind::Data).expect("sync");
        }
        let late = || Duration::from_secs(1);
        writer.handle.reclaim_share(LIMIT, &late).expect("share");
        writer
    }

    fn put(&mut self, number: u64) {
        let round = &mut self.rounds[number as usize];
        *round += 1;
        let bytes = page(number, *round);
        let zeros = bytes.iter().take_while(|b| **b == 0).count();
        self.stored += (PAGE - zeros) as u64 + 100;
        self.handle
            .write_at(&bytes, number * PAGE as u64)
            .expect("write");
    }

    /// Makes a commit of so many pages, and its share. Returns also the bytes of frames that it
    /// stored.
    fn commit(&mut self, pages: u64, elapsed: &dyn Fn() -> Duration) -> (ReclaimStep, u64) {
        let before = self.stored;
        for _ in 0..pages {
            let number = self.rng.random_range(0..self.rounds.len() as u64);
            self.put(number);
        }
        self.handle.sync(SyncKind::Data).expect("sync");
        let stored = self.stored - before;
        let step = self.handle.reclaim_share(LIMIT, elapsed).expect("share");
        assert_eq!(step.damaged, vec![]);
        (step, stored)
    }

    fn check(&mut self) {
        let mut handle = open(&self.disk, "another", &self.looks);
        for (number, round) in (0..).zip(&self.rounds) {
            let mut got = vec![0; PAGE];
            handle
                .read_at(&mut got, number * PAGE as u64)
                .expect("read");
            assert!(got == page(number, *round), "page {}", number + 1);
        }
        let report = handle.check(&mut |_, _| true).expect("check");
        assert_eq!(report.problems, vec![]);
    }
}

/// However much is dead, a small commit moves little, rarely folds and rarely reads a unit; and the
/// limit is reached.
#[test]
fn a_small_commit_pays_little_until_the_limit_is_kept() {
    let mut writer = Writer::scattered(30_000);
    let over = |writer: &mut Writer| {
        let space = writer.handle.space().expect("space");
        space.dead_bytes * 100 > space.file_bytes * 32
    };
    assert!(over(&mut writer));
    let (mut steps, mut folds, mut commits) = (0, 0, 0);
    let before = writer.looks.load(Ordering::Relaxed);
    while over(&mut writer) {
        let (step, stored) = writer.commit(2, &|| Duration::ZERO);
        let most = STEP.max(stored * TARGETS) + FRAME;
        assert!(step.moved_bytes <= most, "{step:?} for {stored}");
        steps += u32::from(step.moved_bytes > 0);
        // A trailer takes 300 bytes, and 32 for each page.
        folds += u32::from(step.written_bytes > step.moved_bytes + (2 << 10));
        commits += 1;
        assert!(commits < 20_000, "the limit is not reached");
    }
    let looks = writer.looks.load(Ordering::Relaxed) - before;
    println!("{commits} commits, {steps} steps, {folds} folds, {looks} looks at a unit");
    assert!(steps > 200, "{steps}");
    assert!(folds * 50 < commits, "{folds} folds in {commits} commits");
    // One look for each unit that is emptied.
    assert!(looks < u64::from(steps), "{looks} looks in {steps} steps");
    writer.check();
}

/// If pages change at random, the shares of the commits themselves keep the limit.
#[test]
fn the_limit_is_kept() {
    let mut writer = Writer::new(8000);
    let (mut largest, mut idle): (f64, f64) = (0.0, 0.0);
    let (mut all, mut moved) = (0, 0);
    for _ in 0..8000 {
        let (step, stored) = writer.commit(5, &|| Duration::ZERO);
        (all, moved) = (all + stored, moved + step.moved_bytes);
        let space = writer.handle.space().expect("space");
        let file = (space.file_bytes - space.reserve_bytes) as f64;
        largest = largest.max(file / space.live_bytes as f64);
        let here = space.dead_bytes + space.free_bytes - space.waiting_bytes;
        idle = idle.max(here as f64 / file);
    }
    let ratio = moved as f64 / all as f64;
    println!(
        "moved {ratio:.2} bytes for one stored; largest file {largest:.2} times the live bytes, of which {idle:.2} idle and not waiting for a slot"
    );
    assert!(ratio < TARGETS as f64, "{ratio}");
    // The limit, units that a slot has just released, and units that wait for a fold.
    assert!(idle < 0.25 + 0.07, "{idle}");
    assert!(largest < 1.6, "{largest}");
    writer.check();
}

/// The clock stops the share of a large transaction, and later ones move no more than their part.
#[test]
fn a_small_transaction_does_not_pay_for_a_large_one() {
    let mut writer = Writer::scattered(30_000);
    // The clock advances by a tenth of a millisecond each time it is read.
    let clock = Cell::new(Duration::ZERO);
    let tick = || {
        clock.set(clock.get() + Duration::from_micros(100));
        clock.get()
    };
    let (step, stored) = writer.commit(6000, &tick);
    assert!(step.moved_bytes > 0, "{step:?}");
    // 2 MiB in any case; then the clock is checked.
    assert!(step.moved_bytes < stored / 4, "{step:?} of {stored}");
    assert!(clock.get() < Duration::from_millis(3), "{clock:?}");
    // Many of the freed units wait for a slot.
    writer.handle.make_reusable().expect("slot");
    for _ in 0..15 {
        let (step, stored) = writer.commit(1, &|| Duration::ZERO);
        let most = STEP.max(stored * TARGETS) + FRAME;
        assert!(
            (1..=most).contains(&step.moved_bytes),
            "{step:?} for {stored}"
        );
    }
    // Already late: no more than was stored.
    let (step, stored) = writer.commit(5, &|| Duration::from_secs(1));
    let most = stored + FRAME;
    assert!((1..=most).contains(&step.moved_bytes), "{step:?}");
    writer.check();
}

/// The records found in a unit may be dead later: pages were written, or another process moved
/// them, in between.
#[test]
fn a_unit_that_was_begun_changes() {
    let mut writer = Writer::scattered(3000);
    let mut steps = 0;
    for round in 0..400 {
        let (step, _) = writer.commit(2, &|| Duration::ZERO);
        steps += u32::from(step.moved_bytes > 0);
        // All pages in that unit are written again, a few at a time.
        for number in round * 7..round * 7 + 7 {
            writer.put(number);
        }
        writer.handle.sync(SyncKind::Data).expect("sync");
        if round % 20 == 19 {
            let mut other = open(&writer.disk, "other", &writer.looks);
            let budget = densite_store::ReclaimBudget {
                bytes: 256 << 10,
                dead_limit: LIMIT,
                stop: &|| false,
            };
            other.reclaim_step(&budget).expect("reclaim");
            other.make_reusable().expect("slot");
            writer.check();
        }
    }
    assert!(steps > 100, "{steps}");
    writer.check();
}
