//! Power cuts at every change of the disk (rules 8, 9, 10): what comes back is exactly an earlier published state,
//! not older than the last one that was synced; all of it reads; the accounting is exact; and the store goes on from there. Space is given
//! back all the while: merging, slots, cutting the end.
//!
//! `DENSITE_SEED=n` runs one seed, `DENSITE_CRASH_SEEDS=n` that many of them.

#[path = "common/leaf.rs"]
mod leaf;

use densite_disk::sim::{Capture, Fault, FaultKind, SimDisk};
use densite_disk::{Op, OpenMode, SyncKind};
use densite_store::{Handle, MergeBudget, MergeNext, Options, Tuning};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

/// Where page 1 says how many bytes of each page SQLite leaves to others. With what is made up there, no page would be one of SQLite's.
const RESERVED_AT: usize = 20;
const PATH: &str = "/a.db";

/// A published state: what it holds, and the number of the disk's changes before it began and when it was done.
struct Published {
    contents: Vec<u8>,
    began: u64,
    done: u64,
}

struct Run {
    disk: SimDisk,
    rng: SmallRng,
    page_size: usize,
    contents: Vec<u8>,
    published: Vec<Published>,
    /// (number of changes when a sync was done, index of the state it made durable)
    synced: Vec<(u64, usize)>,
}

fn options() -> Options {
    Options {
        threads: 0,
        decoded_cache_bytes: 256 << 10,
        tuning: Tuning::eager(),
        ..Options::default()
    }
}

fn open(disk: &SimDisk) -> Handle {
    open_in(disk, 0)
}

/// In one of several processes: what they know of the file they do not share.
fn open_in(disk: &SimDisk, process: usize) -> Handle {
    let file = disk.open(PATH, OpenMode::Create).expect("open");
    let identity = format!("{PATH} in {process}");
    Handle::open(Box::new(file), &identity, options()).unwrap_or_else(|e| panic!("open: {e}"))
}

impl Run {
    fn new(seed: u64, disk: SimDisk, contents: Vec<u8>) -> Run {
        let mut rng = SmallRng::seed_from_u64(seed);
        let page_size = 512 << rng.random_range(0..4);
        Run {
            disk,
            rng,
            page_size,
            contents,
            published: Vec::new(),
            synced: Vec::new(),
        }
    }

    fn write(&mut self, handle: &mut Handle) {
        let pages = self.contents.len() / self.page_size;
        let burst = if self.rng.random_range(0..8) == 0 {
            60
        } else {
            4
        };
        let mut at = 0;
        for i in 0..self.rng.random_range(1..=burst) {
            // By turns anywhere, and behind the page before: sparse neighbours share a frame.
            at = if i % 2 == 0 {
                self.rng.random_range(0..(pages + 3).min(300)) * self.page_size
            } else {
                at + self.page_size
            };
            let mut page = if i % 8 < 4 {
                let kept = self.rng.random_range(1..6);
                let number = (at / self.page_size) as u32;
                leaf::leaf(&mut self.rng, self.page_size, kept, number)
            } else {
                // Much of it random, so that extents fill, are freed and are used again.
                let mut page = vec![0u8; self.page_size];
                let cut = self.rng.random_range(0..self.page_size);
                self.rng.fill_bytes(&mut page[cut..]);
                page
            };
            if at == 0 {
                page[RESERVED_AT] = 0;
            }
            handle.write_at(&page, at as u64).expect("write");
            if self.contents.len() < at + page.len() {
                self.contents.resize(at + page.len(), 0);
            }
            self.contents[at..at + page.len()].copy_from_slice(&page);
        }
        if self.rng.random_range(0..12) == 0 {
            let len = self.rng.random_range(0..=pages) * self.page_size;
            handle.set_len(len as u64).expect("set_len");
            self.contents.resize(len, 0);
        }
    }

    fn publish(&mut self, handle: &mut Handle, sync: bool) {
        let began = self.disk.changes();
        handle.publish().expect("publish");
        self.published.push(Published {
            contents: self.contents.clone(),
            began,
            done: self.disk.changes(),
        });
        if sync {
            handle.sync(SyncKind::Data).expect("sync");
            self.synced
                .push((self.disk.changes(), self.published.len() - 1));
        }
    }

    /// Gives space back, a step or all of it. The contents stay as they are, so nothing new is published; but it syncs.
    fn give_back(&mut self, handle: &mut Handle) {
        let budget = MergeBudget {
            bytes: 64 << self.rng.random_range(4..15),
            dead_limit: [1, 5, 25][self.rng.random_range(0..3)],
            stop: &|| false,
        };
        let synced = match self.rng.random_range(0..6) {
            0 => {
                handle.give_back(&budget).expect("give back");
                false
            }
            1 => {
                handle.cut_end().expect("cut");
                true
            }
            _ => match handle.merge_step(&budget).expect("merge").next {
                MergeNext::Slot => {
                    handle.make_reusable().expect("slot");
                    true
                }
                MergeNext::Cut => {
                    handle.cut_end().expect("cut");
                    true
                }
                MergeNext::Again | MergeNext::Done => false,
            },
        };
        if synced && !self.published.is_empty() {
            self.synced
                .push((self.disk.changes(), self.published.len() - 1));
        }
    }

    /// Writes and publishes; syncs as seldom as `synchronous=OFF` or as often as FULL.
    fn steps(&mut self, handle: &mut Handle, n: usize) {
        let sync_one_in = [1, 2, 5, 50][self.rng.random_range(0..4)];
        self.steps_syncing(handle, n, sync_one_in);
    }

