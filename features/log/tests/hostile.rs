//! Files of a log with false sizes and numbers. Lengths and counts are limited by the format before
//! memory is allocated or a search begins, and only regular files are opened.

use crate::common::{ID, options, tables};
use densite_disk::RealDir;
use densite_disk::hash::xxh3_64;
use densite_log::{Batch, Error, Log, LogDir, Op, Options, Salvage, Txn, Value, check, id_in};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Much longer than any of these calls takes.
const LATE: Duration = Duration::from_secs(30);

struct Hostile {
    tmp: tempfile::TempDir,
    begun: Instant,
}

impl Hostile {
    /// A valid, closed log with a few rows.
    fn new() -> Hostile {
        let hostile = Hostile {
            tmp: tempfile::tempdir().expect("a directory"),
            begun: Instant::now(),
        };
        let log = hostile.open().expect("opens");
        for id in 0..50 {
            append(&log, id).expect("appends");
        }
        hostile
    }

    fn path(&self) -> PathBuf {
        self.tmp.path().join("app.db-log")
    }

    fn dir(&self) -> LogDir {
        Arc::new(RealDir::create(self.path()).expect("there"))
    }

    fn open(&self) -> densite_log::Result<Log> {
        Log::open(self.dir(), options())
    }

    /// Changes a field of a file and corrects the checksum at `check`.
    fn set(&self, name: &str, at: usize, value: &[u8], check: usize) {
        let path = self.path().join(name);
        let mut bytes = std::fs::read(&path).expect("the file");
        bytes[at..at + value.len()].copy_from_slice(value);
        let sum = xxh3_64(&bytes[..check]);
        bytes[check..check + 8].copy_from_slice(&sum.to_le_bytes());
        std::fs::write(path, bytes).expect("written");
    }

    /// All calls that read the log; then opens it for writing.
    fn used(&self) -> densite_log::Result<Log> {
        id_in(self.dir())?;
        check(self.dir(), ID).ok();
        if let Ok(log) = Log::open_read_only(self.dir(), ID) {
            log.status().ok();
            log.subscribers().ok();
            log.bytes_after(0).ok();
            if let Ok(mut reader) = log.read_after(0) {
                reader.bytes_left().ok();
                while let Ok(Some(_)) = reader.next() {}
            }
        }
        if let Ok(salvage) = Salvage::begin(self.dir(), ID, None) {
            salvage.run(None).ok();
        }
        self.open()
    }

    fn expect_damage(self, file: &str) {
        match self.used() {
            Err(Error::Damaged { segment, .. }) => assert_eq!(segment, file),
            Err(other) => panic!("{file}: {other}"),
            Ok(_) => panic!("{file}: it opens"),
        }
        assert!(self.begun.elapsed() < LATE, "{file}");
    }

    fn expect_well(self) {
        let log = self.used().unwrap_or_else(|e| panic!("{e}"));
        let at = append(&log, 99).expect("appends");
        log.prune(at).expect("prunes");
        assert!(self.begun.elapsed() < LATE);
    }
}

fn append(log: &Log, id: i64) -> densite_log::Result<u64> {
    let mut batch = Batch::new(&tables()[0], Op::Insert);
    batch.push(&[Value::Int(id), Value::Blob(&[7; 300])])?;
    Ok(log.append(Txn::of(log.new_txn(), &batch)?)?.last)
}

fn grow(path: &Path, bytes: u64) {
    let file = std::fs::File::options().write(true).open(path);
    file.and_then(|file| file.set_len(bytes)).expect("grows");
}

#[test]
fn a_state_of_ten_tebibytes_is_damage() {
    let hostile = Hostile::new();
    grow(&hostile.path().join("state"), 10 << 40);
    hostile.expect_damage("state");
}

