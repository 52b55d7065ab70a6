//! The database header, with which page 1 begins
//! (<https://www.sqlite.org/fileformat2.html#the_database_header>).
//!
//! | from | bytes | what |
//! |---|---|---|
//! | 0 | 16 | `SQLite format 3`, and a zero |
//! | 16 | 2 | page size in bytes: a power of two from 512; 1 is 65536 |
//! | 18 | 2 | versions that a program must know to write and to read: 1 in a rollback mode, 2 with a WAL |
//! | 20 | 1 | reserved bytes at the end of each page |
//! | 21 | 3 | payload fractions: 64, 32, 32 |
//! | 24 | 4 | change counter |
//! | 28 | 4 | number of pages, valid if the field at 92 equals the change counter |
//! | 32 | 4 | first trunk page of the freelist, or 0 |
//! | 36 | 4 | pages on the freelist |
//! | 40 | 4 | schema cookie |
//! | 44 | 4 | schema format, 1 to 4 |
//! | 48 | 4 | suggested cache size |
//! | 52 | 4 | not 0: there are pointer maps (auto_vacuum) |
//! | 56 | 4 | encoding of text: see [`Encoding`] |
//! | 60 | 4 | `PRAGMA user_version` |
//! | 64 | 4 | not 0: auto_vacuum is incremental |
//! | 68 | 4 | `PRAGMA application_id` |
//! | 72 | 20 | zeros |
//! | 92 | 4 | change counter of the commit that wrote the number of pages |
//! | 96 | 4 | version of the SQLite that wrote it |

use crate::{Encoding, be16, be32};
use std::ops::Range;

/// Bytes of the header.
pub const HEADER_LEN: usize = 100;
/// The first bytes of every database.
pub const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Where the versions are, which say the journal mode.
pub const VERSIONS: Range<usize> = 18..20;
/// The versions of a database in a rollback mode.
pub const ROLLBACK_MODE: [u8; 2] = [1, 1];
/// The version of a database with a WAL. SQLite knows no newer one. Its wal2 branch writes 3,
/// Turso's MVCC mode 255.
const WAL_VERSION: u8 = 2;
/// Where the payload fractions are, and what they are in every database.
const FRACTIONS: (Range<usize>, [u8; 3]) = (21..24, [64, 32, 32]);
/// What SQLite reads at the begin of a transaction in a rollback mode, to know whether its cached
/// pages are current: the change counter and the bytes after it.
pub const CHANGE_COUNTER: Range<usize> = 24..40;
/// Where the fields of the freelist are.
pub const FREELIST: Range<usize> = 32..40;

/// The setting auto_vacuum of a database; the numbers are those of the PRAGMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoVacuum {
    /// Free pages stay in the file. There are no pointer maps.
    None = 0,
    /// Each commit moves pages to the place of free ones, and cuts the file.
    Full = 1,
    /// `PRAGMA incremental_vacuum` does so.
    Incremental = 2,
}

/// The fields that Densite uses, with checked values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The page size in bytes: a power of two, 512 to 65536.
    pub page_size: u32,
    /// The bytes of a page that SQLite uses: 480 or more.
    pub usable: u32,
    /// Whether the file is in WAL mode.
    pub wal: bool,
    /// The number of pages, as the field says. It is not checked.
    pub page_count: u32,
    /// The first trunk page of the freelist; 0 if there is none.
    pub free_trunk: u32,
    /// The number of pages on the freelist.
    pub free_pages: u32,
    /// What becomes of free pages.
    pub auto_vacuum: AutoVacuum,
    /// How text is stored.
    pub encoding: Encoding,
    /// A number of the application.
    pub user_version: i32,
    /// What the application says that the file is.
    pub application_id: i32,
}

impl Header {
    /// Reads a header; `None` if this is not the start of a SQLite database.
    pub fn parse(start: &[u8]) -> Option<Header> {
        let bytes = start.get(..HEADER_LEN)?;
        let page_size = page_size(bytes)?;
        let usable = page_size - u32::from(*bytes.get(20)?);
        let number = |at| be32(bytes, at);
        (usable >= 480).then_some(Header {
            page_size,
            usable,
            wal: bytes.get(18) == Some(&WAL_VERSION),
            page_count: number(28)?,
            free_trunk: number(32)?,
            free_pages: number(36)?,
            auto_vacuum: match (number(52)?, number(64)?) {
                (0, _) => AutoVacuum::None,
                (_, 0) => AutoVacuum::Full,
                _ => AutoVacuum::Incremental,
            },
            encoding: Encoding::of(number(56)?),
            user_version: number(60)?.cast_signed(),
            application_id: number(68)?.cast_signed(),
        })
    }

