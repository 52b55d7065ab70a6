//! The same pages have the same length, whatever the threads and the load are, and a large
//! transaction is as small as a copy that trains on a sample of the whole first.

use crate::common::cells;

use densite_disk::{OpenMode, RealFile};
use densite_store::{Handle, Options, RelearnWhen, Tuning};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const PAGE: usize = 4096;

/// A number that looks random.
fn mix(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ n >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

/// Words of a vocabulary that changes slowly with `n`.
fn words(n: u64, count: u64) -> String {
    let word = |i: u64| {
        let drawn = mix(n * 31 + i);
        let word = n / 64 + drawn % 400;
        (0..2 + word % 3)
            .map(|part| {
                ["ta", "lor", "ni", "es", "quo", "mi", "ver", "an"]
                    [mix(word * 7 + part) as usize % 8]
            })
            .collect::<String>()
    };
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

/// The `n`-th leaf of a table with a number and a text.
pub(crate) fn leaf(n: u64) -> Vec<u8> {
    let cells = (0..60).map(|row| {
        let text = words(n * 60 + row, 6);
        let kind = 13 + 2 * text.len();
        let mut record = vec![4, 2, 0x80 | (kind >> 7) as u8, (kind & 127) as u8];
        record.extend(((mix(n * 60 + row) % 5000) as u16).to_be_bytes());
        record.extend(text.bytes());
        let mut cell = vec![record.len() as u8, (row + 1) as u8];
        cell.extend(record);
        cell
    });
    cells::leaf(PAGE, cells)
}

/// A page that is not one of a b-tree: text alone, as on overflow pages.
fn document(n: u64) -> Vec<u8> {
    let mut page = vec![0, 0, 0, 0];
    page.extend(words(n * 997, 1500).bytes());
    page.resize(PAGE, b'.');
    page
}

/// Two kinds of pages, one after the other.
pub(crate) fn pages(count: u64) -> Vec<Vec<u8>> {
    let tables = (0..count).map(leaf);
    tables.chain((0..count / 2).map(document)).collect()
}

pub(crate) fn create(path: &Path, options: Options) -> Handle {
    let file = RealFile::open(path, OpenMode::Create).expect("opens");
    let identity = path.display().to_string();
    Handle::open(Box::new(file), &identity, options).expect("a store")
}

/// Writes pages from the second one on, and publishes after each `each` of them.
pub(crate) fn write(handle: &mut Handle, pages: &[Vec<u8>], each: usize) {
    for (n, page) in (1u64..).zip(pages) {
        handle.write_at(page, n * PAGE as u64).expect("writes");
        if (n as usize).is_multiple_of(each) {
            handle.publish().expect("publishes");
        }
    }
    handle.publish().expect("publishes");
}

/// Closes the store and returns its length, after all pages were compared.
pub(crate) fn close(mut handle: Handle, pages: &[Vec<u8>], path: &Path) -> u64 {
    let mut back = vec![0; PAGE];
    for (n, page) in (1u64..).zip(pages) {
        handle.read_at(&mut back, n * PAGE as u64).expect("reads");
        assert!(back == *page, "page {n}");
    }
    let report = handle.check(&mut |_, _| true).expect("checks");
    assert!(report.problems.is_empty(), "{report:?}");
    handle.close_clean().expect("closes");
    drop(handle);
    std::fs::metadata(path).expect("a file").len()
}

/// The length of a store of these pages that trains on a sample of them first.
pub(crate) fn sampled_length(dir: &Path, pages: &[Vec<u8>]) -> u64 {
    let path = dir.join("sampled");
    let mut sampled = create(&path, Options::default());
    let sample: Vec<Vec<u8>> = pages.iter().step_by(3).cloned().collect();
    let database = (pages.len() * PAGE) as u64;
    sampled.learn(&sample, database).expect("trains");
    write(&mut sampled, pages, usize::MAX);
    assert!(!sampled.wants_relearning(RelearnWhen::Asked));
    close(sampled, pages, &path)
}

#[test]
fn the_same_pages_have_the_same_length_whatever_the_threads_and_the_load() {
    let dir = tempfile::tempdir().expect("a directory");
    let pages = pages(1500);
    let sample: Vec<Vec<u8>> = pages.iter().step_by(8).cloned().collect();
    let length = |name: &str, threads: usize, each: usize, learns: bool| {
        let path = dir.path().join(format!("{name}-{threads}-{each}-{learns}"));
        let options = Options {
            threads,
            ..Options::default()
        };
        let mut handle = create(&path, options);
        if learns {
            let database = (pages.len() * PAGE) as u64;
            handle.learn(&sample, database).expect("trains");
        }
        write(&mut handle, &pages, each);
        close(handle, &pages, &path)
    };
    let ways = [(usize::MAX, false), (usize::MAX, true), (100, false)];
    let alone = ways.map(|(each, learns)| length("alone", 0, each, learns));
    for threads in [1, 2, 7] {
        let idle = ways.map(|(each, learns)| length("idle", threads, each, learns));
        assert_eq!(idle, alone, "{threads} threads");
    }
    // Others use the same pool, so that its queue is full and results come late.
    let over = AtomicBool::new(false);
    let busy = std::thread::scope(|scope| {
        for n in 0..2 {
            let (over, dir, pages) = (&over, &dir, &pages);
            scope.spawn(move || {
                for turn in 0.. {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let mut other =
                        create(&dir.path().join(format!("{n}-{turn}")), Options::default());
                    write(&mut other, &pages[..600], 40 + 30 * n);
                }
            });
        }
        let busy = ways.map(|(each, learns)| length("busy", 2, each, learns));
        over.store(true, Ordering::Relaxed);
        busy
    });
    assert_eq!(busy, alone, "a busy pool");
}

#[test]
fn a_large_transaction_is_as_small_as_a_copy_that_trains_on_a_sample_first() {
    let dir = tempfile::tempdir().expect("a directory");
    let pages = pages(2500);
    let sampled = sampled_length(dir.path(), &pages);
    let path = dir.path().join("written");
    let mut written = create(&path, Options::default());
    // As by SQLite, which writes pages of a large transaction several times: the older ones are
    // dropped.
    for page in 1..1000u64 {
        let old = leaf(page + 9000);
        written.write_at(&old, page * PAGE as u64).expect("writes");
    }
    write(&mut written, &pages, usize::MAX);
    let written = close(written, &pages, &path);
    assert!(written * 100 <= sampled * 102, "{written} and {sampled}");
    // Without that, it is larger.
    let path = dir.path().join("streamed");
    let never = Options {
        tuning: Tuning {
            large_bytes: u64::MAX,
            held_bytes: u64::MAX,
            ..Tuning::default()
        },
        ..Options::default()
    };
    let mut streamed = create(&path, never);
    write(&mut streamed, &pages, usize::MAX);
    let streamed = close(streamed, &pages, &path);
    assert!(streamed * 100 > sampled * 103, "{streamed} and {sampled}");
}

#[test]
fn a_transaction_of_many_parts_stays_exact_and_can_be_read_meanwhile() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("parts");
    let options = Options {
        tuning: Tuning::eager(),
        ..Options::default()
    };
    let mut handle = create(&path, options);
    let first = pages(400);
    write(&mut handle, &first, usize::MAX);
    let second: Vec<Vec<u8>> = (0..first.len() as u64)
        .map(|n| leaf(n * 3 + 5000))
        .collect();
    let mut back = vec![0; PAGE];
    for (n, page) in (1u64..).zip(&second) {
        handle.write_at(page, n * PAGE as u64).expect("writes");
        let earlier = mix(n) % n + 1;
        handle
            .read_at(&mut back, earlier * PAGE as u64)
            .expect("reads");
        assert!(
            back == second[earlier as usize - 1],
            "page {earlier} after {n}"
        );
    }
    handle.discard();
    let report = handle.check(&mut |_, _| true).expect("checks");
    assert!(report.problems.is_empty(), "{report:?}");
    write(&mut handle, &second, usize::MAX);
    close(handle, &second, &path);
}
