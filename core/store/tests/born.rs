//! A file whose creation is interrupted, again and again. Either it holds nothing and is created
//! again, or its header is written again, or it is not recognised as a store. It never counts as
//! damaged, because SQLite would then not roll back the journal beside it.
//!
//! `DENSITE_EFFORT` changes the number of seeds.

use densite_disk::{OpenMode, SyncKind};
use densite_sim_disk::{Capture, Extension, SimDisk};
use densite_store::{Error, Handle, Options};

const PATH: &str = "/a.db";
const PAGE: [u8; 4096] = [7; 4096];
/// Bytes of the header.
const HEADER: usize = 40;

fn open(disk: &SimDisk) -> Result<Handle, Error> {
    let file = disk.open(PATH, OpenMode::Create).expect("open");
    disk.sync_dir("/").expect("sync dir");
    let options = Options {
        threads: 0,
        ..Options::default()
    };
    Handle::open(Box::new(file), PATH, options)
}

/// The first commit, which makes the store.
fn write(handle: &mut Handle) {
    handle.write_at(&PAGE, 0).expect("write");
    handle.publish().expect("publish");
}

fn holds(disk: &SimDisk, what: &str) {
    let mut handle = open(disk).unwrap_or_else(|e| panic!("{what}: {e}"));
    let mut got = [0; PAGE.len()];
    handle
        .read_at(&mut got, 0)
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(got, PAGE, "{what}");
    let report = handle.check(&mut |_, _| true).expect("check");
    assert_eq!(report.problems, vec![], "{what}");
}

/// The sync before the header has made the slots durable, and they identify the file.
#[test]
fn a_header_torn_at_any_byte_is_written_again() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk).expect("open");
    write(&mut handle);
    handle.sync(SyncKind::Data).expect("sync");
    drop(handle);
    let whole = disk.contents(PATH).expect("the file exists");
    let lengths = [whole.len(), 16 << 10];
    for (torn, len) in (0..=HEADER * 2).flat_map(|torn| lengths.map(|len| (torn, len))) {
        let mut bytes = whole.get(..len).expect("long enough").to_vec();
        match torn {
            0..=HEADER => bytes[torn..HEADER].fill(0),
            _ => bytes[..torn - HEADER].fill(0),
        }
        let what = format!("torn {torn}, {len} bytes");
        let disk = SimDisk::new(1);
        disk.put_file(PATH, &bytes);
        let mut handle = open(&disk).unwrap_or_else(|e| panic!("{what}: {e}"));
        let there = handle.len().unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(there > 0, len == whole.len(), "{what}");
        write(&mut handle);
        handle.sync(SyncKind::Data).expect("sync");
        drop(handle);
        holds(&disk.power_cut(torn as u64), &what);
    }
}

/// Bytes that are removed from or inserted into the preamble move the second slot and the tip. Only
/// the creation's slot, which names the empty store, is then readable. But this file was closed.
#[test]
fn a_moved_preamble_is_damage_and_not_an_empty_database() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk).expect("open");
    write(&mut handle);
    handle.sync(SyncKind::Data).expect("sync");
    handle.close_clean().expect("close");
    drop(handle);
    let whole = disk.contents(PATH).expect("the file exists");
    let (mut errors, mut right) = (0, 0);
    for at in (HEADER..16_384).step_by(97) {
        for len in [1, 80, 463, 4096] {
            let part = at..(at + len).min(whole.len());
            let mut taken_out = whole.clone();
            taken_out.drain(part.clone());
            let mut put_in = whole.clone();
            put_in.splice(at..at, whole[part].iter().copied());
            for (how, bytes) in [("taken out", taken_out), ("put in", put_in)] {
                let what = format!("{len} bytes {how} at {at}");
                let disk = SimDisk::new(1);
                disk.put_file(PATH, &bytes);
                let mut got = [0; PAGE.len()];
                let read = open(&disk).and_then(|mut handle| {
                    assert!(handle.len()? > 0, "{what}: an empty database");
                    handle.read_at(&mut got, 0)
                });
                match read {
                    Ok(_) => assert_eq!(got, PAGE, "{what}"),
                    Err(_) => errors += 1,
                }
                right += usize::from(got == PAGE);
            }
        }
    }
    println!("{errors} errors, {right} right");
    assert!(errors > 500);
}

/// A disk can have any bytes where the file grew, and a sector can be torn at any byte. So slots
/// can be torn, and those of an earlier creation can appear.
#[test]
fn creations_interrupted_again_and_again_are_not_damage() {
    let seeds = densite_testing::seeds(300);
    let (mut cuts, mut foreign) = (0, 0);
    for seed in seeds {
        let mut disk = SimDisk::new(seed);
        drop(open(&disk).expect("open"));
        for life in 0..6 {
            disk.set_extension(Extension::Garbage);
            let what = format!("seed {seed}, life {life}");
            let mut handle = match open(&disk) {
                Ok(handle) => handle,
                // It is not recognised as a store: SQLite rolls back its journal, to no bytes.
                Err(Error::NotDensite) => {
                    foreign += 1;
                    break;
                }
                Err(e) => panic!("{what}: {e}"),
            };
            let change = 1 + (seed >> life) % 4;
            disk.capture_at(change, Capture::Cut(seed << 8 | life));
            write(&mut handle);
            drop(handle);
            let Some(cut) = disk.take_captures().pop() else {
                break;
            };
            disk = cut.disk;
            cuts += 1;
        }
    }
    println!("{cuts} power cuts, {foreign} not recognised as a store");
    assert!(cuts > densite_testing::Effort::wanted().least(300));
}

/// SQLite reads and writes page 1 in pieces before it knows the page size (rule S16).
#[test]
fn the_first_write_sets_the_page_size_if_its_length_is_a_page_size() {
    for (len, page) in [
        (512, 512),
        (1024, 1024),
        (65536, 65536),
        (1, 4096),
        (256, 4096),
        (600, 4096),
        (4095, 4096),
        (5000, 4096),
        (131_072, 4096),
    ] {
        let disk = SimDisk::new(1);
        let mut handle = open(&disk).expect("open");
        handle.write_at(&vec![7; len], 0).expect("write");
        assert_eq!(handle.page_size().expect("size"), page, "{len} bytes");
        handle.publish().expect("publish");
        let mut got = vec![0; len];
        handle.read_at(&mut got, 0).expect("read");
        assert!(got.iter().all(|b| *b == 7), "{len} bytes");
    }
}
