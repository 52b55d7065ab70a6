//! Two processes recycle the files of pruned segments at the same time. A file that one of them
//! uses again is not touched by the other. A segment can also be pruned between a reader's open and
//! its lock, or before it lists the directory.

use crate::common::{DIR, ID};
use densite_disk::{Dir, DirAbove, File, FileAbove, LockKind, Op as Call, OpenMode, Result};
use densite_log::{Batch, Error, Log, LogDir, Op, Options, Table, Txn, Value};
use densite_sim_disk::{Fault, FaultKind, SimDisk};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An action that runs once before a file is renamed, cut or locked by a reader, or before the
/// directory is listed.
type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

fn hook(what: impl FnOnce() + Send + 'static) -> Hook {
    Arc::new(Mutex::new(Some(Box::new(what))))
}

fn run(hook: &Hook) {
    let what = hook.lock().expect("no panic").take();
    if let Some(what) = what {
        what();
    }
}

#[derive(Default, Clone)]
struct Hooks {
    rename: Hook,
    cut: Hook,
    lock: Hook,
    list: Hook,
    /// Runs after bytes behind the first row of [`append`] were read.
    read: Hook,
    /// The lengths to which files were cut or extended.
    lengths: Arc<Mutex<Vec<u64>>>,
}

struct HookedDir(LogDir, Hooks);

struct HookedFile(Box<dyn File>, Hooks);

impl DirAbove for HookedDir {
    fn below(&self) -> &dyn Dir {
        &*self.0
    }

    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        let file = self.0.open(name, mode)?;
        Ok(Box::new(HookedFile(file, self.1.clone())))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        if to.starts_with("free-") {
            run(&self.1.rename);
        }
        self.0.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>> {
        run(&self.1.list);
        self.0.list()
    }
}

impl FileAbove for HookedFile {
    fn below(&self) -> &dyn File {
        &*self.0
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let read = self.0.read_at(buf, offset);
        if offset > 600 << 10 {
            run(&self.1.read);
        }
        read
    }

    fn set_len(&self, len: u64) -> Result<()> {
        run(&self.1.cut);
        self.1.lengths.lock().expect("no panic").push(len);
        self.0.set_len(len)
    }

    fn try_lock(&self, kind: LockKind) -> Result<bool> {
        if kind == LockKind::Shared {
            run(&self.1.lock);
        }
        self.0.try_lock(kind)
    }
}

/// Segments of two mebibytes: files of less than one mebibyte are not cut piece by piece.
fn open(disk: &SimDisk, hooks: Hooks, free_segments_max: usize) -> Log {
    let options = Options {
        create: true,
        segment_bytes: 2 << 20,
        free_segments_max,
        background: false,
        ..Options::new(ID)
    };
    let dir = Arc::new(HookedDir(Arc::new(disk.dir(DIR)), hooks));
    Log::open(dir, options).expect("opens")
}

/// Three of these rows fill a segment.
fn append(log: &Log, id: i64) {
    let mut payload = vec![0; 600 << 10];
    SmallRng::seed_from_u64(id.cast_unsigned()).fill_bytes(&mut payload);
    let table = Table::new("t", ["id", "payload"], 1, b"".as_slice()).expect("a table");
    let mut batch = Batch::new(&table, Op::Insert);
    batch
        .push(&[Value::Int(id), Value::Blob(&payload)])
        .expect("push");
    let txn = Txn::of(log.new_txn(), &batch).expect("txn");
    log.append(txn).expect("appends");
}

fn passed(signal: &Receiver<()>) {
    let got = signal.recv_timeout(Duration::from_secs(20));
    assert_ne!(
        got,
        Err(RecvTimeoutError::Timeout),
        "the other thread did not get here"
    );
}

