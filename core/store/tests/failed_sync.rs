//! What a failed sync has dropped is written again before anything counts as durable, whichever
//! handle's sync failed.

use densite_disk::sync::Mutex;
use densite_disk::{File, FileAbove, Op, OpenMode, SyncKind};
use densite_sim_disk::{Fault, FaultKind, SimDisk, SimFile};
use densite_store::{CodecChoice, Error, Handle, Options, Tuning};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PATH: &str = "/a.db";
const PAGE: usize = 4096;
const PAGES: u64 = 12;
const SEEDS: u64 = 16;

fn open(disk: &SimDisk) -> Handle {
    open_with(disk, Box::new(|| ()))
}

/// Opens a handle that calls `before` before each of its syncs.
fn open_with(disk: &SimDisk, before: Box<dyn Fn() + Send + Sync>) -> Handle {
    let file = disk.open(PATH, OpenMode::Create).expect("open");
    disk.sync_dir("/").expect("sync dir");
    open_as("process", Tuning::default(), Beforehand { file, before })
}

fn open_as(process: &str, tuning: Tuning, file: impl File + 'static) -> Handle {
    let options = Options {
        threads: 0,
        codec: CodecChoice::Raw,
        tuning,
        ..Options::default()
    };
    Handle::open(Box::new(file), process, options).expect("open")
}

struct Beforehand {
    file: SimFile,
    before: Box<dyn Fn() + Send + Sync>,
}

impl FileAbove for Beforehand {
    fn below(&self) -> &dyn File {
        &self.file
    }

    fn sync(&self, kind: SyncKind) -> densite_disk::Result<()> {
        (self.before)();
        self.file.sync(kind)
    }
}

fn put(handle: &mut Handle, mark: u8) {
    for n in 0..PAGES {
        handle
            .write_at(&[mark; PAGE], n * PAGE as u64)
            .expect("write");
    }
    handle.publish().expect("publish");
}

/// A file with a commit that is durable and named by a slot, and one that is not synced.
fn begun(disk: &SimDisk) -> Handle {
    let mut writer = open(disk);
    for mark in [1, 2] {
        put(&mut writer, mark);
        writer.sync(SyncKind::Data).expect("sync");
    }
    put(&mut writer, 3);
    writer
}

/// A later handle syncs: the present state must then be durable.
fn is_promised(disk: &SimDisk, seed: u64) {
    let mut later = open(disk);
    later.sync(SyncKind::Data).expect("sync");
    drop(later);
    is_there(disk, seed);
}

/// Checks the pages after a power cut.
fn is_there(disk: &SimDisk, seed: u64) {
    are_there(disk, seed, 0..PAGES, 3);
}

/// The pages have that mark, for a process that knows nothing from before the power cut.
fn are_there(disk: &SimDisk, seed: u64, pages: std::ops::Range<u64>, mark: u8) {
    let file = disk.power_cut(seed).open(PATH, OpenMode::Create);
    let mut after = open_as("after", Tuning::default(), file.expect("open"));
    for n in pages {
        let mut got = [0; PAGE];
        after
            .read_at(&mut got, n * PAGE as u64)
            .unwrap_or_else(|e| panic!("seed {seed}, page {}: {e}", n + 1));
        assert!(
            got == [mark; PAGE],
            "seed {seed}, page {}: {}",
            n + 1,
            got[0]
        );
    }
    let report = after.check(&mut |_, _| true).expect("check");
    assert_eq!(report.problems, vec![], "seed {seed}");
}

#[test]
fn a_failed_sync_of_a_handle_without_the_right_needs_a_rewrite() {
    for seed in 0..SEEDS {
        let disk = SimDisk::new(seed);
        let writer = begun(&disk);
        let mut beside = open(&disk);
        disk.fail(Fault::new(FaultKind::Io, Op::Sync));
        assert!(beside.sync_seen(SyncKind::Data).is_err());
        assert!(matches!(
            beside.sync_seen(SyncKind::Data),
            Err(Error::Poisoned)
        ));
        drop(beside);
        // No other handle may report that it is durable before it is written again.
        let mut third = open(&disk);
        assert!(matches!(
            third.sync_seen(SyncKind::Data),
            Err(Error::Poisoned)
        ));
        drop(third);
        open(&disk).sync(SyncKind::Data).expect("sync");
        let mut fourth = open(&disk);
        fourth
            .sync_seen(SyncKind::Data)
            .expect("nothing needs a rewrite");
        is_there(&disk, seed);
        drop((writer, fourth));
    }
}

/// All commits since a durable one are rewritten, and all of each.
#[test]
fn many_and_long_commits_are_rewritten_after_a_failed_sync() {
    const LONG: u64 = 70;
    for seed in 0..SEEDS / 4 {
        let disk = SimDisk::new(seed);
        let mut writer = begun(&disk);
        for mark in 4..9 {
            let first = u64::from(mark) * LONG;
            for n in first..first + LONG {
                writer
                    .write_at(&[mark; PAGE], n * PAGE as u64)
                    .expect("write");
            }
            writer.publish().expect("publish");
        }
        disk.fail(Fault::new(FaultKind::Io, Op::Sync));
        assert!(writer.sync(SyncKind::Data).is_err());
        drop(writer);
        is_promised(&disk, seed);
        for mark in 4..9 {
            let first = u64::from(mark) * LONG;
            are_there(&disk, seed, first..first + LONG, mark);
        }
    }
}

