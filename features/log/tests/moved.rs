//! The log's directory, or a file in it, is moved, removed or replaced while logs have it open. No
//! rows are acknowledged that would be lost, and the log that now has the name is not changed.

use crate::common::{ID, options, random_txn, read_all, tables};
use densite_disk::RealDir;
use densite_log::{Begin, Error, Log, LogId, Options, Result, Seq};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder with a log in it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("log")).expect("made");
        Place { folder }
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn aside(&self) -> PathBuf {
        self.folder.path().join("aside")
    }

    fn open(&self) -> Log {
        Log::open(Arc::new(RealDir::new(self.log())), options()).expect("open")
    }

    /// The last row of the log in this directory.
    fn last(&self, at: &Path) -> Seq {
        let dir = Arc::new(RealDir::new(at));
        let log = Log::open_read_only(dir, LogId(ID.0)).expect("open");
        log.last().expect("last")
    }
}

fn append(log: &Log, seed: u64) -> Result<Seq> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let txn = random_txn(log, &tables(), &mut rng).0;
    log.append(txn).map(|at| at.last)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("made");
    for file in fs::read_dir(from).expect("a directory") {
        let file = file.expect("a file");
        fs::copy(file.path(), to.join(file.file_name())).expect("copied");
    }
}

fn segment(log: &Path) -> PathBuf {
    log.join("000000000001.seg")
}

/// Replaces a file with a copy of itself, as `cp` does.
fn replace(file: &Path, aside: &Path) {
    fs::copy(file, aside).expect("copied");
    fs::rename(aside, file).expect("renamed");
}

/// What happens to a log, how to undo it, and whether its rows can be read meanwhile.
type Event = (&'static str, fn(&Place), Option<fn(&Place)>);

fn back(place: &Place) {
    fs::remove_dir_all(place.log()).ok();
    fs::rename(place.aside(), place.log()).expect("renamed");
}

const EVENTS: [Event; 9] = [
    (
        "moved",
        |p| fs::rename(p.log(), p.aside()).expect("renamed"),
        Some(back),
    ),
    (
        "removed",
        |p| fs::remove_dir_all(p.log()).expect("removed"),
        None,
    ),
    (
        "replaced by a copy",
        |p| {
            fs::rename(p.log(), p.aside()).expect("renamed");
            copy(&p.aside(), &p.log());
        },
        Some(back),
    ),
    (
        "its segment moved",
        |p| fs::rename(segment(&p.log()), p.aside()).expect("renamed"),
        Some(|p| fs::rename(p.aside(), segment(&p.log())).expect("renamed")),
    ),
    (
        "its segment removed",
        |p| fs::remove_file(segment(&p.log())).expect("removed"),
        None,
    ),
    (
        "its segment replaced",
        |p| replace(&segment(&p.log()), &p.aside()),
        None,
    ),
    (
        "its end removed",
        |p| fs::remove_file(p.log().join("end")).expect("removed"),
        None,
    ),
    (
        "its end replaced",
        |p| replace(&p.log().join("end"), &p.aside()),
        None,
    ),
    (
        "its lock removed",
        |p| fs::remove_file(p.log().join("append.lock")).expect("removed"),
        None,
    ),
];

fn told<T: std::fmt::Debug>(done: &Result<T>, what: &str) {
    assert!(matches!(done, Err(Error::Replaced)), "{what}: {done:?}");
}

/// For a log that has written to the directory, and for one that has only read the rows of others.
#[test]
fn a_moved_directory_gets_no_acknowledged_rows() {
    // If no name has changed for a while, only the directory's stamp is checked.
    let both = |event| [(event, false), (event, true)];
    for ((what, happens, undone), rests) in EVENTS.into_iter().flat_map(both) {
        let place = Place::new();
        let (log, other) = (place.open(), place.open());
        let mut last = append(&log, 1).expect("append");
        if rests {
            std::thread::sleep(std::time::Duration::from_millis(80));
            last = append(&other, 6).expect("append");
            last = last.max(append(&log, 7).expect("append"));
        }
        happens(&place);
        told(&append(&log, 2), what);
        // A segment that is opened by name now is that of the other log. It must not be reported as
        // damage.
        let is_its_segment = what.contains("segment") && !rests;
        if !is_its_segment {
            told(&append(&other, 3), what);
        }
        if what == "moved" {
            assert_eq!(place.last(&place.aside()), last, "{what}");
        }
        if let Some(undo) = undone {
            undo(&place);
            assert_eq!(place.last(&place.log()), last, "{what}: nothing of it");
            let next = append(&log, 4).expect("append");
            assert!(append(&other, 5).expect("append") > next, "{what}");
            assert_eq!(
                read_all(&log, 0).expect("reads").len() as u64,
                other.last().expect("last")
            );
        }
    }
}

/// A copy has the same id, and its rows continue with the same numbers.
#[test]
fn the_directory_with_the_current_name_is_not_changed() {
    let place = Place::new();
    let old = place.open();
    old.subscribe("s", Begin::Start).expect("subscribes");
    append(&old, 1).expect("append");
    let mut rng = SmallRng::seed_from_u64(2);
    // Appended and prepared: a rollback would hide the rows with these numbers in the copy.
    copy(&place.log(), &place.aside());
    let prepared = Arc::new(random_txn(&old, &tables(), &mut rng).0);
    old.prepare(&prepared).expect("prepared");
    let mut reader = old.read_after(0).expect("a reader");
    fs::rename(place.log(), place.folder.path().join("old")).expect("renamed");
    fs::rename(place.aside(), place.log()).expect("renamed");
    let new = place.open();
    let mut last = 0;
    for seed in 3..40 {
        last = append(&new, seed).expect("append");
    }
    let there = read_all(&new, 0).expect("reads");
    assert_eq!(there.len() as u64, last);

    told(&old.cancel(prepared.id()), "cancel");
    old.retry_rollbacks();
    told(&old.ack("s", 1), "ack");
    told(&old.unsubscribe("s"), "unsubscribe");
    told(&old.subscribe("t", Begin::Start), "subscribe");
    told(&old.set_config(|c| c.retain_bytes = 1), "config");
    told(&old.prune(Seq::MAX), "prune");
    told(&old.is_in_place(), "in place");
    assert!(old.try_lead().is_err(), "the old log cannot lead");
    let read = loop {
        match reader.next() {
            Ok(Some(_)) => {}
            other => break other.map(|_| ()),
        }
    };
    told(&read, "a reader");
    told(&old.wait_after(last, std::time::Duration::ZERO), "waits");
    // The old log also has state to store when it is closed.
    drop((old, reader));
    assert_eq!(read_all(&new, 0).expect("reads"), there);
    assert_eq!(new.subscribers().expect("reads")[0].position, 0);
    drop(new);
    assert_eq!(read_all(&place.open(), 0).expect("reads"), there);
}

/// The next segment is made in the directory that has the name, where other processes read it.
#[test]
fn new_segments_are_in_the_directory_with_the_current_name() {
    let place = Place::new();
    let small = Options {
        segment_bytes: 8 << 10,
        ..options()
    };
    let log = Log::open(Arc::new(RealDir::new(place.log())), small).expect("open");
    let mut seed = 1;
    while !place.log().join("000000000002.seg").exists() {
        append(&log, seed).expect("append");
        seed += 1;
    }
    fs::rename(place.log(), place.aside()).expect("renamed");
    fs::create_dir(place.log()).expect("made");
    for seed in 0..50 {
        told(&append(&log, seed), "another directory");
    }
    drop(log);
    let names = fs::read_dir(place.log()).expect("a directory").count();
    assert_eq!(names, 0, "nothing is made there");
}
