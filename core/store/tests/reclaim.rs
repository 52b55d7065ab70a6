//! Space reclamation, rule by rule: each test provokes one.

use crate::common::{Interrupted, Moment};
use densite_disk::sync::Mutex;
use densite_disk::{File, FileAbove, Op, OpenMode, SyncKind};
use densite_sim_disk::{Fault, FaultKind, MetadataOrder, SimDisk, SimFile};
use densite_store::{Error, Handle, Options, ReclaimBudget, ReclaimNext, Reclaimed, Tuning};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PATH: &str = "/a.db";
const PAGE: usize = 4096;
/// Where records begin.
const DATA: u64 = 16384;

const WRITING: ReclaimBudget<'static> = ReclaimBudget {
    bytes: 256 << 10,
    dead_limit: 25,
    stop: &|| false,
};
const REST: ReclaimBudget<'static> = ReclaimBudget {
    bytes: 1 << 20,
    dead_limit: 5,
    stop: &|| false,
};

/// A handle of a new process.
fn process(file: impl File + 'static, name: &str, tuning: Tuning) -> Handle {
    let options = Options {
        threads: 0,
        tuning,
        ..Options::default()
    };
    Handle::open(Box::new(file), name, options).expect("open")
}

fn open(disk: &SimDisk, name: &str) -> Handle {
    let file = disk.open(PATH, OpenMode::Create).expect("open");
    disk.sync_dir("/").expect("sync dir");
    process(file, name, Tuning::default())
}

/// The page of this number as it is written in this round: about half of it is incompressible.
fn page(number: u64, round: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let mut rng = SmallRng::seed_from_u64(number << 20 | round);
    let cut = rng.random_range(PAGE / 4..PAGE * 3 / 4);
    rng.fill_bytes(&mut page[cut..]);
    page
}

fn put(handle: &mut Handle, number: u64, round: u64) {
    handle
        .write_at(&page(number, round), number * PAGE as u64)
        .expect("write");
}

fn read(handle: &mut Handle, number: u64) -> densite_store::Result<Vec<u8>> {
    let mut got = vec![0; PAGE];
    handle.read_at(&mut got, number * PAGE as u64)?;
    Ok(got)
}

/// Writes pages 0 to `pages`, and then again all whose number is not a multiple of `keep`. Returns
/// the round of each page.
fn scattered(handle: &mut Handle, pages: u64, keep: u64) -> Vec<u64> {
    for number in 0..pages {
        put(handle, number, 1);
    }
    handle.sync(SyncKind::Data).expect("sync");
    for number in (0..pages).filter(|n| n % keep != 0) {
        put(handle, number, 2);
    }
    handle.sync(SyncKind::Data).expect("sync");
    (0..pages)
        .map(|n| if n % keep == 0 { 1 } else { 2 })
        .collect()
}

fn same(handle: &mut Handle, rounds: &[u64]) {
    for (number, round) in (0..).zip(rounds) {
        let got = read(handle, number).unwrap_or_else(|e| panic!("page {}: {e}", number + 1));
        assert!(got == page(number, *round), "page {} differs", number + 1);
    }
    let report = handle.check(&mut |_, _| true).expect("check");
    assert_eq!(report.problems, vec![]);
}

/// Reclaims all it can within `budget`.
fn reclaim(handle: &mut Handle, budget: &ReclaimBudget<'_>) {
    let given = handle.reclaim(budget).expect("reclaim");
    assert!(given.done && given.damaged.is_empty(), "{given:?}");
}

#[test]
fn full_reclamation_leaves_little_dead_space() {
    for keep in [2, 3, 10, 100] {
        let disk = SimDisk::new(1);
        let mut handle = open(&disk, "a");
        let rounds = scattered(&mut handle, 4000, keep);
        let before = handle.space().expect("space");
        reclaim(&mut handle, &REST);
        let space = handle.space().expect("space");
        assert!(!space.over(5), "{keep}: {before:?} {space:?}");
        handle.close_clean().expect("close");
        let len = disk.contents(PATH).expect("the file exists").len() as u64;
        assert_eq!(len, handle.space().expect("space").file_bytes);
        assert!(
            len * 95 <= space.live_bytes * 100 + (8 << 10),
            "{keep}: {len} {space:?}"
        );
        same(&mut open(&disk, "b"), &rounds);
    }
}

