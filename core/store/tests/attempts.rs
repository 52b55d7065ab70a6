//! A commit that was written but not published never comes back, whatever a power cut takes of the
//! next commits. Its writer was killed, or the tip could not be written.

use densite_disk::sync::Mutex;
use densite_disk::{File, FileAbove, Op, OpenMode, SyncKind};
use densite_sim_disk::{Fault, FaultKind, OpSet, SimDisk, SimFile};
use densite_store::{CodecChoice, Error, Handle, Options, ReclaimBudget};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const PATH: &str = "/a.db";
const PAGE: usize = 4096;
/// Where the tip begins: docs/FORMAT.md, "Preamble".
const TIP: usize = 12288;
const TIP_LEN: usize = 48;
/// Where records begin, and the length of a record's header.
const DATA: usize = 16384;
const RECORD_LEN: usize = 30;
/// So many pages that they are written before publishing: see `Appender::flush_if_long`.
const MANY: u64 = 200;

/// A disk, and the bytes of its file that are durable in any case.
#[derive(Clone)]
struct Medium {
    disk: SimDisk,
    durable: Arc<Mutex<Vec<u8>>>,
}

impl Medium {
    fn of(bytes: &[u8]) -> Medium {
        let disk = SimDisk::new(1);
        disk.put_file(PATH, bytes);
        let durable = Arc::new(Mutex::new(bytes.to_vec()));
        Medium { disk, durable }
    }

    /// The system writes everything back on its own.
    fn write_back(&self) {
        *self.durable.lock() = self.disk.contents(PATH).expect("a file");
    }

    /// Opens it as a new process: handles of one process share what they know.
    fn open(&self) -> Handle {
        self.open_in(&some_process())
    }

    fn open_in(&self, process: &str) -> Handle {
        let file = self.disk.open(PATH, OpenMode::Create).expect("open");
        let medium = self.clone();
        open_file(Box::new(Watched { file, medium }), process)
    }

    /// The contents after power cuts in which only the first bytes of the tip survive since the
    /// last sync, for each number of them.
    fn cuts(&self) -> Vec<Vec<u8>> {
        let (durable, now) = (self.durable.lock(), self.disk.contents(PATH));
        let now = now.expect("a file");
        (0..=TIP_LEN)
            .map(|torn| {
                let mut bytes = durable.clone();
                bytes[TIP..TIP + torn].copy_from_slice(&now[TIP..TIP + torn]);
                pages(&Medium::of(&bytes).disk)
            })
            .collect()
    }
}

/// Notes what a sync makes durable.
struct Watched {
    file: SimFile,
    medium: Medium,
}

impl FileAbove for Watched {
    fn below(&self) -> &dyn File {
        &self.file
    }

    fn sync(&self, kind: SyncKind) -> densite_disk::Result<()> {
        self.file.sync(kind)?;
        self.medium.write_back();
        Ok(())
    }
}

fn some_process() -> String {
    static PROCESSES: AtomicU32 = AtomicU32::new(0);
    PROCESSES.fetch_add(1, Ordering::Relaxed).to_string()
}

fn open_file(file: Box<dyn File>, process: &str) -> Handle {
    let options = Options {
        threads: 0,
        codec: CodecChoice::Raw,
        ..Options::default()
    };
    Handle::open(file, process, options).expect("open")
}

fn put(handle: &mut Handle, number: u64, byte: u8) {
    let page = [byte; PAGE];
    handle.write_at(&page, number * PAGE as u64).expect("write");
}

/// Writes so many pages that they are written before they are published, because a transaction holds
/// only some of them.
fn put_many(handle: &mut Handle) -> densite_store::Result<()> {
    (3..4 * MANY).try_for_each(|number| handle.write_at(&[9; PAGE], number * PAGE as u64))
}

fn publish(handle: &mut Handle, number: u64, byte: u8) {
    put(handle, number, byte);
    handle.publish().expect("publish");
}

/// The first byte of each of the first three pages.
fn pages(disk: &SimDisk) -> Vec<u8> {
    let file = disk.open(PATH, OpenMode::Read).expect("open");
    let mut bytes = vec![0; 3 * PAGE];
    open_file(Box::new(file), &some_process())
        .read_at(&mut bytes, 0)
        .expect("read");
    bytes.iter().step_by(PAGE).copied().collect()
}

