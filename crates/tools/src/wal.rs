//! Reads pages that are in a WAL and not yet in the database file, if the old snapshot of a reader
//! keeps the WAL from being emptied. The state to copy is the database file with these pages laid
//! over it. The caller has a snapshot that is not all in the file, so no process begins the WAL again:
//! frames are only added. A concurrent checkpoint only moves pages that are laid over the file
//! anyway, and none of a commit behind the snapshot.
//!
//! A frame counts if and only if its salts equal those of the header, its checksum continues the
//! chain from the header, and a frame at or after it ends a commit (SQLite's rule for recovery).

use crate::error::{Error, Result};
use crate::header::u32_at;
use densite_disk::File;
use std::collections::HashMap;
use std::path::Path;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const VERSION: u32 = 3_007_000;

/// The newest committed version of each page in a WAL.
///
/// The WAL header and a frame's header are big-endian:
///
/// ```text
/// offset  size  WAL header                     offset  size  frame header
///      0     4  0x377f0682 or ..83                  0     4  page number
///      4     4  3007000                             4     4  pages after commit, 0 inside one
///      8     4  page size                           8     8  salts, as in the WAL header
///     16     8  salts                              16     8  checksum
///     24     8  checksum of the 24 bytes above
/// ```
#[derive(Debug)]
pub(crate) struct Wal {
    /// Offset in bytes of each page, by page number from 1.
    pages: HashMap<u32, u64>,
    /// Pages of the database after the last commit.
    pub(crate) page_count: u32,
    /// The header, with the salts of these frames.
    header: [u8; HEADER],
}

impl Wal {
    /// Offset in the WAL of the newest version of `page`.
    pub(crate) fn find(&self, page: u32) -> Option<u64> {
        self.pages.get(&page).copied()
    }

    /// Whether the WAL still has these frames, and did not begin again over them.
    pub(crate) fn is_same(&self, file: &dyn File, path: &Path) -> Result<bool> {
        let mut header = [0u8; HEADER];
        let read = file.read_at(&mut header, 0);
        let read = read.map_err(|e| Error::from_disk(path, "read", &e))?;
        Ok(read == HEADER && header == self.header)
    }

    /// Reads a WAL with pages of `page_size` bytes; `None` if it holds no complete commit.
    pub(crate) fn read(file: &dyn File, path: &Path, page_size: u32) -> Result<Option<Wal>> {
        let failed = |e| Error::from_disk(path, "read", &e);
        let len = file.len().map_err(failed)?;
        let mut header = [0u8; HEADER];
        if file.read_at(&mut header, 0).map_err(failed)? < HEADER {
            return Ok(None);
        }
        let word = |at| u32_at(&header, at).unwrap_or(0);
        let big = match word(0) {
            0x377f_0682 => false,
            0x377f_0683 => true,
            _ => return Ok(None),
        };
        let mut sum = checksum(big, (0, 0), &header[..24]);
        if word(4) != VERSION || word(8) != page_size || sum != (word(24), word(28)) {
            return Ok(None);
        }
        let salts = (word(16), word(20));

        let mut wal = Wal {
            pages: HashMap::new(),
            page_count: 0,
            header,
        };
        let mut open: Vec<(u32, u64)> = Vec::new();
        let mut frame = vec![0u8; FRAME_HEADER + page_size as usize];
        let mut at = HEADER as u64;
        while at + frame.len() as u64 <= len {
            if file.read_at(&mut frame, at).map_err(failed)? < frame.len() {
                break;
            }
            let (head, page) = frame.split_at(FRAME_HEADER);
            let word = |at| u32_at(head, at).unwrap_or(0);
            let number = word(0);
            sum = checksum(big, checksum(big, sum, &head[..8]), page);
            if number == 0 || (word(8), word(12)) != salts || (word(16), word(20)) != sum {
                break;
            }
            open.push((number, at + FRAME_HEADER as u64));
            if word(4) != 0 {
                wal.page_count = word(4);
                wal.pages.extend(open.drain(..));
            }
            at += frame.len() as u64;
        }
        Ok((wal.page_count != 0).then_some(wal))
    }
}