#[test]
fn figures_add_up_and_are_those_of_the_check() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "a");
    assert_eq!(handle.space().expect("space").file_bytes, 0);
    scattered(&mut handle, 1000, 3);
    for _ in 0..2 {
        let space = handle.space().expect("space");
        let stats = handle.stats().expect("stats");
        let sum = space.live_bytes + space.dead_bytes + space.free_bytes + space.reserve_bytes;
        assert_eq!(space.file_bytes, sum);
        assert_eq!(space.file_bytes, stats.stored_bytes);
        assert_eq!(space.live_bytes, stats.live_bytes);
        let mut other = open(&disk, "b").space().expect("space");
        other.waiting_bytes = space.waiting_bytes;
        assert_eq!(other, space, "from the file");
        reclaim(&mut handle, &REST);
    }
}

/// A file that counts by how much it was shortened.
struct Shortened {
    file: SimFile,
    by: Arc<AtomicU64>,
}

impl FileAbove for Shortened {
    fn below(&self) -> &dyn File {
        &self.file
    }

    fn set_len(&self, len: u64) -> densite_disk::Result<()> {
        let shorter = self.file.len()?.saturating_sub(len);
        self.by.fetch_add(shorter, Ordering::Relaxed);
        self.file.set_len(len)
    }
}

/// At once, or in rounds with syncs between them.
#[test]
fn reclaim_reports_what_it_did() {
    let mut told = Vec::new();
    for by_rounds in [false, true] {
        let disk = SimDisk::new(1);
        let file = disk.open(PATH, OpenMode::Create).expect("open");
        let by = Arc::new(AtomicU64::new(0));
        let shortened = Shortened {
            file,
            by: Arc::clone(&by),
        };
        let mut handle = process(shortened, "a", Tuning::default());
        let rounds = scattered(&mut handle, 2000, 3);
        let mut all = Reclaimed::default();
        while !all.done {
            let given = match by_rounds {
                false => handle.reclaim(&REST).expect("reclaim"),
                true => handle.reclaim_unsynced(&REST).expect("reclaim"),
            };
            all.moved_bytes += given.moved_bytes;
            all.written_bytes += given.written_bytes;
            all.cut_bytes += given.cut_bytes;
            all.done = given.done;
            assert_eq!(given.wants_sync, !given.done);
            if given.wants_sync {
                handle.sync_published().expect("sync");
            }
        }
        assert_eq!(all.cut_bytes, by.load(Ordering::Relaxed));
        // A third of the pages, beside which others have died, and the records that name them.
        assert!(all.moved_bytes > 600 << 10, "{all:?}");
        assert!(all.written_bytes > all.moved_bytes, "{all:?}");
        assert!(all.cut_bytes > 1 << 20, "{all:?}");
        same(&mut handle, &rounds);
        told.push(all);
    }
    assert_eq!(told[0], told[1]);
}

#[test]
fn a_step_keeps_to_its_budget_and_stops_on_request() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "a");
    let rounds = scattered(&mut handle, 4000, 3);
    handle.make_reusable().expect("slot");
    let budget = ReclaimBudget {
        bytes: 300 << 10,
        ..REST
    };
    let step = handle.reclaim_step(&budget).expect("reclaim");
    assert_eq!(step.next, ReclaimNext::Again);
    let moved = step.moved_bytes;
    assert!((200 << 10..400 << 10).contains(&moved), "{step:?}");
    handle.make_reusable().expect("slot");
    let stop = ReclaimBudget {
        stop: &|| true,
        ..REST
    };
    let step = handle.reclaim_step(&stop).expect("reclaim");
    assert!((1..=80 << 10).contains(&step.moved_bytes), "{step:?}");
    same(&mut handle, &rounds);
    put(&mut handle, 1, 7);
    assert!(matches!(handle.reclaim_step(&REST), Err(Error::Setting(_))));
    assert!(matches!(handle.cut_end(), Err(Error::Setting(_))));
    handle.discard();
    for dead_limit in [0, 91] {
        let wrong = ReclaimBudget { dead_limit, ..REST };
        assert!(matches!(
            handle.reclaim_step(&wrong),
            Err(Error::Setting(_))
        ));
    }
}