/// A file with the pages 1, 1, 1, durable.
fn begun() -> Medium {
    let medium = Medium::of(&[]);
    let mut first = medium.open();
    for number in 0..3 {
        put(&mut first, number, 1);
    }
    first.sync(SyncKind::Data).expect("sync");
    medium
}

/// The same, after a writer was killed that had written all of a commit of 1, 2, 1 except its tip.
fn killed() -> Vec<u8> {
    let medium = begun();
    let before = medium.disk.contents(PATH).expect("a file");
    publish(&mut medium.open(), 1, 2);
    let mut bytes = medium.disk.contents(PATH).expect("a file");
    bytes[TIP..TIP + TIP_LEN].copy_from_slice(&before[TIP..TIP + TIP_LEN]);
    assert_eq!(pages(&Medium::of(&bytes).disk), [1, 1, 1]);
    bytes
}

const PUBLISHED: [[u8; 3]; 4] = [[1, 1, 1], [1, 1, 3], [4, 1, 3], [4, 1, 5]];
/// The same, after all except the first page was cut off.
const SHORTENED: [[u8; 3]; 3] = [[1, 0, 0], [1, 0, 3], [4, 0, 3]];

/// Publishes so many commits after 1, 1, 1, without a sync of its own.
fn go_on(handle: &mut Handle, commits: usize) {
    for (number, byte) in [(2, 3), (0, 4), (2, 5)].into_iter().take(commits) {
        publish(handle, number, byte);
    }
}

fn only_published(medium: &Medium, what: &str) {
    for (torn, got) in medium.cuts().into_iter().enumerate() {
        assert!(
            PUBLISHED.iter().chain(&SHORTENED).any(|p| *p == got[..]),
            "{what}, {torn} bytes of the tip: {got:?} was never published"
        );
    }
}

#[test]
fn an_attempt_of_a_killed_writer_never_becomes_a_commit() {
    for (commits, now) in PUBLISHED.iter().enumerate().skip(1) {
        let medium = Medium::of(&killed());
        let mut next = medium.open();
        go_on(&mut next, commits);
        assert_eq!(pages(&medium.disk), now);
        only_published(&medium, &format!("{commits} commits"));
    }
}

/// Another process closes the file in between, and cuts the attempt off its end. After the power
/// cut the disk still has it there.
#[test]
fn an_attempt_cut_off_by_a_close_never_becomes_a_commit() {
    for (commits, now) in PUBLISHED.iter().enumerate().skip(1) {
        let medium = Medium::of(&killed());
        let before = medium.disk.contents(PATH).expect("a file").len();
        medium.open().close_clean().expect("close");
        let after = medium.disk.contents(PATH).expect("a file").len();
        assert!(
            after < before,
            "{after} bytes of {before}: nothing was cut off"
        );
        go_on(&mut medium.open(), commits);
        assert_eq!(pages(&medium.disk), now);
        only_published(&medium, &format!("{commits} commits"));
    }
}

/// A file with a killed writer's attempt at 1, 2, 2, and the place of its first record.
fn killed_with_two_pages() -> (Vec<u8>, usize) {
    let medium = begun();
    let before = medium.disk.contents(PATH).expect("a file");
    let mut writer = medium.open();
    put(&mut writer, 1, 2);
    publish(&mut writer, 2, 2);
    let mut bytes = medium.disk.contents(PATH).expect("a file");
    bytes[TIP..TIP + TIP_LEN].copy_from_slice(&before[TIP..TIP + TIP_LEN]);
    assert_eq!(pages(&Medium::of(&bytes).disk), [1, 1, 1]);
    let differs = |at: &usize| before.get(*at) != bytes.get(*at);
    let first = (DATA..bytes.len()).find(differs).expect("an attempt");
    (bytes, first)
}

