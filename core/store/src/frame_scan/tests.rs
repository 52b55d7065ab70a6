use super::*;
use crate::format::{SLOT_OFF, TIP_OFF};
use crate::{Handle, Options, Tuning};
use densite_disk::{OpenMode, SyncKind};
use densite_sim_disk::SimDisk;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const PAGE: usize = 4096;

/// A file with the pages of `model`, which were written by many commits, some of them with runs,
/// models, folds, and space that was used again.
fn made(seed: u64) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let disk = SimDisk::new(seed);
    let file = disk.open("/a.db", OpenMode::Create).expect("open");
    let options = Options {
        threads: 0,
        tuning: Tuning::eager(),
        ..Options::default()
    };
    let mut handle = Handle::open(Box::new(file), "/a.db", options).expect("open");
    let mut model: Vec<Vec<u8>> = Vec::new();
    for _ in 0..40 {
        for _ in 0..rng.random_range(1..60) {
            let page = rng.random_range(0..(model.len() + 1).min(700));
            let mut bytes = vec![0; PAGE];
            let random = rng.random_range(0..400);
            rng.fill(&mut bytes[..random]);
            bytes[PAGE - 4..].copy_from_slice(&(page as u32).to_le_bytes());
            (handle.write_at(&bytes, (page * PAGE) as u64)).expect("write");
            match model.get_mut(page) {
                Some(old) => *old = bytes,
                None => model.push(bytes),
            }
        }
        handle.publish().expect("publish");
        handle.sync(SyncKind::Full).expect("sync");
    }
    handle.close_clean().expect("close");
    drop(handle);
    (disk.contents("/a.db").expect("contents"), model)
}

fn scanned(bytes: &[u8]) -> (SimDisk, Scan) {
    let disk = SimDisk::new(1);
    disk.put_file("/b.db", bytes);
    let file = disk.open("/b.db", OpenMode::Read).expect("open");
    let scan = Scan::of(&file, &mut |_| true).expect("scans");
    (disk, scan.expect("not stopped"))
}

/// How many pages are there; each of them is that of the model.
fn right(bytes: &[u8], model: &[Vec<u8>], what: &str) -> usize {
    let (disk, scan) = scanned(bytes);
    assert_eq!(scan.page_size() as usize, PAGE, "{what}");
    let file = disk.open("/b.db", OpenMode::Read).expect("open");
    let mut found = 0;
    for (page, wanted) in (1..).zip(model) {
        let mut out = vec![0; PAGE];
        match scan.read_page(&file, page, &mut out) {
            Ok(()) => {
                assert!(out == *wanted, "{what}: page {page} has another content");
                found += 1;
            }
            Err(Error::Corrupt(damage)) => assert_eq!(damage.page, Some(page), "{what}"),
            Err(e) => panic!("{what}: {e}"),
        }
    }
    found
}

/// The places of all records of these kinds.
fn records(bytes: &[u8], kinds: &[Kind]) -> Vec<(usize, Record)> {
    let salt = Header::decode(bytes).expect("a header").salt;
    let mut found = Vec::new();
    let mut at = DATA_OFF as usize;
    while at < bytes.len() {
        match Record::open(&bytes[at..], salt, at as u64) {
            Some((record, ..)) => {
                if kinds.contains(&record.kind) {
                    found.push((at, record));
                }
                at += record.total_len() as usize;
            }
            None => at += 1,
        }
    }
    found
}

#[test]
fn all_pages_are_found_without_preamble_trailers_or_map() {
    for seed in 0..4 {
        let (whole, model) = made(seed);
        let mut lost = [(); 6].map(|()| whole.clone());
        lost[1][..DATA_OFF as usize].fill(0);
        lost[2][..DATA_OFF as usize].fill(0xaa);
        lost[3][SLOT_OFF[0] as usize..TIP_OFF as usize + 4096].fill(0);
        for (at, record) in records(&whole, &[Kind::Trailer, Kind::Jump, Kind::Space]) {
            lost[4][at + RECORD_LEN..at + record.total_len() as usize].fill(0x55);
        }
        for (at, record) in records(&whole, &[Kind::Node]) {
            lost[5][at..at + record.total_len() as usize].fill(0x55);
        }
        for (number, bytes) in lost.iter().enumerate() {
            let what = format!("seed {seed}, damage {number}");
            assert_eq!(right(bytes, &model, &what), model.len(), "{what}");
        }
    }
}

/// Wherever bytes are wrong, pages have their newest content, or are missing.
#[test]
fn a_damaged_frame_is_not_replaced_by_an_older_one() {
    let (whole, model) = made(9);
    let mut rng = StdRng::seed_from_u64(9);
    // Of each page the newest.
    let mut frames = records(&whole, &[Kind::Frame]);
    frames.sort_by_key(|(_, record)| (record.number, std::cmp::Reverse(record.version)));
    frames.dedup_by_key(|(_, record)| record.number);
    let mut missing = 0;
    for number in 0..60 {
        let mut bytes = whole.clone();
        let (at, record) = frames[rng.random_range(0..frames.len())];
        bytes[at + rng.random_range(0..record.total_len() as usize)] ^= 8;
        let found = right(&bytes, &model, &format!("damage {number} at {at}"));
        missing += usize::from(found < model.len());
        assert!(model.len() - found <= 1 << record.run_log2, "at {at}");
    }
    assert!(missing > 10, "{missing} of 60");
}

#[test]
fn a_scan_can_be_stopped_and_a_foreign_file_has_no_frames() {
    let disk = SimDisk::new(1);
    disk.put_file("/b.db", &vec![7; 100_000]);
    let file = disk.open("/b.db", OpenMode::Read).expect("open");
    let found = Scan::of(&file, &mut |_| true);
    assert!(matches!(found, Err(Error::NotDensite)));
    let mut bytes = vec![0; 9 << 20];
    bytes[..DATA_OFF as usize].fill(1);
    disk.put_file("/b.db", &bytes);
    let file = disk.open("/b.db", OpenMode::Read).expect("open");
    let stopped = Scan::of(&file, &mut |read| read < 5 << 20);
    assert!(matches!(stopped, Ok(None)));
}
