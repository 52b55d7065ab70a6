//! One consistent state of a database, read as bytes.

use crate::error::{Error, Result};
use crate::header::{HEADER_LEN, Header};
use std::path::Path;

/// A database's logical bytes, unchanging while this is held.
pub(crate) trait Pages {
    /// Logical length in bytes.
    fn len(&self) -> u64;
    /// Fills `buf` from `offset`; what lies past the end is zeros.
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

/// What the first page of the database `path` says.
pub(crate) fn header(pages: &mut dyn Pages, path: &Path) -> Result<Header> {
    let mut start = [0u8; HEADER_LEN];
    pages.read(&mut start, 0)?;
    Header::parse(&start).ok_or_else(|| Error::Damaged {
        path: path.to_path_buf(),
        what: "its first page is no database's".into(),
    })
}
