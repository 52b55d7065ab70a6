//! Reading a whole file while another process writes and moves records: moved records are not
//! damage, and real damage is found.

use crate::common::{Interrupted, Moment};
use densite_disk::sync::Mutex;
use densite_disk::{File, OpenMode, SyncKind};
use densite_sim_disk::{SimDisk, SimFile};
use densite_store::{Handle, Options, ReclaimBudget, Tuning};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PATH: &str = "/a.db";
const PAGE: usize = 4096;
const PAGES: u64 = 1500;
/// Where records begin.
const DATA: u64 = 16384;
const REST: ReclaimBudget<'static> = ReclaimBudget {
    bytes: 1 << 20,
    dead_limit: 5,
    stop: &|| false,
};

/// How often another process interrupts: the whole file moves several times.
const STRIKES: u64 = 20;

/// A handle of a new process.
fn process(file: impl File + 'static, name: &str) -> Handle {
    let options = Options {
        threads: 0,
        tuning: Tuning::eager(),
        ..Options::default()
    };
    Handle::open(Box::new(file), name, options).expect("open")
}

fn file(disk: &SimDisk) -> SimFile {
    disk.open(PATH, OpenMode::Create).expect("open")
}

fn put(handle: &mut Handle, number: u64, rng: &mut SmallRng) {
    let mut page = vec![0; PAGE];
    rng.fill_bytes(&mut page[PAGE - 200..]);
    handle.write_at(&page, number * PAGE as u64).expect("write");
}

/// A store, and a file on it: before every `each`-th read another process writes pages below
/// `below` and reclaims space. This happens as often as the returned number says.
fn busy(seed: u64, each: u64, below: u64) -> (SimDisk, Interrupted, Arc<AtomicU64>) {
    let disk = SimDisk::new(seed);
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut writer = process(file(&disk), "writer");
    for number in 0..PAGES {
        put(&mut writer, number, &mut rng);
    }
    writer.sync(SyncKind::Data).expect("sync");
    let reads = AtomicU64::new(0);
    let left = Arc::new(AtomicU64::new(0));
    let strikes = Arc::clone(&left);
    let guest = Mutex::new((writer, rng));
    let interrupted = Interrupted {
        file: file(&disk),
        guest: Box::new(move |moment| {
            let Moment::BeforeRead(DATA..) = moment else {
                return;
            };
            if reads.fetch_add(1, Ordering::Relaxed) % each != each - 1
                || strikes.load(Ordering::Relaxed) == 0
            {
                return;
            }
            strikes.fetch_sub(1, Ordering::Relaxed);
            let (writer, rng) = &mut *guest.lock();
            for _ in 0..PAGES / 10 {
                put(writer, rng.random_range(0..below), rng);
            }
            writer.sync(SyncKind::Data).expect("sync");
            writer.reclaim(&REST).expect("reclaim");
        }),
    };
    (disk, interrupted, left)
}

#[test]
fn frames_moved_during_a_check_are_no_damage() {
    for seed in 0..6 {
        // The nodes of the map are read first. With the smallest `each`, every read of them is
        // interrupted.
        let each = [1, 2, 7, 40, 200, 1000][seed as usize % 6];
        let (_disk, interrupted, strikes) = busy(seed, each, PAGES);
        let mut reader = process(interrupted, "reader");
        for _ in 0..3 {
            strikes.store(STRIKES, Ordering::Relaxed);
            let report = reader.check(&mut |_, _| true).expect("check");
            assert_eq!(report.problems, vec![], "seed {seed}");
            assert_eq!(report.cut, None, "seed {seed}");
            assert_eq!(report.frames, PAGES, "seed {seed}");
            assert!(strikes.load(Ordering::Relaxed) < STRIKES);
            strikes.store(STRIKES, Ordering::Relaxed);
            let stats = reader.stats().expect("figures");
            assert_eq!(stats.framed_pages, PAGES, "seed {seed}");
            let mut frames = 0;
            reader.each_frame(&mut |_| frames += 1).expect("frames");
            assert_eq!(frames, PAGES, "seed {seed}");
            reader.live_by_unit().expect("units");
        }
    }
}

#[test]
fn damage_is_found_while_others_write() {
    let (disk, interrupted, strikes) = busy(7, 40, PAGES - 100);
    let mut reader = process(interrupted, "reader");
    let mut place = None;
    reader
        .each_frame(&mut |frame| place = place.or((frame.page == PAGES as u32).then_some(frame)))
        .expect("frames");
    assert!(place.is_some());
    // A byte of that frame, found by its content: the last bytes of the page are stored as they
    // are.
    let mut page = vec![0; PAGE];
    reader
        .read_at(&mut page, (PAGES - 1) * PAGE as u64)
        .expect("read");
    let mut bytes = disk.contents(PATH).expect("the file exists");
    let needle = &page[PAGE - 100..];
    let at = bytes
        .windows(needle.len())
        .position(|w| w == needle)
        .expect("an incompressible page is stored as it is");
    bytes[at] ^= 1;
    file(&disk)
        .write_at(&bytes[at..=at], at as u64)
        .expect("write");
    strikes.store(STRIKES, Ordering::Relaxed);
    let report = reader.check(&mut |_, _| true).expect("check");
    assert!(strikes.load(Ordering::Relaxed) < STRIKES);
    let pages: Vec<_> = report.problems.iter().map(|d| d.page).collect();
    assert_eq!(pages, [Some(PAGES as u32)], "{:?}", report.problems);
}
