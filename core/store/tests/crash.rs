//! Power cuts at every change of the disk (rules S8, S9, S10). What comes back is exactly an
//! earlier published state, not older than the last synced one. All of it reads, the accounting is
//! exact, and the store continues from there. Space is reclaimed all the time: steps, slots, cutting
//! the end. In some runs writes fail within publishing, or the process is killed there. What it did
//! not publish does not come back once the next writer has begun.
//!
//! `DENSITE_SEED=n` runs one seed.

use crate::common::leaf;

use densite_disk::{ErrorKind, File, FileAbove, Op, OpenMode, SyncKind};
use densite_sim_disk::{Extension, Fault, FaultKind, OpSet, SimDisk, SimFile};
use densite_store::{
    DecodedCache, Handle, Options, ReclaimBudget, ReclaimNext, RelearnWhen, Tuning,
};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Where page 1 has the number of reserved bytes of each page. With random bytes there, no page
/// would be one of SQLite's.
const RESERVED_AT: usize = 20;
const PATH: &str = "/a.db";

/// A published state: its contents, and the number of the disk's changes at its begin and end.
struct Published {
    contents: Vec<u8>,
    began: u64,
    done: u64,
}

/// A commit that failed, or whose process was killed within publishing.
struct Attempt {
    contents: Vec<u8>,
    began: u64,
    /// From this change on a cut must not leave it, because it was made void. Before, while a tip
    /// is not synced, recovery cannot tell it from a commit.
    void: Option<u64>,
}

struct Run {
    disk: SimDisk,
    rng: SmallRng,
    /// Whether publishing sometimes fails, and how. It has its own generator, so that runs without
    /// failures do not depend on it.
    trouble: Option<SmallRng>,
    attempts: Vec<Attempt>,
    /// What happens when the tip is written.
    tip: Arc<AtomicU8>,
    page_size: usize,
    contents: Vec<u8>,
    published: Vec<Published>,
    /// (number of changes when a sync was done, index of the state it made durable)
    synced: Vec<(u64, usize)>,
}

fn options() -> Options {
    Options {
        threads: 0,
        decoded_cache: DecodedCache::Bytes(256 << 10),
        tuning: Tuning::eager(),
        ..Options::default()
    }
}

fn open(disk: &SimDisk) -> Handle {
    open_in(disk, 0, &Arc::default())
}

/// Opens it in one of several processes, which share no state.
fn open_in(disk: &SimDisk, process: usize, tip: &Arc<AtomicU8>) -> Handle {
    let file = Mortal {
        file: disk.open(PATH, OpenMode::Create).expect("open"),
        tip: Arc::clone(tip),
    };
    let identity = format!("{PATH} in {process}");
    Handle::open(Box::new(file), &identity, options()).unwrap_or_else(|e| panic!("open: {e}"))
}

/// Where the tip begins: docs/FORMAT.md, "Preamble".
const TIP: u64 = 12288;
const WORKS: u8 = 0;
const FAILS: u8 = 1;
const KILLS: u8 = 2;
const DEAD: u8 = 3;

/// A file whose process is killed, or gets an error, when it writes the tip.
struct Mortal {
    file: SimFile,
    tip: Arc<AtomicU8>,
}

impl Mortal {
    fn lives(&self, op: Op) -> densite_disk::Result<()> {
        match self.tip.load(Ordering::Relaxed) {
            DEAD => Err(densite_disk::Error::new(ErrorKind::Io, op)),
            _ => Ok(()),
        }
    }
}