/// One log prunes two segments and is about to keep their files. The other prunes a third, keeps no
/// files, and begins to cut one of the first two. Then the first log continues and appends to its
/// file.
#[test]
fn a_recycled_file_is_not_truncated() {
    let disk = SimDisk::new(1);
    let (at_rename, renames): (Sender<()>, _) = channel();
    let (at_cut, cuts): (Sender<()>, _) = channel();
    let (go_on, may_go_on): (Sender<()>, _) = channel();
    let one = open(
        &disk,
        Hooks {
            rename: hook(move || {
                at_rename.send(()).expect("the receiver exists");
                passed(&cuts);
            }),
            ..Hooks::default()
        },
        2,
    );
    let cut = hook(move || {
        at_cut.send(()).expect("the receiver exists");
        passed(&may_go_on);
    });
    let other = open(
        &disk,
        Hooks {
            cut,
            ..Hooks::default()
        },
        0,
    );
    let mut last = 0;
    let mut fill = |rows: i64| {
        for _ in 0..rows {
            last += 1;
            append(&one, last);
        }
    };
    fill(13);
    std::thread::scope(|s| {
        let pruner = s.spawn(move || {
            passed(&renames);
            other.prune(9).expect("prunes");
            other
        });
        assert_eq!(one.prune(6).expect("prunes").segments, 2);
        // Two more segments, in the files that were kept.
        fill(8);
        go_on.send(()).expect("the receiver exists");
        drop(pruner.join().expect("no panic"));
    });
    drop(one);
    let log = open(&disk, Hooks::default(), 2);
    let mut reader = log.read_after(9).expect("reads");
    let mut rows = BTreeSet::new();
    while let Some(record) = reader.next().expect("no damage") {
        rows.extend(record.first..=record.last());
    }
    assert_eq!(rows, (10..=21).collect());
}

/// The segment is cut and removed between the reader's open and its lock. Its rows are pruned, and
/// nothing is damaged.
#[test]
fn a_segment_removed_before_a_reader_opens_it_counts_as_pruned() {
    let disk = SimDisk::new(1);
    let other = open(&disk, Hooks::default(), 0);
    for id in 1..=7 {
        append(&other, id);
    }
    let prune = hook(move || {
        assert_eq!(other.prune(6).expect("prunes").segments, 2);
    });
    let hooks = Hooks {
        lock: prune,
        ..Hooks::default()
    };
    let log = open(&disk, hooks, 0);
    let mut reader = log.read_after(0).expect("a reader");
    let error = reader.next().expect_err("rows that are gone");
    assert!(
        matches!(
            error,
            Error::Pruned {
                wanted: 1,
                first: 7
            }
        ),
        "{error}"
    );
    let mut reader = log.read_after(6).expect("a reader");
    let record = reader.next().expect("no error").expect("a row");
    assert_eq!((record.first, record.last()), (7, 7));
}

/// A process that only reads takes no lock: it reads the state first and then the directory.
#[test]
fn segments_removed_while_a_log_is_opened_for_reading_are_no_damage() {
    let disk = SimDisk::new(1);
    let other = open(&disk, Hooks::default(), 0);
    for id in 1..=7 {
        append(&other, id);
    }
    let other = Arc::new(other);
    let pruner = Arc::clone(&other);
    let list = hook(move || {
        assert_eq!(pruner.prune(6).expect("prunes").segments, 2);
    });
    let hooks = Hooks {
        list,
        ..Hooks::default()
    };
    let dir = Arc::new(HookedDir(Arc::new(disk.dir(DIR)), hooks));
    let log = Log::open_read_only(dir, ID).expect("opens although another process prunes");
    assert_eq!(log.status().expect("a status").first, 7);
    drop(other);
}

/// The check reads the place of the next record. Then two records are written, and the second one
/// proves that the first was synced.
#[test]
fn rows_that_are_appended_during_a_check_are_no_damage() {
    let disk = SimDisk::new(1);
    let other = Arc::new(open(&disk, Hooks::default(), 0));
    append(&other, 1);
    let writer = Arc::clone(&other);
    let read = hook(move || {
        append(&writer, 2);
        append(&writer, 3);
    });
    let hooks = Hooks {
        read: Arc::clone(&read),
        ..Hooks::default()
    };
    let dir = Arc::new(HookedDir(Arc::new(disk.dir(DIR)), hooks));
    let report = densite_log::check(dir, ID).expect("it ends");
    assert!(
        read.lock().expect("no panic").is_none(),
        "it read no further"
    );
    assert!(report.problems.is_empty(), "{report:?}");
    drop(other);
}