/// Rule S9: freed records stay until a durable slot names a commit without them.
#[test]
fn nothing_is_cut_off_before_a_slot_is_durable() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "a");
    for number in 0..1000 {
        put(&mut handle, number, 1);
    }
    handle.sync(SyncKind::Data).expect("sync");
    handle.make_reusable().expect("slot");
    // A fold, so that not even its trailers need the end of the file.
    handle.set_len(PAGE as u64).expect("set_len");
    handle.publish().expect("publish");
    let before = disk.contents(PATH).expect("the file exists").len();
    assert_eq!(
        handle.cut_end().expect("cut"),
        0,
        "its slot names all pages"
    );
    assert_eq!(disk.contents(PATH).expect("the file exists").len(), before);
    // Any cut leaves one of the two states.
    for seed in 0..12 {
        let mut after = open(&disk.survivor(seed), "b");
        let report = after.check(&mut |_, _| true).expect("check");
        assert_eq!(report.problems, vec![]);
    }
    reclaim(&mut handle, &REST);
    assert!(disk.contents(PATH).expect("the file exists").len() < before / 4);
    same(&mut handle, &[1]);
}

/// The commit that names the new end is durable before the file is cut. Otherwise a power cut could
/// take the commit and leave the cut. The end in the older commit would then be far beyond the
/// file.
#[test]
fn a_cut_is_named_by_a_durable_commit() {
    let disk = SimDisk::new(1);
    let file = disk.open(PATH, OpenMode::Create).expect("open");
    let options = Options {
        codec: densite_store::CodecChoice::Raw,
        threads: 0,
        ..Options::default()
    };
    let mut handle = Handle::open(Box::new(file), "a", options).expect("open");
    disk.sync_dir("/").expect("sync dir");
    // More bytes than may be missing after the end of a file.
    for number in 0..20_000u64 {
        let mut page = vec![number as u8; PAGE];
        page[0] ^= 1;
        handle.write_at(&page, number * PAGE as u64).expect("write");
    }
    handle.sync(SyncKind::Data).expect("sync");
    handle.set_len(40 * PAGE as u64).expect("set_len");
    handle.sync(SyncKind::Data).expect("sync");
    handle.make_reusable().expect("slot");
    loop {
        match handle.reclaim_step(&REST).expect("reclaim").next {
            ReclaimNext::Cut => break,
            ReclaimNext::Slot => handle.make_reusable().expect("slot"),
            ReclaimNext::Again => {}
            ReclaimNext::Done => panic!("nothing to cut"),
        }
    }
    // The commit, the sync, the cut.
    disk.set_metadata_order(MetadataOrder::Any);
    let from = disk.changes();
    (0..12).for_each(|seed| disk.cut_at_each(from + 3..from + 5, seed));
    assert!(handle.cut_end().expect("cut") > 64 << 20);
    let (mut cut, mut whole) = (0, 0);
    for capture in disk.take_captures() {
        let len = capture.disk.contents(PATH).expect("the file exists").len();
        *if len < 64 << 20 { &mut cut } else { &mut whole } += 1;
        let mut after = open(&capture.disk, "b");
        after.write_at(&[1; PAGE], 0).expect("write");
        after.publish().expect("publish");
        assert_eq!(after.len().expect("len"), 40 * PAGE as u64);
        let report = after.check(&mut |_, _| true).expect("check");
        assert_eq!(report.problems, vec![], "at {}", capture.change);
    }
    assert!(cut > 1 && whole > 1, "{cut} {whole}");
}

/// An action that interrupts a read.
type Guest = Box<dyn FnOnce() + Send>;