impl FileAbove for Mortal {
    fn below(&self) -> &dyn File {
        &self.file
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> densite_disk::Result<()> {
        if offset == TIP {
            let fate = self.tip.load(Ordering::Relaxed);
            let next = [WORKS, WORKS, DEAD, DEAD][usize::from(fate)];
            self.tip.store(next, Ordering::Relaxed);
            if fate != WORKS {
                return Err(densite_disk::Error::new(ErrorKind::Io, Op::Write));
            }
        }
        self.lives(Op::Write)?;
        self.file.write_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> densite_disk::Result<()> {
        self.lives(Op::Truncate)?;
        self.file.set_len(len)
    }

    fn sync(&self, kind: SyncKind) -> densite_disk::Result<()> {
        self.lives(Op::Sync)?;
        self.file.sync(kind)
    }
}

impl Run {
    fn new(seed: u64, disk: SimDisk, contents: Vec<u8>) -> Run {
        let mut rng = SmallRng::seed_from_u64(seed);
        let page_size = 512 << rng.random_range(0..4);
        Run {
            disk,
            rng,
            trouble: None,
            attempts: Vec::new(),
            tip: Arc::default(),
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
            // In turn anywhere, and after the page before: sparse adjacent pages share a frame.
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
                // Much of it is random, so that extents fill, are freed and are reused.
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

    /// Returns to what was published last.
    fn forget_writes(&mut self) {
        let last = self.published.last();
        self.contents = last.map(|p| p.contents.clone()).unwrap_or_default();
    }

    /// Publishes, sometimes with a failing call, or with all calls failing from there on, as if the
    /// process were killed. Returns whether the handle must be dropped.
    fn publish_in_trouble(&mut self, handle: &mut Handle, sync: bool) -> bool {
        let Some(dice) = &mut self.trouble else {
            self.publish(handle, sync);
            return false;
        };
        if dice.random_range(0..3) > 0 {
            self.publish(handle, sync);
            return false;
        }
        let (killed, at_tip) = (dice.random_bool(0.5), dice.random_bool(0.7));
        let (then, after) = (dice.random_range(0..3), dice.random_range(0..4));
        let prefix = dice.random_range(0..60);
        let calls = OpSet::of(&[Op::Read, Op::Write, Op::Truncate, Op::Len]);
        match (at_tip, killed) {
            (true, false) => self.tip.store(FAILS, Ordering::Relaxed),
            (true, true) => self.tip.store(KILLS, Ordering::Relaxed),
            (false, true) => {
                let fault = Fault::new(FaultKind::Io, calls).after(after * 3);
                self.disk.fail(fault.forever());
            }
            (false, false) => {
                let fault = Fault::new(FaultKind::Io, Op::Write).after(after);
                self.disk.fail(fault.with_prefix(prefix));
            }
        }
        let began = self.disk.changes();
        let done = handle.publish();
        self.disk.clear_faults();
        self.tip.store(WORKS, Ordering::Relaxed);
        if done.is_ok() {
            self.is_published(began);
            return false;
        }
        self.attempts.push(Attempt {
            contents: self.contents.clone(),
            began,
            void: None,
        });
        match then {
            _ if killed => {}
            // Unchanged, or with more.
            0 => {
                self.publish(handle, sync);
                return false;
            }
            1 => {
                self.write(handle);
                self.publish(handle, sync);
                return false;
            }
            _ => handle.discard(),
        }
        self.forget_writes();
        killed
    }

    /// Notes that a writer has begun: it has made older attempts void.
    fn attempts_are_void(&mut self) {
        let now = self.disk.changes();
        for attempt in &mut self.attempts {
            attempt.void.get_or_insert(now);
        }
    }

    fn is_published(&mut self, began: u64) {
        self.published.push(Published {
            contents: self.contents.clone(),
            began,
            done: self.disk.changes(),
        });
    }

    fn publish(&mut self, handle: &mut Handle, sync: bool) {
        let began = self.disk.changes();
        handle.publish().expect("publish");
        self.is_published(began);
        if sync {
            handle.sync(SyncKind::Data).expect("sync");
            self.synced
                .push((self.disk.changes(), self.published.len() - 1));
        }
    }

    /// Reclaims space, one step or all of it. The contents do not change, so nothing new is
    /// published; but it may sync.
    fn reclaim(&mut self, handle: &mut Handle) {
        let budget = ReclaimBudget {
            bytes: 64 << self.rng.random_range(4..15),
            dead_limit: [1, 5, 25][self.rng.random_range(0..3)],
            stop: &|| false,
        };
        let synced = match self.rng.random_range(0..7) {
            0 => {
                handle.reclaim(&budget).expect("reclaim");
                false
            }
            1 => {
                handle.cut_end().expect("cut");
                true
            }
            2 => {
                handle
                    .relearn(RelearnWhen::Asked, &|| true)
                    .expect("learns");
                false
            }
            _ => match handle.reclaim_step(&budget).expect("reclaim").next {
                ReclaimNext::Slot => {
                    handle.make_reusable().expect("slot");
                    true
                }
                ReclaimNext::Cut => {
                    handle.cut_end().expect("cut");
                    true
                }
                ReclaimNext::Again | ReclaimNext::Done => false,
            },
        };
        if synced && !self.published.is_empty() {
            self.synced
                .push((self.disk.changes(), self.published.len() - 1));
        }
    }

    /// Writes and publishes; syncs as rarely as `synchronous=OFF` or as often as FULL. Returns
    /// whether the process is still alive.
    fn steps(&mut self, handle: &mut Handle, n: usize) -> bool {
        let sync_one_in = [1, 2, 5, 50][self.rng.random_range(0..4)];
        self.steps_syncing(handle, n, sync_one_in)
    }

    /// The same from beginning to end; a new process follows one that is killed.
    fn life(&mut self, n: usize) {
        let disk = self.disk.clone();
        for process in 0..n {
            let mut handle = open_in(&disk, process, &self.tip);
            if self.steps(&mut handle, n) {
                return;
            }
        }
    }

    /// The same in several processes in turn. Any of them can be killed, close, or sync what others
    /// have published.
    fn turns(&mut self, processes: usize, n: usize) {
        let mut handles: Vec<Option<Handle>> = (0..processes).map(|_| None).collect();
        for _ in 0..n {
            let process = self.rng.random_range(0..processes);
            let (disk, tip) = (self.disk.clone(), Arc::clone(&self.tip));
            let handle = handles[process].get_or_insert_with(|| open_in(&disk, process, &tip));
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
                    if !self.steps_syncing(handle, steps, one_in) {
                        handles[process] = None;
                    }
                }
            }
        }
    }

    /// Returns whether the process is still alive.
    fn steps_syncing(&mut self, handle: &mut Handle, n: usize, sync_one_in: u32) -> bool {
        for _ in 0..n {
            if self.rng.random_range(0..3) == 0 {
                self.reclaim(handle);
            }
            self.write(handle);
            self.attempts_are_void();
            if self.rng.random_range(0..20) == 0 {
                handle.discard();
                self.forget_writes();
                continue;
            }
            let sync = self.rng.random_range(0..sync_one_in) == 0;
            if self.publish_in_trouble(handle, sync) {
                return false;
            }
        }
        if self.rng.random_range(0..3) == 0 {
            handle.close_clean().expect("close");
        }
        true
    }

    /// The contents after a cut at change `at`, which must be one of the states possible then.
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
        let found = possible.clone().any(|(_, p)| p.contents == got)
            || (first.is_none() && got.is_empty())
            || self
                .attempts
                .iter()
                .any(|a| a.contents == got && a.began < at && a.void.is_none_or(|void| at <= void));
        let late = self.published.iter().position(|p| p.contents == got);
        assert!(
            found,
            "{what}: {} bytes are not a state possible at change {at} (from {first:?} to {:?}); it is state {late:?}, done at {:?}",
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

fn crash(seed: u64, processes: usize, trouble: bool) -> usize {
    let disk = SimDisk::of_seed(seed);
    // Where a file that grew has any bytes, a creation that was cut need not be a store: `born.rs`.
    disk.set_extension(Extension::Zeros);
    let mut run = Run::new(seed, disk.clone(), Vec::new());
    run.trouble = trouble.then(|| SmallRng::seed_from_u64(seed ^ 0x7201_b1e5));
    drop(open(&disk));
    disk.sync_dir("/").expect("sync dir");
    disk.cut_at_each((1..2000).step_by(3), seed);
    match processes {
        1 => run.life(40),
        _ => run.turns(processes, 40),
    }
    let captures = disk.take_captures();
    let mut cases = captures.len();
    for c in &captures {
        let what = format!("DENSITE_SEED={seed} cut at change {}", c.change);
        let got = run.verify(&c.disk, c.change, &what);
        // Sometimes continue from there and cut again: the torn tail must not come back.
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
            c.disk.cut_at_each((2..400).step_by(23), seed);
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
    campaign(1, false);
}

#[test]
fn power_cuts_where_several_processes_write_by_turns() {
    campaign(3, false);
}

#[test]
fn power_cuts_where_publishing_fails() {
    campaign(1, true);
}

#[test]
fn power_cuts_where_several_processes_fail_or_are_killed_within_publishing() {
    campaign(3, true);
}

fn campaign(processes: usize, trouble: bool) {
    let seeds = densite_testing::seeds(25);
    let cases: usize = seeds.map(|seed| crash(seed, processes, trouble)).sum();
    let least = densite_testing::Effort::wanted().least(1000);
    assert!(cases as u64 >= least, "only {cases} cases");
    println!("{cases} power cuts");
}

/// A part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_store() {
    densite_testing::long_run("power cuts", |seed| {
        let runs = [(1, false), (3, false), (1, true), (3, true)];
        let cuts = runs.map(|(processes, trouble)| crash(seed, processes, trouble));
        cuts.iter().sum::<usize>() as u64
    });
}