/// SQLite's WAL checksum over `bytes`, whose length must be a multiple of 8.
fn checksum(big: bool, (mut a, mut b): (u32, u32), bytes: &[u8]) -> (u32, u32) {
    let word = |c: &[u8]| {
        let c = c.try_into().unwrap_or([0; 4]);
        if big {
            u32::from_be_bytes(c)
        } else {
            u32::from_le_bytes(c)
        }
    };
    for pair in bytes.chunks_exact(8) {
        let (x, y) = pair.split_at(4);
        a = a.wrapping_add(word(x)).wrapping_add(b);
        b = b.wrapping_add(word(y)).wrapping_add(a);
    }
    (a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_disk::{OpenMode, RealFile};
    use rusqlite::Connection;

    /// A WAL with two commits, as SQLite writes it, and the length of the database in pages after
    /// each commit.
    fn sample(dir: &Path) -> (Vec<u8>, [i64; 2], Connection) {
        let db = Connection::open(dir.join("a.db")).expect("open");
        let pages = |db: &Connection| {
            db.query_row("PRAGMA page_count", [], |r| r.get(0))
                .expect("a number")
        };
        db.execute_batch("PRAGMA page_size=1024; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(a)")
            .expect("create");
        let first = pages(&db);
        db.execute_batch("INSERT INTO t VALUES(zeroblob(20000))")
            .expect("insert");
        let counts = [first, pages(&db)];
        (
            std::fs::read(dir.join("a.db-wal")).expect("read"),
            counts,
            db,
        )
    }

    fn parse(dir: &Path, bytes: &[u8]) -> Option<Wal> {
        let path = dir.join("copy-wal");
        std::fs::write(&path, bytes).expect("write");
        let file = RealFile::open(&path, OpenMode::Read).expect("open");
        Wal::read(&file, &path, 1024).expect("read")
    }

    #[test]
    fn whole_commits_count_and_torn_ones_do_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let (bytes, [first, second], _db) = sample(dir.path());
        let whole = parse(dir.path(), &bytes).expect("two commits");
        assert_eq!(i64::from(whole.page_count), second);
        let at = whole.find(1).expect("page 1 changed");
        assert!(bytes[at as usize..].starts_with(b"SQLite format 3\0"));
        assert_eq!(whole.find(second as u32 + 1), None);

        // The last frame is torn at any place: its commit does not count, and the one before does.
        let last = bytes.len() - (FRAME_HEADER + 1024);
        for at in [
            last,
            last + 5,
            last + 9,
            last + 17,
            last + FRAME_HEADER,
            bytes.len() - 1,
        ] {
            let mut torn = bytes.clone();
            torn[at] ^= 1;
            let wal = parse(dir.path(), &torn).expect("one commit");
            assert_eq!(i64::from(wal.page_count), first, "byte {at}");
        }
        assert_eq!(
            parse(dir.path(), &bytes[..bytes.len() - 1]).map(|w| i64::from(w.page_count)),
            Some(first)
        );
    }

    #[test]
    fn a_wal_that_begins_again_is_not_the_same() {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, _, db) = sample(dir.path());
        let path = dir.path().join("a.db-wal");
        let file = RealFile::open(&path, OpenMode::Read).expect("open");
        let wal = Wal::read(&file, &path, 1024).expect("read");
        let wal = wal.expect("two commits");
        let is_same = || wal.is_same(&file, &path).expect("read");
        db.execute_batch("INSERT INTO t VALUES(1)").expect("added");
        assert!(is_same());
        db.execute_batch("PRAGMA wal_checkpoint(RESTART); INSERT INTO t VALUES(2)")
            .expect("begun again");
        assert!(!is_same());
    }

    #[test]
    fn a_wal_without_a_header_has_no_pages() {
        let dir = tempfile::tempdir().expect("a directory");
        let (bytes, ..) = sample(dir.path());
        assert!(parse(dir.path(), b"").is_none());
        assert!(parse(dir.path(), &bytes[..HEADER]).is_none());
        for at in 0..HEADER {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert!(parse(dir.path(), &bad).is_none(), "byte {at}");
        }
    }
}
