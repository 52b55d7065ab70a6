//! The end of the log after its process is gone: which rows count, what is made durable first, and
//! which numbers come next.

use crate::common::{DIR, ID, dir, open, options, read_all, tables};
use densite_disk::sync::Mutex;
use densite_disk::{Dir, DirAbove, Error as DiskError, ErrorKind, File, FileAbove};
use densite_disk::{Op as Call, OpenMode, SyncKind};
use densite_log::{Batch, Error, Log, LogDir, Op, Options, Seq, Txn, Value, check};
use densite_sim_disk::{Fault, FaultKind, SimDisk};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn txn(log: &Log, id: i64, bytes: usize) -> Txn {
    let mut payload = vec![0; bytes];
    SmallRng::seed_from_u64(id.cast_unsigned()).fill_bytes(&mut payload);
    let mut batch = Batch::new(&tables()[0], Op::Insert);
    batch
        .push(&[Value::Int(id), Value::Blob(&payload)])
        .expect("push");
    Txn::of(log.new_txn(), &batch).expect("txn")
}

fn append(log: &Log, id: i64) -> Seq {
    log.append(txn(log, id, 40)).expect("append").last
}

fn append_all(log: &Log, ids: RangeInclusive<i64>) {
    for id in ids {
        append(log, id);
    }
}

fn numbers(disk: &SimDisk) -> Vec<Seq> {
    let rows = read_all(&open(disk), 0).expect("reads");
    rows.into_keys().collect()
}

fn path(name: &str) -> String {
    format!("{DIR}/{name}")
}

fn segment() -> String {
    path("000000000001.seg")
}

fn without_word(disk: &SimDisk) -> SimDisk {
    let disk = disk.snapshot();
    disk.remove(&path("end")).expect("it was there");
    disk
}

fn open_above(disk: &SimDisk, above: Seq) -> Log {
    let options = Options { above, ..options() };
    Log::open(dir(disk), options).expect("opens")
}

/// The database had higher numbers than the log when the log was opened again.
#[test]
fn rows_behind_a_gap_in_the_numbers_are_found() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    append_all(&log, 1..=3);
    drop(log);
    let log = open_above(&disk, 1000);
    append_all(&log, 4..=6);
    drop(log);
    let all = [1, 2, 3, 1001, 1002, 1003];
    assert_eq!(numbers(&disk), all);
    assert_eq!(numbers(&without_word(&disk)), all);
    let log = open(&without_word(&disk));
    assert_eq!(append(&log, 7), 1004);
}

/// A number that the database holds is not assigned again, even if a record behind the end has a
/// lower one.
#[test]
fn rows_with_numbers_below_the_end_word_do_not_count() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    append_all(&log, 1..=3);
    drop(log);
    let raised = disk.snapshot();
    drop(open_above(&raised, 1000));
    append(&open(&disk), 4);
    assert_eq!(numbers(&disk), [1, 2, 3, 4]);
    let word = raised.contents(&path("end")).expect("a word");
    disk.put_file(&path("end"), &word);
    let log = open(&disk);
    assert_eq!(log.last().expect("last"), 1000);
    assert_eq!(append(&log, 5), 1001);
    let rows = read_all(&log, 0).expect("reads");
    assert_eq!(rows.into_keys().collect::<Vec<_>>(), [1, 2, 3, 1001]);
}

/// A process that dies while it syncs a segment: the sync fails, and its later calls do nothing.
struct Dying {
    dir: LogDir,
    disk: SimDisk,
    dies: Arc<AtomicBool>,
    is_dead: Arc<AtomicBool>,
}

struct DyingFile {
    file: Box<dyn File>,
    is_segment: bool,
    disk: SimDisk,
    dies: Arc<AtomicBool>,
    is_dead: Arc<AtomicBool>,
}

impl DirAbove for Dying {
    fn below(&self) -> &dyn Dir {
        &*self.dir
    }

    fn open(&self, name: &str, mode: OpenMode) -> densite_disk::Result<Box<dyn File>> {
        Ok(Box::new(DyingFile {
            file: self.dir.open(name, mode)?,
            is_segment: name.ends_with(".seg"),
            disk: self.disk.clone(),
            dies: Arc::clone(&self.dies),
            is_dead: Arc::clone(&self.is_dead),
        }))
    }
}

