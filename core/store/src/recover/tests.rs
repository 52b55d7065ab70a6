//! Tests of what a file is and which commit it holds, if parts of its preamble are lost, changed or
//! being written.

use super::*;
use crate::{Handle, Options};
use densite_disk::{FileAbove, OpenMode, SyncKind};
use densite_sim_disk::SimDisk;
use std::sync::atomic::{AtomicU32, Ordering};

const PATH: &str = "/a.db";
const PAGE: usize = 4096;
const PREAMBLE: usize = DATA_OFF as usize;
/// Where header and slots have the version of the format.
const HEADER_VERSION: usize = 16;
const SLOT_VERSION: usize = 4;

/// A closed file of so many commits. With 0 commits: as its creation leaves it.
fn file_of(commits: u64) -> Vec<u8> {
    let disk = SimDisk::new(1);
    let file = disk.open(PATH, OpenMode::Create).expect("open");
    let options = Options {
        threads: 0,
        ..Options::default()
    };
    let mut handle = Handle::open(Box::new(file), PATH, options).expect("open");
    handle.write_at(&[9; PAGE], 0).expect("write");
    if commits == 0 {
        handle.discard();
        drop(handle);
        let mut bytes = disk.contents(PATH).expect("the file exists");
        bytes.truncate(PREAMBLE);
        return bytes;
    }
    handle.publish().expect("publish");
    for n in 1..commits {
        handle.write_at(&[n as u8; PAGE], 0).expect("write");
        handle.sync(SyncKind::Data).expect("sync");
    }
    handle.close_clean().expect("close");
    drop(handle);
    disk.contents(PATH).expect("the file exists")
}

fn placed(bytes: &[u8]) -> densite_sim_disk::SimFile {
    let disk = SimDisk::new(1);
    disk.put_file(PATH, bytes);
    disk.open(PATH, OpenMode::Read).expect("open")
}

fn without_header(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[..HEADER_LEN].fill(0);
    bytes
}

fn without_slots(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for at in copies() {
        bytes[at..at + SLOT_LEN].fill(0);
    }
    bytes
}

fn copies() -> impl Iterator<Item = usize> {
    let both = |off: u64| [off, off + SLOT_COPY];
    SLOT_OFF.into_iter().flat_map(both).map(|at| at as usize)
}

/// Changes the version of all slots, with right checksums.
fn with_slot_version(bytes: &[u8], version: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for at in copies() {
        if let Some(mut slot) = Slot::decode(&bytes[at..at + SLOT_LEN]) {
            slot.version = version;
            bytes[at..at + SLOT_LEN].copy_from_slice(&slot.encode());
            assert_eq!(bytes[at + SLOT_VERSION], version as u8);
        }
    }
    bytes
}

/// A header with this version and the checksum of the previous one.
fn with_torn_version(bytes: &[u8], version: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[HEADER_VERSION] = version;
    bytes
}

fn with_header(bytes: &[u8], version: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let salt = 5;
    bytes[..HEADER_LEN].copy_from_slice(&Header { version, salt }.encode());
    bytes
}

