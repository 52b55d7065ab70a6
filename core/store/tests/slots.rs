//! Slots: when one is written, what it names, and its cost; and closing, which writes the last one
//! (rules S9 and S10).

use densite_disk::sync::Mutex;
use densite_disk::{File, FileAbove, Op, OpenMode, SyncKind};
use densite_sim_disk::{Fault, FaultKind, SimDisk, SimFile};
use densite_store::{CodecChoice, Error, Handle, Options, ReclaimBudget, Tuning};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use std::sync::Arc;

const PATH: &str = "/a.db";
const PAGE: usize = 4096;
/// Where the blocks of both slots and the tip are, and fields in them: docs/FORMAT.md, "Preamble".
const SLOTS: [usize; 2] = [4096, 8192];
const TIP: usize = 12288;
const SEQ: usize = 8;
const NAMED: usize = 24;
const FLAGS: usize = 64;
const CLEAN: u64 = 1;
/// More pages than are appended between two slots of a small file, and fewer.
const MANY: u64 = 40;
const FEW: u64 = 3;

fn open_with(disk: &SimDisk, process: &str, options: Options) -> Handle {
    let file = disk.open(PATH, OpenMode::Create).expect("open");
    let options = Options {
        threads: 0,
        codec: CodecChoice::Raw,
        ..options
    };
    Handle::open(Box::new(file), process, options).expect("open")
}

fn open(disk: &SimDisk, process: &str) -> Handle {
    open_with(disk, process, Options::default())
}

fn read_only(disk: &SimDisk, process: &str) -> Handle {
    let options = Options {
        read_only: true,
        ..Options::default()
    };
    open_with(disk, process, options)
}

/// A commit of so many pages.
fn publish(handle: &mut Handle, pages: u64) {
    for n in 0..pages {
        handle
            .write_at(&[n as u8; PAGE], n * PAGE as u64)
            .expect("write");
    }
    handle.publish().expect("publish");
}

fn commit(handle: &mut Handle, pages: u64) {
    publish(handle, pages);
    handle.sync(SyncKind::Data).expect("sync");
}

/// The fields of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    seq: u64,
    named: u64,
    flags: u64,
}

fn slot(seq: u64, named: u64, flags: u64) -> Slot {
    Slot { seq, named, flags }
}

/// Both slots; one that was never written is zero.
fn slots(disk: &SimDisk) -> [Slot; 2] {
    let bytes = disk.contents(PATH).expect("the file exists");
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a word"));
    SLOTS.map(|at| slot(word(at + SEQ), word(at + NAMED), word(at + FLAGS)))
}

fn newest(disk: &SimDisk) -> Slot {
    let [first, second] = slots(disk);
    if first.seq > second.seq {
        first
    } else {
        second
    }
}

fn tip(disk: &SimDisk) -> u64 {
    let bytes = disk.contents(PATH).expect("the file exists");
    u64::from_le_bytes(bytes[TIP..TIP + 8].try_into().expect("a word"))
}

/// The number of syncs and writes that `work` makes.
fn cost(disk: &SimDisk, work: impl FnOnce()) -> (u64, u64) {
    let before = disk.counters(PATH);
    work();
    let after = disk.counters(PATH);
    (after.syncs - before.syncs, after.writes - before.writes)
}

#[test]
fn a_slot_names_what_was_durable_before_it_was_written() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "one");
    let nothing = slot(0, 0, 0);
    commit(&mut handle, FEW);
    assert_eq!(
        slots(&disk),
        [slot(1, 0, 0), nothing],
        "no commit is durable yet"
    );
    // At once: damage must not make the file an empty one.
    let few = cost(&disk, || commit(&mut handle, FEW));
    assert_eq!(slots(&disk), [slot(1, 0, 0), slot(2, 1, 0)]);
    assert_eq!(few.0, 1, "the sync that was due makes it durable");
    commit(&mut handle, FEW);
    assert_eq!(newest(&disk), slot(2, 1, 0), "little was appended since");
    publish(&mut handle, MANY);
    handle.sync(SyncKind::Data).expect("sync");
    assert_eq!(slots(&disk), [slot(3, 3, 0), slot(2, 1, 0)]);
    commit(&mut handle, FEW);
    assert_eq!(newest(&disk), slot(3, 3, 0), "nor since this one");
}