impl DyingFile {
    fn alive(&self, op: Call) -> densite_disk::Result<()> {
        match self.is_dead.load(Ordering::SeqCst) {
            true => Err(DiskError::new(ErrorKind::Io, op)),
            false => Ok(()),
        }
    }
}

impl FileAbove for DyingFile {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> densite_disk::Result<()> {
        self.alive(Call::Write)?;
        self.file.write_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> densite_disk::Result<()> {
        self.alive(Call::Truncate)?;
        self.file.set_len(len)
    }

    fn sync(&self, kind: SyncKind) -> densite_disk::Result<()> {
        self.alive(Call::Sync)?;
        if self.is_segment && self.dies.load(Ordering::SeqCst) {
            self.is_dead.store(true, Ordering::SeqCst);
            self.disk.fail(Fault::new(FaultKind::Io, Call::Sync));
        }
        self.file.sync(kind)
    }
}

/// A disk with the last transaction of a process, of this many random bytes, behind a failed sync.
/// The transaction is complete in the system's cache.
fn left_behind(seed: u64, bytes: usize) -> SimDisk {
    let disk = SimDisk::new(seed);
    let (dies, is_dead) = (Arc::default(), Arc::default());
    let dying = Dying {
        dir: dir(&disk),
        disk: disk.clone(),
        dies: Arc::clone(&dies),
        is_dead: Arc::clone(&is_dead),
    };
    let options = Options {
        segment_bytes: 16 << 20,
        ..options()
    };
    let log = Log::open(Arc::new(dying), options).expect("opens");
    append_all(&log, 1..=3);
    dies.store(true, Ordering::SeqCst);
    log.append(txn(&log, 4, bytes)).expect_err("it dies");
    drop(log);
    assert!(is_dead.load(Ordering::SeqCst));
    disk.clear_faults();
    disk
}

/// A reader may have passed these rows on already.
#[test]
fn rows_of_a_killed_process_are_written_again_before_they_count() {
    for (seed, bytes) in (0..12).map(|seed| (seed, [40, 3 << 20][seed as usize % 2])) {
        let what = format!("seed {seed}, {bytes} bytes");
        let disk = left_behind(seed, bytes);
        let len = disk.contents(&segment()).expect("there").len();
        let log = open(&disk);
        let rows = read_all(&log, 0).expect("reads");
        assert_eq!(rows.len(), 4, "{what}");
        let after = disk.contents(&segment()).expect("there").len();
        assert_eq!(after, len, "{what}");
        drop(log);
        let cut = disk.power_cut(seed);
        let report = check(dir(&cut), ID).expect("check");
        assert_eq!(report.problems.len(), 0, "{what}: {report:?}");
        assert!(read_all(&open(&cut), 0).expect("reads") == rows, "{what}");
    }
}

#[test]
fn rows_of_a_killed_process_that_cannot_be_synced_are_damage() {
    let disk = left_behind(1, 40);
    disk.fail(Fault::new(FaultKind::Io, Call::Sync).on_path(".seg"));
    let opened = Log::open(dir(&disk), options()).map(drop);
    let Err(Error::Damaged {
        segment, problem, ..
    }) = opened
    else {
        panic!("{opened:?}");
    };
    assert_eq!(segment, "000000000001.seg");
    assert!(problem.starts_with("it could not be synced"), "{problem}");
    let disk = left_behind(1, 40);
    disk.fail(Fault::new(FaultKind::Io, Call::Write).on_path(".seg"));
    let opened = Log::open(dir(&disk), options()).map(drop);
    assert!(matches!(opened, Err(Error::Io(_))), "{opened:?}");
}

type Hook = Box<dyn FnOnce() + Send>;

/// A directory in which something happens once before a segment is opened, or which lists a segment
/// that does not exist.
struct Hooked {
    dir: LogDir,
    before: Mutex<Option<Hook>>,
    listed: Option<&'static str>,
}

impl DirAbove for Hooked {
    fn below(&self) -> &dyn Dir {
        &*self.dir
    }

    fn open(&self, name: &str, mode: OpenMode) -> densite_disk::Result<Box<dyn File>> {
        if name.ends_with(".seg") {
            let before = self.before.lock().take();
            before.into_iter().for_each(|hook| hook());
        }
        self.dir.open(name, mode)
    }