    /// That of an empty database in a rollback mode, with pages of this size.
    pub const fn new(page_size: u32) -> Header {
        Header {
            page_size,
            usable: page_size,
            wal: false,
            page_count: 0,
            free_trunk: 0,
            free_pages: 0,
            auto_vacuum: AutoVacuum::None,
            encoding: Encoding::Utf8,
            user_version: 0,
            application_id: 0,
        }
    }

    /// Where a page begins in the file. Pages are numbered from 1.
    pub fn offset_of(&self, page: u32) -> u64 {
        u64::from(page.saturating_sub(1)) * u64::from(self.page_size)
    }

    /// The number of whole pages in a file of `len` bytes.
    pub fn pages_in(&self, len: u64) -> u32 {
        u32::try_from(len / u64::from(self.page_size)).unwrap_or(u32::MAX)
    }
}

/// Whether these are the first bytes of a SQLite database.
#[inline]
pub fn is_sqlite(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// The page size in the first bytes of a SQLite database.
pub fn page_size(start: &[u8]) -> Option<u32> {
    let size = match be16(start, 16).filter(|_| is_sqlite(start))? {
        1 => 65_536,
        size => size as u32,
    };
    (size >= 512 && size.is_power_of_two()).then_some(size)
}

/// The version that a program must know to read a database, if SQLite does not know it.
pub fn foreign_version(start: &[u8]) -> Option<u8> {
    let version = *start.get(19)?;
    let (fractions, usual) = FRACTIONS;
    let is_header = is_sqlite(start) && start.get(fractions) == Some(&usual);
    (is_header && version > WAL_VERSION).then_some(version)
}

/// Changes bytes of a database, which begin at `offset`, so that they show a rollback mode: for a
/// place where there can be no WAL.
pub fn show_rollback_mode(bytes: &mut [u8], offset: u64) {
    for at in VERSIONS {
        let at = (at as u64).checked_sub(offset).map(usize::try_from);
        if let Some(Ok(at)) = at
            && let Some(version) = bytes.get_mut(at).filter(|v| **v == WAL_VERSION)
        {
            *version = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> [u8; HEADER_LEN] {
        let mut b = [0u8; HEADER_LEN];
        b[..16].copy_from_slice(MAGIC);
        b[16..24].copy_from_slice(&[0x10, 0, 2, 2, 8, 64, 32, 32]);
        b[39] = 9;
        b
    }

    #[test]
    fn fields_are_read() {
        let h = Header::parse(&sample()).expect("a header");
        let wanted = Header {
            usable: 4088,
            wal: true,
            free_pages: 9,
            ..Header::new(4096)
        };
        assert_eq!(h, wanted);
        assert_eq!((h.offset_of(3), h.pages_in(8191)), (8192, 1));
        let mut big = sample();
        big[16..18].copy_from_slice(&[0, 1]);
        assert_eq!(Header::parse(&big).map(|h| h.page_size), Some(65536));
    }

    #[test]
    fn invalid_headers_are_refused() {
        assert_eq!(Header::parse(&sample()[..99]), None);
        for (at, byte) in [(0usize, b'x'), (16, 0x11), (17, 0x01)] {
            let mut b = sample();
            b[at] = byte;
            assert_eq!(Header::parse(&b), None, "byte {at}");
        }
        let mut b = sample();
        b[16..18].copy_from_slice(&[2, 0]);
        b[20] = 255;
        assert_eq!(Header::parse(&b), None);
    }

    #[test]
    fn versions_that_sqlite_does_not_know_are_found() {
        let mut b = sample();
        assert_eq!(foreign_version(&b), None);
        b[19] = 3;
        assert_eq!(foreign_version(&b[..24]), Some(3));
        b[21] = 0;
        assert_eq!(foreign_version(&b), None, "not a header");
    }

    #[test]
    fn only_the_journal_mode_changes() {
        let mut page = [2u8; 100];
        show_rollback_mode(&mut page, 0);
        let changed: Vec<usize> = (0..100).filter(|i| page[*i] == 1).collect();
        assert_eq!(changed, [18, 19]);
        let (mut part, mut after) = ([2u8; 4], [2u8; 4]);
        show_rollback_mode(&mut part, 16);
        show_rollback_mode(&mut after, 20);
        assert_eq!((part, after), ([2, 2, 1, 1], [2; 4]));
    }
}