/// It would replace the older slot without a benefit.
#[test]
fn a_slot_that_names_the_newest_durable_commit_is_not_written_again() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "one");
    commit(&mut handle, FEW);
    commit(&mut handle, FEW);
    handle.make_reusable().expect("slot");
    let named = slots(&disk);
    assert_eq!(newest(&disk).named, 2);
    let again = cost(&disk, || handle.make_reusable().expect("slot"));
    assert_eq!(again, (1, 0), "no second one of the same commit");
    commit(&mut handle, MANY);
    assert_eq!(slots(&disk), named, "no newer commit was durable by then");
    commit(&mut handle, FEW);
    assert_eq!(
        newest(&disk),
        slot(named[0].seq.max(named[1].seq) + 1, 3, 0)
    );
}

/// Otherwise more bytes would wait for slots in a small file than are live, and a large one would
/// be written more than necessary.
#[test]
fn slots_are_as_frequent_as_the_file_is_small() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "one");
    (0..3).for_each(|_| commit(&mut handle, FEW));
    let before = newest(&disk).seq;
    commit(&mut handle, MANY);
    assert_eq!(newest(&disk).seq, before + 1, "160 of 200 KiB");
    // A 32nd of 8 MiB is more than that.
    commit(&mut handle, 2048);
    commit(&mut handle, FEW);
    let before = newest(&disk).seq;
    commit(&mut handle, MANY);
    commit(&mut handle, FEW);
    assert_eq!(newest(&disk).seq, before, "160 KiB of 8 MiB");
    commit(&mut handle, 2 * MANY);
    assert_eq!(newest(&disk).seq, before + 1, "480 KiB of 8 MiB");
}

/// If a process failed or was killed before its sync, its slot may not be on the disk, and recovery
/// needs the older one.
#[test]
fn a_slot_that_another_process_did_not_sync_keeps_the_older_one() {
    let disk = SimDisk::new(1);
    let mut a = open(&disk, "a");
    commit(&mut a, FEW);
    commit(&mut a, FEW);
    let mut b = open(&disk, "b");
    commit(&mut b, FEW);
    commit(&mut a, FEW);
    assert_eq!(slots(&disk), [slot(1, 0, 0), slot(2, 1, 0)]);
    publish(&mut b, MANY);
    disk.fail(Fault::new(FaultKind::Io, Op::Sync));
    let failed = b.sync(SyncKind::Data);
    assert!(failed.is_err());
    assert_eq!(slots(&disk), [slot(3, 3, 0), slot(2, 1, 0)]);
    // The other process knows a newer durable commit, and has appended enough.
    commit(&mut a, MANY);
    assert_eq!(slots(&disk), [slot(3, 3, 0), slot(2, 1, 0)]);
    commit(&mut a, MANY);
    assert_eq!(slots(&disk), [slot(3, 3, 0), slot(4, 6, 0)]);
}

#[test]
fn read_only_handles_write_no_slot() {
    let disk = SimDisk::new(1);
    let mut writer = open(&disk, "one");
    commit(&mut writer, FEW);
    publish(&mut writer, MANY);
    let before = disk.contents(PATH);
    for process in ["one", "another"] {
        let mut reader = read_only(&disk, process);
        let synced = cost(&disk, || reader.sync(SyncKind::Data).expect("sync"));
        assert_eq!(synced, (1, 0), "{process}");
        let closed = cost(&disk, || reader.close_clean().expect("close"));
        assert_eq!(closed, (0, 0), "{process}");
        assert!(matches!(reader.make_reusable(), Err(Error::ReadOnly)));
        assert!(matches!(reader.cut_end(), Err(Error::ReadOnly)));
        assert!(!reader.unslotted() || process == "one");
    }
    assert_eq!(disk.contents(PATH), before);
}

