//! Reads pages that are in a WAL and not yet in the database file, if the old snapshot of a reader
//! keeps the WAL from being emptied. The state to copy is the database file with these pages laid
//! over it. The caller has a snapshot that is not all in the file, so no process begins the WAL again:
//! frames are only added. A concurrent checkpoint only moves pages that are laid over the file
//! anyway, and none of a commit behind the snapshot.

use crate::error::{Error, Result};
use densite_disk::File;
use densite_sqlite_format::wal::{Chain, FRAME_HEADER_LEN, HEADER_LEN};
use std::collections::HashMap;
use std::path::Path;

/// The newest committed version of each page in a WAL.
#[derive(Debug)]
pub(crate) struct Wal {
    /// Offset in bytes of each page, by page number from 1.
    pages: HashMap<u32, u64>,
    /// Pages of the database after the last commit.
    pub(crate) page_count: u32,
    /// The header, with the salts of these frames.
    header: [u8; HEADER_LEN],
}

impl Wal {
    /// Offset in the WAL of the newest version of `page`.
    pub(crate) fn find(&self, page: u32) -> Option<u64> {
        self.pages.get(&page).copied()
    }

    /// Whether the WAL still has these frames, and did not begin again over them.
    pub(crate) fn is_same(&self, file: &dyn File, path: &Path) -> Result<bool> {
        let mut header = [0u8; HEADER_LEN];
        let read = file.read_at(&mut header, 0);
        let read = read.map_err(|e| Error::from_disk(path, "read", &e))?;
        Ok(read == HEADER_LEN && header == self.header)
    }

    /// Reads a WAL with pages of `page_size` bytes; `None` if it holds no complete commit.
    pub(crate) fn read(file: &dyn File, path: &Path, page_size: u32) -> Result<Option<Wal>> {
        let failed = |e| Error::from_disk(path, "read", &e);
        let len = file.len().map_err(failed)?;
        let mut header = [0u8; HEADER_LEN];
        if file.read_at(&mut header, 0).map_err(failed)? < HEADER_LEN {
            return Ok(None);
        }
        let Some(mut chain) = Chain::begin(&header, page_size) else {
            return Ok(None);
        };
        let mut wal = Wal {
            pages: HashMap::new(),
            page_count: 0,
            header,
        };
        let mut open: Vec<(u32, u64)> = Vec::new();
        let mut frame = vec![0u8; FRAME_HEADER_LEN + page_size as usize];
        let mut at = HEADER_LEN as u64;
        while at + frame.len() as u64 <= len {
            if file.read_at(&mut frame, at).map_err(failed)? < frame.len() {
                break;
            }
            let Some(next) = chain.next(&frame) else {
                break;
            };
            open.push((next.page, at + FRAME_HEADER_LEN as u64));
            if next.commit != 0 {
                wal.page_count = next.commit;
                wal.pages.extend(open.drain(..));
            }
            at += frame.len() as u64;
        }
        Ok((wal.page_count != 0).then_some(wal))
    }
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
        let last = bytes.len() - (FRAME_HEADER_LEN + 1024);
        for at in [
            last,
            last + 5,
            last + 9,
            last + 17,
            last + FRAME_HEADER_LEN,
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
        assert!(parse(dir.path(), &bytes[..HEADER_LEN]).is_none());
        for at in 0..HEADER_LEN {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert!(parse(dir.path(), &bad).is_none(), "byte {at}");
        }
    }
}
