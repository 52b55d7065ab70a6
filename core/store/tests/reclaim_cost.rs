//! The cost of space reclamation on the real disk. `cargo test --release -p densite-store --test
//! main reclaim_cost -- --ignored --nocapture`.

use densite_disk::{OpenMode, RealFile, SyncKind};
use densite_store::{Handle, Options, ReclaimBudget, ReclaimNext};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

const PAGE: usize = 4096;

struct Cost {
    handle: Handle,
    rng: SmallRng,
    caused: u64,
    moved: u64,
    written: u64,
    largest: f64,
}

impl Cost {
    fn new(path: &std::path::Path) -> Cost {
        let file = RealFile::open(path, OpenMode::Create).expect("open");
        let handle = Handle::open(Box::new(file), "cost", Options::default()).expect("open");
        Cost {
            handle,
            rng: SmallRng::seed_from_u64(1),
            caused: 0,
            moved: 0,
            written: 0,
            largest: 0.0,
        }
    }

    fn put(&mut self, number: u64) {
        let mut page = vec![0; PAGE];
        let cut = self.rng.random_range(PAGE / 2..PAGE);
        self.rng.fill_bytes(&mut page[cut..]);
        self.caused += (PAGE - cut) as u64 + 30;
        self.handle
            .write_at(&page, number * PAGE as u64)
            .expect("write");
    }

    /// A commit, then a reclaiming step, and the step that follows.
    fn commit(&mut self) {
        self.handle.sync(SyncKind::Data).expect("sync");
        let budget = ReclaimBudget {
            bytes: 512 << 10,
            dead_limit: 25,
            stop: &|| false,
        };
        for _ in 0..2 {
            let step = self.handle.reclaim_step(&budget).expect("reclaim");
            self.moved += step.moved_bytes;
            self.written += step.written_bytes;
            match step.next {
                ReclaimNext::Cut => drop(self.handle.cut_end().expect("cut")),
                ReclaimNext::Again => {}
                ReclaimNext::Slot | ReclaimNext::Done => break,
            }
        }
        let space = self.handle.space().expect("space");
        self.largest = self
            .largest
            .max(space.file_bytes as f64 / space.live_bytes as f64);
    }

    fn report(mut self, what: &str) {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let space = self.handle.space().expect("space");
        println!(
            "{what}: frames written {:.0} MiB, moved {:.0} MiB ({:.2}), appended by reclaiming {:.0} MiB, largest file / live {:.2}, live {:.1} MiB",
            mib(self.caused),
            mib(self.moved),
            self.moved as f64 / self.caused as f64,
            mib(self.written),
            self.largest,
            mib(space.live_bytes)
        );
        let rest = ReclaimBudget {
            bytes: 4 << 20,
            dead_limit: 5,
            stop: &|| false,
        };
        let given = self.handle.reclaim(&rest).expect("reclaim");
        self.handle.close_clean().expect("close");
        let space = self.handle.space().expect("space");
        println!(
            "    at rest: moved {:.1} MiB, file {:.1} MiB, {} of a thousand bytes dead or free",
            mib(given.moved_bytes),
            mib(space.file_bytes),
            space.idle_permille()
        );
        assert!(!space.over(5), "{space:?}");
    }
}

#[test]
#[ignore = "takes a minute, and is meaningful only in a release build on a quiet machine"]
fn cost() {
    let dir = tempfile::tempdir().expect("dir");
    let pages = 30_000;
    let mut random = Cost::new(&dir.path().join("random.db"));
    for number in 0..pages {
        random.put(number);
    }
    random.commit();
    random.caused = 0;
    for _ in 0..1500 {
        for _ in 0..100 {
            let number = random.rng.random_range(0..pages);
            random.put(number);
        }
        random.commit();
    }
    random.report("uniformly random updates");

    let mut queue = Cost::new(&dir.path().join("queue.db"));
    for turn in 0..2000u64 {
        for n in 0..100 {
            queue.put((turn * 100 + n) % 20_000);
        }
        queue.commit();
    }
    queue.report("queue");

    // Half of a table is deleted: every second page goes, and the others are written again with
    // half of their rows.
    let mut chain = Cost::new(&dir.path().join("chain.db"));
    for number in 0..pages {
        chain.put(number);
    }
    chain.commit();
    for number in (0..pages).step_by(2) {
        chain.put(number);
        if number % 1000 == 0 {
            chain.commit();
        }
    }
    chain
        .handle
        .set_len(pages * PAGE as u64 / 2)
        .expect("set_len");
    chain.commit();
    chain.report("half deleted");
}