/// The next transaction begins with the same page as the attempt, and ends differently. After a
/// power cut the disk has only that page's record and a part of the tip.
fn only_the_first_record_arrives(medium: &Medium, first: usize) -> Vec<u8> {
    let mut next = medium.open();
    put(&mut next, 1, 2);
    publish(&mut next, 2, 7);
    assert_eq!(pages(&medium.disk), [1, 2, 7]);
    let now = medium.disk.contents(PATH).expect("a file");
    let mut bytes = medium.durable.lock().clone();
    let record = first..first + RECORD_LEN + PAGE;
    bytes[record.clone()].copy_from_slice(&now[record]);
    let torn = TIP..TIP + TIP_LEN / 2;
    bytes[torn.clone()].copy_from_slice(&now[torn]);
    pages(&Medium::of(&bytes).disk)
}

#[test]
fn a_transaction_with_the_same_beginning_does_not_revive_an_attempt() {
    let (bytes, first) = killed_with_two_pages();
    let got = only_the_first_record_arrives(&Medium::of(&bytes), first);
    assert_eq!(got, [1, 1, 1]);
}

/// A writer makes it void and is killed. The disk can have any part of the void record too.
#[test]
fn a_torn_void_record_does_not_revive_an_attempt() {
    let (bytes, first) = killed_with_two_pages();
    let medium = Medium::of(&bytes);
    medium.disk.fail(Fault::new(FaultKind::Io, Op::Sync));
    assert!(medium.open().write_at(&[7; PAGE], 0).is_err());
    let void = medium.disk.contents(PATH).expect("a file");
    assert!(void[first..first + RECORD_LEN] != bytes[first..first + RECORD_LEN]);
    for torn in 0..=RECORD_LEN {
        for end in [0, RECORD_LEN] {
            let mut bytes = bytes.clone();
            let part = first + torn.min(end)..first + torn.max(end);
            bytes[part.clone()].copy_from_slice(&void[part]);
            let medium = Medium::of(&bytes);
            // A cut that loses the whole void record leaves the attempt whole, and recovery can
            // take it for a commit.
            if pages(&medium.disk) != [1, 1, 1] {
                continue;
            }
            let got = only_the_first_record_arrives(&medium, first);
            assert_eq!(got, [1, 1, 1], "torn at {torn}, {end}");
        }
    }
}

/// The same with cuts of the simulated disk.
#[test]
fn an_attempt_of_a_killed_writer_never_reappears_after_any_power_cut() {
    let bytes = killed();
    for commits in 1..=2 {
        for seed in 0..1000 {
            let disk = SimDisk::new(seed);
            disk.put_file(PATH, &bytes);
            let file = disk.open(PATH, OpenMode::Create).expect("open");
            go_on(&mut open_file(Box::new(file), &some_process()), commits);
            let got = pages(&disk.survivor(seed));
            assert!(
                PUBLISHED[..=commits].iter().any(|p| *p == got[..]),
                "seed {seed}, {commits} commits: {got:?} was never published"
            );
        }
    }
}

/// The next writer makes the attempt void, and is killed or its sync fails before that is durable.
#[test]
fn making_an_attempt_void_is_repeated_until_it_is_durable() {
    for failures in 1..=3 {
        let medium = Medium::of(&killed());
        for _ in 0..failures {
            let mut next = medium.open();
            medium.disk.fail(Fault::new(FaultKind::Io, Op::Sync));
            assert!(next.write_at(&[3; PAGE], 2 * PAGE as u64).is_err());
            assert_eq!(pages(&medium.disk), [1, 1, 1]);
            medium.disk.clear_faults();
        }
        go_on(&mut medium.open(), 2);
        only_published(&medium, &format!("{failures} failed syncs"));
    }
}