#[test]
fn a_segment_of_ten_tebibytes_ends_where_its_records_end() {
    let hostile = Hostile::new();
    let names = std::fs::read_dir(hostile.path()).expect("the log");
    let names = names.map(|entry| entry.expect("a file").path());
    for path in names.filter(|path| path.extension().is_some_and(|e| e == "seg")) {
        grow(&path, 10 << 40);
    }
    hostile.expect_well();
}

#[test]
fn an_end_word_that_claims_four_billion_writers_is_not_valid() {
    let hostile = Hostile::new();
    hostile.set("end", 48, &u32::MAX.to_le_bytes(), 56);
    hostile.expect_well();
}

#[test]
fn an_end_word_that_names_a_segment_far_away_is_damage() {
    for segment in [3u64 << 40, (1 << 62) - 1] {
        let hostile = Hostile::new();
        hostile.set("end", 16, &segment.to_le_bytes(), 56);
        hostile.expect_damage(&format!("{segment:012}.seg"));
    }
}

/// With a log opened for reading only, a reader that continues reports the gap.
#[test]
fn a_reader_reports_an_end_word_without_its_segment() {
    let hostile = Hostile::new();
    hostile.set("end", 16, &(1u64 << 50).to_le_bytes(), 56);
    let log = Log::open_read_only(hostile.dir(), ID).expect("opens");
    let mut reader = log.read_after(0).expect("a reader");
    let ended = std::iter::from_fn(|| reader.next().transpose()).find_map(Result::err);
    assert!(matches!(ended, Some(Error::Damaged { .. })), "{ended:?}");
}

#[test]
fn a_state_that_begins_far_away_is_damage() {
    let hostile = Hostile::new();
    let check = std::fs::read(hostile.path().join("state"))
        .expect("the state")
        .len()
        - 8;
    hostile.set("state", 40, &(1u64 << 61).to_le_bytes(), check);
    hostile.expect_damage(&format!("{:012}.seg", 1u64 << 61));
    let hostile = Hostile::new();
    hostile.set("state", 40, &u64::MAX.to_le_bytes(), check);
    hostile.expect_damage("state");
}

#[test]
fn rows_beyond_the_last_number_are_refused() {
    let hostile = Hostile::new();
    hostile.set("end", 40, &((1u64 << 62) - 1).to_le_bytes(), 56);
    let log = hostile.used().expect("opens");
    let done = append(&log, 1);
    assert!(matches!(done, Err(Error::Limit(_))), "{done:?}");
    drop(log);
    let above = Options {
        above: u64::MAX - 1,
        ..options()
    };
    let opened = Log::open(hostile.dir(), above).map(drop);
    assert!(matches!(opened, Err(Error::Limit(_))), "{opened:?}");
    let hostile = Hostile::new();
    hostile.set("end", 40, &u64::MAX.to_le_bytes(), 56);
    hostile.expect_well();
}

/// Opening a pipe without a writer would block forever.
#[test]
fn anything_but_a_regular_file_is_damage_and_not_opened() {
    let pipe = |path: &Path| {
        let done = std::process::Command::new("mkfifo").arg(path).status();
        assert!(done.expect("mkfifo").success());
    };
    let link = |path: &Path| std::os::unix::fs::symlink("/etc/hosts", path).expect("a link");
    let directory = |path: &Path| std::fs::create_dir(path).expect("a directory");
    let makes: [&dyn Fn(&Path); 3] = [&pipe, &link, &directory];
    for make in makes {
        for name in [
            "end",
            "state",
            "append.lock",
            "writer-0",
            "000000000001.seg",
        ] {
            let hostile = Hostile::new();
            let path = hostile.path().join(name);
            std::fs::remove_file(&path).expect("removed");
            make(&path);
            let opened = hostile.open().map(drop);
            assert!(
                matches!(&opened, Err(Error::Damaged { segment, problem, .. }) if segment == name && problem.contains("regular")),
                "{name}: {opened:?}"
            );
            hostile.expect_damage(name);
        }
    }
}
