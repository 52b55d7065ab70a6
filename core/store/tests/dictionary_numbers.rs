//! A process can use the number of a dictionary again whose commit another process never made. The
//! other process must then forget its own dictionary of that number.

use crate::common::cells;

use densite_disk::{Op, OpenMode, SyncKind};
use densite_sim_disk::{Fault, FaultKind, SimDisk};
use densite_store::{CodecChoice, Handle, Options};

const PATH: &str = "/a.db";
const PAGE: usize = 4096;
/// Pages that each of the two processes writes.
const PAGES: u64 = 200;
const FIRST: [&str; 6] = [
    "carefully",
    "final",
    "deposits",
    "sleep",
    "among",
    "accounts",
];
const SECOND: [&str; 6] = [
    "Hamburg",
    "Szczecin",
    "Reykjavik",
    "Timisoara",
    "Oulu",
    "Vlissingen",
];

fn open(disk: &SimDisk, process: &str, codec: CodecChoice) -> Handle {
    let file = disk.open(PATH, OpenMode::Create).expect("open");
    disk.sync_dir("/").expect("sync dir");
    let options = Options {
        threads: 0,
        codec,
        ..Options::default()
    };
    Handle::open(Box::new(file), process, options).expect("open")
}

/// The `n`-th leaf of a table of a text of these words.
fn leaf(words: &[&str], n: u64) -> Vec<u8> {
    let cells = (0..60).map(|row| {
        let x = (n * 60 + row).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let text: Vec<&str> = (0..4)
            .map(|i| words[(x >> (5 * i)) as usize % words.len()])
            .collect();
        let text = text.join(" ");
        let kind = 13 + 2 * text.len();
        let mut record = match u8::try_from(kind) {
            Ok(short @ ..=127) => vec![2, short],
            _ => vec![3, 0x80 | (kind >> 7) as u8, (kind & 127) as u8],
        };
        record.extend(text.bytes());
        [&[record.len() as u8, (row + 1) as u8], &record[..]].concat()
    });
    cells::leaf(PAGE, cells)
}

/// Trains on these words and writes pages of them from `first` on.
fn put(handle: &mut Handle, words: &[&str], first: u64) {
    let samples: Vec<Vec<u8>> = (1000..1600).map(|n| leaf(words, n)).collect();
    handle.learn(&samples, 64 << 20).expect("learn");
    for n in 0..PAGES {
        let at = (first + n) * PAGE as u64;
        handle.write_at(&leaf(words, n), at).expect("write");
    }
}

fn holds(handle: &mut Handle, who: &str, words: &[&str], first: u64) {
    for n in 0..PAGES {
        let mut got = vec![0; PAGE];
        let page = first + n + 1;
        handle
            .read_at(&mut got, (first + n) * PAGE as u64)
            .unwrap_or_else(|e| panic!("{who}, page {page}: {e}"));
        assert!(got == leaf(words, n), "{who}, page {page}");
    }
}

fn two_processes(codec: CodecChoice) {
    let disk = SimDisk::new(1);
    let mut one = open(&disk, "one", codec);
    one.write_at(&leaf(&FIRST, 0), 0).expect("write");
    one.sync(SyncKind::Data).expect("sync");
    let mut other = open(&disk, "other", codec);

    put(&mut one, &FIRST, 1);
    disk.fail(Fault::new(FaultKind::Io, Op::Write));
    assert!(one.publish().is_err());
    disk.clear_faults();
    one.discard();

    put(&mut other, &SECOND, 1);
    other.sync(SyncKind::Data).expect("sync");
    assert!(other.stats().expect("stats").dictionaries > 0);
    holds(&mut one, "one", &SECOND, 1);

    // Others can read what the first one writes now.
    for n in 0..PAGES {
        let at = (1 + PAGES + n) * PAGE as u64;
        one.write_at(&leaf(&FIRST, n), at).expect("write");
    }
    one.sync(SyncKind::Data).expect("sync");
    for who in ["other", "third"] {
        let mut handle = open(&disk, who, codec);
        holds(&mut handle, who, &SECOND, 1);
        holds(&mut handle, who, &FIRST, 1 + PAGES);
        let report = handle.check(&mut |_, _| true).expect("check");
        assert_eq!(report.problems, vec![]);
    }
}

#[test]
fn a_zstd_dictionary_that_was_given_up_is_forgotten() {
    two_processes(CodecChoice::Zstd);
}

#[test]
fn a_model_that_was_given_up_is_forgotten() {
    two_processes(CodecChoice::Auto);
}