/// An attempt at space reclamation changes no page, and begins with a frame that keeps the number
/// of its commit. It is made void like any other.
#[test]
fn an_attempt_that_begins_with_a_moved_frame_is_made_void() {
    let medium = begun();
    let mut writer = medium.open();
    for byte in [2, 3] {
        for number in 0..MANY {
            if byte == 2 || number % 3 != 0 {
                put(&mut writer, number, byte);
            }
        }
        writer.publish().expect("publish");
    }
    writer.make_reusable().expect("slot");
    let before = medium.disk.contents(PATH).expect("a file");
    let budget = ReclaimBudget {
        bytes: 64 << 10,
        dead_limit: 5,
        stop: &|| false,
    };
    let step = writer.reclaim_step(&budget).expect("reclaim");
    assert!(step.moved_bytes > 0, "{step:?}");
    drop(writer);
    let mut bytes = medium.disk.contents(PATH).expect("a file");
    bytes[TIP..TIP + TIP_LEN].copy_from_slice(&before[TIP..TIP + TIP_LEN]);
    let medium = Medium::of(&bytes);
    publish(&mut medium.open(), 1, 7);
    assert_eq!(medium.disk.counters(PATH).syncs, 1);
}

/// An attempt that was not completely written needs no sync.
#[test]
fn an_incomplete_attempt_needs_no_sync() {
    let medium = Medium::of(&killed());
    let mut bytes = medium.disk.contents(PATH).expect("a file");
    let last = bytes.iter().rposition(|b| *b != 0).expect("a trailer");
    bytes[last] ^= 1;
    let medium = Medium::of(&bytes);
    go_on(&mut medium.open(), 2);
    assert_eq!(medium.disk.counters(PATH).syncs, 0);
    assert_eq!(pages(&medium.disk), [4, 1, 3]);
}

/// What the writer does after its commit of 1, 2, 1 failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Discards the transaction.
    Discards,
    /// Writes the old page back, and publishes that.
    WritesBack,
    /// Shortens the database, and publishes that.
    Shortens,
    /// Writes so many pages that they overwrite the trailer of the attempt, and then discards the
    /// transaction.
    WritesMore,
    /// The same, and is killed.
    WritesMoreAndIsKilled,
    /// The same, and the sync that should make the attempt void fails.
    WritesMoreAndDoesNotSync,
}

#[test]
fn a_failed_attempt_never_becomes_a_commit() {
    use Then::*;
    for then in [
        Discards,
        WritesBack,
        Shortens,
        WritesMore,
        WritesMoreAndIsKilled,
        WritesMoreAndDoesNotSync,
    ] {
        // Whether the calls after the failure fail too: restoring the tip, making the attempt void.
        for forever in [false, true] {
            let mut failed = 0;
            for nth in 0..4 {
                for prefix in [0, 20] {
                    failed += usize::from(fails(then, forever, nth, prefix));
                }
            }
            assert!(failed >= 4, "{then:?}: only {failed} failed");
        }
    }
}

/// Nothing follows the failure: the error that the writer got stays true.
#[test]
fn a_failed_attempt_is_absent_after_a_power_cut() {
    for (seed, nth) in (0..200).flat_map(|seed| [(seed, 1), (seed, 2)]) {
        let disk = SimDisk::new(seed);
        disk.put_file(PATH, &begun().disk.contents(PATH).expect("a file"));
        let file = disk.open(PATH, OpenMode::Create).expect("open");
        let mut handle = open_file(Box::new(file), &some_process());
        put(&mut handle, 1, 2);
        // The first write is the reserve after the end, the second the commit, the third the tip.
        fail_write(&disk, nth, 20, false);
        handle.publish().expect_err("it cannot be written");
        handle.discard();
        assert_eq!(pages(&disk.survivor(seed)), [1, 1, 1], "seed {seed}");
    }
}

/// Makes the n-th write from now on fail after so many bytes. `forever`: all later calls fail too,
/// and write nothing.
fn fail_write(disk: &SimDisk, nth: u64, prefix: usize, forever: bool) {
    let fault = Fault::new(FaultKind::Io, Op::Write).after(nth);
    disk.fail(fault.with_prefix(prefix));
    if forever {
        let calls = OpSet::of(&[Op::Write, Op::Truncate, Op::Sync]);
        disk.fail(Fault::new(FaultKind::Io, calls).after(nth).forever());
    }
}