#[test]
fn a_close_names_the_tip_after_one_sync_or_none() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "one");
    commit(&mut handle, FEW);
    let closed = cost(&disk, || handle.close_clean().expect("close"));
    assert_eq!(closed, (0, 1), "it was durable");
    assert_eq!(newest(&disk), slot(2, 1, CLEAN));
    let again = cost(&disk, || handle.close_clean().expect("close"));
    assert_eq!(again, (0, 0), "it was closed");

    publish(&mut handle, FEW);
    let closed = cost(&disk, || handle.close_clean().expect("close"));
    assert_eq!(closed.0, 1, "before the slot");
    assert_eq!(newest(&disk), slot(3, 2, CLEAN));

    // An older commit is durable, and so is the slot that names it.
    handle.make_reusable().expect("slot");
    publish(&mut handle, FEW);
    let closed = cost(&disk, || handle.close_clean().expect("close"));
    assert_eq!(closed.0, 1, "before the slot");
    assert_eq!(newest(&disk), slot(4, 3, CLEAN));

    commit(&mut handle, FEW);
    handle.make_reusable().expect("slot");
    assert_eq!(newest(&disk), slot(5, 4, 0));
    let closed = cost(&disk, || handle.close_clean().expect("close"));
    assert_eq!(closed.0, 0, "slot and commit were durable");
    assert_eq!(
        newest(&disk),
        slot(6, 4, CLEAN),
        "the other one was not of a close"
    );
}

/// It cuts off the reserve and nothing else.
#[test]
fn a_close_cuts_the_file_where_it_ends() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "one");
    commit(&mut handle, FEW);
    let space = handle.space().expect("space");
    assert!(space.reserve_bytes > 0);
    handle.close_clean().expect("close");
    let len = disk.contents(PATH).expect("the file exists").len() as u64;
    assert_eq!(len, space.file_bytes - space.reserve_bytes);
    let report = handle.check(&mut |_, _| true).expect("check");
    assert_eq!((report.problems, report.cut), (vec![], None));
}

#[test]
fn a_close_of_a_file_without_a_commit_does_nothing() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "one");
    let closed = cost(&disk, || handle.close_clean().expect("close"));
    assert_eq!(closed, (0, 0));
    assert!(!handle.unslotted());
    handle.write_at(&[1; PAGE], 0).expect("write");
    handle.discard();
    let born = disk.contents(PATH);
    handle.close_clean().expect("close");
    assert_eq!(disk.contents(PATH), born);
    let mut reader = read_only(&SimDisk::new(1), "none");
    reader.close_clean().expect("close");
}

fn many_trailers() -> (SimDisk, Handle) {
    let disk = SimDisk::new(1);
    let options = Options {
        tuning: Tuning {
            fold_trailer_bytes: 64 << 10,
            ..Tuning::default()
        },
        ..Options::default()
    };
    let mut handle = open_with(&disk, "one", options);
    (0..40).for_each(|_| publish(&mut handle, 1));
    assert_eq!(tip(&disk), 40);
    (disk, handle)
}

/// The next opening then reads no long chain. A sync is due in any case, so the fold needs none of
/// its own.
#[test]
fn a_close_folds_a_long_chain_if_it_syncs_anyway() {
    let (disk, mut handle) = many_trailers();
    let closed = cost(&disk, || handle.close_clean().expect("close"));
    assert_eq!((closed.0, tip(&disk)), (1, 41));
    let before = disk.counters(PATH).reads;
    drop(open(&disk, "another"));
    let reads = disk.counters(PATH).reads - before;
    assert!(reads < 10, "{reads} reads");

    let (disk, mut handle) = many_trailers();
    handle.sync(SyncKind::Data).expect("sync");
    let closed = cost(&disk, || handle.close_clean().expect("close"));
    assert_eq!((closed.0, tip(&disk)), (0, 40), "all was durable");

    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "one");
    (0..3).for_each(|_| publish(&mut handle, 1));
    handle.close_clean().expect("close");
    assert_eq!(tip(&disk), 3, "three trailers are read quickly");
}