/// Rule S6: a reader has looked a page up and not yet read its frame. Another process moves it, and
/// then overwrites the old place or cuts it off.
#[test]
fn a_reader_with_an_old_entry() {
    for written_over in [false, true] {
        for number in (97..2000u64).step_by(291) {
            let disk = SimDisk::new(1);
            let mut writer = open(&disk, "writer");
            let mut rounds = scattered(&mut writer, 2000, 4);
            let guest = Arc::new(Mutex::new(None::<Guest>));
            let takes = Arc::clone(&guest);
            let file = Interrupted {
                file: disk.open(PATH, OpenMode::Write).expect("open"),
                guest: Box::new(move |moment| {
                    if matches!(moment, Moment::BeforeRead(offset) if offset >= DATA)
                        && let Some(guest) = { takes.lock().take() }
                    {
                        guest();
                    }
                }),
            };
            let mut reader = process(file, "reader", Tuning::default());
            read(&mut reader, number / 97).expect("read");
            let want = rounds[number as usize];
            let after = if number % 2 == 0 { want } else { 9 };
            *guest.lock() = Some(Box::new(move || {
                let step = writer.reclaim_step(&REST).expect("reclaim");
                assert!(step.moved_bytes > 0);
                if !written_over {
                    return;
                }
                put(&mut writer, number, after);
                writer.publish().expect("publish");
                reclaim(&mut writer, &REST);
                for other in 3000..3600 {
                    put(&mut writer, other, 5);
                }
                writer.sync(SyncKind::Data).expect("sync");
            }));
            let got = read(&mut reader, number).expect("read");
            assert!(guest.lock().is_none(), "nothing came between");
            // A write during the read can be seen or not.
            let new = written_over && got == page(number, after);
            assert!(new || got == page(number, want), "page {}", number + 1);
            if written_over {
                rounds[number as usize] = after;
            }
            same(&mut reader, &rounds);
        }
    }
}

/// A moved frame keeps its version, so its decoded page stays in the cache.
#[test]
fn reclaiming_does_not_change_the_cache() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "a");
    let rounds = scattered(&mut handle, 1000, 3);
    same(&mut handle, &rounds);
    reclaim(&mut handle, &REST);
    let before = disk.counters(PATH).reads;
    for (number, round) in (0..).zip(&rounds) {
        assert!(read(&mut handle, number).expect("read") == page(number, *round));
    }
    let reads = disk.counters(PATH).reads - before;
    // The tip is read each time, and map nodes.
    assert!(reads < 1000 + 50, "{reads} reads");
}

/// A full or failing disk in the middle of a step or a cut: nothing has changed, and the next one
/// succeeds.
#[test]
fn a_failure_in_the_middle_changes_nothing() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "a");
    let mut rounds = scattered(&mut handle, 1500, 3);
    let mut failed = 0;
    for (kind, op) in [
        (FaultKind::Full, Op::Write),
        (FaultKind::Io, Op::Write),
        (FaultKind::Io, Op::Read),
        (FaultKind::Io, Op::Truncate),
    ] {
        for after in 0..12 {
            for (number, round) in (0..400).zip(&mut rounds) {
                *round += 1;
                put(&mut handle, number, *round);
            }
            handle.publish().expect("publish");
            disk.fail(Fault::new(kind, op).after(after));
            let done = handle.reclaim(&REST);
            disk.clear_faults();
            failed += u32::from(done.is_err());
            assert!(!handle.has_pending(), "{kind:?} {op:?} {after}");
            match done {
                Err(Error::Full(_)) => assert_eq!(kind, FaultKind::Full),
                Err(Error::Io(_)) => assert_eq!(kind, FaultKind::Io),
                other => assert!(other.expect("done").done),
            }
            same(
                &mut open(&disk, &format!("{kind:?} {op:?} {after}")),
                &rounds,
            );
            same(&mut handle, &rounds);
        }
    }
    assert!(failed > 20, "{failed}");
    reclaim(&mut handle, &REST);
    // 5 per cent, and a unit that is being appended to: 2 per cent of such a small file.
    assert!(!handle.space().expect("space").over(7));
    same(&mut handle, &rounds);
}