    /// The same in several processes by turns, of which any may be killed, close, or sync what others have published.
    fn turns(&mut self, processes: usize, n: usize) {
        let mut handles: Vec<Option<Handle>> = (0..processes).map(|_| None).collect();
        for _ in 0..n {
            let process = self.rng.random_range(0..processes);
            let disk = self.disk.clone();
            let handle = handles[process].get_or_insert_with(|| open_in(&disk, process));
            match self.rng.random_range(0..10) {
                0 => handles[process] = None,
                1 => {
                    handle.close_clean().expect("close");
                    handles[process] = None;
                }
                // It ends in the middle of a sync, which may have written a slot.
                2 => {
                    self.disk.fail(Fault::new(FaultKind::Io, Op::Sync));
                    handle.sync(SyncKind::Data).expect_err("sync");
                    handles[process] = None;
                }
                3 => {
                    handle.sync_seen(SyncKind::Data).expect("sync");
                    if !self.published.is_empty() {
                        self.synced
                            .push((self.disk.changes(), self.published.len() - 1));
                    }
                }
                _ => {
                    let (steps, one_in) =
                        (self.rng.random_range(1..4), self.rng.random_range(1..4));
                    self.steps_syncing(handle, steps, one_in);
                }
            }
        }
    }

    fn steps_syncing(&mut self, handle: &mut Handle, n: usize, sync_one_in: u32) {
        for _ in 0..n {
            if self.rng.random_range(0..3) == 0 {
                self.give_back(handle);
            }
            self.write(handle);
            if self.rng.random_range(0..20) == 0 {
                handle.discard();
                self.contents = self
                    .published
                    .last()
                    .map(|p| p.contents.clone())
                    .unwrap_or_default();
                continue;
            }
            let sync = self.rng.random_range(0..sync_one_in) == 0;
            self.publish(handle, sync);
        }
        if self.rng.random_range(0..3) == 0 {
            handle.close_clean().expect("close");
        }
    }

    /// What survived a cut at change `at` must be one of the states that were possible then.
    fn verify(&self, disk: &SimDisk, at: u64, what: &str) -> Vec<u8> {
        let mut handle = open(disk);
        let len = handle.len().unwrap_or_else(|e| panic!("{what}: {e}"));
        let mut got = vec![0; len as usize];
        for (i, page) in got.chunks_mut(self.page_size).enumerate() {
            handle
                .read_at(page, (i * self.page_size) as u64)
                .unwrap_or_else(|e| panic!("{what}: page {}: {e}", i + 1));
        }
        let first = self.synced.iter().rfind(|s| s.0 < at).map(|s| s.1);
        let possible = self
            .published
            .iter()
            .enumerate()
            .filter(|(i, p)| p.began < at && first.is_none_or(|f| *i >= f));
        let found =
            possible.clone().any(|(_, p)| p.contents == got) || (first.is_none() && got.is_empty());
        let late = self.published.iter().position(|p| p.contents == got);
        assert!(
            found,
            "{what}: {} bytes are none of the states possible at change {at} (from {first:?} to {:?}); it is state {late:?}, done at {:?}",
            got.len(),
            possible.map(|p| p.0).next_back(),
            late.map(|l| self.published[l].done)
        );
        let report = handle
            .check(&mut |_, _| true)
            .unwrap_or_else(|e| panic!("{what}: check: {e}"));
        assert_eq!(report.problems, vec![], "{what}");
        got
    }
}

fn crash(seed: u64, processes: usize) -> usize {
    let disk = SimDisk::new(seed);
    let mut run = Run::new(seed, disk.clone(), Vec::new());
    drop(open(&disk));
    disk.sync_dir("/").expect("sync dir");
    for change in (1..2000).step_by(3) {
        disk.capture_at(change, Capture::Cut(seed ^ change));
    }
    match processes {
        1 => run.steps(&mut open(&disk), 40),
        _ => run.turns(processes, 40),
    }
    let captures = disk.take_captures();
    let mut cases = captures.len();
    for c in &captures {
        let what = format!("DENSITE_SEED={seed} cut at change {}", c.change);
        let got = run.verify(&c.disk, c.change, &what);
        // Now and then go on from there, and cut again: the torn tail must not come back.
        if c.change % 5 == 0 {
            let mut again = Run::new(seed ^ c.change << 20, c.disk.clone(), got.clone());
            again.page_size = run.page_size;
            again.published.push(Published {
                contents: got,
                began: 0,
                done: 0,
            });
            again.synced.push((0, 0));
            let mut handle = open(&c.disk);
            for change in (2..400).step_by(23) {
                c.disk.capture_at(change, Capture::Cut(change));
            }
            again.steps(&mut handle, 6);
            drop(handle);
            for second in c.disk.take_captures() {
                again.verify(
                    &second.disk,
                    second.change,
                    &format!("{what}, again at {}", second.change),
                );
                cases += 1;
            }
        }
    }
    cases
}

#[test]
fn power_cuts() {
    campaign(1);
}

#[test]
fn power_cuts_where_several_processes_write_by_turns() {
    campaign(3);
}

fn campaign(processes: usize) {
    let one = std::env::var("DENSITE_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let n = std::env::var("DENSITE_CRASH_SEEDS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(25);
    let seeds: Vec<u64> = one.map_or_else(|| (0..n).collect(), |s| vec![s]);
    let cases: usize = seeds.iter().map(|s| crash(*s, processes)).sum();
    assert!(one.is_some() || cases > 1000, "only {cases} cases");
    println!("{cases} power cuts");
}