/// Makes the n-th write of publishing fail after so many bytes. Returns whether there was one.
fn fails(then: Then, forever: bool, nth: u64, prefix: usize) -> bool {
    let what = format!("{then:?}, write {nth} fails after {prefix} bytes, forever: {forever}");
    let medium = begun();
    let mut handle = medium.open();
    put(&mut handle, 1, 2);
    fail_write(&medium.disk, nth, prefix, forever);
    let done = handle.publish();
    medium.disk.clear_faults();
    if done.is_ok() {
        return false;
    }
    medium.write_back();
    match then {
        Then::Discards => handle.discard(),
        Then::WritesBack => {
            put(&mut handle, 1, 1);
            handle.publish().expect("publish");
        }
        Then::Shortens => {
            handle.set_len(PAGE as u64).expect("set_len");
            handle.publish().expect("publish");
        }
        Then::WritesMore | Then::WritesMoreAndIsKilled => put_many(&mut handle).expect("write"),
        Then::WritesMoreAndDoesNotSync => {
            medium.disk.fail(Fault::new(FaultKind::Io, Op::Sync));
            // If the attempt was void already, there is nothing to sync.
            let _ = put_many(&mut handle);
            medium.disk.clear_faults();
        }
    }
    if matches!(
        then,
        Then::WritesMoreAndIsKilled | Then::WritesMoreAndDoesNotSync
    ) {
        drop(handle);
        handle = medium.open();
    }
    handle.discard();
    go_on(&mut handle, 2);
    let second = if then == Then::Shortens { 0 } else { 1 };
    assert_eq!(pages(&medium.disk), [4, second, 3], "{what}");
    only_published(&medium, &what);
    true
}

/// A long attempt is not read to its end to find out whether it is whole.
#[test]
fn a_long_attempt_of_a_killed_writer_never_becomes_a_commit() {
    let medium = begun();
    let before = medium.disk.contents(PATH).expect("a file");
    let mut long = medium.open();
    put(&mut long, 1, 2);
    for number in 3..1500 {
        put(&mut long, number, 9);
    }
    long.publish().expect("publish");
    let mut bytes = medium.disk.contents(PATH).expect("a file");
    bytes[TIP..TIP + TIP_LEN].copy_from_slice(&before[TIP..TIP + TIP_LEN]);
    let medium = Medium::of(&bytes);
    go_on(&mut medium.open(), 2);
    only_published(&medium, "long");
}

/// The tip was torn, and another process took the attempt for the newest commit before it was made
/// void. It does not build on it afterwards.
#[test]
fn a_process_that_took_an_attempt_for_a_commit_does_not_build_on_it_once_it_is_void() {
    let medium = begun();
    let mut handle = medium.open();
    put(&mut handle, 1, 2);
    fail_write(&medium.disk, 2, 20, true);
    handle.publish().expect_err("the tip cannot be written");
    medium.disk.clear_faults();
    let mut other = medium.open();
    let mut page = [0; PAGE];
    other.read_at(&mut page, PAGE as u64).expect("read");
    assert_eq!(page[0], 2, "a whole commit counts if the tip is torn");
    put_many(&mut handle).expect("write");
    handle.discard();
    let built = other.write_at(&[3; PAGE], 2 * PAGE as u64);
    assert!(matches!(built, Err(Error::Overwritten)), "{built:?}");
    go_on(&mut medium.open(), 1);
    assert_eq!(pages(&medium.disk), [1, 1, 3]);
}

/// The same within one process: the writer's own next attempt does not build on it either.
#[test]
fn the_next_attempt_does_not_build_on_one_that_its_process_took_for_a_commit() {
    let medium = begun();
    let (mut handle, mut beside) = (medium.open_in("one"), medium.open_in("one"));
    put(&mut handle, 1, 2);
    fail_write(&medium.disk, 2, 20, true);
    handle.publish().expect_err("the tip cannot be written");
    medium.disk.clear_faults();
    let mut page = [0; PAGE];
    beside.read_at(&mut page, PAGE as u64).expect("read");
    assert_eq!(page[0], 2, "a whole commit counts if the tip is torn");
    put(&mut handle, 1, 1);
    let built = handle.publish();
    assert!(matches!(built, Err(Error::Overwritten)), "{built:?}");
    drop((handle, beside));
    go_on(&mut medium.open_in("one"), 1);
    assert_eq!(pages(&medium.disk), [1, 1, 3]);
}
