//! The reserve at the end of the file (rule S11).

use super::*;
use crate::Error;
use densite_disk::sync::Mutex;
use densite_disk::{ErrorKind, File, FileAbove, Op, OpenMode, Result};
use densite_sim_disk::{SimDisk, SimFile};

const PATH: &str = "/a.db";
const MIB: u64 = 1 << 20;

/// A file of any length that notes where it is written.
struct Noted {
    file: SimFile,
    len: u64,
    written: Mutex<Vec<(u64, u64)>>,
    fails: Option<ErrorKind>,
}

impl FileAbove for Noted {
    fn below(&self) -> &dyn File {
        &self.file
    }

    fn len(&self) -> Result<u64> {
        Ok(self.len)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        assert!(buf.iter().all(|b| *b == 0));
        let end = offset + buf.len() as u64;
        self.written.lock().push((offset, end));
        self.fails.map_or(Ok(()), |kind| {
            Err(densite_disk::Error::new(kind, Op::Write))
        })
    }
}

/// The ranges that are written after `tail`, and the end of what is then known to be written.
/// Before that it is `known`. The file has `len` bytes.
fn reserve(tail: u64, known: u64, len: u64) -> (Vec<(u64, u64)>, u64) {
    let (written, known, kept) = reserve_where(tail, known, len, None);
    kept.expect("kept");
    (written, known)
}

fn reserve_where(
    tail: u64,
    known: u64,
    len: u64,
    fails: Option<ErrorKind>,
) -> (Vec<(u64, u64)>, u64, crate::Result<()>) {
    let disk = SimDisk::new(1);
    let noted = Noted {
        file: disk.open(PATH, OpenMode::Create).expect("open"),
        len,
        written: Mutex::new(Vec::new()),
        fails,
    };
    let slot = Slot {
        version: FORMAT_VERSION,
        seq: 1,
        salt: 1,
        tip: Tip::default(),
        flags: 0,
    };
    let mut durability = Durability::new((0, slot), false);
    durability.physical_len = known;
    let kept = durability.keep_reserve(&noted, tail, 0);
    (noted.written.into_inner(), durability.physical_len, kept)
}

#[test]
fn the_reserve_is_written_again_once_half_of_it_is_used() {
    const LEN: u64 = MIB / 8;
    assert_eq!(reserve(MIB, MIB, MIB), (vec![(MIB, MIB + LEN)], MIB + LEN));
    let half = MIB + LEN / 2;
    assert_eq!(reserve(MIB, half, half), (vec![], half));
    let less = half - 1;
    assert_eq!(
        reserve(MIB, less, less),
        (vec![(less, MIB + LEN)], MIB + LEN)
    );
    // The reserve of a small file is 16 KiB, of a large one 256 KiB.
    let (small, large) = (64 << 10, 100 * MIB);
    assert_eq!(reserve(small, small, small).1, small + (16 << 10));
    assert_eq!(reserve(large, large, large).1, large + (256 << 10));
    // The commit itself is written from `known` on.
    assert_eq!(reserve(MIB, 9, 9), (vec![(MIB, MIB + LEN)], MIB + LEN));
}

#[test]
fn a_reserve_that_another_process_left_is_not_written_again() {
    const LEN: u64 = MIB / 8;
    let more = MIB + 2 * LEN;
    assert_eq!(reserve(MIB, MIB, more), (vec![], more));
    assert_eq!(reserve(MIB, MIB, MIB + LEN), (vec![], MIB + LEN));
    let part = MIB + 5;
    assert_eq!(
        reserve(MIB, MIB, part),
        (vec![(part, MIB + LEN)], MIB + LEN)
    );
}

/// SQLite locks bytes there, and on some systems no other process can write to them (rule S13).
#[test]
fn the_reserve_leaves_out_the_unit_that_sqlite_locks() {
    const LEN: u64 = MIB / 4;
    const LOCK: u64 = LOCK_UNIT * UNIT_LEN;
    let all = |tail: u64| (vec![(tail, tail + LEN)], tail + LEN);
    let none = |tail: u64| (vec![], tail + LEN);
    for tail in [LOCK - MIB, LOCK - LEN, LOCK + UNIT_LEN, LOCK + MIB] {
        assert_eq!(reserve(tail, tail, tail), all(tail), "{tail}");
    }
    for tail in [
        LOCK - LEN + 1,
        LOCK - 1,
        LOCK,
        LOCK + 1,
        LOCK + UNIT_LEN - 1,
    ] {
        assert_eq!(reserve(tail, tail, tail), none(tail), "{tail}");
    }
}

#[test]
fn a_full_disk_has_no_reserve_and_other_failures_are_returned() {
    let (tried, known, kept) = reserve_where(MIB, MIB, MIB, Some(ErrorKind::Full));
    assert_eq!((tried.len(), known), (1, MIB));
    kept.expect("a full disk is not an error");
    let (_, known, kept) = reserve_where(MIB, MIB, MIB, Some(ErrorKind::Io));
    assert!(matches!(kept, Err(Error::Io(_))));
    assert_eq!(known, MIB);
}