fn problem(bytes: &[u8]) -> String {
    match find(&placed(bytes)) {
        Ok(None) => "none: it is empty".to_owned(),
        Ok(Some(found)) => format!("none: commit {}", found.state.tip().commit),
        Err(Error::Corrupt(damage)) => format!("{}: {}", damage.what, damage.problem),
        Err(Error::NewerFormat { found, .. }) => format!("newer format {found}"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn a_file_is_recognised_by_its_header_or_else_by_its_slots() {
    let (born, used) = (file_of(0), file_of(3));
    let kind = |bytes: &[u8]| probe(&placed(bytes)).expect("probe");
    assert_eq!(kind(&[]), Kind::Empty);
    assert_eq!(kind(&used), Kind::Densite);
    assert_eq!(kind(&with_torn_version(&used, 7)), Kind::Densite, "newer");
    assert_eq!(kind(&used[..HEADER_LEN - 1]), Kind::Densite, "damaged");
    assert_eq!(
        kind(&without_header(&born)),
        Kind::Empty,
        "its creation was interrupted"
    );
    assert_eq!(
        kind(&without_header(&used)),
        Kind::Densite,
        "its slots identify it"
    );
    let nothing = without_slots(&without_header(&used));
    assert_eq!(
        kind(&nothing),
        Kind::Other,
        "longer than after its creation"
    );
    assert_eq!(
        kind(&nothing[..PREAMBLE]),
        Kind::Empty,
        "zeros of a creation"
    );
    let mut other = nothing[..PREAMBLE].to_vec();
    other[63] = 1;
    assert_eq!(kind(&other), Kind::Other, "SQLite's header has 100 bytes");
    assert_eq!(kind(b"SQLite format 3\0"), Kind::Other);
}

/// Otherwise SQLite would delete the journal beside it (rule S7).
#[test]
fn a_file_cut_to_its_preamble_is_not_an_empty_database() {
    let (born, used) = (file_of(0), file_of(3));
    assert_eq!(problem(&without_header(&born)), "none: it is empty");
    let cut = without_header(&used[..PREAMBLE]);
    assert_eq!(problem(&cut), "header: the magic is missing");
    assert_eq!(probe(&placed(&cut)).expect("probe"), Kind::Densite);
    // With bytes after the preamble, the first slot alone does not make an empty database.
    let mut long = without_header(&born);
    long.push(1);
    assert_eq!(probe(&placed(&long)).expect("probe"), Kind::Densite);
}

#[test]
fn a_lost_header_is_damage_if_a_slot_names_a_commit() {
    let used = file_of(3);
    assert_eq!(problem(&used), "none: commit 3");
    let lost = without_header(&used);
    assert_eq!(problem(&lost), "header: the magic is missing");
    let not_ours = find(&placed(&without_slots(&lost)));
    assert!(matches!(not_ours, Err(Error::NotDensite)));
    let slots = problem(&without_slots(&used));
    assert_eq!(slots, "commit slots: none of the four copies is valid");
}

/// Otherwise a flipped bit would make a user look for a newer version, or a newer version's file
/// would count as damaged.
#[test]
fn a_header_of_a_newer_version_is_believed_if_it_is_whole_or_no_slot_contradicts() {
    let used = file_of(3);
    let torn = with_torn_version(&used, 7);
    assert_eq!(problem(&torn), "header: checksum mismatch");
    assert_eq!(problem(&without_slots(&torn)), "newer format 7");
    let newer_slots = with_slot_version(&torn, FORMAT_VERSION + 1);
    assert_eq!(problem(&newer_slots), "newer format 7");
    assert_eq!(problem(&with_header(&used, 7)), "newer format 7");
    // The header can be older than the slots of a newer version.
    let newer_slots = with_slot_version(&used, FORMAT_VERSION + 1);
    assert_eq!(problem(&newer_slots), "newer format 2");
    // An interrupted creation does not show a newer version either.
    let torn_birth = with_torn_version(&file_of(0), 7);
    assert_eq!(problem(&torn_birth), "none: commit 0");
}

#[test]
fn a_file_that_ends_within_its_preamble_is_damage() {
    let born = file_of(0);
    for len in [HEADER_LEN, 5000, 9000, 13_000, PREAMBLE - 1] {
        let ends = "preamble: the file ends within it";
        assert_eq!(problem(&born[..len]), ends, "{len}");
    }
    assert_eq!(problem(&born), "none: commit 0");
}

#[test]
fn a_slot_of_another_file_is_damage_and_is_named() {
    for commits in [1, 2, 3, 4] {
        let used = with_header(&file_of(commits), FORMAT_VERSION);
        let (block, _) = slot::choose(&used).expect("a slot");
        let Err(Error::Corrupt(damage)) = find(&placed(&used)) else {
            panic!("{commits} commits: no damage");
        };
        let problem = "it belongs to another file";
        assert_eq!(
            (damage.what, damage.problem),
            ("commit slot".into(), problem.into())
        );
        assert_eq!(damage.offset, SLOT_OFF[block], "{commits} commits");
    }
}

#[test]
fn the_salt_is_that_of_the_header_or_else_of_the_slots() {
    let used = file_of(3);
    let of = |bytes: &[u8]| salt_of(&placed(bytes)).expect("read");
    let salt = of(&used);
    assert!(salt.is_some_and(|salt| salt > 1), "it is random");
    assert_eq!(of(&without_header(&used)), salt);
    assert_eq!(of(&without_slots(&used)), salt);
    assert_eq!(of(&without_slots(&without_header(&used))), None);
    assert_eq!(of(&with_header(&used, FORMAT_VERSION)), Some(5));
}

/// Returns a preamble with a tip that is being written, and later the file as it is.
struct Moving {
    file: densite_sim_disk::SimFile,
    reads: AtomicU32,
    torn_reads: u32,
}

impl FileAbove for Moving {
    fn below(&self) -> &dyn File {
        &self.file
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> densite_disk::Result<usize> {
        let n = self.file.read_at(buf, offset)?;
        if offset == 0 {
            let read = self.reads.fetch_add(1, Ordering::Relaxed);
            if read < self.torn_reads {
                // Each time another byte is torn.
                buf[TIP_OFF as usize + read as usize] ^= 0xff;
            }
        }
        Ok(n)
    }
}

/// What is found while a writer publishes is not reported as a cut: the same must be found twice.
#[test]
fn a_tip_that_is_being_written_is_read_again() {
    let used = file_of(3);
    for torn_reads in [1, 2, 5] {
        let moving = Moving {
            file: placed(&used),
            reads: AtomicU32::new(0),
            torn_reads,
        };
        let found = find(&moving).expect("found").expect("not empty");
        assert_eq!(found.cut, None, "{torn_reads}");
        assert_eq!(found.state.tip().commit, 3);
        assert_eq!(moving.reads.into_inner(), torn_reads + 1);
    }
    let mut torn = used;
    torn[TIP_OFF as usize] ^= 0xff;
    let found = find(&placed(&torn)).expect("found").expect("not empty");
    assert!(found.cut.is_some(), "it stays so");
}

/// A new process on a disk that holds these bytes.
fn process(bytes: &[u8]) -> (SimDisk, Handle) {
    let disk = SimDisk::new(1);
    disk.put_file(PATH, bytes);
    let file = disk.open(PATH, OpenMode::Write).expect("open");
    let options = Options {
        threads: 0,
        ..Options::default()
    };
    let handle = Handle::open(Box::new(file), PATH, options).expect("open");
    (disk, handle)
}

/// The bytes with another commit, by a new process that has given up so many attempts.
fn with_commit_after(bytes: &[u8], given_up: u8) -> Vec<u8> {
    let (disk, mut handle) = process(bytes);
    for _ in 0..given_up {
        handle.write_at(&[6; PAGE], 0).expect("write");
        handle.discard();
    }
    handle.write_at(&[given_up; PAGE], 0).expect("write");
    handle.publish().expect("publish");
    disk.contents(PATH).expect("the file exists")
}

/// A power cut took the records of the commit that the tip names. An attempt of an earlier writer
/// is whole in their place, with the same number or a higher one.
#[test]
fn an_attempt_that_the_tip_does_not_name_is_not_a_commit() {
    let base = file_of(2);
    let theirs = with_commit_after(&base, 0);
    let tip = TIP_OFF as usize..TIP_OFF as usize + TIP_LEN;
    assert_eq!(problem(&theirs), "none: commit 3");
    for (given_up, number) in [(0, 3), (1, 4)] {
        let mut bytes = with_commit_after(&base, given_up);
        assert_eq!(problem(&bytes), format!("none: commit {number}"));
        bytes[tip.clone()].copy_from_slice(&theirs[tip.clone()]);
        let found = find(&placed(&bytes)).expect("found").expect("not empty");
        assert_eq!(found.state.tip().commit, 2, "not {number}");
        let cut = found.cut.expect("the cut is reported");
        assert!(cut.contains("those after 2 are incomplete"), "{cut}");
        assert_eq!(found.state.highest(), 3, "its number is not given again");
    }
}

/// A file in which the creation's slot is readable but not the first commit. `change` modifies it;
/// its second slot was never written.
fn first_commit_lost(change: impl Fn(&mut Vec<u8>)) -> String {
    let (disk, mut handle) = process(&[]);
    handle.write_at(&[9; PAGE], 0).expect("write");
    handle.publish().expect("publish");
    let mut bytes = disk.contents(PATH).expect("the file exists");
    bytes[PREAMBLE] ^= 0xff;
    change(&mut bytes);
    problem(&bytes)
}

/// A first commit that was never durable can be missing. If the file shows that it was durable, the
/// file is not empty (rule S7).
#[test]
fn a_first_commit_that_is_lost_leaves_an_empty_file_only_if_it_was_never_durable() {
    let tip = TIP_OFF as usize;
    assert_eq!(first_commit_lost(|_| ()), "none: commit 0");
    let torn = first_commit_lost(|bytes| bytes[tip] ^= 0xff);
    assert_eq!(torn, "none: commit 0");
    let zero = first_commit_lost(|bytes| bytes[tip..tip + TIP_LEN].fill(0));
    assert_eq!(zero, "tip: it is zero, which no tip ever was");
    // Only hash and checksum are zero: two tips would have left theirs.
    let no_hash = first_commit_lost(|bytes| bytes[tip + TIP_HASH..tip + TIP_LEN].fill(0));
    assert_eq!(no_hash, "tip: it is zero, which no tip ever was");
    for at in [HEADER_LEN, tip - 1, tip + TIP_LEN, PREAMBLE - 1] {
        let stray = first_commit_lost(|bytes| bytes[at] = 1);
        assert_eq!(
            stray, "preamble: there are bytes where nothing is ever written",
            "{at}"
        );
    }
    let second_slot = [SLOT_OFF[1], SLOT_OFF[1] + SLOT_COPY].map(|at| at as usize);
    for at in second_slot {
        let lost =
            "first commit: it is not whole, and neither is the slot that was written after it";
        assert_eq!(first_commit_lost(|bytes| bytes[at] = 1), lost, "{at}");
    }
}

/// There are two copies, so that a torn sector costs no slot, and a tip that identifies the file.
#[test]
fn a_creation_leaves_two_copies_of_its_slot_and_a_tip() {
    let born = file_of(0);
    let salt = salt_of(&placed(&born)).expect("read").expect("a salt");
    let [first, second] = [SLOT_OFF[0], SLOT_OFF[0] + SLOT_COPY].map(|at| at as usize);
    let slot = Slot::decode(&born[first..first + SLOT_LEN]).expect("a slot");
    assert_eq!(
        born[first..first + SLOT_LEN],
        born[second..second + SLOT_LEN]
    );
    let tip = Tip::decode(&born[TIP_OFF as usize..], salt).expect("a tip");
    assert_eq!((slot.salt, slot.tip), (salt, tip));
    assert_eq!(tip, State::empty(salt).tip());
}