/// A failed sync poisons the handle, and nothing that was durable is lost.
#[test]
fn a_failed_sync_poisons() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "a");
    let rounds = scattered(&mut handle, 1000, 3);
    handle.reclaim_step(&REST).expect("reclaim");
    disk.fail(Fault::new(FaultKind::Io, Op::Sync));
    assert!(handle.make_reusable().is_err());
    assert!(matches!(handle.reclaim_step(&REST), Err(Error::Poisoned)));
    drop(handle);
    let mut handle = open(&disk, "b");
    reclaim(&mut handle, &REST);
    same(&mut handle, &rounds);
}

/// A sync fails while another handle has the right to write. That handle's commits stay published,
/// and nothing is durable before the dropped bytes are written again. The simulated disk shows them
/// until the power cut.
#[test]
fn the_next_writer_rewrites_after_a_failed_sync_without_the_right() {
    for named in [false, true] {
        let disk = SimDisk::new(1);
        let mut worker = open(&disk, "process");
        let mut rounds = scattered(&mut worker, 1000, 3);
        let mut writer = open(&disk, "process");
        assert!(worker.reclaim_step(&REST).expect("reclaim").moved_bytes > 0);
        disk.fail(Fault::new(FaultKind::Io, Op::Sync));
        let failed = worker.sync_published().expect_err("the sync fails");
        put(&mut writer, 7, 3);
        writer.publish().expect("publish");
        worker.leave_failed_sync(failed);
        assert!(matches!(worker.reclaim_step(&REST), Err(Error::Poisoned)));
        put(&mut writer, 8, 3);
        (rounds[7], rounds[8]) = (3, 3);
        writer.sync(SyncKind::Data).expect("sync");
        if named {
            writer.make_reusable().expect("slot");
        }
        drop((worker, writer));
        same(&mut open(&disk.power_cut(1), "after"), &rounds);
    }
}

/// Space reclamation waits for the dropped bytes to be rewritten. It does that itself, even if it
/// has nothing else to write.
#[test]
fn reclaiming_continues_after_a_failed_sync_without_the_right() {
    let disk = SimDisk::new(1);
    let mut worker = open(&disk, "process");
    let rounds = scattered(&mut worker, 1000, 3);
    while worker.reclaim_step(&REST).expect("reclaim").next != ReclaimNext::Slot {}
    disk.fail(Fault::new(FaultKind::Io, Op::Sync));
    let failed = worker.sync_published().expect_err("the sync fails");
    worker.leave_failed_sync(failed);
    let mut next = open(&disk, "process");
    let asked = std::cell::Cell::new(0);
    let budget = ReclaimBudget {
        stop: &|| asked.replace(asked.get() + 1) > 10_000,
        ..REST
    };
    let given = next.reclaim(&budget).expect("reclaim");
    assert!(given.done, "it would never end: {given:?}");
    same(&mut next, &rounds);
    drop((worker, next));
    same(&mut open(&disk.power_cut(1), "after"), &rounds);
}