/// A file of another length does not fit a segment and is removed. The log was opened with other
/// settings.
#[test]
fn a_file_that_is_too_short_or_too_long_is_not_kept() {
    let opened = |disk: &SimDisk, segment_bytes: u64| {
        let options = Options {
            create: true,
            segment_bytes,
            free_segments_max: 2,
            background: false,
            ..Options::new(ID)
        };
        Log::open(Arc::new(disk.dir(DIR)), options).expect("opens")
    };
    let free_segments = |disk: &SimDisk| {
        let paths = disk.paths();
        paths.iter().filter(|path| path.contains("free-")).count()
    };
    for (bytes, kept) in [
        (1 << 20, 0),
        (2 << 20, 2),
        (3 << 20, 2),
        (4 << 20, 2),
        (5 << 20, 0),
        (16 << 20, 0),
    ] {
        let disk = SimDisk::new(1);
        let log = opened(&disk, 2 << 20);
        (1..=13).for_each(|id| append(&log, id));
        drop(log);
        let log = opened(&disk, bytes);
        log.prune(9).expect("prunes");
        assert_eq!(free_segments(&disk), kept, "{bytes} bytes");
    }
}

/// The other files are recycled, and the failure is reported. A file that another process has
/// removed is not a failure.
#[test]
fn a_failed_rename_is_reported_unless_the_file_is_gone() {
    let files = |disk: &SimDisk, part: &str| {
        let paths = disk.paths();
        paths.iter().filter(|path| path.contains(part)).count()
    };
    for gone in [false, true] {
        let disk = SimDisk::new(1);
        let file = format!("{DIR}/000000000001.seg");
        let rename = {
            let disk = disk.clone();
            hook(move || match gone {
                true => disk.remove(&file).expect("it is there"),
                false => disk.fail(Fault::new(FaultKind::Io, Call::Rename)),
            })
        };
        let hooks = Hooks {
            rename,
            ..Hooks::default()
        };
        let log = open(&disk, hooks, 9);
        (1..=13).for_each(|id| append(&log, id));
        let pruned = log.prune(9);
        match gone {
            true => assert_eq!(pruned.expect("prunes").segments, 3),
            false => assert!(matches!(pruned, Err(Error::Io(_))), "{pruned:?}"),
        }
        assert_eq!(files(&disk, "free-"), 2);
        assert_eq!(files(&disk, ".seg"), if gone { 2 } else { 3 });
        assert_eq!(log.status().expect("a status").first, 10);
    }
}

/// Other writers wait while a file system frees much space at once.
#[test]
fn a_file_is_truncated_by_mebibytes() {
    let disk = SimDisk::new(1);
    let hooks = Hooks::default();
    let lengths = Arc::clone(&hooks.lengths);
    let options = Options {
        create: true,
        segment_bytes: 4 << 20,
        free_segments_max: 0,
        background: false,
        ..Options::new(ID)
    };
    let dir = Arc::new(HookedDir(Arc::new(disk.dir(DIR)), hooks));
    let log = Log::open(dir, options).expect("opens");
    (1..=7).for_each(|id| append(&log, id));
    lengths.lock().expect("no panic").clear();
    assert_eq!(log.prune(6).expect("prunes").segments, 1);
    let lengths = lengths.lock().expect("no panic");
    let (first, last) = (lengths.first().copied(), lengths.last().copied());
    assert!(
        first > Some(2 << 20) && last <= Some(1 << 20),
        "{lengths:?}"
    );
    assert!(
        lengths.windows(2).all(|two| two[0] - two[1] == 1 << 20),
        "{lengths:?}"
    );
}
