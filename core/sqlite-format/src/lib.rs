//! SQLite's file formats, in one place: the database (<https://www.sqlite.org/fileformat2.html>), its
//! WAL (section 4 there), the WAL index (<https://www.sqlite.org/walformat.html>) and its journal.
//!
//! | module | what it reads |
//! |---|---|
//! | [`header`] | the first 100 bytes of page 1 |
//! | [`fixed`] | which pages have a fixed place: pointer maps, and the page of the lock bytes |
//! | [`freelist`] | free pages; [`PageSet`] holds their numbers |
//! | [`page`] | a b-tree page: header, cells, and how they lie; also writes it |
//! | [`record`], [`Encoding`] | a row or key: serial types and values; the bytes of text |
//! | [`schema`] | a row of `sqlite_schema` |
//! | [`wal`], [`wal_index`] | header and frames of a WAL; fields of its index in shared memory |
//! | [`journal`] | the end of a rollback journal that names a super-journal |
//!
//! The crate knows only bytes: it does no I/O, and depends on nothing. Every reader accepts any
//! bytes: it never panics, never trusts a number, and allocates in proportion to its input. What a
//! reader does not accept is `None`. Numbers are big-endian unless a table says otherwise.
#![forbid(unsafe_code)]

mod encoding;
pub mod fixed;
pub mod freelist;
pub mod header;
pub mod journal;
pub mod page;
mod page_set;
pub mod record;
pub mod schema;
mod varint;
pub mod wal;
pub mod wal_index;

pub use encoding::Encoding;
pub use freelist::Freelist;
pub use header::{AutoVacuum, HEADER_LEN, Header, MAGIC};
pub use page_set::PageSet;
pub use varint::{any_varint, put_varint, short_varint, varint, varint_len};

/// The number of two bytes at `at`: an address in a page, or a count.
#[inline]
pub fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    let two = bytes.get(at..)?.first_chunk()?;
    Some(usize::from(u16::from_be_bytes(*two)))
}

/// Writes the low two bytes of a number at `at`: an address of 65536 becomes 0, as in a page.
#[inline]
pub fn put_be16(out: &mut [u8], at: usize, value: usize) -> Option<()> {
    *out.get_mut(at..)?.first_chunk_mut()? = (value as u16).to_be_bytes();
    Some(())
}

/// The number of four bytes at `at`: that of a page, or a field of a header.
#[inline]
pub fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*four))
}
