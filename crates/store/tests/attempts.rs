//! Of two attempts at the commit of one number the tip names one; the other is none, however whole it is.

use densite_disk::sim::SimDisk;
use densite_disk::{OpenMode, SyncKind};
use densite_store::{CodecChoice, Handle, Options};
use std::sync::atomic::{AtomicU32, Ordering};

const PATH: &str = "/a.db";
const PAGE: usize = 4096;
/// Where the tip is: docs/FORMAT.md, "Preamble".
const TIP: std::ops::Range<usize> = 12288..16384;

/// Each as a process of its own: what handles of one process know they share.
fn open(disk: &SimDisk) -> Handle {
    static PROCESSES: AtomicU32 = AtomicU32::new(0);
    let process = PROCESSES.fetch_add(1, Ordering::Relaxed).to_string();
    let file = disk.open(PATH, OpenMode::Create).expect("open");
    let options = Options {
        threads: 0,
        codec: CodecChoice::Raw,
        ..Options::default()
    };
    Handle::open(Box::new(file), &process, options).expect("open")
}

fn put(handle: &mut Handle, number: u64, byte: u8) {
    let page = [byte; PAGE];
    handle.write_at(&page, number * PAGE as u64).expect("write");
}

/// The first byte of each page.
fn pages(disk: &SimDisk) -> Vec<u8> {
    let mut handle = open(disk);
    let mut bytes = vec![0; 3 * PAGE];
    handle.read_at(&mut bytes, 0).expect("read");
    bytes.iter().step_by(PAGE).copied().collect()
}

/// The file of one disk, but for the tip, which is another's.
fn with_tip(disk: &SimDisk, other: &SimDisk) -> SimDisk {
    let mut bytes = disk.contents(PATH).expect("a file");
    let tip = other.contents(PATH).expect("a file")[TIP].to_vec();
    bytes[TIP].copy_from_slice(&tip);
    let mixed = SimDisk::new(1);
    mixed.place(PATH, &bytes);
    mixed
}

/// A process is killed between its commit and the tip. The next writer begins with the same number in the same place, and its tip is all that comes to the disk before the power goes, while the system had written back all of the
/// first one's.
#[test]
fn what_a_killed_writer_did_not_publish_is_not_what_the_next_one_has_published() {
    let disk = SimDisk::new(1);
    let mut first = open(&disk);
    for number in 0..3 {
        put(&mut first, number, 1);
    }
    first.sync(SyncKind::Data).expect("sync");
    let before = disk.snapshot();
    put(&mut first, 1, 2);
    first.publish().expect("publish");
    let killed = with_tip(&disk.snapshot(), &before);
    assert_eq!(pages(&killed), [1, 1, 1], "nobody has seen it");
    let left = killed.snapshot();
    let mut next = open(&killed);
    put(&mut next, 2, 3);
    next.publish().expect("publish");
    let published = killed.snapshot();
    assert_eq!(pages(&published), [1, 1, 3]);
    assert_eq!(pages(&with_tip(&left, &published)), [1, 1, 1]);
}
