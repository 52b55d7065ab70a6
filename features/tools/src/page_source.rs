//! Access to one consistent state of a database as bytes.

use crate::error::{Error, Result};
use densite_sqlite_format::{Freelist, HEADER_LEN, Header, PageSet, freelist};
use std::path::Path;

/// The logical bytes of a database, which do not change while this value exists.
pub(crate) trait Pages {
    /// Logical length in bytes.
    fn len(&self) -> u64;
    /// Fills `buf` from `offset`, with zeros past the end.
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()>;
}

impl Pages for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        for (i, byte) in buf.iter_mut().enumerate() {
            *byte = start
                .checked_add(i)
                .and_then(|at| self.get(at))
                .copied()
                .unwrap_or(0);
        }
        Ok(())
    }
}

/// Parses the header in the first page of the database `path`.
pub(crate) fn header(pages: &mut dyn Pages, path: &Path) -> Result<Header> {
    let mut start = [0u8; HEADER_LEN];
    pages.read(&mut start, 0)?;
    Header::parse(&start).ok_or_else(|| Error::Damaged {
        path: path.to_path_buf(),
        what: "its first page is not the header page of a database".into(),
    })
}

/// The freelist; `None` if it is malformed.
pub(crate) fn freelist(pages: &mut dyn Pages, header: &Header) -> Result<Option<Freelist>> {
    let count = header.pages_in(pages.len());
    freelist::list(count, header, |page, buf| {
        pages.read(buf, header.offset_of(page))
    })
}

/// The leaves of the freelist; none if it is malformed.
pub(crate) fn free_leaves(pages: &mut dyn Pages, header: &Header) -> Result<PageSet> {
    Ok(freelist(pages, header)?.map_or_else(PageSet::default, |list| list.leaves))
}