/// Damage gets no new checksum: the frame stays in place, is reported, and is an error as before.
/// The rest of its unit stays too, but nothing more.
#[test]
fn a_damaged_frame_gets_no_new_checksum() {
    for header in [false, true] {
        let disk = SimDisk::new(1);
        let mut handle = open(&disk, "a");
        let rounds = scattered(&mut handle, 2000, 4);
        handle.close_clean().expect("close");
        drop(handle);
        let mut bytes = disk.contents(PATH).expect("the file exists");
        let whole = bytes.clone();
        // The third frame of page 801, which is among dead ones. The test damages its payload or
        // its number.
        let frame = (DATA as usize..bytes.len())
            .find(|at| bytes[*at..].starts_with(&[1 | 1 << 3, 12, 0x21, 3, 0, 0]))
            .expect("a frame of page 801");
        bytes[frame + if header { 3 } else { 100 }] ^= 4;
        disk.put_file(PATH, &bytes);
        let mut handle = open(&disk, "b");
        assert!(matches!(read(&mut handle, 800), Err(Error::Corrupt(_))));
        let given = handle.reclaim(&REST).expect("reclaim");
        assert!(given.done && given.moved_bytes > 0);
        assert_eq!(given.damaged.len(), 1, "{:?}", given.damaged);
        let told = &given.damaged[0];
        assert_eq!(told.offset / 65536, frame as u64 / 65536, "{told}");
        if !header {
            assert_eq!((told.offset, told.page), (frame as u64, Some(801)));
        }
        let Err(Error::Corrupt(still)) = read(&mut handle, 800) else {
            panic!("damage was laundered");
        };
        assert_eq!((still.offset, still.page), (frame as u64, Some(801)));
        for (number, round) in (0..).zip(&rounds).filter(|(n, _)| *n != 800) {
            assert!(read(&mut handle, number).expect("read") == page(number, *round));
        }
        handle.close_clean().expect("close");
        drop(handle);
        // The frame is unchanged: the flipped bit can be flipped back.
        let mut bytes = disk.contents(PATH).expect("the file exists");
        bytes[frame..frame + 200].copy_from_slice(&whole[frame..frame + 200]);
        disk.put_file(PATH, &bytes);
        same(&mut open(&disk, "c"), &rounds);
    }
}

/// Processes that write in turn reuse freed units, although each of them folds, so that the others
/// load the accounting again.
#[test]
fn processes_that_write_in_turn_reuse_freed_units() {
    let disk = SimDisk::new(1);
    let mut processes: Vec<Handle> = (0..3)
        .map(|n| {
            let file = disk.open(PATH, OpenMode::Create).expect("open");
            process(file, &format!("process {n}"), Tuning::eager())
        })
        .collect();
    let mut rounds = vec![0; 300];
    for turn in 1..600u64 {
        let handle = &mut processes[turn as usize % 3];
        // So many that each turn folds.
        for n in 0..30 {
            let number = (turn * 30 + n) % 300;
            put(handle, number, turn);
            rounds[number as usize] = turn;
        }
        handle.sync(SyncKind::Data).expect("sync");
    }
    for handle in &mut processes {
        same(handle, &rounds);
    }
    let space = processes[0].space().expect("space");
    assert!(space.file_bytes < 3 * space.live_bytes, "{space:?}");
}

/// The cost of reclaiming while pages are written at random: at 25 %, the bound is 3 bytes moved
/// for each one won.
#[test]
fn random_updates_cost_no_more_than_is_promised() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "a");
    let pages = 4000;
    let mut rounds = scattered(&mut handle, pages, 1);
    let mut rng = SmallRng::seed_from_u64(5);
    let (mut moved, mut caused, mut worst) = (0, 0, 0);
    let written = |disk: &SimDisk| disk.counters(PATH).bytes_written;
    for round in 3..300u64 {
        let before = written(&disk);
        for _ in 0..100 {
            let number = rng.random_range(0..pages);
            put(&mut handle, number, round);
            rounds[number as usize] = round;
        }
        handle.sync(SyncKind::Data).expect("sync");
        caused += written(&disk) - before;
        for _ in 0..4 {
            let step = handle.reclaim_step(&WRITING).expect("reclaim");
            moved += step.moved_bytes;
            match step.next {
                ReclaimNext::Cut => drop(handle.cut_end().expect("cut")),
                ReclaimNext::Again => {}
                // The syncs of later commits are enough.
                ReclaimNext::Slot | ReclaimNext::Done => break,
            }
        }
        if round > 50 {
            let space = handle.space().expect("space");
            let idle = space.dead_bytes + space.free_bytes - space.waiting_bytes;
            worst = worst.max(idle.saturating_sub((space.file_bytes - space.reserve_bytes) / 4));
        }
    }
    assert!(moved < 3 * caused, "{moved} moved, {caused} written");
    // Units that a slot has just released are reused first, or the next steps cut them off.
    assert!(worst < 2 << 20, "{worst} bytes above the limit");
    same(&mut handle, &rounds);
}
