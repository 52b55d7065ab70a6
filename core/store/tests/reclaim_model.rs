//! Space reclamation against a model. Several processes (handles with their own identities) write,
//! reclaim, cut, sync and read in turn. Contents always equal the model, the accounting is exact,
//! and at rest little of the file is dead.
//!
//! `DENSITE_SEED=n` runs one seed.

use densite_disk::{OpenMode, SyncKind};
use densite_sim_disk::SimDisk;
use densite_store::{
    DecodedCache, Handle, Options, ReclaimBudget, ReclaimNext, RelearnWhen, Tuning,
};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

const PATH: &str = "/a.db";
/// Idle bytes in any file in addition to its share: the rest of the first unit, a unit that is
/// being filled, and what a fold leaves.
const CONSTANT: u64 = 192 << 10;

struct Run {
    disk: SimDisk,
    rng: SmallRng,
    seed: u64,
    page_size: usize,
    run_pages: u32,
    eager: bool,
    /// Handles of several processes, each with a number that is never used again.
    processes: Vec<(Handle, u32)>,
    next_process: u32,
    contents: Vec<u8>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = SimDisk::new(seed);
        let mut run = Run {
            disk,
            page_size: 512 << rng.random_range(0..5),
            run_pages: [1, 1, 0, 8][rng.random_range(0..4)],
            eager: rng.random(),
            rng,
            seed,
            processes: Vec::new(),
            next_process: 0,
            contents: Vec::new(),
        };
        for _ in 0..3 {
            let opened = run.open();
            run.processes.push(opened);
        }
        run
    }

    fn open(&mut self) -> (Handle, u32) {
        let file = self.disk.open(PATH, OpenMode::Create).expect("open");
        let tuning = if self.eager {
            Tuning::eager()
        } else {
            Tuning::default()
        };
        let options = Options {
            threads: 0,
            decoded_cache: DecodedCache::Bytes(256 << 10),
            run_pages: self.run_pages,
            tuning,
            ..Options::default()
        };
        let number = self.next_process;
        self.next_process += 1;
        let identity = format!("process {number}");
        let handle = Handle::open(Box::new(file), &identity, options)
            .unwrap_or_else(|e| panic!("seed {}: open: {e}", self.seed));
        (handle, number)
    }

    fn write(&mut self, who: usize) {
        let pages = self.contents.len() / self.page_size;
        let most = (4 << 20) / self.page_size;
        let handle = &mut self.processes[who].0;
        let burst = [3, 3, 3, 200][self.rng.random_range(0..4)];
        let mut at = self.rng.random_range(0..(pages + 3).min(most));
        let scattered: bool = self.rng.random();
        for _ in 0..self.rng.random_range(1..=burst) {
            let mut page = vec![0u8; self.page_size];
            let cut = self.rng.random_range(0..self.page_size);
            self.rng.fill_bytes(&mut page[cut..]);
            let off = at * self.page_size;
            handle.write_at(&page, off as u64).expect("write");
            if self.contents.len() < off + page.len() {
                self.contents.resize(off + page.len(), 0);
            }
            self.contents[off..off + page.len()].copy_from_slice(&page);
            at = if scattered {
                self.rng.random_range(0..(pages + 3).min(most))
            } else {
                (at + 1) % most
            };
        }
        if self.rng.random_range(0..25) == 0 {
            let len = self.rng.random_range(0..=pages) * self.page_size;
            handle.set_len(len as u64).expect("set_len");
            self.contents.resize(len, 0);
        }
        handle.publish().expect("publish");
    }

    fn same(&mut self, who: usize, what: &str) {
        let handle = &mut self.processes[who].0;
        let len = handle.len().expect("len");
        assert_eq!(len, self.contents.len() as u64, "{what}: length");
        let mut page = vec![0; self.page_size];
        for (i, want) in self.contents.chunks(self.page_size).enumerate() {
            handle
                .read_at(&mut page, (i * self.page_size) as u64)
                .unwrap_or_else(|e| panic!("{what}: page {}: {e}", i + 1));
            assert!(page == want, "{what}: page {} differs", i + 1);
        }
    }

    fn check(&mut self, who: usize, what: &str) {
        let report = self.processes[who].0.check(&mut |_, _| true);
        let report = report.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(report.problems, vec![], "{what}");
        assert_eq!(report.cut, None, "{what}");
    }

    fn steps(&mut self, n: usize) {
        for step in 0..n {
            let who = self.rng.random_range(0..self.processes.len());
            let what = format!("DENSITE_SEED={} step {step} process {who}", self.seed);
            match self.rng.random_range(0..100) {
                0..40 => self.write(who),
                40..65 => {
                    let limit = [1, 5, 25][self.rng.random_range(0..3)];
                    let budget = ReclaimBudget {
                        bytes: 64 << self.rng.random_range(4..15),
                        dead_limit: limit,
                        stop: &|| false,
                    };
                    let handle = &mut self.processes[who].0;
                    let done = handle.reclaim_step(&budget);
                    let done = done.unwrap_or_else(|e| panic!("{what}: reclaim: {e}"));
                    assert_eq!(done.damaged, vec![], "{what}");
                    match done.next {
                        ReclaimNext::Slot if self.rng.random() => {
                            handle.make_reusable().expect("slot");
                        }
                        ReclaimNext::Cut => {
                            handle.cut_end().expect("cut");
                        }
                        _ => {}
                    }
                }
                65..67 => {
                    let handle = &mut self.processes[who].0;
                    handle
                        .relearn(RelearnWhen::Asked, &|| true)
                        .expect("learns");
                }
                67..70 => self.processes[who].0.sync(SyncKind::Data).expect("sync"),
                70..73 => {
                    self.processes[who].0.make_reusable().expect("slot");
                }
                73..76 => {
                    self.processes[who].0.cut_end().expect("cut");
                }
                76..80 => {
                    // It ends, by a close or not.
                    if self.rng.random() {
                        self.processes[who].0.close_clean().expect("close");
                    }
                    self.processes[who] = self.open();
                }
                80..85 => self.check(who, &what),
                _ => self.same(who, &what),
            }
        }
    }

    fn rest(&mut self) {
        let what = format!(
            "DENSITE_SEED={} page size {} run {} eager {} at rest",
            self.seed, self.page_size, self.run_pages, self.eager
        );
        let budget = ReclaimBudget {
            bytes: 1 << 20,
            dead_limit: 5,
            stop: &|| false,
        };
        let handle = &mut self.processes[0].0;
        let live = handle.space().expect("space").live_bytes;
        let given = handle.reclaim(&budget).expect("reclaim");
        let space = handle.space().expect("space");
        assert!(given.done && given.damaged.is_empty(), "{what}: {given:?}");
        let most = 2 * live + (9 << 20);
        assert!(given.moved_bytes <= most, "{what}: {given:?} {space:?}");
        // Up to a quarter of a run of pages may be dead.
        let in_runs = if self.run_pages == 1 {
            0
        } else {
            space.live_bytes / 3
        };
        let idle = (space.dead_bytes + space.free_bytes).saturating_sub(in_runs);
        assert!(
            idle <= space.file_bytes / 20 + CONSTANT,
            "{what}: {given:?} {space:?}"
        );
        handle.close_clean().expect("close");
        for who in 0..self.processes.len() {
            self.same(who, &what);
        }
        self.check(1, &what);
    }
}

#[test]
fn several_processes() {
    densite_testing::seeds(30).for_each(one_model);
}

/// Runs are as long as a unit. Moving them leaves as many unused bytes as it wins, until the bound
/// on moved bytes ends it. The free part of the file must be cut off anyway.
#[test]
fn the_end_is_cut_off_even_if_emptying_wins_nothing() {
    one_model(1_795_581_932_145);
}

/// Freed units wait for the number of an attempt that was given up, and no connection writes after
/// it.
#[test]
fn units_that_wait_for_a_given_up_attempt_are_freed() {
    one_model(594);
}

fn one_model(seed: u64) {
    let mut run = Run::new(seed);
    for _ in 0..3 {
        run.steps(100);
        run.rest();
    }
}

/// A part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_reclaim_model() {
    densite_testing::long_run("steps", |seed| {
        one_model(seed);
        300
    });
}