    fn list(&self) -> densite_disk::Result<Vec<String>> {
        let mut names = self.dir.list()?;
        names.extend(self.listed.map(str::to_owned));
        Ok(names)
    }
}

/// Another process appends and prunes the last segment between its listing and its opening.
#[test]
fn a_last_segment_pruned_since_it_was_listed_is_no_damage() {
    let disk = SimDisk::new(1);
    let other = Log::open(
        dir(&disk),
        Options {
            free_segments_max: 0,
            ..options()
        },
    );
    let other = other.expect("opens");
    let mut last = append(&other, 1);
    let end = disk.open(&path("end"), OpenMode::Write).expect("open");
    end.write_at(&[0; 64], 0).expect("torn");
    let first = segment();
    let before = {
        let disk = disk.clone();
        move || {
            for id in 2..400 {
                last = append(&other, id);
            }
            assert!(other.prune(last).expect("prunes").segments > 0);
            assert!(!disk.exists(&first).expect("a directory"));
        }
    };
    let hooked = Hooked {
        dir: dir(&disk),
        before: Mutex::new(Some(Box::new(before))),
        listed: None,
    };
    let log = Log::open_read_only(Arc::new(hooked), ID).expect("opens");
    assert_eq!(log.last().expect("last"), 399);
}

#[test]
fn a_last_segment_that_cannot_be_opened_is_damage() {
    let disk = SimDisk::new(1);
    append(&open(&disk), 1);
    let hooked = Hooked {
        dir: dir(&disk),
        before: Mutex::new(None),
        listed: Some("000000000002.seg"),
    };
    let opened = Log::open(Arc::new(hooked), options()).map(drop);
    let Err(Error::Damaged { segment, .. }) = opened else {
        panic!("{opened:?}");
    };
    assert_eq!(segment, "000000000002.seg");
}

/// Without the end word, the records are followed from the first one. An unreadable place that was
/// synced is not a torn tail, however far behind it the proof is.
#[test]
fn records_far_behind_it_prove_damage() {
    // Also if the proof spans two reads of the search.
    let near = ((256 << 10) - 300..(256 << 10) + 40).step_by(4);
    for bytes in [40, 100 << 10, 600 << 10, 3 << 20].into_iter().chain(near) {
        let disk = SimDisk::new(1);
        let options = || Options {
            segment_bytes: 16 << 20,
            ..options()
        };
        let log = Log::open(dir(&disk), options()).expect("opens");
        append(&log, 1);
        let at = end(&disk);
        log.append(txn(&log, 2, bytes)).expect("append");
        append(&log, 3);
        drop(log);
        let disk = without_word(&disk);
        let mut damaged = disk.contents(&segment()).expect("there");
        damaged[at] ^= 1;
        disk.put_file(&segment(), &damaged);
        let opened = Log::open(dir(&disk), options()).map(drop);
        let Err(Error::Damaged { offset, .. }) = opened else {
            panic!("{bytes} bytes: {opened:?}");
        };
        assert_eq!(offset, at as u64, "{bytes} bytes");
    }
}

/// The end of the log by its end word.
fn end(disk: &SimDisk) -> usize {
    let word = disk.contents(&path("end")).expect("a word");
    u64::from_le_bytes(word[24..32].try_into().expect("eight bytes")) as usize
}

#[test]
fn a_check_without_an_end_word_counts_the_rows_that_readers_see() {
    let disk = SimDisk::new(4);
    let log = Log::open(dir(&disk), options()).expect("opens");
    append_all(&log, 1..=5);
    drop(log);
    dir(&disk).remove("end").expect("removed");
    let report = check(dir(&disk), ID).expect("checks");
    assert_eq!((report.rows, report.problems), (5, Vec::new()));
}

/// The process that made it was killed, or has not finished yet.
#[test]
fn a_log_that_has_no_state_yet_is_read_as_an_empty_one() {
    let disk = SimDisk::new(3);
    disk.fail(Fault::new(FaultKind::Io, Call::Sync).on_path("state.new"));
    assert!(
        Log::open(dir(&disk), options()).is_err(),
        "no state is stored"
    );
    disk.clear_faults();
    let report = check(dir(&disk), ID).expect("checks");
    assert_eq!(report.problems, []);
    let log = Log::open_read_only(dir(&disk), ID).expect("opens");
    let status = log.status().expect("a status");
    assert_eq!((status.first, status.last, status.segments), (1, 0, 1));
    assert_eq!(log.subscribers().expect("a list"), []);
    // Another process makes the rest meanwhile.
    let writer = Log::open(dir(&disk), options()).expect("opens");
    let last = append(&writer, 1);
    assert_eq!(log.status().expect("a status").last, last);
}