#[test]
fn the_next_writer_rewrites_if_the_first_could_not() {
    for seed in 0..SEEDS {
        let disk = SimDisk::new(seed);
        let mut writer = begun(&disk);
        let beside = open(&disk);
        disk.fail(Fault::new(FaultKind::Io, Op::Sync));
        disk.fail(Fault::new(FaultKind::Io, Op::Write));
        assert!(writer.sync(SyncKind::Data).is_err());
        assert_eq!(disk.fault_hits(), 2, "the sync, and writing again");
        drop(writer);
        is_promised(&disk, seed);
        drop(beside);
    }
}

/// Another handle made the store meanwhile. The next sync in this process must not find that there
/// is nothing to do.
#[test]
fn a_failed_sync_of_a_handle_opened_on_an_empty_file_needs_a_rewrite() {
    type Sync = fn(&mut Handle) -> bool;
    let syncs: [(&str, Sync); 4] = [
        ("sync", |handle| handle.sync(SyncKind::Data).is_err()),
        ("sync_seen", |handle| {
            handle.sync_seen(SyncKind::Data).is_err()
        }),
        ("sync_published", |handle| {
            let failed = handle.sync_published().expect_err("a fault");
            let _told = handle.after_failed_sync(failed);
            true
        }),
        ("without the right", |handle| {
            let failed = handle.sync_published().expect_err("a fault");
            let _told = handle.leave_failed_sync(failed);
            true
        }),
    ];
    for ((what, fails), seed) in syncs
        .into_iter()
        .flat_map(|s| (0..SEEDS).map(move |n| (s, n)))
    {
        let disk = SimDisk::new(seed);
        let mut early = open(&disk);
        let writer = begun(&disk);
        disk.fail(Fault::new(FaultKind::Io, Op::Sync));
        assert!(fails(&mut early), "{what}");
        assert_eq!(disk.fault_hits(), 1, "{what}");
        let again = early.sync_seen(SyncKind::Data);
        assert!(matches!(again, Err(Error::Poisoned)), "{what}: {again:?}");
        is_promised(&disk, seed);
        drop((writer, early));
    }
}

/// A handle that was opened while the file was empty also checks whether another handle needs a
/// rewrite.
#[test]
fn a_handle_opened_on_an_empty_file_fails_while_another_needs_a_rewrite() {
    let disk = SimDisk::new(1);
    let mut early = open(&disk);
    let writer = begun(&disk);
    let mut beside = open(&disk);
    disk.fail(Fault::new(FaultKind::Io, Op::Sync));
    assert!(beside.sync_seen(SyncKind::Data).is_err());
    let seen = early.sync_seen(SyncKind::Data);
    assert!(matches!(seen, Err(Error::Poisoned)), "{seen:?}");
    drop((writer, beside));
}

/// The disk returns other bytes than were written. They are not made durable, and the next writer
/// gets an error.
#[test]
fn bytes_that_differ_from_what_was_written_are_not_rewritten() {
    const TIP: std::ops::Range<usize> = 12288..12336;
    for what in ["records", "tip", "trailer"] {
        let disk = SimDisk::new(1);
        let mut writer = open(&disk);
        for mark in [1, 2] {
            put(&mut writer, mark);
            writer.sync(SyncKind::Data).expect("sync");
        }
        let before = disk.contents(PATH).expect("a file");
        put(&mut writer, 3);
        let mut other = disk.contents(PATH).expect("a file");
        let differs = (before.iter().zip(&other)).rposition(|(a, b)| a != b);
        let last = differs.expect("a commit");
        match what {
            "tip" => other[TIP].copy_from_slice(&before[TIP]),
            "trailer" => {
                let at = other[TIP][8..16].try_into().map(u64::from_le_bytes);
                other[at.expect("an offset") as usize + 100] ^= 1;
            }
            _ => other[last - PAGE] ^= 1,
        }
        let writes = || disk.counters(PATH).writes;
        let (beside, already) = (open(&disk), writes());
        disk.put_file(PATH, &other);
        disk.fail(Fault::new(FaultKind::Io, Op::Sync));
        assert!(writer.sync(SyncKind::Data).is_err(), "{what}");
        drop(writer);
        let mut next = open(&disk);
        let told = next.sync(SyncKind::Data);
        let Err(Error::Corrupt(damage)) = &told else {
            panic!("{what}: {told:?}");
        };
        assert!(damage.what.starts_with(what), "{damage}");
        assert_eq!(writes(), already, "{what}");
        drop((beside, next));
    }
}

/// It fails during the writer's own sync, which then finds nothing to do.
#[test]
fn a_failed_sync_of_another_handle_during_the_writers_sync_needs_a_rewrite() {
    for (seed, by_slot) in (0..SEEDS).flat_map(|seed| [(seed, false), (seed, true)]) {
        let disk = SimDisk::new(seed);
        drop(begun(&disk));
        let beside = Arc::new(Mutex::new(open(&disk)));
        let armed = Arc::new(AtomicBool::new(true));
        let fails = {
            let (disk, beside) = (disk.clone(), Arc::clone(&beside));
            move || {
                if armed.swap(false, Ordering::SeqCst) {
                    disk.fail(Fault::new(FaultKind::Io, Op::Sync));
                    assert!(beside.lock().sync_seen(SyncKind::Data).is_err());
                }
            }
        };
        let mut writer = open_with(&disk, Box::new(fails));
        let done = match by_slot {
            true => writer.make_reusable(),
            false => writer.sync(SyncKind::Data),
        };
        done.expect("sync");
        is_there(&disk, seed);
        drop((writer, beside));
    }
}