/// A process that published must close the file.
#[test]
fn a_process_is_unslotted_until_the_slot_of_a_close_names_its_commit() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, "one");
    assert!(!handle.unslotted(), "nothing is there");
    publish(&mut handle, FEW);
    assert!(handle.unslotted());
    let mut other = open(&disk, "other");
    assert!(!other.unslotted(), "it has published nothing");
    commit(&mut handle, FEW);
    assert!(handle.unslotted(), "a slot names an older commit");
    handle.make_reusable().expect("slot");
    assert!(handle.unslotted(), "it is not that of a close");
    handle.close_clean().expect("close");
    assert!(!handle.unslotted());
    publish(&mut handle, FEW);
    assert!(
        handle.unslotted(),
        "the slot of a close names an older commit"
    );
    disk.fail(Fault::new(FaultKind::Io, Op::Sync));
    assert!(handle.sync(SyncKind::Data).is_err());
    assert!(!handle.unslotted(), "it can name nothing any more");
    publish(&mut other, FEW);
    assert!(other.unslotted());
}

/// What the last sync has made durable in a file, and what was written since.
#[derive(Default)]
struct Durable {
    tip: u64,
    synced_tip: u64,
    newest: (u64, usize),
    synced_seq: u64,
    slots: u64,
}

/// Checks that each slot is written only when it may be.
struct Watched {
    file: SimFile,
    durable: Arc<Mutex<Durable>>,
}

impl FileAbove for Watched {
    fn below(&self) -> &dyn File {
        &self.file
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> densite_disk::Result<()> {
        let word = |at: usize| u64::from_le_bytes(buf[at..at + 8].try_into().expect("a word"));
        let mut durable = self.durable.lock();
        let offset_in_preamble = offset as usize;
        if offset_in_preamble == TIP {
            durable.tip = word(0);
        } else if let Some(block) = SLOTS.iter().position(|at| *at == offset_in_preamble) {
            let (seq, named) = (word(SEQ), word(NAMED));
            assert!(named <= durable.synced_tip, "its commit is not durable");
            let (newest, of_newest) = durable.newest;
            assert_ne!(block, of_newest, "it takes the place of the newest one");
            assert_eq!(newest, durable.synced_seq, "the older slot is not durable");
            assert_eq!(seq, newest + 1);
            durable.newest = (seq, block);
            durable.slots += 1;
        }
        drop(durable);
        self.file.write_at(buf, offset)
    }

    fn sync(&self, kind: SyncKind) -> densite_disk::Result<()> {
        self.file.sync(kind)?;
        let mut durable = self.durable.lock();
        durable.synced_tip = durable.tip;
        durable.synced_seq = durable.newest.0;
        Ok(())
    }
}

/// Rule S9, for any calls of several processes in any order.
#[test]
fn no_slot_is_written_before_its_commit_and_the_older_slot_are_durable() {
    let mut written = 0;
    for seed in 0..10 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = SimDisk::new(seed);
        let durable = Arc::new(Mutex::new(Durable {
            newest: (1, 0),
            synced_seq: 1,
            ..Durable::default()
        }));
        let open = |process: &str| {
            let file = disk.open(PATH, OpenMode::Create).expect("open");
            let durable = Arc::clone(&durable);
            let options = Options {
                threads: 0,
                tuning: Tuning::eager(),
                ..Options::default()
            };
            Handle::open(Box::new(Watched { file, durable }), process, options).expect("open")
        };
        let mut handles = ["a", "a", "b", "c"].map(open);
        publish(&mut handles[0], FEW);
        for _ in 0..120 {
            let who = rng.random_range(0..handles.len());
            let handle = &mut handles[who];
            let budget = ReclaimBudget {
                bytes: 64 << 10,
                dead_limit: 5,
                stop: &|| false,
            };
            match rng.random_range(0..10) {
                0..3 => {
                    let first = rng.random_range(0..60);
                    for n in first..first + rng.random_range(1..40) {
                        let mut page = [0; PAGE];
                        rng.fill_bytes(&mut page);
                        handle.write_at(&page, n * PAGE as u64).expect("write");
                    }
                    handle.publish().expect("publish");
                }
                3 | 4 => handle.sync(SyncKind::Data).expect("sync"),
                5 => handle.make_reusable().expect("slot"),
                6 | 7 => drop(handle.reclaim_unsynced(&budget).expect("reclaim")),
                8 => handle.sync_published().expect("sync"),
                _ => handle.close_clean().expect("close"),
            }
        }
        written += durable.lock().slots;
    }
    assert!(written > 200, "{written} slots");
}
